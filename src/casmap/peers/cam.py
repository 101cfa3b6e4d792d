"""Zhou et al. 2016, "Learning Deep Features for Discriminative Localization": class activation maps.

The formula is in `casmap.model.activation`: the second stage of training looks at them, too.
"""

from casmap.model.activation import class_activation as cam

__all__ = ["cam"]
