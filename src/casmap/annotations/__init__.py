"""Read and write annotations of photos: common types, and one module for each format."""
