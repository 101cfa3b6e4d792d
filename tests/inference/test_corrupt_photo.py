"""A corrupt photo among 10,000 (300 in the short form) is skipped, counted and listed by every command."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

BATCH = 100


@pytest.fixture
def photos(tmp_path, long) -> Path:
    """Noise, bright in one class and dark in the other; one file is cut in the middle."""
    noise = np.random.default_rng(0)
    for number in range(10_000 if long else 300):
        path = tmp_path / "photos" / "ab"[number % 2] / f"{number:05}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        low = 128 * (number % 2)
        PIL.Image.fromarray(noise.integers(low, low + 128, (36, 36, 3), np.uint8)).save(path)
    corrupt = tmp_path / "photos" / "b" / "00123.jpg"
    corrupt.write_bytes(corrupt.read_bytes()[: corrupt.stat().st_size // 2])
    return tmp_path / "photos"


def test_a_corrupt_photo_is_skipped_counted_and_named(photos, casmap, tmp_path) -> None:
    count = len(list(photos.glob("*/*.jpg")))
    once = str(count // BATCH)  # steps of one epoch
    train = [
        "train", photos, "--recipe", "quick", "--size", "32", "--batch", BATCH, "--first-steps", once, "--steps", once,
        "--sample-limit", "2", "--threads", "1", "--held-out", "0", "--out", tmp_path / "run",
    ]  # fmt: skip
    done = casmap(*train, "--unreadable", "0")
    sentence = done.sentence()
    assert f"1 of {count} photos cannot be read, more than the limit of 0 of them" in sentence
    assert "b/00123.jpg" in sentence

    done = casmap(*train)  # with the usual limit
    assert done.code == 0, done.complained
    assert f"1 of {count} photos could not be read: b/00123.jpg." in " ".join(done.said.split())

    done = casmap("extract", photos, "--mapping", tmp_path / "run" / "mapping.safetensors", "--out", tmp_path / "maps")
    assert done.code == 1
    (skipped,) = [line for line in done.complained.splitlines() if line.startswith("casmap: skipped: ")]
    assert "b/00123.jpg" in skipped  # other lines count photos without an object: the mapping was hardly trained
    with open(tmp_path / "maps" / "boxes.jsonl") as lines:
        names = {json.loads(line)["name"] for line in lines}
    assert len(names) == count - 1
    assert not any("00123" in name for name in names)
