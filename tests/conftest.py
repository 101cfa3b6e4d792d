"""What all tests share."""

from hypothesis import settings

# A loaded machine is slow, not wrong.
settings.register_profile("casmap", deadline=None)
settings.load_profile("casmap")
