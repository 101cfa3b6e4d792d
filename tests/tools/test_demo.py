"""The whole walk, with fewer and smaller pictures."""

import json
import re

import cv2
import pytest

from casmap.data.free_photos import free_photos
from casmap.evaluation.blind import BLIND
from casmap.tools import demo
from casmap.training.recipes import QUICK

SMALL = QUICK.replace(size=32, batch=4, steps=4, first_steps=4, period=1, checkpoint_every=2, threads=1)


@pytest.fixture
def out(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "QUICK", SMALL)
    monkeypatch.setattr(demo, "PHOTOS", 40)
    monkeypatch.setattr(demo, "HELD_OUT_PHOTOS", 40)
    return tmp_path / "demo"


def test_demo_writes_maps_a_table_and_a_page_that_needs_nothing_else(out):
    found = demo.run_demo(out=out)
    assert (found.table, found.page, found.maps) == (out / "table.json", out / "report.html", out / "maps")
    table = {name: row["paper protocol"] for name, row in json.loads((out / "table.json").read_text()).items()}
    assert table["CASM"]["LE"]["value"] == found.results.central_crop[0].numbers["LE"].value
    assert list(table) == ["CASM", "Baseline", *BLIND]
    assert {"OM", "LE", "F1", "spread"} <= set(table["CASM"])
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


def test_a_second_start_of_the_demo_trains_nothing_again(out):
    demo.run_demo(out=out)
    before = {path: path.stat().st_mtime_ns for path in out.glob("*/mapping.safetensors")}
    demo.run_demo(out=out)
    assert len(before) == 2
    assert before == {path: path.stat().st_mtime_ns for path in out.glob("*/mapping.safetensors")}


def test_both_mappings_of_a_pair_start_from_the_same_classifier(out):
    demo.run_demo(out=out)
    casm, baseline = (json.loads((out / name / "recipe.json").read_text()) for name in ("casm", "baseline"))
    assert {key for key in casm if casm[key] != baseline[key]} == {"thinning"}
    assert "the classifier given" in (out / "baseline" / "run.log").read_text()
