"""The baselines of Table 1: each method is one file of this package, which registers one `Baseline`.

A new one is a new file, or an entry point of the group `casmap.baselines` that names a `Baseline`. Its name for the
command line is the file's, with hyphens; importing this package imports neither a method nor torch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from casmap.registry import Registry
from casmap.reporting import SILENT, Reporter

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    from torch import Tensor

    from casmap.data.photos import PhotoSet
    from casmap.evaluation.rules import Rule
    from casmap.models.classifier import Classifier


class Method(Protocol):
    """What explains a classifier."""

    def __call__(self, classifier: "Classifier", images: "Tensor", classes: "Tensor") -> "Tensor":
        """Normalised images (N, 3, H, W) and classes (N,) -> maps (N, h, w), of any scale."""
        ...


@dataclass(frozen=True)
class TrainingData:
    """What a baseline may learn from, and where it keeps what it has learned.

    classifier: what it explains, in `file` too. photos: with classes, not measured on; None where none were given.
    pictures (n, S, S, 3), boxes (n, 4): one half of the photos measured, for the one that is shown boxes.
    """

    classifier: "Classifier"
    file: Path
    photos: "PhotoSet | None"
    pictures: "npt.NDArray[np.uint8]"
    boxes: "npt.NDArray[np.float64]"
    folder: Path
    reporter: Reporter = SILENT


@dataclass(frozen=True)
class Baseline:
    """A method beside ours; one that must learn first has `learn` instead of `explain`.

    name: as tables have it. rule: its authors' own, or that of those who measured it for them; None where there is
    none. paper_le: its LE in the paper's Table 1, in percent. slow: 1 where it takes seconds for a photo, and is given
    few; n where more, and an n-th of the few. masks: its maps are masks from 0 to 1, and are not stretched. batch:
    photos that it explains at a time, and then keeps. extra: a module that not all baselines need, and the extra of
    casmap that brings it.
    """

    name: str
    paper: str
    explain: Method | None = None
    rule: "Rule | None" = None
    paper_le: float | None = None
    slow: int = 0
    told: Literal["class", "nothing", "boxes"] = "class"
    masks: bool = False
    batch: int = 8
    extra: str | None = None
    learn: Callable[[TrainingData], Method] | None = None

    def ready(self, data: TrainingData) -> Method:
        """The method, ready to explain."""
        if self.learn is not None:
            return self.learn(data)
        assert self.explain is not None
        return self.explain


BASELINES: Registry[Baseline] = Registry(
    "baseline", plugins="casmap.baselines", package="casmap.baselines", of=Baseline
)


def find_baseline(name: str) -> Baseline:
    """A baseline by its name for the command line or the one in tables, in any case, with spaces or hyphens.

    >>> find_baseline("Grad-CAM").paper, find_baseline("excitation backprop").name
    ('Selvaraju et al. 2017', 'excitation backprop')
    """
    wanted = "-".join(name.lower().split())
    if wanted in BASELINES:
        return BASELINES[wanted]
    named = {"-".join(one.name.lower().split()): one for one in BASELINES.values()} | {
        key.lower(): BASELINES[key] for key in BASELINES if key.lower() == wanted
    }
    return named[wanted] if wanted in named else BASELINES[wanted]
