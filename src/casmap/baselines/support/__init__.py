"""What several baselines share; the methods themselves are the modules beside this package."""
