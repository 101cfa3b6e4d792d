"""Inference: saliency maps of one photo, of a folder, or of millions of photos."""
