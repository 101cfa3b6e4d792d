"""Measure masks against known boxes, masks and parts."""
