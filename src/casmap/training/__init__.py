"""Algorithm 1, the initial classifier, the second stage, recipes, checkpoints and runs."""
