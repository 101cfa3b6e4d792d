"""The page without a server as a page of the documentation, in a real browser."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from casmap.data.free_photos import free_photos
from casmap.inference.mapper import SaliencyMapper

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(runtime, tmp_path_factory) -> Path:
    """The documentation, built with the npm package."""
    pytest.importorskip("material")
    pytest.importorskip("mkdocstrings")
    out = tmp_path_factory.mktemp("docs") / "site"
    environment = {"CASMAP_ORT_WEB": str(runtime), "NO_MKDOCS_2_WARNING": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    return out


def test_the_documentation_has_the_page(browser, built, web_host) -> None:
    address = web_host(built)[1]
    page = browser.new_page()
    problems, asked = [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: asked.append((request.method, request.url)))
    page.goto(f"{address}/try/")
    frame = page.frame_locator("iframe")
    frame.locator("#found", has_text="of the photo kept").wait_for(timeout=60_000)
    photo = free_photos()[2]
    frame.locator("#files").set_input_files(str(photo))
    frame.locator("#status", has_text=f"{photo.name}: box").wait_for(timeout=60_000)
    shown = frame.locator("#found").inner_text().partition(";")[0].removeprefix("box ")
    np.testing.assert_allclose([int(side) for side in shown.split(", ")], SaliencyMapper.load()(photo).box(), atol=1)
    assert problems == []
    assert all(method == "GET" and url.startswith((address, "data:", "blob:")) for method, url in asked)  # no photo
    page.close()
