"""Recipes: the paper's numbers, and that no wrong one gets in."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.errors import UserError
from casmap.training.recipes import PAPER, QUICK, RECIPES, Recipe, read_recipe


@pytest.mark.parametrize(
    ("name", "number"),
    [
        # paper.tex, "Classifier f and mapping m", "Training procedure", "Thinning", "Baseline and CASM"
        ("backbone", "resnet50.tv_in1k"),
        ("pretrained", True),  # "the pretrained ResNet-50 from torchvision model zoo"
        ("encoder", "shared"),  # "we experimentally find that sharing is beneficial"
        ("size", 224),
        ("thinning", "L100"),
        ("sample_limit", 30),
        ("score", "entropy"),
        ("loss", "mixed"),
        ("classifier_lr", 0.001),
        ("momentum", 0.9),
        ("classifier_decay", 1e-4),
        ("mapping_lr", 0.001),
        ("mapping_decay", 1e-4),
        ("epochs", 70),
        ("epoch_share", 0.2),
        # paper-notes.md
        ("batch", 128),
        ("clip", 10.0),
        ("drop_every", 20 / 70),  # every 20 of 70 epochs
        ("flip", True),
        ("smallest_crop", 0.08),  # torchvision's random resized crop
        ("freeze_batch_norm", False),  # "f trains in train mode"
        ("period", None),  # the 100 of L100
        ("steps", None),  # from the epochs
        ("lambda_r", None),  # the table of score and thinning: test_area.py
        ("area", None),
    ],
)
def test_the_paper_recipe_has_the_papers_number(name, number) -> None:
    assert getattr(PAPER, name) == number
    assert PAPER is RECIPES["paper"]


def test_steps_follow_from_the_epochs() -> None:
    imagenet = 1_281_167  # 20 %: 256,233 photos, 2,001 whole batches of 128
    assert PAPER.total_steps(imagenet) == 70 * 2001
    assert PAPER.total_first_steps(imagenet) == 90 * 10_009  # all photos
    assert PAPER.replace(steps=5, first_steps=6).total_steps(imagenet) == 5
    assert PAPER.replace(steps=5, first_steps=6).total_first_steps(imagenet) == 6
    assert PAPER.replace(first_steps=0).total_first_steps(imagenet) == 0
    assert PAPER.total_steps(3) == 70  # fewer photos than a batch: one step an epoch


@given(st.integers(1, 10**6), st.integers(2, 512), st.floats(0.01, 1))
def test_an_epoch_has_a_batch_and_never_more_photos_than_its_share(photos, batch, share) -> None:
    steps = PAPER.replace(batch=batch).steps_in_epoch(photos, share)
    assert steps >= 1
    assert steps == 1 or steps * batch <= photos * share


def test_the_recipes_are_valid_and_survive_json() -> None:
    for recipe in RECIPES.values():
        assert Recipe().replace(**json.loads(json.dumps(recipe.options()))) == recipe


def test_every_option_has_a_help_text() -> None:
    assert all(entry.metadata["help"] for entry in dataclasses.fields(Recipe))


def test_replace_changes_what_it_is_told_and_nothing_else() -> None:
    changed = PAPER.replace(thinning="L", batch=64)
    assert (changed.thinning, changed.batch) == ("L", 64)
    assert changed.replace(thinning="L100", batch=128) == PAPER
    assert PAPER.thinning == "L100"


@pytest.mark.parametrize(("name", "meant"), [("epoch", "epochs"), ("lambda", "lambda_r"), ("aera", "area")])
def test_an_option_with_a_slip_is_named_with_the_one_that_was_meant(name, meant) -> None:
    with pytest.raises(UserError, match=rf"no option '{name}'; did you mean {meant}\?"):
        PAPER.replace(**{name: 1})


@pytest.mark.parametrize("name", ["learning_rate", "__class__"])
def test_an_unknown_option_is_named_with_those_there_are(name) -> None:
    with pytest.raises(UserError, match=rf"no option '{name}'; choose from backbone, .*checkpoint_every"):
        PAPER.replace(**{name: 1})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch", "64"),
        ("batch", 64.0),
        ("batch", True),
        ("batch", None),
        ("flip", 1),
        ("flip", "yes"),
        ("thinning", 100),
        ("score", None),
        ("area", "half"),
        ("area", [0.5]),
        ("steps", 1.5),
        ("weights", False),
        ("momentum", None),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_by_name(name, value) -> None:
    with pytest.raises(UserError, match=rf"^{name} must be .*, not "):
        PAPER.replace(**{name: value})


def test_a_whole_number_is_welcome_where_a_fraction_is() -> None:
    assert PAPER.replace(lambda_r=3).lambda_r == 3.0
    assert type(PAPER.replace(clip=5).clip) is float


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("size", 31),
        ("size", 4096),
        ("period", 0),
        ("sample_limit", 1),
        ("lambda_r", -0.1),
        ("area", 0.0),
        ("area", 1.0),
        ("area", float("nan")),
        ("epochs", 0),
        ("epoch_share", 0.0),
        ("epoch_share", 1.5),
        ("steps", 0),
        ("batch", 1),
        ("first_steps", -1),
        ("smallest_crop", 0.0),
        ("drop_every", 0.0),
        ("checkpoint_every", 0),
        ("threads", 0),
        ("seed", -1),
    ],
)
def test_a_value_out_of_range_is_refused_by_name(name, value) -> None:
    with pytest.raises(UserError, match=rf"^{name} must be between .* and .*, not "):
        PAPER.replace(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("classifier_lr", -1.0),
        ("mapping_lr", -1.0),
        ("first_lr", float("nan")),
        ("momentum", -1.0),
        ("classifier_decay", -1.0),
        ("mapping_decay", -1.0),
        ("first_decay", -1.0),
        ("clip", -1.0),
        ("first_epochs", 0),
    ],
)
def test_a_number_that_no_optimiser_takes_is_refused_by_name(name, value) -> None:
    with pytest.raises(UserError, match=rf"^{name} must be between "):
        PAPER.replace(**{name: value})


@pytest.mark.parametrize(("name", "value"), [("score", "accuracy"), ("loss", "both"), ("thinning", "M")])
def test_a_word_that_is_no_choice_is_refused_with_the_choices(name, value) -> None:
    with pytest.raises(UserError, match=r"(doubt, entropy, loss|mixed, masked|F, L, FL, L<period>)"):
        PAPER.replace(**{name: value})


def test_area_and_lambda_exclude_each_other() -> None:
    with pytest.raises(UserError, match="not both"):
        PAPER.replace(area=0.3, lambda_r=2.0)
    with pytest.raises(UserError, match="not both"):
        Recipe(area=0.3, lambda_r=2.0)


def test_the_one_that_is_given_later_takes_the_place_of_the_other() -> None:
    by_area, by_lambda = PAPER.replace(area=0.3), PAPER.replace(lambda_r=2.0)
    assert (by_area.replace(lambda_r=2.0).area, by_area.replace(lambda_r=2.0).lambda_r) == (None, 2.0)
    assert (by_lambda.replace(area=0.3).area, by_lambda.replace(area=0.3).lambda_r) == (0.3, None)
    assert QUICK.area is not None
    assert QUICK.replace(lambda_r=1.0).area is None


FILES = {
    "mine.toml": 'recipe = "quick"\nthinning = "L"\nbatch = 16\nmapping_lr = 0.01\nflip = false\n',
    "mine.yaml": "recipe: quick\nthinning: L\nbatch: 16\nmapping_lr: 0.01\nflip: false\n",
    "mine.yml": "recipe: quick\nthinning: L\nbatch: 16\nmapping_lr: 1.0e-2\nflip: no\n",
    "mine.json": '{"recipe": "quick", "thinning": "L", "batch": 16, "mapping_lr": 0.01, "flip": false}',
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_overrides_the_recipe_it_names(tmp_path, name) -> None:
    (tmp_path / name).write_text(FILES[name])
    assert read_recipe(str(tmp_path / name)) == QUICK.replace(thinning="L", batch=16, mapping_lr=0.01, flip=False)


def test_a_file_that_names_none_overrides_the_papers(tmp_path) -> None:
    (tmp_path / "mine.toml").write_text("epochs = 3\n")
    assert read_recipe(str(tmp_path / "mine.toml")) == PAPER.replace(epochs=3)


def test_the_recipe_kept_with_a_run_can_be_given_again(tmp_path) -> None:
    mine = QUICK.replace(thinning="FL", lambda_r=2)
    (tmp_path / "recipe.json").write_text(json.dumps(mine.options()))
    assert read_recipe(str(tmp_path / "recipe.json")) == mine


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "batch = ", "Cannot read the recipe"),
        ("a.yaml", "batch: [", "Cannot read the recipe"),
        ("a.yaml", "", "not a list of options"),
        ("a.yaml", "- batch", "not a list of options"),
        ("a.yaml", "3: 4", "not a list of options"),
        ("a.toml", 'recipe = "fast"', "is 'fast': choose from"),
        ("a.toml", "bach = 3", "no option 'bach'"),
        ("a.toml", 'batch = "many"', "batch must be a whole number"),
        ("a.toml", "area = 2.0", "area must be between"),
        ("a.yaml", "!!python/object/apply:os.system ['touch harm']", "Cannot read the recipe"),
    ],
)
def test_a_file_with_a_mistake_is_one_sentence(tmp_path, monkeypatch, name, text, message) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        read_recipe(name)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # nothing in a file is ever run


def test_a_file_that_is_no_text_is_one_sentence(tmp_path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="Cannot read the recipe"):
        read_recipe(str(tmp_path / "a.toml"))


def test_a_recipe_that_does_not_exist_is_one_sentence() -> None:
    with pytest.raises(
        UserError, match="There is no recipe 'slow': choose paper, quick, photos, seeds, scans, or a TOML or YAML file"
    ):
        read_recipe("slow")


def test_a_small_number_that_yaml_takes_for_text_is_a_number(tmp_path) -> None:
    (tmp_path / "mine.yaml").write_text("recipe: quick\nmapping_lr: 1e-3\n")
    assert read_recipe(str(tmp_path / "mine.yaml")).mapping_lr == 0.001


@pytest.mark.parametrize("base", ["[paper]", "{}", "3", "unheard-of"])
def test_a_recipe_that_builds_on_no_recipe_is_refused(tmp_path, base) -> None:
    (tmp_path / "mine.yaml").write_text(f"recipe: {base}\n")
    with pytest.raises(UserError, match=r"The key recipe in .* is "):
        read_recipe(str(tmp_path / "mine.yaml"))


def test_what_the_mask_keeps_has_no_pass_to_be_reused():
    with pytest.raises(UserError, match=r"reuse_masked needs masked_in=0, not "):
        PAPER.replace(reuse_masked=True, masked_in=1.0)


OF_0_1_0 = {"precision": "float32", "compile": False}  # options that are gone, as recipes of 0.1.0 have them


def test_a_recipe_of_0_1_0_is_read_and_written_as_it_was(tmp_path) -> None:
    """Runs and studies of 0.1.0 continue: the names of their folders are derived from this text."""
    kept = QUICK.options()
    assert {name: kept[name] for name in OF_0_1_0} == OF_0_1_0
    assert list(kept)[-5:] == ["threads", "precision", "compile", "unreadable", "checkpoint_every"]
    (tmp_path / "recipe.json").write_text(json.dumps(kept))
    assert read_recipe(str(tmp_path / "recipe.json")) == QUICK


@pytest.mark.parametrize(
    ("option", "why"), [({"precision": "bfloat16"}, "15 times slower on CPUs"), ({"compile": True}, "no faster")]
)
def test_an_option_that_is_gone_is_one_sentence_that_says_why(option, why) -> None:
    (name,) = option
    with pytest.raises(UserError, match=rf"^The option {name} was removed in casmap 0\.2\.0 \(.*{why}"):
        PAPER.replace(**option)


def test_of_an_old_and_a_current_name_the_current_one_wins() -> None:
    assert QUICK.replace(second_stage_steps=3, taught_steps=5).second_stage_steps == 3
    assert QUICK.replace(taught_steps=5, second_stage_steps=3).second_stage_steps == 3
