"""Table 3: unseen classes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from casmap.errors import UserError
from casmap.evaluation.evaluate import Number
from casmap.models.files import load_classifier, load_mapping
from casmap.paper.outcome import FAILS, HOLDS, TIE
from casmap.paper.table3 import (
    PAPER,
    SHARES,
    TRAINED_ON,
    _split_classes,
    claims,
    gap,
    planned,
    run_table3,
    table3,
)


@given(count=st.integers(20, 300), seed=st.integers(0, 100))
def test_every_class_is_in_one_subset_of_the_papers_size(count, seed) -> None:
    classes = [f"class-{number}" for number in range(count)]
    subsets = _split_classes(classes, seed)
    assert sorted(name for part in subsets.values() for name in part) == sorted(classes)
    for letter, share in SHARES.items():
        assert abs(len(subsets[letter]) - share * count) <= 1


def test_another_seed_splits_otherwise_and_a_thousand_classes_as_in_the_paper() -> None:
    classes = [str(number) for number in range(1000)]
    assert [len(part) for part in _split_classes(classes, 0).values()] == [50, 50, 100, 300, 300, 200]
    assert _split_classes(classes, 0) != _split_classes(classes, 1)


def test_too_few_classes_are_one_sentence() -> None:
    with pytest.raises(UserError, match="9 are too few"):
        _split_classes([str(number) for number in range(9)], 0)


def test_each_training_and_its_own_f0_know_their_classes_only(small, tmp_path) -> None:
    outcome = run_table3(small, out=tmp_path)
    subsets = _split_classes(list(small.training_photos().classes), small.recipe.seed)
    wanted = sorted(sorted(name for letter in letters for name in subsets[letter]) for letters in TRAINED_ON)
    mappings = [load_mapping(path)[0].classes for path in tmp_path.glob("trainings/*/mapping.safetensors")]
    firsts = [
        load_classifier(path)[1]["classes"] for path in tmp_path.glob("trainings/classifier-*/classifier.safetensors")
    ]
    assert sorted(map(sorted, mappings)) == wanted
    assert sorted(map(sorted, firsts)) == wanted
    ours = [row for row in outcome.rows if row[0] != "in the paper"]
    assert [str(row[0]) for row in ours] == ["F", "E, F", "D, E, F", "C, D, E, F", "B, C, D, E, F", "All"]
    for row, letters in zip(ours, TRAINED_ON, strict=True):
        assert [cell.unseen for cell in row[1:]] == [letter not in letters for letter in SHARES] + [False]


def test_cells_are_means_over_the_photos_of_a_subset(small) -> None:
    of_subset = np.array(list("AABBCCDDEEFF"))
    errors = {letters: np.arange(12) % 2 * 1.0 for letters in TRAINED_ON}
    errors["F"] = (of_subset != "F") * 1.0
    outcome = table3(errors, of_subset, small)
    cells = {(record["trained on"], record["tested on"]): record for record in outcome.records}
    assert cells["F", "A"]["LE"] == 1
    assert cells["F", "F"]["LE"] == 0
    assert cells["F", "All"]["LE"] == pytest.approx(10 / 12)
    assert cells["EF", "D"]["LE"] == 0.5
    assert (cells["F", "A"]["seen"], cells["F", "F"]["seen"], cells["F", "All"]["seen"]) == (False, True, "")
    assert cells["DEF", "B"]["paper LE"] == PAPER["DEF"][1] == 39.3


def test_the_gap_is_what_unseen_classes_lose_more_by_hand() -> None:
    of_subset = np.array(list("AAAAFFFF"))
    lost = np.array([1.0, 1, 0, 0, 1, 0, 0, 0])  # half of the unseen, a quarter of the seen
    found = gap([lost], of_subset, ["F"])
    assert found.value == 0.25
    assert found.low < 0.25 < found.high
    assert gap([lost, lost * 0], of_subset, ["F", "F"]).value == 0.125  # a mean over trainings


def test_classes_that_are_hard_for_all_make_no_gap(small) -> None:
    of_subset = np.array(list("ABCDEF") * 50)
    hard = np.isin(of_subset, list("AB")) * 1.0
    outcome = table3(dict.fromkeys(TRAINED_ON, hard), of_subset, small)
    assert outcome.claims[0].verdict == HOLDS
    assert outcome.claims[0].here.startswith("the four together +0.0 [+0.0, +0.0]")


@pytest.mark.parametrize(("pooled", "verdict"), [((-0.02, 0.01), HOLDS), ((0.04, 0.06), FAILS), ((-0.02, 0.05), TIE)])
def test_a_small_loss_is_below_three_points(pooled, verdict) -> None:
    gaps = {letters: Number(0.05, 0.01, 0.09) for letters in TRAINED_ON[:-1]}
    small_one, fifth = claims(gaps, Number(sum(pooled) / 2, *pooled))
    assert small_one.verdict == verdict
    assert fifth.verdict == HOLDS
    # (5 10.9 + 5 10.3 + 10 9.1 + 30 8.0 + 30 9.1) / 80 - 4.6: LE trained on F minus LE trained on all
    assert small_one.paper.startswith("F +4.3, E, F ")


def test_the_plan_trains_an_f0_for_each(small) -> None:
    plan = planned(small, photos=1000, classes=40)
    assert [(one.photos, one.classes, one.first) for one in plan] == [
        (200, 8, True), (500, 20, True), (800, 32, True), (900, 36, True), (950, 38, True), (1000, 40, True),
    ]  # fmt: skip
