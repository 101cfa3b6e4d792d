"""The order of the layers, and other rules for all of src."""

import ast
import re
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "casmap"
MODULES = sorted(SOURCE.rglob("*.py"))
LONGEST = 300  # lines of a file
TEXT = {".py", ".html", ".js", ".css"}
WITHOUT_TORCH = ("io", "annotations", "inference", "evaluation", "cli")


def layers() -> list[list[str]]:
    """The packages of each layer in the contract, from the top down."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    contract = next(one for one in settings["contracts"] if one["type"] == "layers")
    return [[name.strip() for name in re.split("[:|]", layer)] for layer in contract["layers"]]


def imports(module: Path) -> set[str]:
    """The top-level packages that a module imports, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.partition(".")[0])
    return found


def test_layers_import_only_from_layers_below_them() -> None:
    start = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run([sys.executable, "-c", start], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_the_diagram_shows_the_layers_of_the_contract() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    drawn = re.search(r"<!-- (?:layers|rooms) -->\s*```\w*\n(.*?)```\s*<!-- end (?:layers|rooms) -->", page, re.DOTALL)
    assert drawn, "docs/architecture.md has no fenced block between <!-- layers --> and <!-- end layers -->"
    lines = [line for line in drawn[1].splitlines() if line.strip()]
    assert len(lines) == len(layers())
    for line, names in zip(lines, layers(), strict=True):
        assert set(re.findall(r"\w+", line)[: len(names)]) == set(names), f"{line!r} must start with {names}"


def test_every_layer_exists() -> None:
    found = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - {"__init__", "__main__"} == {name for layer in layers() for name in layer}


def test_no_file_is_long() -> None:
    files = [path for path in SOURCE.rglob("*") if path.suffix in TEXT]
    lines = {str(path.relative_to(SOURCE)): len(path.read_text().splitlines()) for path in files}
    assert {name: count for name, count in lines.items() if count > LONGEST} == {}


def test_no_two_modules_have_the_same_name() -> None:
    places = defaultdict(list)
    for path in MODULES:
        if path.parent.name == "integrations":  # named after the tools, whose users type these names
            continue
        # A package counts by its folder: formats.py next to formats/ would be two.
        name = path.parent.name if path.stem == "__init__" else path.stem
        places[name].append(str(path.relative_to(SOURCE)))
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_only_the_command_line_prints() -> None:
    others = [path for path in MODULES if "cli" not in path.relative_to(SOURCE).parts[:1]]
    printing = {str(path.relative_to(SOURCE)) for path in others if imports(path) & {"rich", "typer", "click"}}
    printing |= {
        str(path.relative_to(SOURCE))
        for path in others
        if re.search(r"^\s*print\(|std(out|err)\.write", path.read_text(), re.M)
    }
    assert printing == set()


def test_importing_casmap_loads_no_dependency() -> None:
    start = "import sys; before = set(sys.modules); import casmap; print(*{*sys.modules} - before)"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()} - set(sys.stdlib_module_names)
    assert loaded == {"casmap"}


def test_the_command_line_starts_without_modules_that_few_commands_need() -> None:
    start = (
        "import sys, typer, rich.console; before = set(sys.modules); import casmap.cli.main; "
        "print({'numpy', 'json', 'socket', 'hashlib', 'statistics', 'importlib.metadata'} & {*sys.modules} - before)"
    )
    assert subprocess.check_output([sys.executable, "-c", start], text=True) == "set()\n"


@pytest.mark.parametrize("package", WITHOUT_TORCH)
def test_packages_that_do_not_import_torch(package) -> None:
    modules = [path for path in MODULES if path.is_relative_to(SOURCE / package)]
    names = [".".join(path.relative_to(SOURCE.parent).with_suffix("").parts) for path in modules]
    start = f"import sys; sys.modules['torch'] = None\nfor name in {names}: __import__(name.removesuffix('.__init__'))"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
