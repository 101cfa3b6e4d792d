"""Photos in: folders, generated scenes, batches."""
