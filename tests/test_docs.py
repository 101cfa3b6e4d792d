"""Documentation that shows what is so: the tutorial is run, the site is built."""

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

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def commands(text: str) -> list[str]:
    """The lines of all console blocks."""
    blocks = re.findall(r"```console\n(.*?)```", text, re.S)
    return [line.split("  #")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]


def test_the_tutorial_runs_from_its_first_command_to_its_last(casmap, tmp_path) -> None:
    lines = commands((DOCS / "tutorial.md").read_text())
    assert len(lines) == 8
    for line in lines:
        program, *arguments = shlex.split(line)
        assert program == "casmap"
        done = casmap(*arguments)
        assert done.code == 0, f"{line}: {done.complained}{done.said}"
    for made in ("trust/check.html", "labels/tasks.json", "labels/config.xml", "maps/boxes.jsonl", "dataset/data.yaml"):
        assert (tmp_path / made).stat().st_size > 0
    assert len(list((tmp_path / "dataset" / "labels").iterdir())) == 60


def test_the_page_of_the_api_names_all_of_it_and_its_examples_run(tmp_path, monkeypatch, capsys) -> None:
    page = (DOCS / "api.md").read_text()
    assert [name for name in casmap.__all__ if not re.search(rf"\b{name}\b", page)] == []
    write_photos(Scenes(classes=2, photos=8, size=48), tmp_path / "scenes")
    (tmp_path / "scenes" / "photos").rename(tmp_path / "my_photos")
    boxes = (tmp_path / "scenes" / "boxes.csv").read_text()
    (tmp_path / "boxes.csv").write_text(boxes.replace("photos/", "my_photos/"))
    (tmp_path / "photo.jpg").write_bytes(encode_jpeg(open_image(free_photos()[0])))
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.S):
        exec(block, names)
    assert (tmp_path / "runs" / "mine" / "mapping.safetensors").exists()
    assert "whole picture" in capsys.readouterr().out


def test_the_site_is_built_without_a_warning_and_fetches_nothing(tmp_path) -> None:
    pytest.importorskip("material")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, env=ONE_THREAD | {"NO_MKDOCS_2_WARNING": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "site" / "commands" / "annotate" / "index.html").read_text()
    assert "--min-area" in page
    for found in (tmp_path / "site").rglob("*.html"):
        fetched = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)', found.read_text())
        assert [address for address in fetched if "canonical" not in address] == []


def test_every_command_has_a_page_and_an_example_that_it_understands(casmap) -> None:
    said = casmap("--help").said
    words = re.findall(r"^│ ([a-z]+) ", said, re.M)
    pages = [path for path in (DOCS / "commands").glob("*.md") if path.stem != "index"]
    assert set(words) == {path.stem.partition("-")[0] for path in pages}
    for path in pages:
        lines = [shlex.split(line, comments=True) for line in commands(path.read_text())]
        ours = [line[line.index("casmap") + 1 :] for line in lines if "casmap" in line]  # torchrun -m casmap, too
        assert any(line[: path.stem.count("-") + 1] == path.stem.split("-") for line in ours), path
        for arguments in ours:
            options = [word for word in arguments if word.startswith("--")]
            helped = casmap(*arguments[: 2 if arguments[0] in ("data", "study") else 1], "--help").said
            assert all(option in helped for option in options), arguments


def test_links_between_documents_lead_somewhere() -> None:
    for path in (ROOT / "README.md", *DOCS.rglob("*.md")):
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
            if "://" not in target:
                assert (path.parent / target).exists(), f"{path.name}: {target}"


def test_every_dependency_is_on_the_list() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [*project["dependencies"], *chain.from_iterable(project["optional-dependencies"].values())]
    names = {re.split(r"[\[<>=]", one)[0] for one in asked} - {"casmap"}
    listed = (ROOT / "docs" / "dependencies.md").read_text()
    assert [name for name in sorted(names) if not re.search(rf"[| ]{re.escape(name)}[ ,.]", listed)] == []
