"""The fidelity of mappings to a judge, from files and from the command line."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.evaluation.fidelity import FIDELITY_MEASURES, POINTING, measure_fidelity
from casmap.evaluation.table import system_of
from casmap.inference.components import Threshold
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.files import save_classifier
from casmap.reporting import Reporter
from casmap.tools.classifiers import open_judge
from casmap.tools.judged import measure_judged

SIZE = 32
CLASSES = [f"class-{number:02d}" for number in range(4)]
SYSTEMS = ["centre Gaussian", "random blobs"]


@pytest.fixture(scope="module")
def judging(tmp_path_factory):
    """The file of a classifier with random weights."""
    torch.manual_seed(1)
    path = tmp_path_factory.mktemp("judge") / "classifier.safetensors"
    save_classifier(path, Classifier("test_resnet", 4), CLASSES, {"origin": "Nobody trained it."})
    return path


def test_each_mapper_is_measured_beside_maps_that_know_nothing(mapping, judging):
    scenes, judge = Scenes(classes=4, photos=6, size=SIZE, seed=1), open_judge(str(judging))
    mapper = SaliencyMapper.load(mapping)
    rows = measure_judged(scenes, {"mine": mapper}, judge, size=SIZE, most=4)
    assert [row.name for row in rows] == ["mine", *SYSTEMS]
    chosen = [0, 2, 3, 5]
    images = np.stack([scenes.image(index) for index in chosen])
    masks = system_of(mapper, scenes, mapper.edges)(images)[0]
    boxes = [scenes.annotation(index).boxes for index in chosen]
    expected = measure_fidelity("mine", masks, images, scenes.labels[chosen], judge, boxes, Threshold())
    assert rows[0].numbers == expected.numbers
    assert set(expected.numbers) == set(FIDELITY_MEASURES)


def test_the_judge_answers_as_the_classifier_of_the_file(judging):
    judge = open_judge(str(judging))
    assert (judge.name, list(judge.classes)) == (judging.parent.name, CLASSES)
    torch.manual_seed(1)
    classifier = Classifier("test_resnet", 4).eval()
    inputs = torch.randn(20, 3, SIZE, SIZE)
    with torch.no_grad():
        expected = classifier(inputs).log_softmax(dim=1)
    np.testing.assert_allclose(judge.log_probabilities(inputs.numpy()), expected, atol=1e-4)


def test_evaluate_and_check_measure_fidelity_when_asked(casmap, mapping, judging, tmp_path):
    spec = "scenes:photos=5,classes=4,size=32,seed=2"
    done = casmap("evaluate", spec, "--mapping", mapping, "--fidelity", judging, "--json", "all.json")
    assert done.code == 0
    assert "The judge" in done.said + done.complained
    assert "5 photos" in done.said.partition("Fidelity to")[2]
    numbers = json.loads((tmp_path / "all.json").read_text())
    for name in (mapping.parent.name, *SYSTEMS):
        assert set(numbers[name]["fidelity"]) == set(FIDELITY_MEASURES)
    done = casmap("evaluate", spec, "--mapping", mapping, "--fidelity", judging, "--size", 48, "--json", "48.json")
    assert done.code == 0
    found = json.loads((tmp_path / "48.json").read_text())[mapping.parent.name]["fidelity"]
    scenes, mappers = open_photos(spec, held_out=True), {"mine": SaliencyMapper.load(mapping)}
    (row, *_) = measure_judged(scenes, mappers, open_judge(str(judging)), size=48)
    assert found["ROAD"]["value"] == pytest.approx(row.numbers["ROAD"].value)
    done = casmap("check", spec, "--mapping", mapping, "--fidelity", judging, "--out", "trust")
    assert done.code == 0
    found = json.loads((tmp_path / "trust" / "check.json").read_text())["fidelity"]
    assert list(found) == ["the masks", *SYSTEMS]
    assert POINTING in found["the masks"]
    assert found["the masks"]["photos"] == 5
    assert "Fidelity to another classifier: 5 photos" in (tmp_path / "trust" / "check.html").read_text()


class Few(Scenes):
    """Scenes of which one has a box."""

    def annotation(self, index):
        return super().annotation(index) if index == 2 else None


def test_photos_without_a_box_are_judged_too_without_pointing_games(mapping, judging):
    few, judge = Few(classes=4, photos=6, size=SIZE, seed=1), open_judge(str(judging))
    (row, *_) = measure_judged(few, {"mine": SaliencyMapper.load(mapping)}, judge, size=SIZE)
    assert POINTING not in row.numbers
    assert {len(values) for values in row.values.values()} == {6}


def test_a_judge_of_the_mappings_own_architecture_is_named(mapping, judging):
    scenes, mapper = Scenes(classes=4, photos=3, size=SIZE), SaliencyMapper.load(mapping)
    warnings, reporter = [], Reporter()
    reporter.warning = warnings.append
    for backbone in ("another", mapper.about["backbone"]):
        assert warnings == []
        judge = replace(open_judge(str(judging)), backbone=backbone)
        measure_judged(scenes, {"mine": mapper}, judge, size=SIZE, reporter=reporter)
    (warning,) = warnings
    assert "as is the classifier of mine" in warning
