"""One module for each format of annotations; each reads and writes it, and registers itself under its name."""
