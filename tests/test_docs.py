"""Documentation that is checked: guides and examples are run, the site is built, links are followed."""

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from itertools import chain
from pathlib import Path

import pytest

import casmap
from casmap.data.free_photos import free_photos
from casmap.data.scenes import Scenes
from casmap.data.write import write_photos
from casmap.io.images import encode_jpeg, open_image
from casmap.training.recipes import Recipe

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
README_WORDS = 800
GENERATED = {"contributing.md", "security.md", "style.md", "changelog.md"}  # pages that docs/hooks.py adds to the site


def commands(text: str) -> list[str]:
    """The lines of all console blocks; a line that ends in a backslash and the next one are one command."""
    blocks = re.findall(r"```console\n(.*?)```", text.replace("\\\n", " "), re.S)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def casmap_commands(text: str) -> list[list[str]]:
    """The arguments of all calls of casmap in console blocks; torchrun -m casmap, too."""
    lines = [shlex.split(line, comments=True) for line in commands(text)]
    return [line[line.index("casmap") + 1 :] for line in lines if "casmap" in line]


def run_examples(page: str) -> None:
    """Run the Python blocks of a page, one after the other."""
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)


@pytest.fixture
def photo(tmp_path, monkeypatch) -> Path:
    """A working directory with photo.jpg, a photo of a cat."""
    cat = next(path for path in free_photos() if path.stem == "chelsea")
    (tmp_path / "photo.jpg").write_bytes(encode_jpeg(open_image(cat)))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "photo.jpg"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text().split()) <= README_WORDS


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_the_quickstart_prints_what_the_page_shows(page, casmap, photo, capsys) -> None:
    text = (ROOT / page).read_text()
    shown = re.findall(r"```text\n(.*?)```", text, re.S)
    done = casmap("extract", "photo.jpg")
    assert done.code == 0, done.complained
    line = (photo.parent / "maps" / "boxes.jsonl").read_text()
    assert shown[0].split() == [*done.said.split(), *re.sub(r'"folder": "[^"]*"', '"folder": "/home/me"', line).split()]
    run_examples(text)
    assert shown[1] == capsys.readouterr().out


def test_evaluate_prints_what_its_page_shows(casmap) -> None:
    text = (DOCS / "commands" / "evaluate.md").read_text()
    (shown,) = re.findall(r"```text\n(.*?)```", text, re.S)
    for line in commands(text):
        done = casmap(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}: {done.complained}"
    number = r"\d+\.\d"  # its last digit may differ between machines
    assert re.sub(number, "N", shown).split() == re.sub(number, "N", done.said).split()
    printed = [float(one) for one in re.findall(number, done.said)]
    assert printed == pytest.approx([float(one) for one in re.findall(number, shown)], abs=0.2)


def test_the_guide_to_annotation_runs_from_its_first_command_to_its_last(casmap, tmp_path) -> None:
    lines = commands((DOCS / "guides" / "annotate.md").read_text())
    assert len(lines) == 8
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "casmap"
        done = casmap(*arguments)
        assert done.code == 0, f"{line}: {done.complained}{done.said}"
    for made in ("trust/check.html", "labels/tasks.json", "labels/config.xml", "maps/boxes.jsonl", "dataset/data.yaml"):
        assert (tmp_path / made).stat().st_size > 0
    assert len(list((tmp_path / "dataset" / "labels").rglob("*.txt"))) == 60


def test_the_page_of_other_tools_runs_and_its_files_are_what_they_expect(casmap, photo, tmp_path, capsys) -> None:
    pytest.importorskip("supervision")
    write_photos(Scenes(classes=2, photos=8, size=96), tmp_path / "scenes")
    (tmp_path / "scenes" / "photos").rename(tmp_path / "my_photos")
    page = (DOCS / "guides" / "tools.md").read_text()
    for line in commands(page):
        done = casmap(*shlex.split(line)[1:])
        assert done.code == 0, f"{line}: {done.complained}"
    run_examples(page)
    assert capsys.readouterr().out == "1 (300, 451, 3)\n['class-00', 'class-01'] 8 8\n"
    coco = json.loads((tmp_path / "coco" / "annotations.json").read_text())  # FiftyOne's COCODetectionDataset
    assert all((tmp_path / "my_photos" / image["file_name"]).is_file() for image in coco["images"])
    assert {"id", "file_name", "width", "height"} <= coco["images"][0].keys()
    assert {"id", "image_id", "category_id", "bbox", "segmentation", "area", "iscrowd"} <= coco["annotations"][0].keys()
    assert {"id", "name"} <= coco["categories"][0].keys()
    splits = [(tmp_path / "yolo" / f"{split}.txt").read_text().splitlines() for split in ("train", "val")]
    assert sum(map(len, splits)) == len({*splits[0], *splits[1]}) == 8
    for listed in (line for split in splits for line in split):  # Ultralytics replaces ./, then images and the suffix
        image = tmp_path / "yolo" / listed.removeprefix("./")
        assert image.is_file()
        label = Path(str(image).replace("/images/", "/labels/")).with_suffix(".txt")
        numbers = [float(word) for line in label.read_text().splitlines() for word in line.split()[1:]]
        assert all(0 <= number <= 1 for number in numbers)
    assert len(list((tmp_path / "geojson").rglob("*.geojson"))) == 8


def test_the_page_of_the_api_names_all_of_it_and_its_examples_run(photo, tmp_path, capsys) -> None:
    page = (DOCS / "api.md").read_text()
    assert [name for name in casmap.__all__ if not re.search(rf"\b{name}\b", page)] == []
    documented = re.findall(r"^::: casmap\.(\w+)$", page, re.M)
    assert sorted(documented) == sorted(set(casmap.__all__) - {"__version__"})
    write_photos(Scenes(classes=2, photos=8, size=48), tmp_path / "scenes")
    (tmp_path / "scenes" / "photos").rename(tmp_path / "my_photos")
    boxes = (tmp_path / "scenes" / "boxes.csv").read_text()
    (tmp_path / "boxes.csv").write_text(boxes.replace("photos/", "my_photos/"))
    run_examples(page)
    assert (tmp_path / "runs" / "mine" / "mapping.safetensors").exists()
    assert "whole photo" in capsys.readouterr().out


def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path) -> None:
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    site = tmp_path / "site"
    no_npm = {"CASMAP_ORT_WEB": str(tmp_path / "missing.tgz"), "npm_config_registry": "http://127.0.0.1:1/"}
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(site)],
        cwd=ROOT, capture_output=True, text=True, env=ONE_THREAD | {"NO_MKDOCS_2_WARNING": "1"} | no_npm,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "npm pack onnxruntime-web@" in (site / "try" / "index.html").read_text()  # how to get the page
    assert not (site / "page").exists()
    assert "--min-area" in (site / "commands" / "annotate" / "index.html").read_text()
    assert "to_detections" in (site / "api" / "index.html").read_text()
    recipes = (site / "recipes" / "index.html").read_text()
    assert [name for name in Recipe.__dataclass_fields__ if f"--{name.replace('_', '-')}<" not in recipes] == []
    for found in site.rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)', found.read_text())
        assert [address for address in fetched if "canonical" not in address] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = re.sub(r" #.*", "", (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2])
    listed = set(re.findall(r"([\w/-]+\.md)", nav))
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    assert listed == written | GENERATED


def understood(casmap, arguments: list[str]) -> bool:
    """Whether a command and its options are in the help."""
    if arguments[0].startswith("--"):
        return arguments[0] in casmap("--help").said
    helped = casmap(*arguments[: 2 if arguments[0] in ("data", "study") else 1], "--help")
    return helped.code == 0 and all(word in helped.said for word in arguments if word.startswith("--"))


def test_every_command_has_a_page_and_an_example_that_it_understands(casmap) -> None:
    said = casmap("--help").said
    words = re.findall(r"^│ ([a-z]+) ", said, re.M)
    pages = [path for path in (DOCS / "commands").glob("*.md") if path.stem != "index"]
    assert set(words) == {path.stem.partition("-")[0] for path in pages}
    for path in pages:
        ours = casmap_commands(path.read_text())
        assert any(line[: path.stem.count("-") + 1] == path.stem.split("-") for line in ours), path
        for arguments in ours:
            assert understood(casmap, arguments), arguments


PAGES = ["README.md", *sorted(path.relative_to(ROOT).as_posix() for path in (DOCS / "guides").glob("*.md"))]


@pytest.mark.parametrize("page", [*PAGES, "docs/install.md", "docs/quickstart.md", "docs/recipes.md"])
def test_the_commands_of_the_guides_are_understood(page, casmap) -> None:
    calls = casmap_commands((ROOT / page).read_text())
    assert calls
    for arguments in calls:
        assert understood(casmap, arguments), arguments


def test_the_options_in_the_training_guide_exist() -> None:
    options = {f"--{name.replace('_', '-')}" for name in Recipe.__dataclass_fields__}
    train = (DOCS / "guides" / "train.md").read_text()
    ours = re.findall(r"^\| `(--[\w-]+)", train, re.M)
    assert ours
    assert set(ours) <= options | {"--recipe"}


@pytest.mark.parametrize(
    "page", ["SECURITY.md", *sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))]
)
def test_pages_name_python_files_that_exist(page) -> None:
    files = re.findall(r"`([\w/]+\.py)`", (ROOT / page).read_text())
    missing = [file for file in files if not any((base / file).is_file() for base in (ROOT, ROOT / "src" / "casmap"))]
    assert missing == [], f"{page} names files that do not exist"


def test_links_between_documents_lead_somewhere() -> None:
    for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_dependency_is_on_the_list() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>=]", one)[0] for one in asked} - {"casmap"}
    listed = (ROOT / "docs" / "dependencies.md").read_text()
    assert [name for name in sorted(names) if not re.search(rf"[| ]{re.escape(name)}[ ,.]", listed)] == []
