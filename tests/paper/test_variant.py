"""What is called CASM or the paper's is exactly that."""

import dataclasses

import pytest

from casmap.inference.mapper import SaliencyMapper
from casmap.paper.variant import variant
from casmap.training.options_of_0_1_0 import names_of_0_1_0
from casmap.training.recipes import PAPER, PHOTOS, QUICK, RECIPES


def name(recipe, **changes):
    return variant({"recipe": dataclasses.asdict(recipe.replace(**changes))})


@pytest.mark.parametrize(
    "changes",
    [{"score": "doubt"}, {"masked_in": 1.0}, {"encoder": "first"}, {"freeze_batch_norm": True}, {"thinning": "L"}],
)
def test_whatever_differs_in_kind_is_not_the_papers(changes) -> None:
    assert name(PAPER) == "CASM, the paper's"
    assert name(PAPER, **changes) == "CASM, another recipe"


def test_numbers_and_the_backbone_are_free() -> None:
    assert name(PAPER, steps=10, lambda_r=3.0, thinning="L100") == "CASM, the paper's"
    assert name(QUICK) == "CASM, the paper's with --area"
    assert name(QUICK, lambda_r=3.0) == "CASM, the paper's"


def test_the_second_stage_is_named() -> None:
    assert name(PHOTOS, second_stage_steps=0) == "CASM, photos recipe"
    assert name(PHOTOS, thinning="F") == "Baseline, photos recipe + second stage"
    assert name(PAPER, second_stage_steps=5) == "CASM, the paper's + second stage"
    assert name(RECIPES["seeds"], masks_from="mine.onnx") == "second stage on the masks of mine.onnx"


def test_the_shipped_mapping_did_not_learn_its_own_masks() -> None:
    expected = "second stage on the masks of the mapping shipped before it"
    assert variant(SaliencyMapper.load().about) == expected
    assert name(RECIPES["seeds"]) == expected


def test_files_of_0_1_0_have_the_same_names() -> None:
    recipe = PHOTOS.replace(encoder="shared", second_stage_steps=600)
    assert variant({"recipe": names_of_0_1_0(recipe.options())}) == name(recipe)
    assert "+ second stage" in name(recipe)


def test_people_who_corrected_and_a_run_that_was_stopped_are_named() -> None:
    recipe = {"recipe": dataclasses.asdict(PAPER)}
    corrected = {"corrected": {"photos": 20, "steps": 150}}
    assert variant(recipe | corrected) == "CASM, the paper's, corrected by people"
    assert variant(recipe | {"stopped": 40}) == "CASM, the paper's, stopped after 40 steps"
    assert variant(recipe | {"stopped": 40} | corrected).endswith(", stopped after 40 steps, corrected by people")
