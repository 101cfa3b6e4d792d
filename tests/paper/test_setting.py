"""What a study is about."""

import pytest

from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.paper.setting import IMAGENET, count_photos, find_setting, from_scratch, key_of, thinned
from casmap.training.recipes import PAPER, PHOTOS, QUICK


def test_quick_is_the_default_and_measures_on_other_scenes() -> None:
    setting = find_setting(None)
    assert setting == find_setting("scenes", quick=True)
    assert setting.recipe == QUICK
    training, held_out = setting.training_photos(), setting.held_out_photos()
    assert (len(training), len(held_out)) == (2000, 2000)
    assert training.image(0).shape == held_out.image(0).shape == (QUICK.size, QUICK.size, 3)
    assert not set(training.names) & set(held_out.names)


def test_scenes_with_options_are_measured_on_held_out_ones() -> None:
    setting = find_setting("scenes:classes=3,photos=6,size=32,seed=2")
    assert setting.held_out_photos().names == Scenes(classes=3, photos=6, size=32, seed=2 + HELD_OUT).names


def test_a_folder_gets_the_recipe_for_photos_and_the_paper_its_own(tmp_path) -> None:
    assert find_setting(str(tmp_path), test=str(tmp_path)).recipe == PHOTOS
    assert find_setting(str(tmp_path), paper=True, seed=3).recipe == PAPER.replace(seed=3)


@pytest.mark.parametrize(("training", "testing"), [("train", "val"), ("training", "validation"), ("train", "test")])
def test_a_folder_with_splits_needs_no_other_to_measure_on(tmp_path, training, testing) -> None:
    (tmp_path / "data").mkdir()
    for split, seed in ((training, 0), (testing, 1)):
        write_photos(Scenes(classes=2, photos=4, size=32, seed=seed), tmp_path / split)
        (tmp_path / split / "photos").rename(tmp_path / "data" / split)
    setting = find_setting(str(tmp_path / "data"))
    names = [set(photos.names) for photos in (setting.training_photos(), setting.held_out_photos())]
    assert [len(each) for each in names] == [4, 4]
    assert not names[0] & names[1]
    # Other photos to measure on leave those to train on as they are.
    setting = find_setting(str(tmp_path / "data"), test=str(tmp_path / "data" / testing))
    assert set(setting.training_photos().names) == names[0]


def test_a_folder_without_splits_needs_another_to_measure_on(tmp_path) -> None:
    write_photos(Scenes(classes=2, photos=4, size=32), tmp_path)
    with pytest.raises(UserError, match="has no splits: name the photos for measuring with --test"):
        find_setting(str(tmp_path / "photos")).held_out_photos()


def test_what_cannot_be_measured_is_said_at_once(tmp_path) -> None:
    other = find_setting("scenes:classes=2,photos=4", test="scenes:classes=3,photos=6")
    with pytest.raises(UserError, match="photos of 'class-02' for measuring, but none for training"):
        other.both()
    write_photos(Scenes(classes=2, photos=4, size=32), tmp_path)
    bare = find_setting("scenes:classes=2,photos=4", test=str(tmp_path / "photos"))
    with pytest.raises(UserError, match="None of these photos has a box or a mask"):
        bare.both()


def test_from_nothing_means_that_f0_is_trained() -> None:
    assert from_scratch(PHOTOS).total_first_steps(1600) == 90 * 100
    assert from_scratch(QUICK).first_steps == QUICK.first_steps
    assert not from_scratch(PAPER).pretrained


def test_the_key_of_photos_changes_with_them() -> None:
    keys = {key_of(Scenes(classes=2, photos=count, seed=seed)) for count, seed in ((4, 0), (5, 0), (4, 1))}
    assert len(keys) == 3
    assert key_of(Scenes(classes=2, photos=4)) == key_of(Scenes(classes=2, photos=4))


@pytest.mark.parametrize(
    ("said", "complaint"),
    [
        ({"quick": True, "paper": True}, "Choose one of --quick, --paper and --recipe"),
        ({"quick": True, "recipe": "photos"}, "Choose one of"),
        ({"paper": True}, "--paper needs ImageNet: name its folder"),
        ({"data": "photos/", "quick": True}, "--quick uses scenes"),
        ({"recipe": "nobody's"}, "There is no recipe"),
    ],
)
def test_what_does_not_go_together_is_one_sentence(said, complaint) -> None:
    with pytest.raises(UserError, match=complaint):
        find_setting(**{"data": None, **said})


def test_periods_are_as_long_a_part_of_the_run_as_in_the_paper() -> None:
    assert thinned(PAPER, "L1000", IMAGENET).period == 1000
    # 450 of 140,070 steps: 0.32 and 3.2, rounded up
    assert [thinned(QUICK, name, 2000).period for name in ("L100", "L1000")] == [1, 4]
    assert [thinned(QUICK.replace(steps=14_007), name, 2000).period for name in ("L100", "L1000")] == [10, 100]
    assert thinned(QUICK, "FL", 2000).thinning == "FL"


def test_photos_are_counted_or_imagenets_where_there_are_none() -> None:
    assert count_photos(find_setting("scenes:classes=3,photos=6")) == (6, 3)
    assert count_photos(find_setting("ImageNet", paper=True)) == (IMAGENET, 1000)


def test_options_tell_all_that_matters() -> None:
    a, b = find_setting(None).options(), find_setting(None, seed=1).options()
    assert {key for key in a if a[key] != b[key]} == {"recipe.seed"}
    assert {"data", "test", "boxes", "masks", "split", "recipe.steps"} <= set(a)
