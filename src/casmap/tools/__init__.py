"""Tools besides training and extraction: check, correct, doctor, export, annotate, demo."""
