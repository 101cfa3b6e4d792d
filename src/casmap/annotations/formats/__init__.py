"""One module for each annotation format: it reads and writes the format and registers it under its name."""
