"""The baselines of Table 1: each method is one module of this package, which registers one `Baseline`.

A new baseline is a new module, or an entry point of the group `casmap.baselines` that names a `Baseline`. Its name on
the command line is the module's name with hyphens. Importing this package imports neither a method nor torch.
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
    """A method that explains a classifier's predictions."""

    def __call__(self, classifier: "Classifier", images: "Tensor", classes: "Tensor") -> "Tensor":
        """Normalised images (N, 3, H, W) and classes (N,) -> maps (N, h, w), of any scale."""
        ...


@dataclass(frozen=True)
class TrainingData:
    """The data that a baseline may be trained on, and the folder for its files.

    classifier: the classifier to explain, also stored in `file`. photos: with classes, not used for measuring; None if
    none were given. images (n, S, S, 3), boxes (n, 4): one half of the measured photos, for the baseline that is
    trained on boxes. weights: the user's folder of files that casmap does not contain; None if none was given.
    """

    classifier: "Classifier"
    file: Path
    photos: "PhotoSet | None"
    images: "npt.NDArray[np.uint8]"
    boxes: "npt.NDArray[np.float64]"
    folder: Path
    reporter: Reporter = SILENT
    weights: Path | None = None


@dataclass(frozen=True)
class Baseline:
    """A method to compare with; one that must be trained first has `learn` instead of `explain`.

    name: in tables. rule: how its authors, or those who measured it, turn a map into a box; None if there is no such
    rule. paper_le: its LE in the paper's Table 1, in percent. slow: 1 if it takes seconds for a photo and is measured
    on few photos; n if it takes longer and is measured on an n-th of the few. uses: its input besides the photo: the
    class, nothing, boxes in training, or masks that people drew, in its authors' training. masks: its maps are masks
    from 0 to 1 and are not rescaled. batch: photos explained, and then saved, at a time. extra: a module that only some
    baselines need, and the extra that installs it. file: its weights, in a folder that the user gives.

    >>> import torch
    >>> from casmap.models.classifier import Classifier
    >>> f = Classifier("test_resnet", classes=5).eval()
    >>> find_baseline("gradient").explain(f, torch.rand(2, 3, 64, 64), torch.tensor([0, 4])).shape
    torch.Size([2, 64, 64])
    """

    name: str
    paper: str
    explain: Method | None = None
    rule: "Rule | None" = None
    paper_le: float | None = None
    slow: int = 0
    uses: Literal["class", "nothing", "boxes", "masks"] = "class"
    masks: bool = False
    batch: int = 8
    extra: str | None = None
    learn: Callable[[TrainingData], Method] | None = None
    file: str | None = None

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
    """A baseline by its name on the command line or in tables, in any case, with spaces or hyphens.

    >>> find_baseline("Grad-CAM").paper, find_baseline("excitation backprop").name
    ('Selvaraju et al. 2017', 'excitation backprop')
    """
    wanted = "-".join(name.lower().split())
    key = next((key for key in BASELINES if key.lower() == wanted), wanted)
    titled = {} if key in BASELINES else {"-".join(one.name.lower().split()): one for one in BASELINES.values()}
    return titled.get(wanted) or BASELINES[key]
