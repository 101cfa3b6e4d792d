"""Masks measured against what is known."""
