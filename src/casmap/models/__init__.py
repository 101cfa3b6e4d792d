"""Classifier, mapping, and the files they are saved in."""
