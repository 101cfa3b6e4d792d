"""From photos to saliency maps: one photo, a folder, millions."""
