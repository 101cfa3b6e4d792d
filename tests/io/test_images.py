"""Open photos from valid and damaged files, bytes, arrays and tensors; find files."""

import io
import os
import struct
import warnings
import zlib
from itertools import chain

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from casmap.errors import UnreadableImage, UserError
from casmap.io import images
from casmap.io.decoding import FORMATS
from casmap.io.find import find_images
from casmap.io.images import encode_png, open_image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)


def noise(height=40, width=60):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def saved(image, path, **options):
    image.save(path, **options)
    return path


def png_header(width, height):
    """Return a PNG file with a size in its header and no pixels."""

    def chunk(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def refusal(source):
    """Return the one-sentence error for a source."""
    with pytest.raises(UnreadableImage) as caught:
        open_image(source)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


# ---------------------------------------------------------------------------------------------- valid input


def test_rgb_is_the_same_from_path_text_bytes_pillow_and_array(tmp_path):
    pixels = noise()
    path = saved(PIL.Image.fromarray(pixels), tmp_path / "a.png")
    for source in (path, str(path), path.read_bytes(), PIL.Image.open(path), pixels):
        opened = open_image(source)
        assert opened.dtype == np.uint8
        np.testing.assert_array_equal(opened, pixels)


def test_the_caller_may_write_to_the_result_without_changing_the_source():
    pixels = noise()
    opened = open_image(pixels)
    opened[:] = 0
    np.testing.assert_array_equal(pixels, noise())


@pytest.mark.parametrize(
    "suffix", sorted(chain.from_iterable(FORMATS.values()))
)  # others: test_dicom.py and test_heic.py
def test_every_listed_suffix_opens(tmp_path, suffix):
    grey = PIL.Image.new("1" if suffix == ".pbm" else "L" if suffix == ".pgm" else "RGB", (32, 24))
    assert open_image(saved(grey, tmp_path / f"a{suffix}")).shape == (24, 32, 3)


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
def test_exif_orientation_turns_the_photo_upright(tmp_path, suffix):
    stored = np.zeros((40, 60, 3), np.uint8)
    stored[:, :20] = WHITE  # stored at the left; orientation 6 means: turn clockwise, so it belongs on top
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    opened = open_image(saved(PIL.Image.fromarray(stored), tmp_path / f"a.{suffix}", exif=exif))
    assert opened.shape == (60, 40, 3)
    assert opened[:16].min() > 200
    assert opened[24:].max() < 50


def test_broken_exif_does_not_spoil_good_pixels(tmp_path):
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    path = saved(PIL.Image.fromarray(noise()), tmp_path / "a.webp", exif=exif, lossless=True)
    content = path.read_bytes()
    assert content.count(b"MM\x00*") == 1
    np.testing.assert_array_equal(open_image(content.replace(b"MM\x00*", b"XX\x00*")), noise())


def test_transparency_shows_white(tmp_path):
    rgba = PIL.Image.fromarray(np.array([[(*RED, 255), (*RED, 0), (0, 0, 0, 127)]], np.uint8))
    assert open_image(saved(rgba, tmp_path / "rgba.png")).tolist() == [[list(RED), list(WHITE), [128, 128, 128]]]
    la = PIL.Image.fromarray(np.array([[(9, 255), (9, 0)]], np.uint8), "LA")
    assert open_image(saved(la, tmp_path / "la.png")).tolist() == [[[9, 9, 9], list(WHITE)]]


def test_palette_with_and_without_transparency(tmp_path):
    palette = PIL.Image.fromarray(np.array([[0, 1]], np.uint8), "P")
    palette.putpalette([*RED, *GREEN])
    assert open_image(saved(palette, tmp_path / "p.png")).tolist() == [[list(RED), list(GREEN)]]
    assert open_image(saved(palette, tmp_path / "t.png", transparency=1)).tolist() == [[list(RED), list(WHITE)]]


def test_grey_and_bilevel_become_rgb(tmp_path):
    grey = PIL.Image.fromarray(np.array([[3, 200]], np.uint8))
    assert open_image(saved(grey, tmp_path / "grey.png")).tolist() == [[[3, 3, 3], [200, 200, 200]]]
    bilevel = PIL.Image.fromarray(np.array([[False, True]]))
    assert open_image(saved(bilevel, tmp_path / "bilevel.png")).tolist() == [[[0, 0, 0], [255, 255, 255]]]


def test_cmyk_jpeg_keeps_its_colours(tmp_path):
    path = saved(PIL.Image.new("RGB", (16, 16), GREEN).convert("CMYK"), tmp_path / "a.jpg")
    with PIL.Image.open(path) as image:
        assert image.mode == "CMYK"
    np.testing.assert_allclose(open_image(path)[8, 8], GREEN, atol=3)


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_16_bit_grey_is_scaled_by_its_own_range(tmp_path, suffix):
    levels = np.array([[1000, 2000, 3000, 5000]], np.uint16)  # Pillow's own conversion makes all of it white
    path = saved(PIL.Image.fromarray(levels), tmp_path / f"a.{suffix}")
    with PIL.Image.open(path) as image:
        assert image.mode == "I;16"
    assert open_image(path)[0, :, 0].tolist() == [0, 64, 128, 255]  # (level - 1000) * 255 / 4000


@pytest.mark.filterwarnings("error")
def test_16_bit_grey_of_one_level_is_black(tmp_path):
    flat = PIL.Image.fromarray(np.full((2, 2), 700, np.uint16))
    assert open_image(saved(flat, tmp_path / "a.png")).max() == 0


def test_animation_gives_its_first_frame(tmp_path):
    first, second = (PIL.Image.new("RGB", (8, 8), colour) for colour in (RED, BLUE))
    path = saved(first, tmp_path / "a.gif", save_all=True, append_images=[second], duration=100)
    with PIL.Image.open(path) as image:
        assert image.n_frames == 2
    assert open_image(path)[4, 4].tolist() == list(RED)


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (np.array([[0, 7]], np.uint8), [[0, 0, 0], [7, 7, 7]]),
        (np.array([[[0], [7]]], np.uint8), [[0, 0, 0], [7, 7, 7]]),
        (np.array([[False, True]]), [[0, 0, 0], [255, 255, 255]]),
        (np.array([[100, 300]], np.uint16), [[0, 0, 0], [255, 255, 255]]),
        (np.array([[[0, 257, 65535]]], np.uint16), [[0, 1, 255]]),
        (np.array([[[0.0, 0.2, 0.999]]], np.float32), [[0, 51, 255]]),
        (np.array([[[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]]]), [[255, 255, 255], [255, 0, 0]]),
    ],
)
def test_arrays(array, expected):
    assert open_image(array).tolist() == [expected]


def test_large_photos_open_without_a_warning(monkeypatch):
    assert images.MAX_PIXELS >= 150_000_000
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", 100)  # Pillow warns from here and refuses from twice of it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert open_image(encode_png(noise(10, 15))).shape == (10, 15, 3)


# ---------------------------------------------------------------------------------------------- invalid input


@pytest.mark.parametrize("suffix", ["jpg", "png", "gif", "tif", "webp", "bmp"])
def test_truncated_files_are_refused_by_name(tmp_path, suffix):
    path = saved(PIL.Image.fromarray(noise()), tmp_path / f"cut.{suffix}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert refusal(path).startswith(f"{path} ")


@pytest.mark.parametrize("content", [b"just some text", b"\xff\xd8\xff", b"%!PS-Adobe-3.0 EPSF-3.0\n"])
def test_files_that_are_no_images_are_refused_by_name(tmp_path, content):
    path = tmp_path / "a.jpg"
    path.write_bytes(content)
    assert f"{path} is not an image" in refusal(path)
    assert "The given image is not an image" in refusal(content)


def test_an_empty_file_and_a_url_have_their_own_messages(tmp_path):
    path = tmp_path / "a.jpg"
    path.touch()
    assert refusal(path) == f"{path} is empty: 0 bytes."
    assert refusal(b"") == "The given image is empty: 0 bytes."
    assert refusal("https://example.com/cat.jpg") == "https://example.com/cat.jpg is a URL: download the file first."
    with pytest.raises(UserError, match=r"^https://example\.com/cat\.jpg is a URL: download the file first\.$"):
        find_images(["https://example.com/cat.jpg"])


def test_eps_is_refused_because_opening_it_would_run_ghostscript(tmp_path):
    path = saved(PIL.Image.new("RGB", (8, 8)), tmp_path / "a.eps")
    with PIL.Image.open(path) as image:
        assert image.format == "EPS"
    assert "is not an image" in refusal(path)


def test_missing_files_folders_and_devices_are_refused(tmp_path):
    assert "does not exist" in refusal(tmp_path / "missing.png")
    assert "is a folder" in refusal(tmp_path)
    os.mkfifo(tmp_path / "pipe.png")
    assert "not an image file" in refusal(tmp_path / "pipe.png")  # and does not wait for a writer


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_files_without_permission_are_refused(tmp_path):
    path = saved(PIL.Image.new("RGB", (8, 8)), tmp_path / "a.png")
    path.chmod(0)
    assert "permission denied" in refusal(path)


def test_permission_errors_are_reported(tmp_path, monkeypatch):
    def deny(*_args, **_kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(PIL.Image, "open", deny)
    assert refusal(tmp_path / "a.png") == f"{tmp_path / 'a.png'} cannot be read: permission denied."


@pytest.mark.parametrize("pillows_limit", [PIL.Image.MAX_IMAGE_PIXELS, None])
def test_bombs_are_refused_by_their_header(tmp_path, monkeypatch, pillows_limit):
    monkeypatch.setattr(PIL.Image, "MAX_IMAGE_PIXELS", pillows_limit)
    path = tmp_path / "bomb.png"
    path.write_bytes(png_header(60_000, 60_000))
    assert "million pixels" in refusal(path)


def test_casmaps_own_limit_applies_before_decoding(monkeypatch):
    monkeypatch.setattr(images, "MAX_PIXELS", 99)
    lazy = PIL.Image.open(io.BytesIO(encode_png(noise(10, 10))))
    monkeypatch.setattr(lazy, "load", lambda: pytest.fail("decoded"))
    assert "million pixels" in refusal(lazy)
    assert open_image(noise(9, 11)).shape == (9, 11, 3)


@pytest.mark.parametrize(
    "source",
    [
        np.zeros((2, 2, 2), np.uint8),
        np.zeros(5, np.uint8),
        np.zeros((0, 5), np.uint8),
        np.full((2, 2), 256),
        np.full((2, 2), np.nan),
        np.full((2, 2), 255.5),
        np.full((2, 2), -0.1),
        np.full((2, 2), None),
        np.full((2, 2), 1j),
        torch.zeros(2, 4, 4),
        torch.full((3, 4, 4), -1.0),
        io.StringIO("text"),
        None,
        [[1, 2]],
    ],
)
def test_a_source_that_is_not_a_photo_gives_a_value_error_that_lists_what_is_accepted(source):
    message = refusal(source)
    assert "cannot be used" in message
    assert "a photo is a path, bytes, an open binary file, a Pillow image, an array (H, W)" in message
    with pytest.raises(ValueError, match="cannot be used"):
        open_image(source)


@pytest.mark.parametrize("source", [PIL.Image.new("RGB", (0, 4)), "\0", "x" * 5000, b"no image", "missing.jpg"])
def test_what_cannot_be_opened_is_an_os_error_that_names_it(source):
    message = refusal(source)
    assert message.startswith(source if isinstance(source, str) else "The given image")
    with pytest.raises(OSError, match=r"cannot be opened|does not exist|is not an image"):
        open_image(source)


@pytest.mark.parametrize(
    "numbers",
    [
        lambda pixels: pixels.astype(np.int64),
        lambda pixels: pixels.astype(np.uint16),
        lambda pixels: pixels.astype(np.uint16) * 257,
        lambda pixels: pixels.astype(np.float64),
        lambda pixels: pixels / 255,
        lambda pixels: torch.from_numpy(pixels).permute(2, 0, 1),
        lambda pixels: torch.from_numpy(pixels).permute(2, 0, 1).float(),
        lambda pixels: torch.from_numpy(pixels).permute(2, 0, 1).float() / 255,
        lambda pixels: torch.from_numpy(pixels).permute(2, 0, 1).double().requires_grad_(True),
    ],
)
def test_numbers_in_0_to_1_and_in_0_to_255_are_the_same_photo(numbers):
    pixels = noise(9, 11)
    np.testing.assert_array_equal(open_image(numbers(pixels)), pixels)


def test_an_open_file_and_a_path_like_are_the_same_photo(tmp_path):
    path = tmp_path / "a.png"
    PIL.Image.fromarray(noise(9, 11)).save(path)

    class Like:
        def __fspath__(self):
            return str(path)

    with open(path, "rb") as file:
        np.testing.assert_array_equal(open_image(file), open_image(path))
    np.testing.assert_array_equal(open_image(Like()), open_image(str(path)))
    np.testing.assert_array_equal(open_image(bytearray(path.read_bytes())), open_image(path))


@given(st.sampled_from(sorted(FORMATS)), st.data())
def test_damaged_bytes_open_or_raise_unreadable_image(kind, data):
    stream = io.BytesIO()
    PIL.Image.fromarray(noise(24, 32)).save(stream, kind)
    content = bytearray(stream.getvalue())
    for _ in range(data.draw(st.integers(1, 8))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            opened = open_image(bytes(content))
        except UnreadableImage:
            return
    assert opened.dtype == np.uint8
    assert opened.shape[2:] == (3,)


# ---------------------------------------------------------------------------------------------- PNG


@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)), st.booleans())
def test_png_keeps_every_pixel(grey, colour):
    image = np.stack([grey, 255 - grey, grey // 2], axis=-1) if colour else grey
    with PIL.Image.open(io.BytesIO(encode_png(image))) as read:
        assert read.format == "PNG"
        np.testing.assert_array_equal(np.asarray(read), image)


# ---------------------------------------------------------------------------------------------- finding files


@pytest.fixture
def folder(tmp_path):
    for name in ("b.JPG", "a.png", "notes.txt", "sub/deep/c.webp", ".hidden.png", ".cache/d.png", "odd", "e[1].gif"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "folder.png").mkdir()
    return tmp_path


def names(paths, folder):
    return [path.relative_to(folder).as_posix() for path in paths]


def test_a_folder_gives_its_visible_images_sorted(folder):
    assert names(find_images([folder]), folder) == ["a.png", "b.JPG", "e[1].gif", "sub/deep/c.webp"]


def test_a_hidden_folder_that_is_named_is_searched(folder):
    assert names(find_images([folder / ".cache"]), folder) == [".cache/d.png"]


def test_a_named_file_is_taken_whatever_its_suffix(folder):
    chosen = ["odd", "notes.txt", ".hidden.png", "e[1].gif"]
    assert names(find_images([str(folder / name) for name in chosen]), folder) == chosen


def test_patterns(folder):
    assert names(find_images([f"{folder}/*"]), folder) == ["a.png", "b.JPG", "e[1].gif"]
    assert names(find_images([f"{folder}/**/*.webp"]), folder) == ["sub/deep/c.webp"]


def test_order_is_kept_and_each_comes_once(folder, monkeypatch):
    monkeypatch.chdir(folder)
    found = find_images(["sub", folder / "b.JPG", "sub/../b.JPG", "."])
    assert [path.name for path in found] == ["c.webp", "b.JPG", "a.png", "e[1].gif"]
    assert found[1] == folder / "b.JPG"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("missing.png", "missing.png does not exist"),
        ("*.bmp", "no photo matches"),
        ("*.txt", "no photo matches"),
        ("folder.png", "contains no photos"),
    ],
)
def test_a_source_without_images_is_an_error(folder, source, sentence):
    with pytest.raises(UserError, match=sentence):
        find_images([folder / "a.png", folder / source])
