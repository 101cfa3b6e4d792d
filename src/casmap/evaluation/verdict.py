"""A verdict on masks, good, doubtful or failed, by numbers that a trivial mask cannot satisfy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from casmap.evaluation.agreement import ShippedAgreement
from casmap.evaluation.background import background_warnings, mark_warnings
from casmap.evaluation.numbers import Number, signed
from casmap.inference.components import Threshold
from casmap.reporting import counted

Verdict = Literal["good", "doubtful", "failed"]
Floats = npt.NDArray[np.floating]

WHOLE, MASKED_IN, INPAINTED = "whole", "masked-in", "inpainted"
CENTRED = "centred"  # the control that good masks of centred objects cannot always beat
FEWEST = 20  # photos; with fewer, a gain that may be chance is a doubt and not a failure
RECOGNISED = 0.5  # accuracy on whole photos below which a classifier cannot judge masks
SUFFICIENT = 0.6  # share of the accuracy on whole photos; below it the masks miss evidence
SMALLEST_AREA, LARGEST_AREA = 0.02, 0.9  # mean area of masks that mark almost nothing or almost everything
COLLAPSED = 0.5  # share of photos whose mask marks nothing or everything
SAME_AREA = 0.01  # standard deviation of the area below which all masks have the same area


@dataclass(frozen=True)
class Judgement:
    """A verdict, and one sentence for each reason against the masks. numbers: what was measured, for JSON."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()
    numbers: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """The judgement as JSON: in the metadata of a mapping, in summary.json and in check.json."""
        return {"verdict": self.verdict, "reasons": list(self.reasons), **self.numbers}


def judge(
    masks: Floats, labels: npt.NDArray[np.int64], classes: Sequence[str], correct: Mapping[str, Floats],
    gains: Mapping[str, Number], sampled: int, agreement: ShippedAgreement | None = None,
    class_gains: Mapping[str, Mapping[str, Number]] = MappingProxyType({}),
) -> Judgement:  # fmt: skip
    """Judge masks (N, h, w) of photos with labels (N,).

    correct: whether a classifier recognises each photo (N,), whole, masked in and inpainted. gains: by how much the
    evidence in the masks exceeds that in control masks (`trust.evidence_gains`); sampled: the photos it was measured
    on; class_gains: the same for classes with enough photos. Masks fail if they mark nothing or everything, or are
    worse than a kind of control masks, or are certainly better than random masks and than the masks of other photos
    neither over all photos nor in any class. Anything else that speaks against them makes them doubtful, such as a
    class in which they gain nothing, or a low agreement with the shipped mapping, where that one is better than control
    masks.

    >>> masks = np.random.default_rng(0).random((30, 8, 8))
    >>> right = {"whole": np.ones(30), "masked-in": np.ones(30), "inpainted": np.zeros(30)}
    >>> labels, gain = np.zeros(30, int), Number(1.0, 0.5, 1.5)
    >>> judge(masks, labels, ["cat"], right, {"random": gain, "another photo's": gain}, 30).verdict
    'good'
    >>> judge(masks, labels, ["cat"], right, {"random": Number(0.0, 0.0, 0.0)}, 30).verdict
    'failed'
    """
    binary = Threshold().binary(masks)
    areas = binary.mean(axis=(1, 2))
    means = {version: float(values.mean()) for version, values in correct.items()}
    shown_in = [name for name, of in class_gains.items() if all(gain.low > 0 for gain in _uncentred(of).values())]
    told = [_about_area(masks, areas, bool(shown_in))]
    failures = [sentence for failed, sentence in told if failed]
    doubts: list[str] = []
    if not failures:  # a collapsed mask has no place and holds no evidence
        told += [_about_gain(control, gain, sampled, bool(shown_in)) for control, gain in gains.items()]
        failures = [sentence for failed, sentence in told if failed]
        doubts = [sentence for failed, sentence in told if sentence and not failed]
        if shown_in and (told[0][1] or any(gain.low <= 0 for gain in _uncentred(gains).values())):
            where = "each class alone" if len(shown_in) == len(classes) else f"the photos of {', '.join(shown_in)}"
            doubts.append(f"The masks certainly gain in {where}.")
        doubts += _about_classes(class_gains)
        if len(areas) >= FEWEST and areas.std() < SAME_AREA:
            doubts.append(f"All masks cover about the same share of a photo, {areas.mean():.0%}.")
        doubts += background_warnings(masks, labels, classes) or mark_warnings(masks, labels, classes)
        doubts += _about_classifier(means)
        doubts += agreement.doubts if agreement else []
    numbers = {
        "photos": len(masks), "area": float(areas.mean()), "spread of the area": float(areas.std()), "accuracy": means,
        "gain": _as_json(gains), "gain on photos": sampled,
        "gain in classes": {name: _as_json(of) for name, of in class_gains.items()},
    }  # fmt: skip
    if agreement is not None:
        numbers["agreement with the shipped mapping"] = agreement.to_json()
    verdict: Verdict = "failed" if failures else "doubtful" if doubts else "good"
    return Judgement(verdict, (*failures, *doubts), numbers)


def with_warnings(judgement: Judgement, warnings: Sequence[str]) -> Judgement:
    """The judgement with further reasons for doubt.

    >>> with_warnings(Judgement("good"), ["f(0) is weak."]).verdict
    'doubtful'
    """
    reasons = tuple(text for text in warnings if text not in judgement.reasons)
    if not reasons:
        return judgement
    verdict: Verdict = "doubtful" if judgement.verdict == "good" else judgement.verdict
    return replace(judgement, verdict=verdict, reasons=(*judgement.reasons, *reasons))


def _about_area(masks: Floats, areas: Floats, shown_in_class: bool) -> tuple[bool, str]:
    """Whether masks fail because they mark nothing or everything, and the sentence; areas: of the binary masks (N,).

    shown_in_class: whether the masks certainly gain in a class. There may be nothing to mark in the others.
    """
    mean, covered = float(masks.mean()), float(areas.mean())
    if max(mean, covered) > LARGEST_AREA:
        return True, f"The masks cover {max(mean, covered):.0%} of the photos on average: they single out no object."
    if mean < SMALLEST_AREA:
        return not shown_in_class, f"The mean area of the masks is {mean:.3f}: they mark almost nothing."
    collapsed = float(((areas < SMALLEST_AREA) | (areas > 1 - SMALLEST_AREA)).mean())
    if collapsed > COLLAPSED:
        return not shown_in_class, f"In {collapsed:.0%} of the photos the mask marks nothing or everything."
    return False, ""


def _about_gain(control: str, gain: Number, photos: int, shown_in_class: bool) -> tuple[bool, str]:
    """Whether a gain over control masks makes the masks fail, and the sentence; empty if the gain is certain.

    shown_in_class: whether the masks certainly gain in a class. Others may have nothing to mark, such as normal scans.
    """
    shown = f"{_others(control)}: gain {signed(gain)} on {counted(photos, 'photo')}."
    if gain.low > 0:
        return False, ""
    if gain.high <= 0 or (control != CENTRED and photos >= FEWEST and not shown_in_class):
        return True, f"The masks are no better than {shown}"
    return False, f"The masks may be no better than {shown}"


def _about_classes(class_gains: Mapping[str, Mapping[str, Number]]) -> list[str]:
    """A sentence about each class in which the masks certainly gain nothing."""
    found = []
    for name, of in class_gains.items():
        if nothing := [control for control, gain in _uncentred(of).items() if gain.high <= 0]:
            shown = f"no better than {_others(nothing[0])}: gain {signed(of[nothing[0]])}"
            found.append(f"The masks of {name} mark nothing that shows the class. They are {shown}.")
    return found


def _uncentred(gains: Mapping[str, Number]) -> dict[str, Number]:
    """The gains over random masks and other photos' masks, which good masks always have."""
    return {control: gain for control, gain in gains.items() if control != CENTRED}


def _others(control: str) -> str:
    """Control masks, in words."""
    names = {CENTRED: "centred boxes of the same area", "random": "random masks of the same area"}
    return names.get(control, "those of other photos")


def _as_json(gains: Mapping[str, Number]) -> dict[str, list[float]]:
    return {name: [gain.value, gain.low, gain.high] for name, gain in gains.items()}


def _about_classifier(accuracy: Mapping[str, float]) -> list[str]:
    """Doubts from the accuracy of the classifier on whole, masked-in and inpainted photos."""
    found = []
    if accuracy[WHOLE] < RECOGNISED:
        found.append(f"The classifier recognises only {accuracy[WHOLE]:.0%} of the whole photos: it can hardly judge.")
    if accuracy[MASKED_IN] < SUFFICIENT * accuracy[WHOLE]:
        found.append(
            f"From the masked-in photos the classifier is correct in {accuracy[MASKED_IN]:.0%}, from whole photos in "
            f"{accuracy[WHOLE]:.0%}: the masks miss evidence."
        )
    if accuracy[INPAINTED] > accuracy[WHOLE] / 2:
        found.append(
            f"With the masked pixels inpainted the classifier still recognises {accuracy[INPAINTED]:.0%} of "
            "the photos: much of the evidence lies outside the masks."
        )
    return found
