"""What a study is about: photos to train on, photos to measure on, and a recipe: quick, the paper's, or one's own."""

import dataclasses
from pathlib import Path
from typing import Any

from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.training.recipes import PAPER, QUICK, Recipe, read_recipe

QUICK_PHOTOS, QUICK_HELD_OUT = 2000, 1000
IMAGENET = 1_281_167  # photos to train on
PAPER_STEPS = PAPER.total_steps(IMAGENET)  # 70 epochs of a fifth of them, 128 at a time: 140,070


@dataclasses.dataclass(frozen=True)
class Setting:
    """Photos by name, so that they can be kept and compared, and the recipe of all trainings.

    data: to train on. test: to measure on; None: the held-out ones of `data`, which for scenes are scenes of another
    seed, and for a folder with splits its split val. boxes, masks, split: of `test`.
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
        return {key: None if value is None else str(value) for key, value in texts.items()} | {
            f"recipe.{key}": value for key, value in dataclasses.asdict(self.recipe).items()
        }

    @property
    def has_splits(self) -> bool:
        """Whether both sets of photos are splits of one folder."""
        return self.test is None and not is_scenes(self.data)

    def trains_first(self, classes: int) -> bool:
        """Whether f(0) has to be trained: pretrained weights know ImageNet's thousand classes already."""
        return not (self.recipe.pretrained and classes == 1000)

    def training_photos(self) -> PhotoSet:
        """To train on."""
        return open_photos(self.data, split="train" if self.has_splits else None)

    def held_out_photos(self) -> PhotoSet:
        """To measure on."""
        if self.test is not None:
            return open_photos(self.test, held_out=True, boxes=self.boxes, masks=self.masks, split=self.split)
        split = self.split or ("val" if self.has_splits else None)
        return open_photos(self.data, held_out=True, boxes=self.boxes, masks=self.masks, split=split)


def is_scenes(data: str) -> bool:
    """Whether DATA means generated pictures."""
    return data.partition(":")[0] == "scenes" and not Path(data).is_dir()


def find_setting(
    data: str | None,
    quick: bool = False,
    paper: bool = False,
    recipe: str | None = None,
    seed: int | None = None,
    test: str | None = None,
    boxes: Path | None = None,
    masks: Path | None = None,
    split: str | None = None,
) -> Setting:
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
    if setting.data == "ImageNet" and not Path(setting.data).exists():
        return IMAGENET, 1000
    photos = setting.training_photos()
    return len(photos), len(photos.classes)


def thinned(recipe: Recipe, thinning: str, photos: int) -> Recipe:
    """The recipe with another thinning, whose period is as long a part of the run as it is in the paper.

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
