"""Photos that annotation tools have annotated."""

import numpy as np
import PIL.Image
import pytest


@pytest.fixture
def photos(tmp_path):
    """Three photos of 80 x 60 pixels, of two classes."""
    for name in ("cat/1.jpg", "cat/2.jpg", "dog/3.jpg"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(np.random.default_rng(0).integers(0, 255, (60, 80, 3), np.uint8)).save(path)
    return tmp_path / "photos"
