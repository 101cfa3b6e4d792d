"""`casmap study`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from casmap.baselines import BASELINES
from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.data.write import write_photos
from casmap.evaluation.blind import BLIND

# ---------------------------------------------------------------------------------------------- table 1


TABLE1 = ("study", "table1", "scenes:photos=8,classes=4,size=64,seed=2", "--size", "64", "--only", "CAM")


def records_of(folder):
    return {row["row"]: row for row in json.loads((folder / "table1.json").read_text())["records"]}


def test_table1_prints_a_table_and_writes_its_files(casmap, mapping, knowing, tmp_path):
    done = casmap(*TABLE1, "--only", "gradient", "--mapping", mapping, "--classifier", knowing, "--out", "table")
    assert done.complained == ""
    assert done.code == 0
    name = mapping.parent.name
    rows = [f"{method}, the {told} class" for method in ("CAM", "gradient") for told in ("true", "predicted")]
    assert set(records_of(tmp_path / "table")) == {name, *rows, *BLIND}
    assert "8 photos" in done.said
    for file in ("table1.csv", "table1.md", "table1.html"):
        assert (tmp_path / "table" / file).stat().st_size > 500
    assert str(Path("table") / "table1.html") in done.said


@pytest.mark.parametrize("width", [80, 200])
def test_table1_fits_the_terminal(mapping, knowing, tmp_path, environment, width):
    """A narrow terminal gets fewer columns, and none is truncated."""
    command = [sys.executable, "-m", "casmap", *TABLE1, "--mapping", mapping, "--classifier", knowing, "--out", "table"]
    environment = environment | {"COLUMNS": str(width)}
    said = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True).stdout
    assert "…" not in said
    rows = records_of(tmp_path / "table")
    verdicts = [line.split() for line in said.splitlines() if line.split()[-1:] in (["worse"], ["tie"], ["better"])]
    assert len(verdicts) == (len(rows) - 1 if width == 80 else 0)
    for name, row in rows.items():
        le, first = f"{100 * row['LE, alpha 1']:.1f}", name.split()[0]
        if width == 80 and "it is" in row:
            assert any(words[0] == first and le in words and words[-1] == row["it is"] for words in verdicts)
        if width == 200:
            assert any(first.strip(",") in line and le in line for line in said.splitlines() if line.startswith("│"))
    assert ("LE, authors'" in said.replace("\n", "")) == (width == 200)


@pytest.mark.parametrize("name", ["Excitation Backprop", "excitation-backprop", "EXCITATION BACKPROP"])
def test_table1_knows_baselines_by_either_name(casmap, mapping, knowing, tmp_path, name):
    done = casmap(*TABLE1[:-1], name, "--mapping", mapping, "--classifier", knowing, "--out", "table")
    assert done.code == 0
    assert "excitation backprop, the true class" in records_of(tmp_path / "table")


def test_the_help_of_table1_names_all_baselines_without_torch(fresh):
    start = "import sys\ntry:\n from casmap.cli.main import main; main()\nfinally: print('torch' in sys.modules)"
    done = fresh("study", "table1", "--help", start=start)
    assert done.code == 0
    assert done.said.split()[-1] == "False"
    words = "".join(done.said.replace("│", " ").split())
    for name in BASELINES:
        assert name in words


def test_table1_measures_the_files_of_scenes_as_the_scenes(casmap, mapping, knowing, tmp_path):
    """Evaluation uses held-out scenes: the files are written with their seed."""
    write_photos(Scenes(classes=4, photos=8, size=64, seed=2 + HELD_OUT), tmp_path / "files")
    rest = ("--mapping", mapping, "--classifier", knowing, "--out")
    assert casmap(*TABLE1, *rest, "drawn").code == 0
    files_of = ("study", "table1", "files/photos", "--masks", "files/masks", "--size", "64", "--only", "CAM")
    assert casmap(*files_of, *rest, "read").code == 0
    drawn, read = (records_of(tmp_path / name) for name in ("drawn", "read"))
    assert set(drawn) == set(read)
    for name in drawn:
        for key in ("own alphas", "LE, alpha 1", "LE, own alpha"):
            assert drawn[name][key] == read[name][key]
        assert drawn[name]["mask IoU"] == pytest.approx(read[name]["mask IoU"])


def test_table1_refuses_a_classifier_of_other_classes(casmap, mapping, classifier, tmp_path, files):
    done = casmap(*TABLE1, "--mapping", mapping, "--classifier", classifier, "--out", "table")
    assert str(classifier) in done.sentence()
    assert "4 classes" in done.sentence()
    assert files(tmp_path) == []


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--classifier", "nowhere.safetensors"], "nowhere.safetensors"),
        (["--classifier", "resnet5000"], "resnet5000"),
        ([], "lite0"),  # knows ImageNet's classes
        (["--boxes", "nowhere.csv"], "scenes have their own annotations"),
        (["--only", "CAMEL", "--unseen"], "no baseline 'camel'"),
        (["--train", "nowhere", "--unseen"], "nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_table1_refuses_what_it_cannot_measure(casmap, mapping, tmp_path, options, word, files):
    assert word in casmap(*TABLE1, "--mapping", mapping, *options).sentence()
    assert files(tmp_path) == []


def test_table1_refuses_a_missing_mapping(casmap, knowing):
    assert "nowhere" in casmap(*TABLE1, "--mapping", "nowhere", "--classifier", knowing).sentence()


# ---------------------------------------------------------------------------------------------- the paper's others

SCENES = "scenes:classes=20,photos={},size=32"
SMALL = "recipe = 'quick'\nsize = 32\nsteps = 2\nfirst_steps = 2\nbatch = 4\nthreads = 1\n"


@pytest.fixture
def small(tmp_path):
    """Options of a study that takes seconds."""
    (tmp_path / "small.toml").write_text(SMALL)
    return [SCENES.format(40), "--test", SCENES.format(20), "--recipe", "small.toml", "--out", "studies"]


def test_a_study_writes_its_files_and_other_options_are_refused(casmap, small, tmp_path):
    done = casmap("study", "statistics", *small)
    assert done.code == 0, done.complained
    folder = tmp_path / "studies" / "statistics"
    assert {f"statistics.{ending}" for ending in ("csv", "md", "json", "html")} <= {
        path.name for path in folder.iterdir()
    }
    before = {path: path.read_bytes() for path in (tmp_path / "studies").rglob("*.*")}
    sentence = casmap("study", "statistics", *small, "--seed", "3").sentence()
    assert "was started with recipe.seed = 0, not 3" in sentence
    assert {path: path.read_bytes() for path in (tmp_path / "studies").rglob("*.*")} == before  # nothing is trained
    assert casmap("study", "statistics", *small).code == 0
    assert (folder / "statistics.json").read_bytes() == before[folder / "statistics.json"]


def test_studies_of_one_folder_share_their_trainings_and_a_report_gathers_them(casmap, small, tmp_path):
    assert casmap("study", "statistics", *small).code == 0
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("studies/trainings/*/mapping.safetensors")}
    assert len(trained) == 2
    assert casmap("study", "figure2", *small).code == 0
    assert len(list(tmp_path.glob("studies/trainings/*/mapping.safetensors"))) == 3  # L is new
    assert {path: path.stat().st_mtime_ns for path in trained} == trained
    assert casmap("study", "figure2", *small, "--classes", "2").sentence()  # two photos of a class fill no row
    done = casmap("study", "report", "studies")
    assert done.code == 0, done.complained
    assert "of the paper's conclusions" in done.said
    assert (tmp_path / "studies" / "report.html").stat().st_size > 10_000


def test_given_mappings_are_used_and_nothing_is_trained(casmap, mapping, tmp_path):
    photos = ["scenes:classes=4,photos=20,size=64", "--mapping", mapping, "--out", "studies"]
    for name in ("statistics", "figure2"):
        done = casmap("study", name, *photos)
        assert done.code == 0, done.complained
    assert not (tmp_path / "studies" / "trainings").exists()
    assert "Name the classifiers to test" in casmap("study", "figure3", *photos).sentence()


def test_figure3_uses_classifiers_of_casmap_classifier(casmap, mapping, tmp_path):
    small = ["--recipe", "quick", "--size", "32", "--first-steps", "2", "--batch", "4", "--threads", "1"]
    scenes = "scenes:classes=4,photos=20,size=64"
    for seed in range(2):
        done = casmap("classifier", scenes, *small, "--seed", str(seed), "--out", f"c-{seed}")
        assert done.code == 0, done.complained
    named = [f"--classifier=c-{seed}/classifier.safetensors" for seed in range(2)]
    done = casmap("study", "figure3", scenes, "--mapping", mapping, *named, "--out", "studies")
    assert done.code == 0, done.complained
    content = json.loads((tmp_path / "studies" / "figure3" / "figure3.json").read_text())
    assert {record["classifier"] for record in content["records"]} == {"c-0", "c-1"}
    assert "already holds a run" in casmap("classifier", scenes, *small, "--out", "c-0").sentence()


def test_length_measures_each_snapshot(casmap, tmp_path):
    (tmp_path / "small.toml").write_text(SMALL)
    scenes = "scenes:classes=4,photos={},size=32"
    options = [scenes.format(24), "--test", scenes.format(12), "--recipe", "small.toml", "--out", "studies"]
    done = casmap("study", "length", *options, "--thinning", "F", "--snapshot", "1", "--snapshot", "2")
    assert done.code == 0, done.complained
    content = json.loads((tmp_path / "studies" / "length" / "length.json").read_text())
    assert [(record["thinning"], record["steps"]) for record in content["records"]] == [("F", 1), ("F", 2)]
    assert (tmp_path / "studies" / "length" / "length.png").stat().st_size > 10_000
    assert "no thinning 'M'" in casmap("study", "length", *options, "--thinning", "M").sentence()
    assert "erase" in casmap("study", "length", *options, "--erase", "photos").sentence()


@pytest.mark.parametrize("name", ["table2", "table3", "seeds", "fewshot", "length", "statistics", "figure2", "figure3"])
def test_a_dry_run_of_the_paper_prints_its_cost_and_writes_nothing(casmap, files, tmp_path, name):
    done = casmap("study", name, "--paper", "--dry-run")
    assert done.code == 0, done.complained
    for word in ("runs", "Algorithm 1", "disk", "memory", "total"):
        assert word in done.said
    assert files(tmp_path) == []


def test_a_dry_run_counts_the_papers_steps_and_names_its_classifiers(casmap, mapping):
    said = casmap("study", "table2", "--paper", "--dry-run").said
    assert said.count("140,070") == 11
    assert "1,540,770" in said
    assert casmap("study", "figure2", "--paper", "--dry-run").said.count("140,070") == 3
    said = casmap("study", "figure3", "--paper", "--dry-run").said
    for name in ("densenet121", "resnet152", "vgg19_bn"):
        assert f"{name}.tv_in1k" in said
    assert "No training is needed" in casmap("study", "statistics", "--mapping", mapping, "--dry-run").said


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--quick", "--paper"], "Choose one of --quick, --paper and --recipe"),
        (["--paper"], "--paper needs ImageNet"),
        (["nowhere"], "nowhere"),
        (["nowhere", "--quick"], "--quick uses scenes"),
        (["scenes:photos=nine"], "photos"),
        (["--recipe", "nowhere.toml"], "nowhere.toml"),
        (["scenes:classes=3,photos=9,size=32"], "3 are too few"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_invalid_options_of_a_study_are_one_line_errors(casmap, tmp_path, options, word):
    assert word in casmap("study", "table3", *options, "--out", "studies").sentence()


def test_a_report_without_studies_is_a_one_line_error(casmap):
    assert "no finished study in nowhere" in casmap("study", "report", "nowhere").sentence()


def test_figure1_draws_any_backbone_and_refuses_unknown_ones(casmap, tmp_path):
    assert casmap("study", "figure1", "--backbone", "test_resnet", "--size", "64", "--out", "studies").code == 0
    assert (tmp_path / "studies" / "figure1" / "figure1.png").stat().st_size > 10_000
    assert "resnet5000" in casmap("study", "figure1", "--backbone", "resnet5000", "--out", "other").sentence()
