"""A verdict on masks, good, doubtful or failed, by numbers that a trivial mask cannot satisfy."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from casmap.evaluation.agreement import ShippedAgreement
from casmap.evaluation.background import background_warnings, mark_warnings
from casmap.evaluation.numbers import Number
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
) -> Judgement:  # fmt: skip
    """Judge masks (N, h, w) of photos with labels (N,).

    correct: whether a classifier recognises each photo (N,), whole, masked in and inpainted. gains: by how much the
    evidence in the masks exceeds that in control masks (`trust.evidence_gains`); sampled: the photos it was measured
    on. Masks fail if they mark nothing or everything, or are not better than random masks and than the masks of other
    photos, or are worse than centred boxes. Anything else that speaks against them makes them doubtful, such as a low
    agreement with the shipped mapping, where that one is better than control masks.

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
    failures, doubts = _collapse(masks, areas), []
    if not failures:  # a collapsed mask has no place and holds no evidence
        told = [(_about_gain(control, gain, sampled)) for control, gain in gains.items()]
        failures += [sentence for failed, sentence in told if failed]
        doubts += [sentence for failed, sentence in told if sentence and not failed]
        if len(areas) >= FEWEST and areas.std() < SAME_AREA:
            doubts.append(f"All masks cover about the same share of a photo, {areas.mean():.0%}.")
        doubts += background_warnings(masks, labels, classes) or mark_warnings(masks, labels, classes)
        doubts += _about_classifier(means)
        doubts += agreement.doubts if agreement else []
    numbers = {
        "photos": len(masks), "area": float(areas.mean()), "spread of the area": float(areas.std()), "accuracy": means,
        "gain": {name: [gain.value, gain.low, gain.high] for name, gain in gains.items()}, "gain on photos": sampled,
    }  # fmt: skip
    if agreement is not None:
        numbers["agreement with the shipped mapping"] = agreement.to_json()
    verdict: Verdict = "failed" if failures else "doubtful" if doubts else "good"
    return Judgement(verdict, (*failures, *doubts), numbers)


def _collapse(masks: Floats, areas: Floats) -> list[str]:
    """The sentence about masks that mark nothing or everything; areas: of the binary masks (N,)."""
    mean, covered = float(masks.mean()), float(areas.mean())
    collapsed = float(((areas < SMALLEST_AREA) | (areas > 1 - SMALLEST_AREA)).mean())
    if mean < SMALLEST_AREA:
        return [f"The mean area of the masks is {mean:.3f}: they mark almost nothing."]
    if max(mean, covered) > LARGEST_AREA:
        return [f"The masks cover {max(mean, covered):.0%} of the photos on average: they single out no object."]
    return [f"In {collapsed:.0%} of the photos the mask marks nothing or everything."] * (collapsed > COLLAPSED)


def _about_gain(control: str, gain: Number, photos: int) -> tuple[bool, str]:
    """Whether a gain over control masks makes the masks fail, and the sentence; empty if the gain is certain."""
    names = {CENTRED: "centred boxes of the same area", "random": "random masks of the same area"}
    others = names.get(control, "those of other photos")
    shown = f"{gain.value:+.2f} [{gain.low:+.2f}, {gain.high:+.2f}] on {counted(photos, 'photo')}"
    if gain.low > 0:
        return False, ""
    if gain.high <= 0 or (control != CENTRED and photos >= FEWEST):
        return True, f"The masks are no better than {others}: gain {shown}."
    return False, f"The masks may be no better than {others}: gain {shown}."


def _about_classifier(accuracy: Mapping[str, float]) -> list[str]:
    """Doubts from the accuracy of the classifier on whole, masked-in and inpainted photos."""
    found = []
    if accuracy[WHOLE] < RECOGNISED:
        found.append(f"The classifier recognizes only {accuracy[WHOLE]:.0%} of the whole photos: it can hardly judge.")
    if accuracy[MASKED_IN] < SUFFICIENT * accuracy[WHOLE]:
        found.append(
            f"From the masked-in photos the classifier is correct in {accuracy[MASKED_IN]:.0%}, from whole photos in "
            f"{accuracy[WHOLE]:.0%}: the masks miss evidence."
        )
    if accuracy[INPAINTED] > accuracy[WHOLE] / 2:
        found.append(
            f"With the masked pixels inpainted the classifier still recognizes {accuracy[INPAINTED]:.0%} of "
            "the photos: much of the evidence lies outside the masks."
        )
    return found
