"""Zhou et al. 2016, "Learning Deep Features for Discriminative Localization": class activation maps.

The formula is in `casmap.models.class_activation`: the second stage of training looks at them, too.
"""

from casmap.models.class_activation import class_activation as cam

__all__ = ["cam"]
