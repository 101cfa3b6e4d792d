"""HEIC files, as iPhones write them, with pillow-heif and without it."""

import io
import sys
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.data.folders import PhotoFolder
from casmap.errors import UnreadableImage
from casmap.inference.folder import extract
from casmap.io.decoding import image_size
from casmap.io.find import find_images
from casmap.io.heic import is_heic
from casmap.io.images import open_image, open_photo

pillow_heif = pytest.importorskip("pillow_heif")


def pixels(height: int = 48, width: int = 64) -> np.ndarray:
    """Grey from black at the left to white at the right."""
    ramp = np.linspace(0, 255, width, dtype=np.uint8)
    return np.broadcast_to(ramp[None, :, None], (height, width, 3)).copy()


def heic(path: Path, image: np.ndarray, **options) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pillow_heif.from_pillow(PIL.Image.fromarray(image)).save(path, quality=95, **options)
    return path


@pytest.mark.parametrize("suffix", [".heic", ".HEIC", ".heif", ".jpg", ""])
def test_a_heic_file_opens_whatever_its_suffix(tmp_path, suffix) -> None:
    path = heic(tmp_path / f"a{suffix}", pixels()) if suffix in (".heic", ".heif") else tmp_path / f"a{suffix}"
    if not path.exists():
        path.write_bytes(heic(tmp_path / "b.heic", pixels()).read_bytes())
    assert is_heic(path)
    for source in (path, str(path), path.read_bytes(), io.BytesIO(path.read_bytes())):
        opened = open_image(source)
        assert opened.shape == (48, 64, 3)
        assert np.abs(opened.astype(int) - pixels()).max() < 12
    assert image_size(path) == (64, 48)


def test_a_rotated_photo_is_upright_and_its_size_agrees(tmp_path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    path = heic(tmp_path / "a.heic", pixels(), exif=exif.tobytes())
    opened = open_photo(path, least=16)
    assert (opened.width, opened.height) == image_size(path) == opened.image.shape[1::-1]


def test_an_avif_file_is_not_heic(tmp_path) -> None:
    PIL.Image.fromarray(pixels()).save(tmp_path / "a.avif")
    assert not is_heic(tmp_path / "a.avif")
    assert np.abs(open_image(tmp_path / "a.avif").astype(int) - pixels()).max() < 12
    assert image_size(tmp_path / "a.avif") == (64, 48)


def test_folders_of_heic_files_are_opened_and_mapped(tmp_path) -> None:
    for name in ("cat/1.heic", "dog/2.HEIC"):
        made = heic(tmp_path / "made.heic", pixels()).read_bytes()
        (tmp_path / "photos" / name).parent.mkdir(parents=True)
        (tmp_path / "photos" / name).write_bytes(made)
    photos = PhotoFolder(tmp_path / "photos")
    assert photos.names == ["cat/1.heic", "dog/2.HEIC"]
    assert photos.problems == []
    assert photos.image(1).shape == (48, 64, 3)
    assert [path.name for path in find_images([tmp_path / "photos"])] == ["1.heic", "2.HEIC"]
    done = extract(tmp_path / "photos", out=tmp_path / "maps")
    assert (done.written, done.skipped) == (2, [])


def test_in_a_folder_a_heic_file_next_to_its_jpeg_is_the_same_picture(tmp_path) -> None:
    folder = tmp_path / "photos" / "cat"
    for name in ("1.heic", "2.heic"):
        heic(folder / name, pixels())
    PIL.Image.fromarray(pixels()).save(folder / "1.JPG")
    assert PhotoFolder(tmp_path / "photos").names == ["cat/1.JPG", "cat/2.heic"]
    assert [path.name for path in find_images([tmp_path / "photos"])] == ["1.JPG", "2.heic"]
    assert [path.name for path in find_images([folder / "*"])] == ["1.JPG", "2.heic"]
    assert [path.name for path in find_images([folder / "1.heic"])] == ["1.heic"]  # it was named


def test_without_pillow_heif_the_message_names_the_extra(tmp_path, monkeypatch) -> None:
    path = heic(tmp_path / "a.heic", pixels())
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(UnreadableImage) as caught:
        open_image(path)
    message = str(caught.value)
    assert message.startswith(f"{path} is a HEIC file, which needs pillow-heif: pip install ")
    assert "[heic]'" in message
    assert image_size(path) is None


@pytest.mark.parametrize("damage", [lambda b: b[:12], lambda b: b[: len(b) // 2], lambda b: b[:40] + b"\xff" * 400])
def test_a_damaged_file_gives_a_one_sentence_error(tmp_path, damage) -> None:
    path = heic(tmp_path / "a.heic", pixels())
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UnreadableImage, match=r"a\.heic .*\.$") as caught:
        open_image(path)
    assert "\n" not in str(caught.value)
