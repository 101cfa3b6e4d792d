"""The setting of a study: photos for training, photos for measuring, and a recipe: quick, the paper's, or custom."""

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from casmap.data.layouts import splits_of
from casmap.data.photos import PhotoSet
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.evaluation.evaluate import annotated_indices
from casmap.training.options_of_0_1_0 import names_of_0_1_0
from casmap.training.recipes import PAPER, QUICK, Recipe, read_recipe
from casmap.training.run import describe

QUICK_PHOTOS, QUICK_HELD_OUT = 2000, 2000
NOWHERE = "ImageNet"  # DATA of a dry run without photos
IMAGENET = 1_281_167  # photos for training
PAPER_STEPS = PAPER.total_steps(IMAGENET)  # 70 epochs of a fifth of them, 128 at a time: 140,070


@dataclasses.dataclass(frozen=True)
class Setting:
    """Photos by name, so that they can be saved and compared, and the recipe of all trainings.

    data: for training. test: for measuring; None: the held-out photos of `data`, which for scenes are scenes of another
    seed, and for a folder its split val or test. boxes, masks, split: of the photos for measuring.
    """

    data: str
    recipe: Recipe
    test: str | None = None
    boxes: Path | None = None
    masks: Path | None = None
    split: str | None = None

    def options(self) -> dict[str, Any]:
        """All options as JSON, to be saved with a study."""
        texts = {"data": self.data, "test": self.test, "boxes": self.boxes, "masks": self.masks, "split": self.split}
        recipe = {f"recipe.{key}": value for key, value in names_of_0_1_0(self.recipe.options()).items()}
        return {key: None if value is None else str(value) for key, value in texts.items()} | recipe

    def trains_first(self, classes: int) -> bool:
        """Whether f(0) has to be trained: pretrained weights know ImageNet's thousand classes already."""
        return not (self.recipe.pretrained and classes == 1000)

    def training_photos(self) -> PhotoSet:
        """Photos for training: the split of DATA that is meant for it, if there are splits."""
        return open_photos(self.data, split=self._split("train"))

    def held_out_photos(self) -> PhotoSet:
        """Photos for measuring."""
        data, split = self.test or self.data, self.split or (None if self.test else self._split("val", "test"))
        if self.test is None and split is None and not is_scenes(self.data):
            raise UserError(f"{self.data} has no splits: name the photos for measuring with --test.")
        return open_photos(data, held_out=True, boxes=self.boxes, masks=self.masks, split=split)

    def both(self) -> tuple[PhotoSet, PhotoSet]:
        """Photos for training and photos for measuring, which must be annotated and of the classes trained on."""
        photos, held_out = self.training_photos(), self.held_out_photos()
        if unknown := [name for name in held_out.classes if name not in photos.classes]:
            raise UserError(f"There are photos of {unknown[0]!r} for measuring, but none for training.")
        annotated_indices(held_out)
        return photos, held_out

    def _split(self, *prefixes: str) -> str | None:
        """The split of DATA whose name starts with one of these; None if there is none."""
        splits = [] if is_scenes(self.data) else splits_of(Path(self.data))
        return next((name for prefix in prefixes for name in splits if name.startswith(prefix)), None)


def key_of(photos: PhotoSet) -> str:
    """A short key that is the same for the same photos."""
    return f"{len(photos)} photos, {hashlib.sha256(describe(photos).encode()).hexdigest()[:8]}"


def from_scratch(recipe: Recipe) -> Recipe:
    """The recipe without ImageNet's weights, so that f(0) is trained, with the recipe's number of steps for that."""
    return recipe.replace(pretrained=False, first_steps=recipe.first_steps or None)


def algorithm1_only(recipe: Recipe) -> Recipe:
    """The recipe without the second stage, which the paper does not have: its tables are about Algorithm 1."""
    return recipe.replace(second_stage_steps=0)


def is_scenes(data: str) -> bool:
    """Whether DATA means generated scenes."""
    return data.partition(":")[0] == "scenes" and not Path(data).is_dir()


def find_setting(
    data: str | None, *, quick: bool = False, paper: bool = False, recipe: str | None = None, seed: int | None = None,
    test: str | None = None, boxes: Path | None = None, masks: Path | None = None, split: str | None = None,
) -> Setting:  # fmt: skip
    """A setting from the options of the command line.

    Quick is the default for scenes, the recipe `photos` for a folder.

    >>> find_setting(None).data, find_setting("scenes:classes=5").recipe.backbone
    ('scenes:photos=2000,size=96', 'test_resnet')
    """
    if sum((quick, paper, recipe is not None)) > 1:
        raise UserError("Choose one of --quick, --paper and --recipe.")
    if paper and data is None:
        raise UserError("--paper needs ImageNet: name its folder (the one that contains ILSVRC/), or add --dry-run.")
    if data in (None, "scenes"):
        data = f"scenes:photos={QUICK_PHOTOS},size={QUICK.size}"
        test = test or f"scenes:photos={QUICK_HELD_OUT},size={QUICK.size}"
    assert data is not None
    scenes = is_scenes(data)
    if quick and not scenes:
        raise UserError("--quick uses scenes and takes no folder of photos.")
    chosen = PAPER if paper else QUICK if scenes and recipe is None else read_recipe(recipe or "photos")
    chosen = chosen if seed is None else chosen.replace(seed=seed)
    return Setting(data, chosen, test, boxes, masks, split)


def count_photos(setting: Setting) -> tuple[int, int]:
    """The number of photos for training, and of their classes; ImageNet's for a dry run without its folder."""
    if setting.data == NOWHERE and not Path(NOWHERE).exists():
        return IMAGENET, 1000
    photos = setting.training_photos()
    return len(photos), len(photos.classes)


def thinned(recipe: Recipe, thinning: str, photos: int) -> Recipe:
    """The recipe with another thinning, whose period is the same share of the run as in the paper, rounded up.

    So the sample set fills as early in a short run as in the paper's: L100 with a period of 100 steps would be FL in a
    run of 100 steps.

    >>> [thinned(QUICK, name, 2000).period for name in ("L1000", "L100", "L")]
    [4, 1, 1]
    >>> thinned(PAPER, "L100", IMAGENET).period
    100
    """
    steps = recipe.total_steps(photos)
    number = int(thinning[1:]) if thinning[1:].isdecimal() else 0
    return recipe.replace(thinning=thinning, period=max(1, -(-number * steps // PAPER_STEPS)))
