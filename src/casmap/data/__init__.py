"""Sets of photos: folders, generated scenes, shards, and batches for training."""
