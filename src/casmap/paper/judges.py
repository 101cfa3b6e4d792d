"""The classifiers that took part in no training and judge the masks of a study."""

from collections.abc import Sequence

from casmap.paper.figure3 import default_classifiers
from casmap.paper.plan import Planned
from casmap.paper.setting import Setting, is_scenes
from casmap.paper.trainings import Trainings
from casmap.tools.classifiers import short_names
from casmap.training.recipes import PAPER, Recipe


def judges_of(setting: Setting, given: Sequence[str] | None) -> tuple[dict[str, Recipe], Sequence[str]]:
    """The recipes of judges to train, by name, and the names of those with pretrained weights; none if some are given.

    On scenes and in the paper's setting they are those of Figure 3, without those of the mapping's own architecture;
    of each other one the first training is enough.
    """
    own = setting.recipe.backbone
    if given or not (is_scenes(setting.data) or own == PAPER.backbone):
        return {}, ()
    trained, ready = default_classifiers(setting)
    others = {r.backbone: r for r in reversed(trained.values()) if r.backbone != own}
    return others, [name for name in ready if name != own]


def unseen_classifiers(setting: Setting, given: Sequence[str] | None, trainings: Trainings) -> dict[str, str]:
    """The classifiers that judge, by name: those given, or those of `judges_of`, trained where they must be."""
    recipes, ready = judges_of(setting, given)
    if not recipes and not ready:
        return short_names(given or ())
    photos = setting.training_photos()
    return {name: str(trainings.classifier(photos, r)) for name, r in recipes.items()} | {name: name for name in ready}


def planned_judges(setting: Setting, photos: int, classes: int, given: Sequence[str] | None) -> list[Planned]:
    """The trainings of unseen_classifiers."""
    return [
        Planned(f"classifiers: {name}", recipe, photos, classes, first=True, maps=False)
        for name, recipe in judges_of(setting, given)[0].items()
    ]


def fetched_judges(setting: Setting, classifiers: Sequence[str] | None = None, **options: object) -> Sequence[str]:
    """Judges whose weights are downloaded."""
    return judges_of(setting, classifiers)[1]
