"""Rivals of Table 1, each in a file of its own, behind one protocol."""
