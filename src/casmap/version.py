"""The version of casmap."""

__version__ = "0.2.0"
