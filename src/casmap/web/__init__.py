"""A page and a small HTTP interface on this machine."""
