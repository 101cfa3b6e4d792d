"""The command line: real processes, their output and exit codes."""

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
from typer.main import get_command

from casmap import UserError, __version__, train
from casmap.cli.main import app
from casmap.cli.train_commands import how_to_continue
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.evaluation.blind import BLIND
from casmap.evaluation.evaluate import localization_errors, map_photos
from casmap.evaluation.table import system_of
from casmap.inference.mapper import SaliencyMapper
from casmap.install_hint import install_hint
from casmap.training.recipes import Recipe

START = "from casmap.cli.main import main; main()"


# ---------------------------------------------------------------------------------------------- fixtures


def photo(path, height=40, width=48, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    coarse = np.random.default_rng(seed).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    PIL.Image.fromarray(coarse).resize((width, height)).save(path)
    return path


@pytest.fixture
def pets(tmp_path):
    """Two classes of four photos each."""
    for number in range(8):
        photo(tmp_path / "pets" / ("cat", "dog")[number % 2] / f"{number}.png", seed=number)
    return tmp_path / "pets"


SMALL = {"size": 32, "steps": 2, "first-steps": 2, "batch": 4, "epoch-share": 1, "threads": 1}
SHORT = [word for name, value in SMALL.items() for word in (f"--{name}", str(value))] + ["--held-out", "0"]
QUICK = ["--recipe", "quick", *SHORT, "--out", "run"]


# ---------------------------------------------------------------------------------------------- help


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["train", "extract", "evaluate", "scenes", "demo", "study"]),
        (["train", "--help"], ["--resume", "--classifier", "--out", "--backbone", "--thinning", "--area"]),
    ],
    ids=" ".join,
)
def test_help_works_in_a_fresh_process(arguments, words, fresh):
    done = fresh(*arguments)
    assert done.code == 0
    assert done.complained == ""
    for word in words:
        assert word in done.said


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("train", [f"--{name.replace('_', '-')}"[:20] for name in vars(Recipe())]),
        ("extract", ["--mapping", "--everything", "--alpha", "--batch", "--device"]),
        ("evaluate", ["--mapping", "--boxes", "--masks", "--area", "--json"]),
        ("scenes", ["--options"]),
        ("demo", ["--out", "--seed"]),
        ("export", ["--out", "--to", "--measure"]),
        ("study", ["evidence", "twins", "table1"]),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_help_of_a_command_names_all_its_options(casmap, command, words):
    done = casmap(command, "--help")
    assert done.code == 0
    for word in words:
        assert word in done.said, word


def test_the_command_line_loads_no_heavy_module_at_import(fresh):
    heavy = {"torch", "timm", "jinja2", "tensorboard", "numpy", "cv2", "PIL"}
    start = f"import sys, casmap.cli.main; print(*sorted({heavy!r} & set(sys.modules)))"
    done = fresh(start=start)
    assert done.code == 0
    assert done.said.strip() == ""


def test_the_library_does_not_load_torch_at_import(fresh):
    assert fresh(start="import sys, casmap; print('torch' in sys.modules)").said.strip() == "False"


def test_the_installed_script_and_the_module_are_the_same_command(environment):
    script = Path(sys.executable).with_name("casmap")
    for command in ([script], [sys.executable, "-m", "casmap"]):
        done = subprocess.run([*command, "--version"], capture_output=True, text=True, env=environment)
        assert done.returncode == 0
        assert done.stdout.strip() == f"casmap {__version__}"


PANELS = {
    "Use": ["extract", "annotate", "check", "correct", "serve", "page", "evaluate"],
    "Train": ["train", "classifier", "export"],
    "Data": ["scenes", "data"],
    "Research": ["demo", "study"],
    "Help": ["doctor"],
}


def test_help_groups_the_commands(fresh):
    found, panel = {}, ""
    for line in fresh("--help").said.splitlines():
        if title := re.match(r"╭─ (\w+) ─", line):
            panel = title[1]
        elif command := re.match(r"│ (\w+) ", line):
            found.setdefault(panel, []).append(command[1])
    assert found == PANELS


def test_the_first_line_of_every_help_is_a_sentence():
    todo = [("casmap", get_command(app))]
    while todo:
        name, command = todo.pop()
        todo += [(f"{name} {word}", one) for word, one in getattr(command, "commands", {}).items()]
        first = command.help.splitlines()[0]
        assert re.fullmatch(r"[A-Z].*\.", first), (name, first)
        assert len(first) <= 115, (name, first)


def test_without_a_command_help_is_printed(fresh):
    assert "extract" in fresh().said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("extract", "Missing argument 'PHOTOS'. See casmap extract --help."),
        ("extract a.jpg --threshold 2", "--threshold must be at most 1, not 2."),
        ("extract a.jpg --threshold -1", "--threshold must be at least 0, not -1."),
        ("extract a.jpg --alpha much", "--alpha must be a number, not much."),
        ("extract a.jpg --batch 1.5", "--batch must be a whole number, not 1.5."),
        ("extract a.jpg --edges fuzzy", "--edges must be one of sharp, smooth, not fuzzy."),
        ("extract a.jpg --window 40", "Option '--window' requires 2 arguments."),
        ("extract a.jpg --workers 2", "--address and --workers need --ray: add --ray, or remove them."),
        ("annotate a.jpg --format pdf", "yolo, yolo-seg, not pdf."),
        ("annotate a.jpg", "Missing option '--format'. Choose from: coco, csv, cvat,"),
        ("train pets --steps ten", "--steps must be a whole number, not ten."),
        ("train pets more", "(more). See casmap train --help."),
        ("serve --port 99999", "--port must be at most 65535, not 99999."),
        ("study evidence --seeds one", "--seeds must be a whole number, not one."),
        ("data chek", "No such command 'chek'"),
        ("extract a.jpg --treshold 1", "No such option: --treshold"),
        ("--versio", "No such option: --versio"),
    ],
)
def test_a_wrong_argument_is_one_sentence_with_its_value(casmap, arguments, said):
    sentence = casmap(*arguments.split()).sentence()
    assert said in sentence
    assert "Input should" not in sentence


@pytest.mark.parametrize(
    ("command", "module", "named", "extras"),
    [
        ("serve --no-browser", "fastapi", "casmap serve needs the extra 'serve'", ["serve"]),
        ("serve --no-browser", "anyio", "casmap serve needs the extra 'serve'", ["serve"]),
        ("train pets", "torch", "casmap train needs the extras 'train' and 'offline'", ["train", "offline"]),
        ("train pets", "tensorboard", "casmap train needs the extras 'train' and 'offline'", ["train", "offline"]),
        ("classifier pets", "timm", "casmap classifier needs the extras 'train' and 'offline'", ["train", "offline"]),
        ("export {mapping}", "onnx", "casmap export needs the extra 'train'", ["train"]),
        ("check {mapping} pets", "jinja2", "casmap check needs the extra 'train'", ["train"]),
        ("correct {mapping} pets", "torch", "casmap correct needs the extra 'train'", ["train"]),
        ("demo", "torch", "casmap demo needs the extras 'train' and 'demo'", ["train", "demo"]),
        ("study table2", "torch", "casmap study table2 needs the extra 'studies'", ["studies"]),
        ("study figure1", "matplotlib", "casmap study figure1 needs the extra 'studies'", ["studies"]),
        ("study table1 pets", "torch", "casmap study table1 needs the extra 'peers'", ["peers"]),
        ("data shard pets shards", "webdataset", "casmap data shard needs the extra 'scale'", ["scale"]),
        ("extract pets --ray", "ray", "casmap extract --ray needs the extra 'scale'", ["scale"]),
        ("extract pets --mapping {mapping}", "torch", "casmap extract with a .safetensors mapping", ["train"]),
        (
            "evaluate scenes:photos=2,size=32 --mapping {mapping}",
            "torch",
            "casmap evaluate with a .safetensors mapping",
            ["train"],
        ),
        ("serve --mapping {mapping}", "torch", "casmap serve with a .safetensors mapping", ["serve", "train"]),
    ],
)
def test_a_missing_extra_is_named_by_the_command(pets, mapping, fresh, files, command, module, named, extras):
    start = f"import sys; sys.modules[{module!r}] = None; {START}"
    before = files(pets.parent)
    arguments = [word.format(mapping=mapping) for word in command.split()]
    error = fresh(*arguments, start=start, cwd=pets.parent).sentence()
    assert error.startswith(f"casmap: {named}")
    assert f"({module} is not installed): {install_hint(*extras)}." in error
    assert files(pets.parent) == before


def test_a_module_of_no_extra_is_an_error_of_casmap(fresh, pets):
    done = fresh("scenes", "out", start=f"import sys; sys.modules['casmap.data.write'] = None; {START}", cwd=pets)
    assert done.code == 1
    assert "ModuleNotFoundError" in done.complained


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_command_ends_with_one_sentence(tmp_path, environment, number):
    start = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {START}"
    arguments = ["scenes", str(tmp_path / "out"), "--options", "photos=1000000,size=32"]
    with subprocess.Popen(
        [sys.executable, "-c", start, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        while not (tmp_path / "out" / "photos").exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(number)
        _, complained = process.communicate()
    assert process.returncode == 128 + number
    assert not list(tmp_path.rglob(".*"))
    assert complained == b"Stopped.\n"


@pytest.mark.parametrize(
    ("options", "file", "expected", "left"),
    [
        (
            "--first-steps 100000",
            "tensorboard",
            "Stopped before the first checkpoint: nothing was kept. Run the same command to start again.",
            False,
        ),
        (
            "--checkpoint-every 1",
            "checkpoint.safetensors",
            "Stopped. The mapping so far is {run}/mapping-so-far.safetensors (verdict: not measured). To continue from "
            "the last checkpoint, run the same command with --resume.",
            True,
        ),
    ],
)
def test_a_stopped_training_prints_how_to_continue(tmp_path, environment, pets, options, file, expected, left):
    arguments = ["train", str(pets), *QUICK, "--steps", "100000", "--out", str(tmp_path / "run"), *options.split()]
    with subprocess.Popen(
        [sys.executable, "-c", START, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        while not (tmp_path / "run" / file).exists() and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        _, complained = process.communicate()
    assert process.returncode == 143
    assert complained == f"{expected.format(run=tmp_path / 'run')}\n".encode()
    assert (tmp_path / "run" / "recipe.json").exists() == left  # without it, the same command starts a new run
    assert not list((tmp_path / "run").glob(".*"))


def test_a_training_that_is_stopped_before_it_begins_has_nothing_to_resume(tmp_path):
    assert how_to_continue(tmp_path / "run").endswith("Run the same command to start again.")


def test_a_training_without_a_checkpoint_does_not_promise_to_continue(tmp_path):
    for name in ("recipe.json", "classifier.safetensors"):
        (tmp_path / name).touch()
    assert "There is no checkpoint yet" in how_to_continue(tmp_path)
    (tmp_path / "checkpoint.safetensors").touch()
    assert "continue from the last checkpoint" in how_to_continue(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        "train scenes:photos=256,classes=2,size=32 --recipe quick --first-steps 1 --steps 1 --size 2048 --batch 256",
        "evaluate scenes:photos=4,classes=4,size=32 --unseen --size 65536",
    ],
)
def test_too_little_memory_is_one_sentence(fresh, tmp_path, command, files):
    """A limit of 6 GB lets torch and ONNX Runtime start, but not allocate what these options ask for."""
    limited = f"import resource; resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30)); {START}"
    error = fresh(*command.split(), start=limited, cwd=tmp_path).sentence()
    assert "not enough memory: lower --batch or --size" in error
    assert files(tmp_path) == []


# ---------------------------------------------------------------------------------------------- scenes


def test_scenes_writes_the_requested_scenes(tmp_path, fresh):
    done = fresh("scenes", "out", "--options", "photos=6,classes=3,size=32,seed=4", cwd=tmp_path)
    assert done.code == 0
    assert "6 scenes" in done.said
    scenes = Scenes(classes=3, photos=6, size=32, seed=4)
    out = tmp_path / "out"
    photos = PhotoFolder(out / "photos", out / "boxes.csv", out / "masks")
    assert sorted(photos.names) == sorted(scenes.names)
    np.testing.assert_array_equal(photos.image(0), scenes.image(scenes.names.index(photos.names[0])))


@pytest.mark.parametrize("options", ["photos=many", "colour=red", "first_class=58,classes=40", "photos"])
def test_scenes_refuses_bad_options(casmap, tmp_path, options, files):
    casmap("scenes", "out", "--options", options).sentence()
    assert files(tmp_path) == []


def test_scenes_refuses_a_folder_that_is_not_empty(casmap, pets, files):
    before = files(pets)
    assert "not empty" in casmap("scenes", pets).sentence()
    assert files(pets) == before


def test_scenes_refuses_a_file(casmap, pets):
    assert "0.png" in casmap("scenes", pets / "cat" / "0.png").sentence()


# ---------------------------------------------------------------------------------------------- extract


def lines(out):
    return [json.loads(line) for line in (out / "boxes.jsonl").read_text().splitlines()]


def test_extract_takes_folders_files_and_patterns(casmap, pets, mapping, tmp_path, files):
    done = casmap("extract", "pets/cat", "pets/dog/1.png", "pets/dog/[37].png", "--mapping", mapping, "--out", "maps")
    assert done.code == 0
    assert done.complained == ""
    assert "7 maps in maps" in done.said
    found = lines(tmp_path / "maps")
    assert [line["name"] for line in found] == ["0", "2", "4", "6", "1", "3", "7"]
    assert len(files(tmp_path / "maps")) == 15
    mapper = SaliencyMapper.load(mapping)
    for line in found:
        assert line["folder"] == str(tmp_path / "pets")
        expected = mapper(tmp_path / "pets" / line["photo"]).to_dict()
        assert {**line, "area": None} == {"photo": line["photo"], "folder": line["folder"], **expected, "area": None}
        assert line["area"] == pytest.approx(expected["area"], abs=1e-3)
        for kind in ("mask.png", "overlay.jpg"):
            with PIL.Image.open(tmp_path / "maps" / f"{line['name']}-{kind}") as image:
                assert image.size == (line["width"], line["height"]) == (48, 40)


def test_extract_passes_its_options_on(casmap, pets, mapping, tmp_path, files):
    arguments = ["extract", "pets/cat/0.png", "--mapping", mapping, "--out", "all", "--everything", "--alpha", "0"]
    assert casmap(*arguments, "--batch", "1").code == 0
    kinds = ("cutout.png", "inpainted.png", "mask.png", "masked-in.png", "masked-out.png", "overlay.jpg")
    assert files(tmp_path / "all") == [*(f"0-{kind}" for kind in kinds), "boxes.jsonl"]
    assert lines(tmp_path / "all")[0]["box"] == [0, 0, 48, 40]
    arguments = ["extract", "pets/cat/0.png", "--mapping", mapping, "--out", "cut", "--cutout", "--no-overlay"]
    assert casmap(*arguments, "--edges", "smooth", "--threshold", "0").code == 0
    assert files(tmp_path / "cut") == ["0-cutout.png", "0-mask.png", "boxes.jsonl"]
    smooth = SaliencyMapper.load(mapping, edges="smooth")(tmp_path / "pets" / "cat" / "0.png")
    with PIL.Image.open(tmp_path / "cut" / "0-mask.png") as mask:
        assert abs(np.asarray(mask) / 255 - smooth.mask).max() <= 0.5 / 255 + 1e-5


def test_a_threshold_and_alpha_at_once_are_refused(casmap, pets, mapping):
    for command in (["extract"], ["annotate", "--format", "csv"]):
        done = casmap(*command, "pets", "--mapping", mapping, "--threshold", "0.5", "--alpha", "1")
        assert done.code == 2
        assert "exclude each other: give only one of them." in " ".join(done.complained.split())


def test_extract_counts_photos_that_are_below_the_threshold_everywhere(casmap, pets, mapping):
    done = casmap("extract", "pets/cat/0.png", "--mapping", mapping, "--threshold", "1")
    assert done.code == 0
    assert "No object found in 1 photo: lower --threshold" in " ".join(done.complained.split())


def test_extract_keeps_photos_of_the_same_name_apart(casmap, tmp_path, mapping):
    photo(tmp_path / "rome" / "1.png", 20, 30)
    photo(tmp_path / "oslo" / "1.png", 50, 40)
    assert casmap("extract", "rome", "oslo", "--mapping", mapping).code == 0
    sizes = {}
    for line in lines(tmp_path / "maps"):
        with PIL.Image.open(tmp_path / "maps" / f"{line['name']}-mask.png") as mask:
            sizes[line["photo"]] = mask.size
    assert sizes == {"rome/1.png": (30, 20), "oslo/1.png": (40, 50)}


@pytest.mark.parametrize(
    "name",
    [
        "broken.jpg",
        "cat [copy].jpg",
        ":smile:.png",
    ],
)
def test_extract_lists_unreadable_photos_and_continues(casmap, pets, mapping, tmp_path, name, files):
    (pets / "cat" / name).write_bytes(b"no photo")
    done = casmap("extract", "pets/cat", "--mapping", mapping)
    assert done.code == 1
    assert done.complained.count("\n") == 1
    assert f"pets/cat/{name}" in done.complained
    assert "4 maps" in done.said
    assert [line["name"] for line in lines(tmp_path / "maps")] == ["0", "2", "4", "6"]
    assert len(files(tmp_path / "maps")) == 9


def test_extract_fails_if_no_photo_can_be_read(casmap, pets, mapping, tmp_path, files):
    for path in (pets / "cat").iterdir():
        path.write_bytes(b"no photo")
    assert "pets/cat/0.png" in casmap("extract", "pets/cat", "--mapping", mapping).sentence()
    assert not (tmp_path / "maps").exists() or files(tmp_path / "maps") == []


@pytest.mark.parametrize("wrong", ["nowhere.safetensors", "pets/cat/0.png", "pets", "letter.txt"])
def test_extract_refuses_files_that_are_not_mappings(casmap, pets, tmp_path, wrong):
    (tmp_path / "letter.txt").write_text("Dear Kevin")
    assert wrong in casmap("extract", "pets", "--mapping", wrong).sentence()
    assert not (tmp_path / "maps").exists()


def test_extract_refuses_a_classifier_as_a_mapping(casmap, pets, classifier, tmp_path):
    assert "not a casmap mapping" in casmap("extract", "pets", "--mapping", classifier).sentence()
    assert not (tmp_path / "maps").exists()


@pytest.mark.parametrize("photos", ["empty", "nowhere.jpg", "*.jpg", "no [/where].jpg"])
def test_extract_refuses_missing_photos(casmap, mapping, tmp_path, photos, files):
    (tmp_path / "empty").mkdir()
    assert photos in casmap("extract", photos, "--mapping", mapping).sentence()
    assert files(tmp_path) == ["empty"]


@pytest.mark.parametrize("out", ["pets/cat/0.png", "pets/cat/0.png/maps"])
def test_extract_refuses_a_folder_it_cannot_write(casmap, pets, mapping, out, files):
    before = files(pets)
    assert "pets/cat/0.png" in casmap("extract", "pets", "--mapping", mapping, "--out", out).sentence()
    assert files(pets) == before


def test_extract_refuses_an_unknown_device(casmap, pets, mapping):
    assert "banana" in casmap("extract", "pets", "--mapping", mapping, "--device", "banana").sentence()


# ---------------------------------------------------------------------------------------------- evaluate


def test_evaluate_measures_generated_scenes(casmap, mapping, tmp_path):
    spec = "scenes:photos=8,classes=4,size=32,seed=2"
    done = casmap("evaluate", spec, "--mapping", mapping, "--area", "0.5", "--json", "numbers/all.json")
    assert done.code == 0
    assert done.complained == ""
    for word in ("8 photos", mapping.parent.name, "centre square", "whole photo", "LE", "F1", "evidence"):
        assert word in done.said
    assert "PxAP" not in done.said
    numbers = json.loads((tmp_path / "numbers" / "all.json").read_text())
    assert list(numbers) == [mapping.parent.name, *BLIND]
    assert {"OM", "LE", "LE at area", "evidence recall"} <= set(numbers[mapping.parent.name]["paper protocol"])
    assert "OM" not in numbers["whole photo"]["paper protocol"]
    for whole, crop, field, wsol in map(dict.values, numbers.values()):
        assert "MaxBoxAccV2" in wsol
        by_size = [crop.pop("by size"), whole.pop("by size")]
        assert {"LE", "F1", "boxes above IoU 0.75"} <= set(whole)
        assert set(field) == {"GT-known", "GT-known, threshold 0.5"}
        for sizes in by_size:
            assert all(1 <= group.pop("photos") <= 8 for group in sizes.values())
        grouped = [number for sizes in by_size for group in sizes.values() for number in group.values()]
        for number in (*whole.values(), *field.values(), *crop.values(), *grouped):
            assert number["low"] <= number["value"] <= number["high"]


def test_evaluate_prints_one_short_table_and_all_measures_with_all(casmap, mapping):
    command = ["evaluate", "scenes:photos=4,classes=4,size=32", "--mapping", mapping]
    short, everything = casmap(*command), casmap(*command, "--all")
    assert len(short.said.splitlines()) < 30 < len(everything.said.splitlines())
    assert "All measures: --all, or --json FILE." in short.said
    for word in ("PxAP", "GT-known", "Whole photo"):
        assert (word in everything.said) == (word not in short.said)


def test_evaluate_gives_the_same_errors_for_scenes_and_for_their_files(casmap, mapping, tmp_path):
    """The files of `casmap scenes`, with boxes or masks, give the errors of the scenes in memory."""
    from casmap.evaluation.table import compare

    options = "photos=8,classes=4,size=32,seed=2"
    assert casmap("scenes", "files", "--options", options).code == 0
    drawn = compare(Scenes(classes=4, photos=8, size=32, seed=2), {mapping.parent.name: SaliencyMapper.load(mapping)})
    for kind, path in (("--boxes", "files/boxes.csv"), ("--masks", "files/masks")):
        assert casmap("evaluate", "files/photos", kind, path, "--mapping", mapping, "--json", "all.json").code == 0
        numbers = json.loads((tmp_path / "all.json").read_text())
        for row in drawn.central_crop:
            found = numbers[row.name]["paper protocol"]
            assert found["LE"]["value"] == row.numbers["LE"].value
            assert numbers[row.name]["as extracted"]["LE"]["value"] == drawn[row.name].numbers["LE"].value
            assert found["F1"]["value"] == pytest.approx(row.numbers["F1"].value, abs=1e-5)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["pets", "--unseen"], "nothing to evaluate"),
        (["nowhere"], "nowhere"),
        (["scenes:colour=red"], "colour=red"),
        (["pets", "--boxes", "nowhere.csv"], "nowhere.csv"),
        (["pets", "--boxes", "pets/cat/0.png"], "0.png"),
        (["pets", "--masks", "nowhere"], "nowhere"),
        (["pets", "--boxes", "head.csv", "--unseen"], "in what was given (boxes from a CSV file)"),
    ],
    ids=" ".join,
)
def test_evaluate_refuses_what_it_cannot_measure(casmap, pets, mapping, arguments, word, files):
    (pets.parent / "head.csv").write_text("file,xmin,ymin,xmax,ymax\n")
    before = files(pets.parent)
    assert word in casmap("evaluate", *arguments, "--mapping", mapping, "--json", "all.json").sentence()
    assert files(pets.parent) == before


def test_evaluate_refuses_a_missing_mapping(casmap):
    assert "nowhere" in casmap("evaluate", "scenes:photos=2,size=32", "--mapping", "nowhere").sentence()


def test_evaluate_refuses_a_json_file_it_cannot_write(casmap, pets, mapping):
    where = pets / "cat" / "0.png" / "all.json"
    done = casmap("evaluate", "scenes:photos=4,classes=4,size=32", "--mapping", mapping, "--json", where)
    assert "0.png" in done.sentence()


# ---------------------------------------------------------------------------------------------- train


def test_train_then_extract_and_never_overwrite_a_run(casmap, pets, tmp_path):
    done = casmap("train", "pets", *QUICK)
    assert done.code == 0
    assert done.complained == ""
    assert "Next: casmap extract PHOTOS --mapping run/mapping.safetensors" in done.said
    assert casmap("extract", "pets/cat", "--mapping", "run/mapping.safetensors").code == 0
    assert len(lines(tmp_path / "maps")) == 4
    before = {path: (tmp_path / "run" / path).read_bytes() for path in ("mapping.safetensors", "recipe.json")}
    assert "--resume" in casmap("train", "pets", *QUICK).sentence()
    assert "seed" in casmap("train", "pets", *QUICK, "--seed", "5", "--resume").sentence()
    assert before == {path: (tmp_path / "run" / path).read_bytes() for path in before}


def test_train_says_that_it_failed_and_not_what_comes_next(casmap, pets):
    empty = ("--lambda-r", "1e6", "--mapping-lr", "10", "--steps", "20")  # any mask costs more than it can gain
    done = casmap("train", "pets", *QUICK, "--held-out", "0.1", *empty)
    assert done.code == 3
    assert "The training failed: do not use this mapping." in done.complained
    assert "Next:" not in done.said


def test_a_file_is_neither_a_data_set_nor_an_output_folder(casmap, pets, mapping):
    assert "0.png is a file: give the folder" in casmap("train", "pets/cat/0.png", *QUICK).sentence()
    done = casmap("extract", "pets", "--mapping", mapping, "--out", "pets/cat/0.png")
    assert "0.png is a file: give a folder to write to" in done.sentence()
    assert "0.png is a file: give a folder to write to" in casmap("demo", "--out", "pets/cat/0.png").sentence()


@pytest.mark.parametrize("data", ["nowhere", "no [photos] here", "no[/where]"])
def test_train_refuses_a_missing_folder(casmap, tmp_path, data, files):
    assert data in casmap("train", data, *QUICK).sentence()
    assert files(tmp_path) == []
    (tmp_path / "runs" / "casm").mkdir(parents=True)
    (tmp_path / "runs" / "casm" / "recipe.json").write_text("{}")  # a run in the default folder
    assert f"There is no folder {data}." in casmap("train", data).sentence()


def test_train_refuses_a_folder_without_photos_in_a_fresh_process_too(tmp_path, fresh, files):
    (tmp_path / "pets" / "cat").mkdir(parents=True)
    assert "no photos" in fresh("train", "pets", *QUICK, cwd=tmp_path).sentence()
    assert files(tmp_path) == ["pets", "pets/cat"]


def test_train_refuses_one_class(casmap, tmp_path):
    photo(tmp_path / "pets" / "cat" / "a.png")
    (tmp_path / "pets" / "dog").mkdir()
    assert "one class" in casmap("train", "pets", *QUICK).sentence()
    assert not (tmp_path / "run").exists()


def test_train_names_an_unreadable_photo(casmap, pets, tmp_path):
    (pets / "dog" / "3.png").write_bytes(b"no photo")
    assert "pets/dog/3.png" in casmap("train", "pets", *QUICK).sentence()
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--backbone", "resnet5000"], "resnet5000"),
        (["--thinning", "Q"], "'Q'"),
        (["--thinning", "L0"], "'L0'"),
        (["--area", "0"], "area"),
        (["--area", "0.3", "--lambda-r", "2"], "both"),
        (["--size", "8"], "size"),
        (["--steps", "0"], "steps"),
        (["--device", "banana"], "banana"),
        (["--recipe", "nowhere"], "nowhere"),
        (["--recipe", "bad.toml"], "bad.toml"),
        (["--recipe", "bad.yaml"], "bad.yaml"),
        (["--recipe", "unknown.toml"], "In the recipe unknown.toml: There is no option 'colour'"),
        (["--recipe", "typed.yaml"], "In the recipe typed.yaml: --steps must be a whole number, not 'ten'."),
        (["--classifier", "nowhere"], "nowhere"),
        (["--classifier", "bad.toml"], "bad.toml"),
        (["--weights", "nowhere"], "nowhere"),
        (["--weights", "bad.toml"], "bad.toml"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_train_refuses_bad_options(casmap, pets, options, word, files):
    folder = pets.parent
    (folder / "bad.toml").write_text("steps = [\n")
    (folder / "bad.yaml").write_text("steps: [1\nsize: }")
    (folder / "unknown.toml").write_text("colour = 'red'\n")
    (folder / "typed.yaml").write_text("steps: ten\n")
    before = files(folder)
    assert word in casmap("train", "pets", *QUICK, *options).sentence()
    assert files(folder) == before


@pytest.mark.parametrize("option", ["classifier-lr", "mapping-lr", "momentum", "first-lr", "first-decay"])
def test_train_refuses_numbers_below_zero(casmap, pets, option, files):
    before = files(pets.parent)
    assert f"--{option} must be" in casmap("train", "pets", *QUICK, f"--{option}", "-1").sentence()
    assert files(pets.parent) == before


def test_train_refuses_a_classifier_of_other_classes(casmap, pets, classifier, tmp_path):
    sentence = casmap("train", "pets", *QUICK, "--classifier", classifier).sentence()
    assert str(classifier) in sentence
    assert re.search(r"\b3 classes\b", sentence)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("spec", ["scenes:photos=many", "scenes:colour=red", "scenes:variant=triplets"])
def test_train_refuses_bad_scenes(casmap, tmp_path, spec, files):
    assert spec.partition(":")[2] in casmap("train", spec, *QUICK).sentence()
    assert files(tmp_path) == []


@pytest.mark.parametrize("out", ["pets/cat/0.png", "pets/cat/0.png/run"])
def test_train_refuses_a_folder_it_cannot_write(casmap, pets, out, files):
    before = files(pets.parent)
    assert "pets/cat/0.png" in casmap("train", "pets", *QUICK[:-1], out).sentence()
    assert files(pets.parent) == before


# ---------------------------------------------------------------------------------------------- odd names


@pytest.mark.parametrize("name", ["maps [new]", "maps[/b]"])
def test_names_are_printed_unchanged(casmap, tmp_path, name):
    done = casmap("scenes", name, "--options", "photos=2,classes=2,size=32")
    assert done.complained == ""
    assert done.code == 0
    assert f"{name}/photos" in done.said
    assert (tmp_path / name / "boxes.csv").exists()


def test_extract_prints_its_folder_unchanged(casmap, pets, mapping):
    done = casmap("extract", "pets/cat", "--mapping", mapping, "--out", "maps [new]")
    assert done.code == 0
    assert "4 maps in maps [new]" in done.said


def test_evaluate_prints_the_mapping_unchanged(casmap, mapping, tmp_path):
    (tmp_path / "run [best]").mkdir()
    (tmp_path / "run [best]" / "mapping.safetensors").write_bytes(mapping.read_bytes())
    done = casmap("evaluate", "scenes:photos=4,classes=4,size=32", "--mapping", "run [best]/mapping.safetensors")
    assert done.code == 0
    assert done.said.count("run [best]") == 1


def test_train_prints_its_folder_unchanged(casmap):
    done = casmap("train", "scenes:classes=2,photos=8,size=32", *SHORT, "--out", "run [new]")
    assert done.code == 0
    assert done.said.count("run [new]") == 3  # how to change it, where the mapping is, what to do next


def test_a_very_long_name_is_a_one_line_error(casmap):
    assert "File name too long" in casmap("train", "x" * 300).sentence()


def test_resuming_where_there_is_no_run_is_refused(casmap, pets):
    assert "no run" in casmap("train", "pets", "--resume", "--out", "nowhere").sentence()


def test_a_run_whose_recipe_is_damaged_is_not_resumed(casmap, pets, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "recipe.json").write_text("{")
    assert "recipe.json" in casmap("train", "pets", "--resume", "--out", "run").sentence()


@pytest.mark.parametrize(
    ("options", "flags", "python", "line"),
    [
        ({"first_steps": -1}, "--first-steps -1", "first_steps must be between 0", "--first-steps must be between 0"),
        ({"reuse_masked": True, "masked_in": 1}, "--reuse-masked --masked-in 1", "masked_in=0", "--masked-in 0"),
    ],
)
def test_a_message_spells_options_as_python_or_as_the_command_line(options, flags, python, line, casmap):
    with pytest.raises(UserError) as raised:
        train("photos", **options)
    assert python in str(raised.value)
    assert "--" not in str(raised.value)
    sentence = casmap("train", "photos", *flags.split()).sentence()
    assert line in sentence
    assert "_" not in sentence


def test_a_mapping_for_other_classes_needs_unseen(casmap, mapping, fresh):
    arguments = ("evaluate", "scenes:photos=4,classes=4,first_class=20,size=32", "--mapping", mapping)
    assert "--unseen" in casmap(*arguments).sentence()
    done = casmap(*arguments, "--unseen")
    assert done.code == 0
    assert "OM" not in done.said


# ---------------------------------------------------------------------------------------------- export


@pytest.fixture(scope="module")
def exported(mapping, tmp_path_factory, fresh):
    """A folder with a copy of the mapping, and the result of its export."""
    folder = tmp_path_factory.mktemp("exported")
    (folder / "mapping.safetensors").write_bytes(mapping.read_bytes())
    return folder, fresh("export", "mapping.safetensors", cwd=folder)


def test_export_writes_the_same_mapping_next_to_it(exported, mapping, files):
    folder, done = exported
    assert done.complained == ""
    assert done.code == 0
    assert files(folder) == ["mapping.onnx", "mapping.safetensors"]
    assert (folder / "mapping.safetensors").read_bytes() == mapping.read_bytes()
    megabytes = (folder / "mapping.onnx").stat().st_size / 1e6
    assert done.said == f"mapping.onnx: {megabytes:.1f} MB\n"
    ours, theirs = SaliencyMapper.load(folder / "mapping.onnx"), SaliencyMapper.load(mapping)
    assert (ours.size, ours.classes) == (theirs.size, theirs.classes) == (64, [f"class-{n:02d}" for n in range(4)])
    image = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)
    np.testing.assert_allclose(ours(image).mask, theirs(image).mask, atol=1e-4)
    assert np.ptp(theirs(image).mask) > 0.01  # not flat


def test_extract_and_evaluate_take_an_exported_mapping(exported, casmap, mapping, pets, tmp_path):
    onnx = exported[0] / "mapping.onnx"
    for name, path in (("onnx", onnx), ("torch", mapping)):
        assert casmap("extract", "pets", "--mapping", path, "--out", name).code == 0
    for one, other in zip(lines(tmp_path / "onnx"), lines(tmp_path / "torch"), strict=True):
        assert one["photo"] == other["photo"]
        assert one["area"] == pytest.approx(other["area"], abs=1e-3)
    spec = "scenes:photos=4,classes=4,size=32"
    done = casmap("evaluate", spec, "--mapping", onnx, "--mapping", mapping, "--json", "all.json")
    assert done.code == 0
    numbers = json.loads((tmp_path / "all.json").read_text())
    one, other, *_ = (row["paper protocol"] for row in numbers.values())
    assert one["F1"]["value"] == pytest.approx(other["F1"]["value"], abs=1e-3)


def test_extract_uses_the_shipped_mapping_by_default(exported, pets, tmp_path, fresh):
    """With another file in its place; torch is not needed."""
    shipped = str(exported[0] / "mapping.onnx")
    replaced = f"import casmap.inference.mapper as mapper; mapper.SHIPPED = {shipped!r}"
    start = f"import sys; sys.modules['torch'] = None; {replaced}; {START}"
    done = fresh("extract", "pets/cat", "--out", "maps", start=start, cwd=tmp_path)
    assert done.complained == ""
    assert done.code == 0
    mapper = SaliencyMapper.load(shipped)
    found = lines(tmp_path / "maps")
    assert [line["name"] for line in found] == ["0", "2", "4", "6"]
    for line in found:
        assert line["area"] == pytest.approx(mapper(Path(line["folder"], line["photo"])).to_dict()["area"], abs=1e-3)


def test_export_takes_another_name_and_halves(exported, casmap, mapping, tmp_path, files):
    before = mapping.read_bytes()
    done = casmap("export", mapping, "--out", "small/half.onnx", "--to", "onnx-half")
    assert done.code == 0
    assert "small/half.onnx" in done.said
    assert files(tmp_path) == ["small", "small/half.onnx"]
    assert mapping.read_bytes() == before
    whole = (exported[0] / "mapping.onnx").stat().st_size
    assert (tmp_path / "small" / "half.onnx").stat().st_size < 0.65 * whole
    assert SaliencyMapper.load(tmp_path / "small" / "half.onnx").size == 64


def test_export_measures_what_a_file_loses(casmap, mapping, tmp_path):
    data = "scenes:photos=12,classes=2,size=64"
    done = casmap("export", mapping, "--to", "onnx-half", "--out", "half.onnx", "--measure", data)
    assert done.code == 0
    found = re.search(
        r"LE on 12 photos: ([\d.]+) \[.*\] before, ([\d.]+) \[.*after.*change of a mask pixel is ([\d.]+e-\d+)",
        " ".join(done.said.split()),
    )
    assert found
    photos = open_photos(data, held_out=True)
    files = (SaliencyMapper.load(path) for path in (mapping, tmp_path / "half.onnx"))
    before, after = (map_photos(system_of(mapper, photos), photos, 64, "crop") for mapper in files)
    errors = [f"{100 * localization_errors(mapped).mean():.1f}" for mapped in (before, after)]
    assert [found[1], found[2]] == errors
    assert 0 < float(found[3]) < 5e-3
    assert float(found[3]) == pytest.approx(abs(before.masks - after.masks).max(), rel=0.1)


@pytest.mark.parametrize("wrong", ["nowhere.safetensors", "pets/cat/0.png", "pets", "letter.txt"])
def test_export_refuses_files_that_are_not_mappings(casmap, pets, tmp_path, wrong, files):
    (tmp_path / "letter.txt").write_text("Dear Kevin")
    before = files(tmp_path)
    assert wrong in casmap("export", wrong).sentence()
    assert files(tmp_path) == before


def test_export_refuses_a_classifier_and_a_mapping_that_is_exported_already(
    exported, casmap, classifier, tmp_path, files
):
    assert "not a casmap mapping" in casmap("export", classifier, "--out", "x.onnx").sentence()
    assert "is an ONNX file already" in casmap("export", exported[0] / "mapping.onnx", "--out", "x.onnx").sentence()
    assert files(tmp_path) == []
