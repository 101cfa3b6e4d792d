"""Measure whether masks can be trusted, without boxes: what a classifier recognises in them, against control masks."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from casmap.data.photos import PhotoSet
from casmap.data.resizing import resize
from casmap.errors import UnreadableImage, UserError
from casmap.evaluation.agreement import MOST as MOST_AGREEMENT
from casmap.evaluation.agreement import ShippedAgreement, mean_iou
from casmap.evaluation.control_masks import CONTROLS, EXCHANGED, BinaryMasks
from casmap.evaluation.numbers import Number, paired_difference
from casmap.evaluation.verdict import FEWEST, INPAINTED, MASKED_IN, WHOLE, Judgement, judge
from casmap.inference.components import Threshold
from casmap.inference.edges import fit_mask
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.saliency_map import SaliencyMap
from casmap.reporting import SILENT, Reporter

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
Versions = dict[str, dict[str, npt.NDArray[np.float32]]]  # kind of mask, version of the photos -> logits (N, C)
Classify = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]  # normalised (n, 3, S, S) -> logits (n, C)

OWN = "own"
MOST = 200  # photos that are compared with control masks; ten forward passes each
BATCH = 16
SMALL = 56  # side of the masks that are kept for all photos
FLOOR = 1e-3  # probabilities below it count as this: their logarithm is noise


@dataclass(frozen=True)
class Measured:
    """What was measured on N photos.

    masks: (N, 56, 56). probability, correct: for the own and the control masks, then for each version of a photo, the
    probability of its class and whether it is predicted: (N,). known: whether the classifier knows the photos' classes;
    if not, its prediction for the whole photo replaces them. agreement: with the shipped mapping, if it was measured.
    """

    labels: npt.NDArray[np.int64]
    classes: list[str]
    masks: npt.NDArray[np.float32]
    probability: dict[str, dict[str, Floats]]
    correct: dict[str, dict[str, Floats]]
    known: bool
    agreement: ShippedAgreement | None = None

    @property
    def gains(self) -> dict[str, Number]:
        """The gain over each kind of control mask."""
        return evidence_gains(self.probability)

    @property
    def class_gains(self) -> dict[str, dict[str, Number]]:
        """The gains in the photos of each class that has at least 20, with wider intervals the more such classes."""
        large = np.flatnonzero(np.bincount(self.labels, minlength=len(self.classes)) >= FEWEST)
        level = 1 - 0.05 / max(1, len(large))  # Bonferroni: each class is a chance to look good by chance
        return {self.classes[n]: evidence_gains(self.probability, self.labels == n, level) for n in large}

    def judge(self) -> Judgement:
        """The verdict on these photos."""
        return judge(
            self.masks, self.labels, self.classes, self.correct[OWN], self.gains, len(self.masks), self.agreement,
            self.class_gains,
        )  # fmt: skip


def evidence(probability: dict[str, Floats]) -> Floats:
    """How much more probable the class is from what a mask keeps than from what it leaves: log p_in / p_inpainted.

    >>> evidence({"masked-in": np.array([0.8, 0.0]), "inpainted": np.array([0.1, 0.0])}).round(3)
    array([2.079, 0.   ])
    """
    kept, left = (np.log(np.maximum(probability[version], FLOOR)) for version in (MASKED_IN, INPAINTED))
    return np.asarray(kept - left)


def evidence_gains(
    probability: dict[str, dict[str, Floats]], chosen: npt.NDArray[np.bool_] | None = None, level: float = 0.95
) -> dict[str, Number]:
    """The mean over photos of the evidence in the masks less that in control masks, with its interval.

    0 for masks that are themselves centred, random or another photo's, and for masks of all zeros or ones. chosen: the
    photos that count (N,), default all.
    """
    of_each = {name: evidence(of)[... if chosen is None else chosen] for name, of in probability.items()}
    return {name: paired_difference(of_each[OWN], of, level) for name, of in of_each.items() if name != OWN}


def measure(
    mapper: SaliencyMapper, photos: PhotoSet, *, classify: Classify | None = None, most: int = MOST,
    shipped: SaliencyMapper | None = None, reporter: Reporter = SILENT,
) -> Measured:  # fmt: skip
    """Measure the masks of at most `most` photos, spread evenly over the set.

    classify: the classifier that judges; its inputs are normalised like the mapping's (default: the mapping's own).
    shipped: the shipped mapping, to measure the agreement with it on at most 50 of these photos.
    """
    run = classify or (lambda images: mapper.network.run(images)[1])
    known = set(photos.classes) <= set(mapper.classes)
    chosen, images, masks, small = _map(mapper, photos, spread(len(photos), most), reporter)
    labels = photos.labels[chosen]
    whole = _logits(run, mapper.normalised, images)
    targets = whole.argmax(axis=1)
    if known:
        targets = np.array([mapper.classes.index(name) for name in photos.classes])[labels]

    def compare(few: Indices, masks: BinaryMasks, kinds: Iterable[str]) -> Versions:
        """Logits of these photos with these masks and with control masks, whole, masked in and inpainted."""
        of: Versions = {}
        for kind in kinds:
            b = masks if kind == OWN else CONTROLS[kind](masks)
            of[kind] = {
                WHOLE: whole[few],
                MASKED_IN: _logits(run, mapper.normalised, images[few], b),
                INPAINTED: _logits(run, mapper.normalised, inpainted(images[few], b)),
            }
        return of

    controls = [name for name in CONTROLS if len(masks) > 1 or name != EXCHANGED]
    logits = compare(np.arange(len(images)), masks, reporter.track([OWN, *controls], "Comparing kinds of masks"))
    agreement = None
    if shipped is not None:
        few = spread(len(images), MOST_AGREEMENT)
        others = _shipped_masks(shipped, photos, chosen[few], images[few])
        of_others = compare(
            few, others, reporter.track([OWN, *controls], "Comparing kinds of the shipped mapping's masks")
        )
        gains = evidence_gains(_each(of_others, lambda logits: target_probability(logits, targets[few])))
        control = max(mean_iou(CONTROLS[name](masks[few]), others).value for name in controls)
        agreement = ShippedAgreement(mean_iou(masks[few], others), control, len(few), gains)
    return Measured(
        labels, list(photos.classes), small, _each(logits, lambda logits: target_probability(logits, targets)),
        _each(logits, lambda logits: (logits.argmax(axis=1) == targets).astype(np.float64)), known, agreement,
    )  # fmt: skip


def _each(logits: Versions, of: Callable[[npt.NDArray[np.float32]], Floats]) -> dict[str, dict[str, Floats]]:
    """`of` applied to the logits of each kind of mask and version of the photos."""
    return {kind: {version: of(values) for version, values in each.items()} for kind, each in logits.items()}


def spread(count: int, most: int) -> Indices:
    """At most `most` indices below `count`, spread evenly.

    >>> spread(9, 3)
    array([0, 4, 8])
    """
    return np.unique(np.linspace(0, count - 1, min(most, count)).round().astype(int))


def _shipped_masks(shipped: SaliencyMapper, photos: PhotoSet, chosen: Indices, images: Images) -> BinaryMasks:
    """The shipped mapping's binary masks of the chosen photos, at the size of their images (N, S, S, 3)."""
    found = []
    for index, image in zip(chosen, images, strict=True):  # it runs at a size of its own
        square = resize(photos.image(int(index)), shipped.size, "squash")
        mask = shipped.masks(square[None])[0][0]
        found.append(Threshold().binary(fit_mask(mask, square, image, shipped.edges)))
    return np.stack(found)


def _map(
    mapper: SaliencyMapper, photos: PhotoSet, chosen: Indices, reporter: Reporter
) -> tuple[Indices, Images, BinaryMasks, npt.NDArray[np.float32]]:
    """The photos that can be read: indices, images at the network's size (N, S, S, 3), binary masks, small masks."""
    read, images, binary, small = [], [], [], []
    with reporter.progress("Mapping photos", len(chosen)) as advance:
        for start in range(0, len(chosen), BATCH):
            batch = []
            for index in chosen[start : start + BATCH]:
                with suppress(UnreadableImage):
                    batch.append(resize(photos.image(int(index)), mapper.size, "squash"))
                    read.append(index)
            for image, mask in zip(batch, mapper.masks(np.stack(batch))[0] if batch else (), strict=True):
                fitted = fit_mask(mask, image, image, mapper.edges)
                images.append(image)
                binary.append(Threshold().binary(fitted))
                small.append(cv2.resize(fitted, (SMALL, SMALL), interpolation=cv2.INTER_AREA))
            advance(len(chosen[start : start + BATCH]))
    if not read:
        raise UserError("None of the photos on which the masks are measured can be read.")
    return np.array(read), np.stack(images), np.stack(binary), np.stack(small).astype(np.float32)


def _logits(
    run: Classify, normalised: Callable[[Images], npt.NDArray[np.float32]], images: Images,
    keep: BinaryMasks | None = None,
) -> npt.NDArray[np.float32]:  # fmt: skip
    """Logits (N, C) of images (N, S, S, 3); pixels outside `keep` (N, S, S) get the mean colour."""
    found = []
    for start in range(0, len(images), BATCH):
        inputs = normalised(images[start : start + BATCH])
        found.append(run(inputs if keep is None else inputs * keep[start : start + BATCH, None]))
    return np.concatenate(found)


def target_probability(logits: npt.NDArray[np.floating], targets: npt.NDArray[np.int64]) -> Floats:
    """The softmax of logits (N, C) at the targets (N,).

    >>> target_probability(np.log([[1.0, 3.0]]), np.array([1]))
    array([0.75])
    """
    shifted = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(shifted[np.arange(len(targets)), targets] / shifted.sum(axis=1))


def inpainted(images: Images, masks: BinaryMasks) -> Images:
    """Images (n, S, S, 3) with the pixels marked by masks (n, S, S) inpainted."""
    return np.stack([SaliencyMap(x, m.astype(np.float32)).inpainted() for x, m in zip(images, masks, strict=True)])
