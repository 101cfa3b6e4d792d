"""How faithful maps are to a classifier that took no part in making them: the judge.

Insertion and deletion AUC, ROAD, the saliency metric of Dabkowski & Gal and, where true boxes are known, the pointing
game and its energy version. The class that the judge is asked about is the photo's, or, if the judge does not know the
photos' classes, the one that it predicts for the whole photo.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from casmap.evaluation.evaluate import Floats, Row
from casmap.evaluation.insertion import area_under, blurred, most_salient_first, replaced
from casmap.evaluation.numbers import Number, mean_of
from casmap.evaluation.pointing import energy_pointing_game, pointing_game
from casmap.evaluation.road import road, without
from casmap.evaluation.saliency_metric import enlarged_crop, saliency_metric
from casmap.inference.components import Threshold, largest_box

MOST = 200  # photos that are measured; some thirty forward passes for each mask
INSERTION, DELETION, ROAD = "insertion AUC", "deletion AUC", "ROAD"
METRIC, POINTING, ENERGY = "saliency metric", "pointing game", "energy pointing game"
FIDELITY_MEASURES = {
    INSERTION: "insertion AUC ↑", DELETION: "deletion AUC ↓", ROAD: "ROAD ↑", METRIC: "saliency metric ↓",
    POINTING: "pointing game ↑", ENERGY: "energy pointing game ↑",
}  # fmt: skip
_FIDELITY = (
    "Insertion and deletion: area under the probability of the class, 10 steps, from the blurred photo and to the mean "
    "colour. ROAD: half of the mean difference of the probability without the least and without the most salient 20, "
    "40, 60, 80 % of the pixels, imputed. Saliency metric: log of the box's share of the image, at least 0.05, minus "
    "log of the probability in its crop; the box is that of the largest component of m >= {rule}, while Dabkowski & "
    "Gal take that of all salient pixels. Pointing games: the peak, and the share of the map's sum, in the true boxes."
)


def fidelity_note(threshold: Threshold) -> str:
    """What the measures are, for masks that are cut at this threshold.

    >>> "of m >= 0.5," in fidelity_note(Threshold()), "of m >= 1 mean m," in fidelity_note(Threshold(alpha=1))
    (True, True)
    """
    rule = f"{threshold.alpha:g} mean m" if threshold.fixed is None else f"{threshold.fixed:g}"
    return _FIDELITY.format(rule=rule)


def fidelity_table(rows: Sequence[Row]) -> tuple[list[str], list[list[str]]]:
    """Head and lines of a table: a line for each row, with the measures that any row has."""
    titles = {key: title for key, title in FIDELITY_MEASURES.items() if any(key in row.numbers for row in rows)}
    lines = [[row.name, *(shown(row.numbers.get(key)) for key in titles)] for row in rows]
    return ["", *titles.values()], lines


def shown(number: Number | None) -> str:
    """A number with its interval below.

    >>> shown(Number(0.5, 0.25, 0.75)), shown(None)
    ('0.500\\n[0.250, 0.750]', '-')
    """
    return "-" if number is None else f"{number.value:.3f}\n[{number.low:.3f}, {number.high:.3f}]"


@dataclass(frozen=True)
class Judge:
    """A classifier: its name and classes, the normalisation of its input, and (n, 3, S, S) -> logits (n, C).

    backbone: its architecture, if it has a name. key: what identifies its weights, where results are stored.
    """

    name: str
    classes: Sequence[str]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    classify: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.floating]]
    backbone: str = ""
    key: str = ""

    def normalised(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """Images (n, S, S, 3) -> (n, 3, S, S)."""
        scaled = (images / np.float32(255) - np.array(self.mean, np.float32)) / np.array(self.std, np.float32)
        return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2), np.float32)

    def log_probabilities(self, inputs: npt.NDArray[np.float32]) -> Floats:
        """The log-probability of each class: (n, 3, S, S) -> (n, C)."""
        logits = self.classify(np.ascontiguousarray(inputs, np.float32)).astype(np.float64)
        shifted = logits - logits.max(axis=1, keepdims=True)
        return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))

    def targets(self, images: npt.NDArray[np.uint8], labels: Sequence[str]) -> npt.NDArray[np.int64]:
        """The index of the class of each image (n, S, S, 3) that the judge is asked about, from their labels (n,)."""
        if set(labels) <= set(self.classes):
            return np.array([self.classes.index(label) for label in labels])
        return np.array([self.log_probabilities(self.normalised(one[None]))[0].argmax() for one in images])


def measure_fidelity(
    name: str, masks: Floats, images: npt.NDArray[np.uint8], targets: npt.NDArray[np.int64], judge: Judge,
    boxes: Sequence[Floats] | None, threshold: Threshold, progress: Callable[[], None] = lambda: None,
) -> Row:  # fmt: skip
    """All measures of masks (N, S, S) of images (N, S, S, 3) with the classes (N,) and true boxes N times (n, 4).

    threshold: what the box of the saliency metric is around. Without boxes there are no pointing games.
    """
    values: dict[str, list[float]] = {}
    for index, (mask, image, target) in enumerate(zip(masks, images, targets, strict=True)):
        found = _judged(mask, image, int(target), judge, threshold)
        if boxes is not None:
            region = inside(boxes[index], mask.shape[-1])
            found[POINTING], found[ENERGY] = pointing_game(mask, region), energy_pointing_game(mask, region)
        for key, value in found.items():
            values.setdefault(key, []).append(value)
        progress()
    arrays = {key: np.array(value) for key, value in values.items()}
    return Row(name, {key: mean_of(array) for key, array in arrays.items()}, arrays)


def _judged(
    mask: Floats, image: npt.NDArray[np.uint8], target: int, judge: Judge, threshold: Threshold
) -> dict[str, float]:
    """The measures of one mask (H, W) of an image (H, W, 3) that need the judge, from one batch."""
    order, box = most_salient_first(mask), largest_box(threshold.binary(mask))
    whole, soft, crop = judge.normalised(np.stack([image, blurred(image), enlarged_crop(image, box)]))
    parts = [
        replaced(soft, whole, order),
        replaced(whole, np.zeros_like(whole), order),
        without(whole, order[::-1]),
        without(whole, order),
        crop[None],
    ]
    logs = judge.log_probabilities(np.concatenate(parts).astype(np.float32))[:, target]
    inserted, deleted, least, most, cropped = np.split(logs, np.cumsum([len(part) for part in parts])[:-1])
    return {
        INSERTION: area_under(np.exp(inserted)), DELETION: area_under(np.exp(deleted)),
        ROAD: road(np.exp(least), np.exp(most)), METRIC: saliency_metric(box, len(mask), float(cropped[0])),
    }  # fmt: skip


def inside(boxes: Floats, size: int) -> npt.NDArray[np.bool_]:
    """The pixels of an image (size, size) whose centre lies in a true box: (n, 4) -> (size, size).

    >>> inside(np.array([[0.6, 0, 3, 1]]), 3).astype(int).tolist()
    [[0, 1, 1], [0, 0, 0], [0, 0, 0]]
    """
    centres = np.arange(size) + 0.5
    x0, y0, x1, y1 = boxes.T[:, :, None]
    columns, rows = (x0 <= centres) & (centres <= x1), (y0 <= centres) & (centres <= y1)
    return np.asarray((rows[:, :, None] & columns[:, None, :]).any(axis=0))
