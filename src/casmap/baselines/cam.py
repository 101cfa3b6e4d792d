"""Zhou et al. 2016, "Learning Deep Features for Discriminative Localization": class activation maps.

The formula is in `casmap.models.class_activation`, because the second stage of training uses it too.
"""

from casmap.baselines import BASELINES, Baseline
from casmap.evaluation.rules import above_share
from casmap.models.class_activation import class_activation as cam

BASELINES.register("cam")(Baseline("CAM", "Zhou et al. 2016", cam, above_share(0.2), paper_le=48.1))
