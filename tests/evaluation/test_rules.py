"""The authors' rules, by hand."""

import numpy as np
import pytest

from casmap.data.photos import Annotation
from casmap.evaluation.evaluate import Predictions, localization_errors, own_alpha_errors
from casmap.evaluation.rules import MeanThreshold, above, above_share, energy, grab_cut
from casmap.evaluation.wsol_metrics import is_tuning

NOTHING = np.zeros((2, 4, 3), np.uint8)
MAP = np.array([[0.0, 0.1, 0.4, 0.0], [0.0, 0.2, 1.0, 0.6]])


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        (above_share(0.2), [[0, 0, 1, 0], [0, 1, 1, 1]]),
        (above_share(0.15), [[0, 0, 1, 0], [0, 1, 1, 1]]),
        (above_share(0.5), [[0, 0, 0, 0], [0, 0, 1, 1]]),
        (above(0.4), [[0, 0, 0, 0], [0, 0, 1, 1]]),
        (energy(0.4), [[0, 0, 0, 0], [0, 0, 1, 0]]),  # 1.0 of 2.3
        (energy(0.69), [[0, 0, 0, 0], [0, 0, 1, 1]]),  # 1.6 of 2.3
        (energy(1.0), [[0, 1, 1, 0], [0, 1, 1, 1]]),
    ],
    ids=lambda value: getattr(value, "description", ""),
)
def test_what_a_rule_keeps(rule, kept) -> None:
    assert rule.keep(MAP, NOTHING).astype(int).tolist() == kept


@pytest.mark.parametrize("rule", [above_share(0.2), above(0.5), energy(0.95)])
def test_of_an_empty_map_nothing_is_kept_and_there_is_no_box(rule) -> None:
    assert not rule.keep(0 * MAP, NOTHING).any()
    assert rule.box(0 * MAP, NOTHING) is None


def test_a_box_goes_around_the_largest_component_or_around_all() -> None:
    apart = np.array([[1.0, 1.0, 0.0, 1.0]])
    assert above_share(0.5).box(apart, NOTHING[:1]) == (0, 0, 2, 1)
    assert above(0.5).box(apart, NOTHING[:1]) == (0, 0, 4, 1)


def test_the_graph_cut_finds_an_object_by_its_colour_far_from_its_seeds() -> None:
    """A red bar on green, the map bright at one end of it only: the cut goes to the other end."""
    rng = np.random.default_rng(0)
    picture = np.zeros((60, 60, 3), np.uint8)
    picture[..., 1] = 160
    picture[20:40, 5:55] = (170, 20, 20)
    picture = np.clip(picture + rng.integers(-12, 12, picture.shape), 0, 255).astype(np.uint8)
    found = np.exp(-((np.mgrid[:60, :60][0] - 30) ** 2 + (np.mgrid[:60, :60][1] - 12) ** 2) / 200)
    box = grab_cut(foreground=0.97, background=0.05).box(found, picture)
    assert box is not None
    np.testing.assert_allclose(box, (5, 20, 55, 40), atol=2)


def test_the_graph_cut_of_a_flat_map_is_all_of_it() -> None:
    assert grab_cut().keep(np.ones((8, 8)), np.zeros((8, 8, 3), np.uint8)).all()


def test_the_mean_level_is_chosen_on_the_other_half_and_boxed_whole() -> None:
    """Two islands: around both at alpha 1 the box hits; each photo of either half is right by the other's choice."""
    names = [f"{i}.png" for i in range(40)]
    assert {is_tuning(name, 0.5) for name in names} == {True, False}
    mask = np.zeros((10, 10), np.float32)
    mask[2:8, 2:4] = mask[2:8, 7:8] = 1.0
    truth = Annotation(np.array([[2.0, 2.0, 8.0, 8.0]]))
    mapped = Predictions(names, np.stack([mask] * 40), np.full(40, np.nan), [truth] * 40)
    assert MeanThreshold().errors(mapped, np.zeros((40, 10, 10, 3), np.uint8)).tolist() == [0.0] * 40
    assert localization_errors(mapped).tolist() == [1.0] * 40  # the larger island alone
    errors, alphas = own_alpha_errors(mapped, (9.0, 0.5, 1.0), all_components=True)
    assert (errors.tolist(), alphas) == ([0.0] * 40, (0.5, 0.5))
