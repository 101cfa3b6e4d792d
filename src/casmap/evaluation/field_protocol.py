"""The protocol of the weakly supervised localization papers, such as BAS (Wu et al. 2022) and SAT (Wu et al. 2023).

The photo is squashed to 256 x 256, the central 224 x 224 pixels are kept, and true boxes are clipped to them: the
policy "squash and crop". GT-known localization accuracy (Choe et al. 2020) is the share of photos whose box has an IOU
of at least 0.5 with any true box, whatever the predicted class. It is not 1 - LE of the paper's protocol, which keeps
the shape of the photo, does not clip the boxes, and needs an IOU above 0.5.
"""

import numpy as np

from casmap.evaluation.box_fit import BINARY_RULES, best_ious, by_rule
from casmap.evaluation.evaluate import Floats, Predictions, Row
from casmap.evaluation.numbers import mean_of

GT_KNOWN = "GT-known"


def gt_known(ious: Floats) -> Floats:
    """GT-known localization of each photo, from the best IOU of its box with a true box: (N,) -> (N,).

    >>> gt_known(np.array([0.49, 0.5, 0.9]))
    array([0., 1., 1.])
    """
    return (ious >= 0.5).astype(np.float64)


def measure_field_protocol(name: str, predictions: Predictions) -> Row:
    """GT-known localization accuracy of a system by each rule for the box; predictions: of "squash and crop"."""
    boxes = [truth.boxes for truth in predictions.truths]
    values: dict[str, Floats] = {
        by_rule(GT_KNOWN, rule): gt_known(best_ious(threshold.binary(predictions.masks), boxes))
        for rule, threshold in BINARY_RULES.items()
    }
    return Row(name, {key: mean_of(value) for key, value in values.items()}, values)
