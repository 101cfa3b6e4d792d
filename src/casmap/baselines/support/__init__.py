"""Code that several baselines share; the methods themselves are the modules next to this package."""
