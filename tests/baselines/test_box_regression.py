"""Box regression finds a planted object."""

from casmap.baselines.box_regression import learn


def test_it_finds_a_planted_object(planted, training_data) -> None:
    maps = learn(training_data)(planted.classifier, planted.images, planted.classes)
    assert planted.found(maps) > 0.65
    assert set(maps.unique().tolist()) <= {0.0, 1.0}
