"""The studies from end to end, with fewer and smaller pictures."""

import json
import re

import cv2
import numpy as np
import pytest
from rich.console import Console

from casmap.data.free_photos import free_photos
from casmap.paper import scenes_evidence as evidence
from casmap.paper import twins
from casmap.tools import demo
from casmap.training.recipes import QUICK

SMALL = QUICK.replace(size=32, batch=4, steps=4, first_steps=4, period=1, checkpoint_every=2, threads=1)


@pytest.fixture
def console(tmp_path):
    with open(tmp_path / "console.txt", "w") as file:
        yield Console(file=file, width=160)


def shrink(monkeypatch, study):
    monkeypatch.setattr(study, "QUICK", SMALL)
    monkeypatch.setattr(study, "PHOTOS", 40)
    monkeypatch.setattr(study, "HELD_OUT_PHOTOS", 40)


def test_demo_writes_maps_a_table_and_a_page_that_needs_nothing_else(tmp_path, monkeypatch, console):
    shrink(monkeypatch, demo)
    out = tmp_path / "demo"
    demo.run_demo(out, 0, console)
    table = json.loads((out / "table.json").read_text())
    assert list(table) == ["CASM", "Baseline", "centre box", "whole picture"]
    assert {"OM", "LE", "F1", "MaxBoxAccV2", "PxAP", "spread"} <= set(table["CASM"])
    assert "OM" not in table["centre box"]
    page = (out / "report.html").read_text()
    assert page.count("data:image/png") == 3
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    photographs = [json.loads(line) for line in (out / "maps" / "photos" / "boxes.jsonl").read_text().splitlines()]
    assert len(photographs) == len(free_photos())
    assert cv2.imread(str(out / "photographs.png")).shape == (5 * 160, len(photographs) * 160, 3)
    for name in ("casm", "baseline"):
        assert len((out / "maps" / name / "boxes.jsonl").read_text().splitlines()) == demo.SHOWN
        assert len(list((out / "maps" / name).glob("*-inpainted.png"))) == demo.SHOWN


def test_a_second_start_of_the_demo_trains_nothing_again(tmp_path, monkeypatch, console):
    shrink(monkeypatch, demo)
    out = tmp_path / "demo"
    demo.run_demo(out, 0, console)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/mapping.safetensors")}
    demo.run_demo(out, 0, console)
    assert len(before) == 2
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/mapping.safetensors")}


def test_both_mappings_of_a_pair_start_from_the_same_classifier(tmp_path, monkeypatch, console):
    shrink(monkeypatch, demo)
    out = tmp_path / "demo"
    demo.run_demo(out, 0, console)
    casm, baseline = (json.loads((out / name / "recipe.json").read_text()) for name in ("casm", "baseline"))
    assert {key for key in casm if casm[key] != baseline[key]} == {"thinning"}
    assert "the classifier given" in (out / "baseline" / "run.log").read_text()


def test_the_evidence_study_pairs_photos_and_says_every_seed(tmp_path, monkeypatch, console):
    shrink(monkeypatch, evidence)
    result = evidence.run_evidence(tmp_path / "evidence", [1, 2], console)
    assert result == json.loads((tmp_path / "evidence" / "evidence.json").read_text())
    casm, baseline = result["systems"]["CASM"], result["systems"]["Baseline"]
    assert len(casm["LE"]) == 2
    mean, low, high = result["CASM - Baseline"]["LE"]
    assert low <= mean <= high
    assert mean == pytest.approx(np.mean(casm["LE"]) - np.mean(baseline["LE"]))


def test_the_twins_study_measures_each_half_for_three_mappings(tmp_path, monkeypatch, console):
    shrink(monkeypatch, twins)
    result = twins.run_twins(tmp_path / "twins", 1, console)
    for name in ("CASM", "Baseline", "untrained"):
        for half in ("left", "right"):
            mean, low, high = result[name][half]
            assert 0 <= low <= mean <= high <= 1
    assert (tmp_path / "twins" / "twins.html").read_text().count("data:image/png") == 3
