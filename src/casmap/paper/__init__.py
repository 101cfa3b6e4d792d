"""The paper's claims as commands."""
