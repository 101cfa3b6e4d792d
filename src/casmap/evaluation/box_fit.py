"""How well boxes fit: the localization error at several IOUs, and boxes above IOU 0.75, by two rules for the box."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from casmap.evaluation.localization import Floats, iou
from casmap.inference.components import PAPER, Binary, Threshold, largest_box

Rules = Mapping[str, Threshold]
ALPHA_ONE, HALF = "alpha 1", "threshold 0.5"
# The rules for binary masks; the first is the one of the headline.
BINARY_RULES: Rules = {ALPHA_ONE: PAPER, HALF: Threshold()}
EXTRACTED_RULES: Rules = {HALF: Threshold()}  # for masks as `casmap extract` writes them
LOOSE, USUAL, TIGHT = 0.3, 0.5, 0.7  # IOUs that a box must exceed
MEAN = "mean LE"  # over the three
FIT = 0.75
ABOVE = f"boxes above IoU {FIT}"


def rules_of(threshold: Threshold) -> Rules:
    """The rules to measure: both for the decoder's masks, of which the paper's comes first, one for extracted masks.

    >>> list(rules_of(PAPER)), list(rules_of(Threshold()))
    (['alpha 1', 'threshold 0.5'], ['threshold 0.5'])
    """
    return BINARY_RULES if threshold == PAPER else EXTRACTED_RULES


def by_rule(key: str, rule: str, rules: Rules = BINARY_RULES) -> str:
    """The name of a measure by a rule; the first rule goes without saying.

    >>> by_rule("LE", ALPHA_ONE), by_rule("LE", HALF), by_rule("LE", HALF, EXTRACTED_RULES)
    ('LE', 'LE, threshold 0.5', 'LE')
    """
    return key if rule == next(iter(rules)) else f"{key}, {rule}"


def best_ious(binaries: Binary, boxes: Sequence[Floats]) -> Floats:
    """The IOU of each photo's box with the true box that fits it best: (N, H, W), N times (n, 4) -> (N,).

    The box encloses the largest component. It is 0 without a component or without a true box.

    >>> binary = np.array([[[True, True, False, True]], [[False] * 4]])
    >>> best_ious(binary, [np.array([[0.0, 0, 4, 1], [1, 0, 2, 1]]), np.array([[0.0, 0, 4, 1]])])
    array([0.5, 0. ])
    """
    found = zip(map(largest_box, binaries), boxes, strict=True)
    return np.array([0.0 if box is None else iou(box, true).max(initial=0.0) for box, true in found])


def fit_values(ious: Floats) -> Iterator[tuple[str, Floats]]:
    """The measures of boxes for each photo, from the IOUs of `best_ious`: (N,) -> (N,) each.

    LE: 1 if the IOU is at most 0.5, else 0; LE at 0.3 and at 0.7 likewise, and the mean of the three; 1 if it is above
    0.75, else 0.

    >>> {name: values.round(2).tolist() for name, values in fit_values(np.array([0.4, 0.5, 0.8]))}["LE"]
    [1.0, 1.0, 0.0]
    """
    errors = {least: (ious <= least).astype(np.float64) for least in (LOOSE, USUAL, TIGHT)}
    yield "LE", errors[USUAL]
    yield f"LE at IoU {LOOSE}", errors[LOOSE]
    yield f"LE at IoU {TIGHT}", errors[TIGHT]
    yield MEAN, np.mean(list(errors.values()), axis=0)
    yield ABOVE, (ious > FIT).astype(np.float64)
