"""Heatmaps that other programs wrote: their values, and files that must not be believed."""

import io
import pickle
import struct
import zipfile

import cv2
import numpy as np
import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from casmap.errors import UnreadableImage
from casmap.io.heatmaps import read_heatmap, to_shares
from casmap.io.size_limits import MAX_PIXELS

RAMP = np.array([[0, 1, 2], [3, 4, 5]])


def npy_header(shape: str, kind: str = "'<f4'") -> bytes:
    text = f"{{'descr': {kind}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def test_png_of_8_and_16_bits_are_shares_of_white(tmp_path) -> None:
    for kind, white in ((np.uint8, 255), (np.uint16, 65535)):
        cv2.imwrite(str(tmp_path / "a.png"), (RAMP * (white // 5)).astype(kind))
        np.testing.assert_allclose(read_heatmap(tmp_path / "a.png"), RAMP / 5, atol=1e-6)


def test_grey_png_with_other_modes_are_read(tmp_path) -> None:
    grey = PIL.Image.fromarray((RAMP * 51).astype(np.uint8))
    for mode in ("RGB", "RGBA", "LA", "P"):
        grey.convert(mode).save(tmp_path / "a.png")
        np.testing.assert_allclose(read_heatmap(tmp_path / "a.png"), RAMP / 5, atol=1e-6)
    PIL.Image.fromarray(RAMP > 2).save(tmp_path / "a.png")
    np.testing.assert_array_equal(read_heatmap(tmp_path / "a.png"), RAMP > 2)


@pytest.mark.parametrize("shape", [(2, 3), (1, 2, 3), (2, 3, 1), (1, 1, 2, 3), (1, 2, 3, 1)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_and_npz_of_any_accepted_shape(tmp_path, shape, order) -> None:
    values = np.asarray(RAMP.reshape(shape) / 10, order=order)
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "b.npz", values)
    np.savez_compressed(tmp_path / "c.npz", cam=values)
    for name in ("a.npy", "b.npz", "c.npz"):
        np.testing.assert_allclose(read_heatmap(tmp_path / name), RAMP / 10, atol=1e-7)


def test_a_map_with_one_row_or_one_column_keeps_its_shape() -> None:
    assert to_shares(np.zeros((1, 5))).shape == (1, 5)
    assert to_shares(np.zeros((5, 1))).shape == (5, 1)


@given(arrays.arrays(np.float64, (3, 4), elements=st.floats(-1e6, 1e6)))
def test_any_values_become_shares_in_the_same_order(values) -> None:
    shares = to_shares(values)
    assert shares.dtype == np.float32
    assert 0 <= shares.min() <= shares.max() <= 1
    order = np.argsort(values, axis=None, kind="stable")
    assert (np.diff(shares.ravel()[order]) >= 0).all()


@given(arrays.arrays(np.float32, (2, 3), elements=st.floats(0, 1, width=32)))
def test_values_in_0_to_1_are_unchanged(values) -> None:
    np.testing.assert_array_equal(to_shares(values), values)


def test_pickles_are_never_loaded(tmp_path) -> None:
    class Trap:
        def __reduce__(self):
            return (tmp_path / "sprung").touch, ()

    np.save(tmp_path / "a.npy", np.array([[Trap()]], object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", np.array([[Trap()]], object))
    (tmp_path / "c.npy").write_bytes(pickle.dumps(Trap()))
    for name in ("a.npy", "b.npz", "c.npy"):
        with pytest.raises(UnreadableImage, match=rf"{name} cannot be opened: .*\.$"):
            read_heatmap(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def zipped(*members: bytes) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number, content in enumerate(members):
            archive.writestr(f"{number}.npy", content)
    return packed.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.npy", b"", "cannot be opened"),
        ("a.npy", npy_header("(2, 3)") + bytes(20), "the file is incomplete"),
        ("a.npy", npy_header("(1000000, 1000000)"), "a map is .H, W."),
        ("a.npy", npy_header("(-2, 3)") + bytes(24), "a map is .H, W."),
        ("a.npy", npy_header("(2, 3, 4)") + bytes(96), "has the shape .2, 3, 4.; a map is"),
        ("a.npy", npy_header("(0, 3)"), "it has no pixels"),
        ("a.npy", npy_header("(1, 70000)", "'|u1'") + bytes(70000), "a side of more than 65,500 pixels"),
        ("a.npy", npy_header("(1, 2)", "'<c8'") + bytes(16), "has the type complex64"),
        ("a.npy", npy_header("(1, 2)", "'<U2'") + bytes(16), "has the type <U2"),
        ("a.npy", npy_header("(1, 2)", "[('a', '<f4')]") + bytes(8), "has the type"),
        ("a.npy", npy_header("(1, 2)") + struct.pack("<2f", 1, float("nan")), "it contains NaN or Inf"),
        ("a.npz", b"PK", "cannot be opened"),
        ("a.npz", zipped(), "contains 0 arrays"),
        ("a.npz", zipped(npy_header("(1, 1)") + bytes(4), npy_header("(1, 1)") + bytes(4)), "contains 2 arrays"),
        ("a.npz", zipped(npy_header(f"({MAX_PIXELS}, 2)") + bytes(10**8)), "a map is .H, W."),
        ("a.png", b"\x89PNG", "is not an image"),
    ],
)  # fmt: skip
def test_what_is_no_map_is_named_in_a_sentence(tmp_path, name, content, reason) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnreadableImage, match=f"{name}.*{reason}") as error:
        read_heatmap(tmp_path / name)
    assert str(error.value).count("\n") == 0


def test_a_picture_in_colour_is_no_map(tmp_path) -> None:
    PIL.Image.new("RGB", (4, 4), "red").save(tmp_path / "jet.png")
    with pytest.raises(UnreadableImage, match="it is a picture in colour; a map has one channel"):
        read_heatmap(tmp_path / "jet.png")


def test_a_png_that_declares_too_many_pixels_is_not_decoded(tmp_path, thin_png) -> None:
    (tmp_path / "thin.png").write_bytes(thin_png)
    with pytest.raises(UnreadableImage, match="65,500 pixels"):
        read_heatmap(tmp_path / "thin.png")
