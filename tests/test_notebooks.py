"""Both notebooks run from top to bottom and show their images."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
IMAGES = {"photos": 2, "scenes": 3}  # that each notebook shows


def test_every_notebook_is_tested() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(IMAGES)


@pytest.mark.parametrize("name", IMAGES)
def test_notebook_runs(name, tmp_path) -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    assert all(not cell.get("outputs") for cell in notebook.cells), "store notebooks without outputs"
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert sum("image/png" in output.get("data", {}) for output in outputs) == IMAGES[name]
