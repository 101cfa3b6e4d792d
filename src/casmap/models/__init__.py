"""The two networks and their files."""
