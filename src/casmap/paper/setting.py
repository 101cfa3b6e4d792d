"""What a study is about: photos to train on, photos to measure on, and a recipe: quick, the paper's, or one's own."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from casmap.data.layouts import splits_of
from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import annotated
from casmap.training.recipes import PAPER, QUICK, Recipe, names_of_0_1_0, read_recipe
from casmap.training.run import describe

QUICK_PHOTOS, QUICK_HELD_OUT = 2000, 2000
NOWHERE = "ImageNet"  # DATA of a plan without photos
IMAGENET = 1_281_167  # photos to train on
PAPER_STEPS = PAPER.total_steps(IMAGENET)  # 70 epochs of a fifth of them, 128 at a time: 140,070


@dataclasses.dataclass(frozen=True)
class Setting:
    """Photos by name, so that they can be kept and compared, and the recipe of all trainings.

    data: to train on. test: to measure on; None: the held-out ones of `data`, which for scenes are scenes of another
    seed, and for a folder its split val or test. boxes, masks, split: of those to measure on.
    """

    data: str
    recipe: Recipe
    test: str | None = None
    boxes: Path | None = None
    masks: Path | None = None
    split: str | None = None

    def options(self) -> dict[str, Any]:
        """All of it as JSON has it, to be kept with a study."""
        texts = {"data": self.data, "test": self.test, "boxes": self.boxes, "masks": self.masks, "split": self.split}
        recipe = {f"recipe.{key}": value for key, value in names_of_0_1_0(self.recipe.options()).items()}
        return {key: None if value is None else str(value) for key, value in texts.items()} | recipe

    def trains_first(self, classes: int) -> bool:
        """Whether f(0) has to be trained: pretrained weights know ImageNet's thousand classes already."""
        return not (self.recipe.pretrained and classes == 1000)

    def training_photos(self) -> PhotoSet:
        """To train on: the split of DATA that is meant for it, where there are splits."""
        return open_photos(self.data, split=self._split("train"))

    def held_out_photos(self) -> PhotoSet:
        """To measure on."""
        data, split = self.test or self.data, self.split or (None if self.test else self._split("val", "test"))
        if self.test is None and split is None and not is_scenes(self.data):
            raise UserError(f"{self.data} has no splits: name photos to measure on with --test.")
        return open_photos(data, held_out=True, boxes=self.boxes, masks=self.masks, split=split)

    def both(self) -> tuple[PhotoSet, PhotoSet]:
        """Photos to train on and photos to measure on, which must be of classes trained on, and annotated."""
        photos, held_out = self.training_photos(), self.held_out_photos()
        if strangers := [name for name in held_out.classes if name not in photos.classes]:
            raise UserError(f"There are photos of {strangers[0]!r} to measure on, and none to train on.")
        annotated(held_out)
        return photos, held_out

    def _split(self, *beginnings: str) -> str | None:
        """The split of DATA whose name begins with one of these; None where it has none."""
        splits = [] if is_scenes(self.data) else splits_of(Path(self.data))
        return next((name for begin in beginnings for name in splits if name.startswith(begin)), None)


def key_of(photos: PhotoSet) -> str:
    """What makes two sets of photos the same, in a few letters."""
    return f"{len(photos)} photos, {hashlib.sha256(describe(photos).encode()).hexdigest()[:8]}"


def from_nothing(recipe: Recipe) -> Recipe:
    """The recipe without ImageNet's weights, so that f(0) is trained, whatever steps the recipe has for that."""
    return recipe.replace(pretrained=False, first_steps=recipe.first_steps or None)


def algorithm1_only(recipe: Recipe) -> Recipe:
    """The recipe without a second stage, of which the paper has none: its tables are about Algorithm 1."""
    return recipe.replace(second_stage_steps=0)


def is_scenes(data: str) -> bool:
    """Whether DATA means generated pictures."""
    return data.partition(":")[0] == "scenes" and not Path(data).is_dir()


def find_setting(
    data: str | None, *, quick: bool = False, paper: bool = False, recipe: str | None = None, seed: int | None = None,
    test: str | None = None, boxes: Path | None = None, masks: Path | None = None, split: str | None = None,
) -> Setting:  # fmt: skip
    """A setting from what was said on the command line.

    Quick is the default for scenes, the recipe `photos` for a folder.

    >>> find_setting(None).data, find_setting("scenes:classes=5").recipe.backbone
    ('scenes:photos=2000,size=96', 'test_resnet')
    """
    if sum((quick, paper, recipe is not None)) > 1:
        raise UserError("Choose one of --quick, --paper and --recipe.")
    if paper and data is None:
        raise UserError("--paper is on ImageNet: name its folder (one that holds ILSVRC/), or add --dry-run.")
    if data in (None, "scenes"):
        data = f"scenes:photos={QUICK_PHOTOS},size={QUICK.size}"
        test = test or f"scenes:photos={QUICK_HELD_OUT},size={QUICK.size}"
    assert data is not None
    scenes = is_scenes(data)
    if quick and not scenes:
        raise UserError("--quick is on scenes, which need no folder.")
    chosen = PAPER if paper else QUICK if scenes and recipe is None else read_recipe(recipe or "photos")
    chosen = chosen if seed is None else chosen.replace(seed=seed)
    return Setting(data, chosen, test, boxes, masks, split)


def count_photos(setting: Setting) -> tuple[int, int]:
    """Photos to train on, and their classes; ImageNet's where only a plan was asked for, without its folder."""
    if setting.data == NOWHERE and not Path(NOWHERE).exists():
        return IMAGENET, 1000
    photos = setting.training_photos()
    return len(photos), len(photos.classes)


def thinned(recipe: Recipe, thinning: str, photos: int) -> Recipe:
    """The recipe with another thinning, whose period is as long a part of the run as in the paper, rounded up.

    So the sample set fills as early in a short run as it did there: with L100 left at 100 steps, a run of 100
    would be FL.

    >>> [thinned(QUICK, name, 2000).period for name in ("L1000", "L100", "L")]
    [4, 1, 1]
    >>> thinned(PAPER, "L100", IMAGENET).period
    100
    """
    steps = recipe.total_steps(photos)
    number = int(thinning[1:]) if thinning[1:].isdecimal() else 0
    return recipe.replace(thinning=thinning, period=max(1, -(-number * steps // PAPER_STEPS)))
