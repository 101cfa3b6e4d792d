"""How far the masks of a mapping agree with the shipped mapping's, on photos where those hold the evidence."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from casmap.evaluation.control_masks import BinaryMasks
from casmap.evaluation.numbers import Number, mean_of
from casmap.reporting import counted

MOST = 50  # photos that are compared; nine forward passes each
# Agreement above that of control masks. Landis and Koch (1977) call a kappa up to 0.2 slight. Measured on 36 pets:
# 0.88 after training from the shipped mapping, 0.46 from scratch in 5 minutes, 0.06 and 0.08 after 40 steps.
LOWEST = 0.2


@dataclass(frozen=True)
class ShippedAgreement:
    """The agreement of a mapping with the shipped one.

    iou: mean IoU of the binary masks of both. control: the highest mean IoU that masks of the same area have which know
    nothing of the photos. gains: by how much the shipped mapping's masks exceed such control masks
    (`trust.evidence_gains`), for the classifier that judges.
    """

    iou: Number
    control: float
    photos: int
    gains: dict[str, Number] = field(default_factory=dict)

    @property
    def applies(self) -> bool:
        """Whether the shipped mapping can be a reference here: its masks are better than all control masks.

        >>> sure, chance = Number(1.0, 0.5, 1.5), Number(0.1, -0.2, 0.4)
        >>> iou = Number(0.4, 0.3, 0.5)
        >>> [ShippedAgreement(iou, 0.3, 50, {"random": gain}).applies for gain in (sure, chance)]
        [True, False]
        """
        return all(gain.low > 0 for gain in self.gains.values())

    @property
    def above_control(self) -> float:
        """The agreement beyond that of control masks: 0 if it is theirs, 1 if the masks are the same, as in a kappa.

        >>> ShippedAgreement(Number(0.8, 0.7, 0.9), 0.6, 50).above_control
        0.5
        """
        return round((self.iou.value - self.control) / max(1e-9, 1 - self.control), 6)

    @property
    def sentence(self) -> str:
        """What was measured, in a sentence."""
        counts = "" if self.applies else "; it does not count, because those may be no better than control masks"
        return f"Agreement with the shipped mapping's masks: {self._shown}{counts}."

    @property
    def doubts(self) -> list[str]:
        """The sentence about masks that mark something else than the shipped mapping's."""
        if not self.applies or self.above_control >= LOWEST:
            return []
        return [
            "The masks hardly agree with the shipped mapping's, which hold the evidence in these photos: "
            f"{self._shown}."
        ]

    @property
    def _shown(self) -> str:
        iou = f"mean IoU {self.iou.value:.2f} [{self.iou.low:.2f}, {self.iou.high:.2f}]"
        return f"{iou} on {counted(self.photos, 'photo')}, {self.control:.2f} with control masks of the same area"

    def to_json(self) -> dict[str, Any]:
        """The numbers for summary.json, check.json and the metadata of a mapping."""
        gains = {name: list(vars(gain).values()) for name, gain in self.gains.items()}
        return {
            "IoU": list(vars(self.iou).values()), "control": self.control, "above control": self.above_control,
            "photos": self.photos, "applies": self.applies, "gain": gains,
        }  # fmt: skip


def mean_iou(masks: BinaryMasks, others: BinaryMasks) -> Number:
    """The mean IoU of two sets of masks (N, H, W), with its interval over photos; two empty masks agree.

    >>> mean_iou(np.array([[[True, True]], [[False, False]]]), np.array([[[True, False]], [[False, False]]])).value
    0.75
    """
    either, both = ((masks | others).sum(axis=(1, 2)), (masks & others).sum(axis=(1, 2)))
    return mean_of(np.where(either, both / np.maximum(either, 1), 1.0))
