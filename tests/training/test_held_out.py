"""Photos that are held out, and the verdict that is measured on them."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import casmap
from casmap.cli.train_commands import FAILED
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.evaluation.verdict import Judgement
from casmap.inference.mapper import SaliencyMapper
from casmap.models.files import load_mapping, save_mapping
from casmap.tools.export import export_onnx
from casmap.training.held_out import FEWEST, held_out_indices, hold_out, read_verdict
from casmap.training.start import train

TINY = {"recipe": "quick", "size": 32, "batch": 8, "steps": 2, "first_steps": 2, "device": "cpu"}
LABELS = st.lists(st.integers(0, 4), min_size=5, max_size=200).map(lambda found: np.array(sorted(found)))


@given(LABELS, st.floats(0.01, 0.5), st.integers(0, 9))
def test_each_class_gives_its_share_and_keeps_a_photo(labels, share, seed) -> None:
    chosen = held_out_indices(labels, share, seed)
    assert len(np.unique(chosen)) == len(chosen) <= round(share * len(labels))
    left = np.delete(labels, chosen)
    assert set(left) == set(labels)
    for label in set(labels):
        many = (labels == label).sum()
        assert abs((labels[chosen] == label).sum() - share * many) < 2
    assert chosen.tolist() == held_out_indices(labels, share, seed).tolist()


def test_another_seed_holds_out_other_photos() -> None:
    labels = np.repeat(np.arange(3), 40)
    assert held_out_indices(labels, 0.1, 0).tolist() != held_out_indices(labels, 0.1, 1).tolist()


def test_training_photos_and_held_out_ones_are_all_photos(tmp_path, make_folder) -> None:
    photos = PhotoFolder(make_folder(tmp_path / "photos", each=40))
    kept, aside = hold_out(photos, str(tmp_path), 0.1, seed=0)
    assert len(aside) == 12
    assert sorted(kept.names + aside.names) == sorted(photos.names)
    assert np.bincount(aside.labels).tolist() == [4, 4, 4]
    assert kept.classes == photos.classes


def test_few_photos_and_a_share_of_0_hold_nothing_out(tmp_path, make_folder) -> None:
    photos = PhotoFolder(make_folder(tmp_path / "photos"))
    assert round(0.1 * len(photos)) < FEWEST
    for share in (0.1, 0.0):
        assert hold_out(photos, str(tmp_path), share, seed=0) == (photos, None)


def test_scenes_stay_whole_and_others_are_measured() -> None:
    data = "scenes:classes=4,photos=32,size=48"
    scenes = Scenes(classes=4, photos=32, size=48)
    kept, aside = hold_out(scenes, data, 0.1, seed=0)
    assert kept is scenes
    assert not set(aside.names) & set(scenes.names)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder, random = tmp_path_factory.mktemp("judged"), np.random.default_rng(0)
    import PIL.Image

    for name in ("ant", "bee"):
        (folder / "photos" / name).mkdir(parents=True)
        for number in range(60):
            image = random.integers(0, 256, (48, 48, 3), dtype=np.uint8)
            PIL.Image.fromarray(image).save(folder / "photos" / name / f"{number}.png")
    return train(folder / "photos", out=folder / "run", **TINY), folder


def test_a_run_cut_short_is_not_good(casmap, trained) -> None:
    result, folder = trained
    assert result.verdict != "good"
    assert json.loads((folder / "run" / "summary.json").read_text())["verdict"] == result.verdict
    done = casmap("train", folder / "photos", "--out", folder / "run", "--resume")
    assert done.code == (FAILED if result.verdict == "failed" else 0)
    assert result.measured["photos"] == 12
    assert result.measured["held out"]
    assert any("only 2 steps" in reason for reason in result.reasons)
    saved = json.loads((folder / "run" / "photos.json").read_text())
    assert saved["photos"] == 108
    assert json.loads((folder / "run" / "recipe.json").read_text())["held_out"] == 0.1


def test_the_summary_holds_everything(trained) -> None:
    result, folder = trained
    summary = json.loads((folder / "run" / "summary.json").read_text())
    assert (summary["verdict"], tuple(summary["reasons"])) == (result.verdict, result.reasons)
    assert summary["gain"].keys() == {"centred", "random", "another photo's"}
    assert summary["training"]["steps"] == 2
    assert summary["recipe"]["held_out"] == 0.1
    assert summary["photos"] == 12
    assert summary["agreement with the shipped mapping"]["photos"] == 12
    assert summary["estimated seconds"] > 0


def test_the_verdict_is_in_the_mapping_and_in_its_export(trained, tmp_path) -> None:
    result, _ = trained
    network, about = load_mapping(result.mapping)
    judged = read_verdict(about)
    assert judged.verdict == result.verdict
    assert judged.reasons == result.reasons
    export_onnx(network, about, tmp_path / "mapping.onnx")
    for path in (result.mapping, tmp_path / "mapping.onnx"):
        assert judged.verdict in SaliencyMapper.load(path).caution


def test_a_run_that_is_resumed_does_not_measure_again(trained, recorder) -> None:
    result, folder = trained
    before = result.mapping.read_bytes()
    again = train(folder / "photos", out=folder / "run", resume=True, reporter=recorder)
    assert (again.verdict, again.reasons, again.measured) == (result.verdict, result.reasons, result.measured)
    assert result.mapping.read_bytes() == before
    assert "Measuring" not in recorder.text


def test_a_run_killed_before_its_verdict_gets_the_same(trained, tmp_path) -> None:
    import shutil

    result, folder = trained
    shutil.copytree(folder / "run", tmp_path / "run")
    network, about = load_mapping(result.mapping)
    del about["verdict"]
    save_mapping(tmp_path / "run" / "mapping.safetensors", network, about)
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    (tmp_path / "run" / "summary.json").unlink()
    train(folder / "photos", out=tmp_path / "run", resume=True, minutes=5)  # minutes: as in the first command
    again = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert (again["verdict"], again["reasons"]) == (summary["verdict"], summary["reasons"])
    assert (tmp_path / "run" / "mapping.safetensors").read_bytes() == result.mapping.read_bytes()


def test_with_a_share_of_0_nothing_is_measured(tmp_path, make_folder, recorder) -> None:
    result = train(
        make_folder(tmp_path / "photos"), out=tmp_path / "run", held_out=0.0, reporter=recorder, **TINY
    )  # fmt: skip
    assert result.measured == {}
    assert any("only 2 steps" in reason for reason in result.reasons)
    assert result.verdict != "good"
    assert "Measuring" not in recorder.text
    assert SaliencyMapper.load(result.mapping).caution is None


def test_empty_masks_end_with_3_and_extract_repeats_it(casmap, trained, tmp_path) -> None:
    _, folder = trained
    empty = TINY | {"steps": 20, "lambda_r": 1e6, "mapping_lr": 10}  # any mask costs more than it can gain
    words = [str(word) for name, value in empty.items() for word in (f"--{name.replace('_', '-')}", value)]
    done = casmap("train", folder / "photos", "--out", "run", *words)
    assert done.code == 3
    assert done.complained.startswith("casmap: The training failed: ")
    assert "they mark almost nothing" in done.said
    assert "Held out for the verdict (--held-out): 12 photos; for training: 108." in done.said
    done = casmap("extract", folder / "photos" / "ant", "--mapping", tmp_path / "run" / "mapping.safetensors")
    assert done.code == 0
    assert "This mapping has the verdict failed: " in " ".join(done.said.split())


@pytest.mark.parametrize("damaged", [None, 3, {}, {"verdict": "perfect"}, {"verdict": ["good"]}])
def test_metadata_without_a_verdict_have_none(damaged) -> None:
    assert read_verdict({"verdict": damaged}) is None
    assert SaliencyMapper(casmap.load().network, 64, {"verdict": damaged}).caution is None


def test_a_verdict_survives_json() -> None:
    judged = Judgement("doubtful", ("It is weak.",), {"photos": 3})
    assert read_verdict({"verdict": json.loads(json.dumps(judged.to_json()))}) == judged
