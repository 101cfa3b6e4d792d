"""The rivals of Table 1: who they are, what they are told, how they make an object of a map."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from rich.console import Console

from casmap.baselines.adversarial import learn_adversarial
from casmap.baselines.baseline import Peer
from casmap.baselines.box_regression import learn_boxes
from casmap.baselines.cam import cam
from casmap.baselines.excitation_backprop import excitation_backprop
from casmap.baselines.extremal_perturbation import extremal_perturbation
from casmap.baselines.feedback import feedback
from casmap.baselines.grad_cam import grad_cam
from casmap.baselines.gradient import gradient
from casmap.baselines.guided_feature_inversion import guided_feature_inversion
from casmap.baselines.lrp import lrp
from casmap.baselines.meaningful_perturbation import meaningful_perturbation
from casmap.baselines.occlusion import occlusion
from casmap.baselines.real_time import learn_real_time
from casmap.baselines.reversed_network import deconvnet, desalinet
from casmap.baselines.rise import rise
from casmap.baselines.score_cam import score_cam
from casmap.data.batches import normalised
from casmap.data.photos import PhotoSet
from casmap.evaluation.rules import MeanLevel, Rule, above, above_share, energy, grab_cut
from casmap.models.classifier import Classifier


@dataclass(frozen=True)
class Lesson:
    """What a rival may learn from, and where it keeps what it has learned.

    classifier: what it explains, in `file` too. photos: with classes, not measured on; None where none were given.
    pictures (n, S, S, 3), boxes (n, 4): one half of the photos measured, for the one that is shown boxes.
    """

    classifier: Classifier
    file: Path
    photos: PhotoSet | None
    pictures: npt.NDArray[np.uint8]
    boxes: npt.NDArray[np.float64]
    folder: Path
    console: Console


@dataclass(frozen=True)
class Rival:
    """A method beside ours; one that must learn first has `learn` instead of `explain`.

    rule: its authors' own, or that of those who measured it for them; None where there is none.
    slow: 1 where it takes seconds for a photo, and is given few; n where more, and an n-th of the few.
    masks: its maps are masks from 0 to 1, and are not stretched. batch: photos that it explains at a time, and then
    keeps. extra: a module that not all rivals need, and the extra of casmap that brings it.
    """

    name: str
    paper: str
    explain: Peer | None = None
    rule: Rule | None = None
    slow: int = 0
    told: Literal["class", "nothing", "boxes"] = "class"
    masks: bool = False
    batch: int = 8
    extra: str | None = None
    learn: Callable[[Lesson], Peer] | None = None

    def peer(self, lesson: Lesson) -> Peer:
        """The method, ready to explain."""
        if self.learn is not None:
            return self.learn(lesson)
        assert self.explain is not None
        return self.explain


def _real_time(lesson: Lesson) -> Peer:
    assert lesson.photos is not None
    return learn_real_time(
        lesson.photos, lesson.classifier, lesson.folder / "real-time.safetensors", lesson.pictures.shape[1],
        lesson.console,
    )  # fmt: skip


def _adversarial(lesson: Lesson) -> Peer:
    assert lesson.photos is not None
    folder, backbone = lesson.folder / "adversarial", lesson.classifier.backbone
    return learn_adversarial(lesson.photos, lesson.file, folder, backbone, lesson.console)


def _boxes(lesson: Lesson) -> Peer:
    f = lesson.classifier
    return learn_boxes(f, normalised(lesson.pictures, f.mean, f.std), lesson.boxes)


RIVALS = (
    Rival("LRP", "Bach et al. 2015", lrp, MeanLevel()),
    Rival("occlusion", "Zeiler & Fergus 2014", occlusion, slow=1),
    Rival("deconvnet", "Zeiler & Fergus 2014", deconvnet, MeanLevel()),
    Rival("CAM", "Zhou et al. 2016", cam, above_share(0.2)),
    Rival("Grad-CAM", "Selvaraju et al. 2017", grad_cam, above_share(0.15)),
    Rival("meaningful perturbation", "Fong & Vedaldi 2017", meaningful_perturbation, MeanLevel(), slow=1),
    Rival("DeSaliNet", "Mahendran & Vedaldi 2016", desalinet, grab_cut()),
    Rival("gradient", "Simonyan et al. 2013", gradient, grab_cut()),
    Rival("feedback", "Cao et al. 2015", feedback, energy(0.95)),
    Rival("excitation backprop", "Zhang et al. 2016", excitation_backprop, MeanLevel()),
    Rival("guided feature inversion", "Du et al. 2018", guided_feature_inversion, MeanLevel(), slow=1),
    Rival("Score-CAM", "Wang et al. 2020", score_cam, slow=1),
    Rival("RISE", "Petsiuk et al. 2018", rise, slow=4, batch=1, extra="torchray"),
    Rival("extremal perturbation", "Fong et al. 2019", extremal_perturbation, slow=10, batch=1, extra="torchray"),
    Rival("real-time saliency", "Dabkowski & Gal 2017", rule=above(0.5), masks=True, learn=_real_time),
    Rival("adversarial localization", "Fan et al. 2017", told="nothing", masks=True, learn=_adversarial),
    Rival("box regression", "Simonyan & Zisserman 2014", told="boxes", masks=True, learn=_boxes),
)
