"""Algorithm 1 and all that is around it."""
