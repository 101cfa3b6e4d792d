"""What is known of photos: the types, and one file for each format."""
