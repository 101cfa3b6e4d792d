"""DICOM files, and grey images of more than 8 bits."""

import io
import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.errors import UnreadableImage
from casmap.inference.folder import extract
from casmap.io.decoding import image_size
from casmap.io.dicom import write_dicom_mask
from casmap.io.images import open_image

pydicom = pytest.importorskip("pydicom")
from pydicom.data import get_testdata_file  # noqa: E402

GEOMETRY = ("PixelSpacing", "ImagePositionPatient", "ImageOrientationPatient", "FrameOfReferenceUID", "SliceLocation")


@pytest.fixture
def scan(tmp_path) -> Path:
    """A slice of a real CT: 16 bits, with a rescaling, without a window."""
    return Path(shutil.copy(get_testdata_file("CT_small.dcm"), tmp_path / "scan.dcm"))


def test_a_given_window_is_applied(scan) -> None:
    data = pydicom.dcmread(scan)
    hounsfield = data.pixel_array * float(data.RescaleSlope) + float(data.RescaleIntercept)
    seen = open_image(scan, window=(40, 400))
    wanted = np.clip((hounsfield - 39.5) / 399 + 0.5, 0, 1)
    np.testing.assert_array_equal(seen, np.repeat(np.rint(255 * wanted).astype(np.uint8)[..., None], 3, axis=2))
    wide = open_image(scan)[..., 0]  # without a window: stretched from minimum to maximum
    levels = (hounsfield - hounsfield.min()) / (hounsfield.max() - hounsfield.min())
    np.testing.assert_array_equal(wide, np.rint(255 * levels).astype(np.uint8))


def test_the_window_in_the_file_is_the_default() -> None:
    file = get_testdata_file("MR_small.dcm")
    data = pydicom.dcmread(file)
    wanted = np.clip((data.pixel_array - (float(data.WindowCenter) - 0.5)) / (float(data.WindowWidth) - 1) + 0.5, 0, 1)
    np.testing.assert_array_equal(open_image(file)[..., 0], np.rint(255 * wanted).astype(np.uint8))


def test_monochrome1_is_inverted(scan) -> None:
    before = open_image(scan)
    data = pydicom.dcmread(scan)
    data.PhotometricInterpretation = "MONOCHROME1"
    data.save_as(scan)
    np.testing.assert_array_equal(open_image(scan), 255 - before)


@pytest.mark.parametrize("name", ["examples_rgb_color.dcm", "examples_palette.dcm"])
def test_colour_images_keep_their_colours(name) -> None:
    file = get_testdata_file(name)
    image = open_image(file)
    data = pydicom.dcmread(file)
    assert image.shape == (data.Rows, data.Columns, 3)
    assert np.ptp(image.astype(int), axis=2).max() > 30
    if name == "examples_rgb_color.dcm":
        np.testing.assert_array_equal(image, data.pixel_array)


def test_dicom_is_recognised_by_content(scan, tmp_path) -> None:
    shutil.copy(scan, tmp_path / "IM0001")
    np.testing.assert_array_equal(open_image(tmp_path / "IM0001"), open_image(scan))
    np.testing.assert_array_equal(open_image(scan.read_bytes()), open_image(scan))
    assert image_size(scan) == (128, 128)


@pytest.mark.parametrize("damage", [lambda b: b[:400], lambda b: b[: len(b) // 2], lambda b: b[:132] + b"\xff" * 500])
def test_a_damaged_file_gives_a_one_sentence_error(scan, damage) -> None:
    scan.write_bytes(damage(scan.read_bytes()))
    with pytest.raises(UnreadableImage, match=r"scan\.dcm .*\.$"):
        open_image(scan)


def test_a_file_without_an_image_is_refused() -> None:
    with pytest.raises(UnreadableImage, match="it has no image"):
        open_image(get_testdata_file("reportsi.dcm"))


def test_a_file_with_too_many_pixels_is_refused(scan) -> None:
    data = pydicom.dcmread(scan)
    data.Rows = data.Columns = 60_000
    data.save_as(scan)
    with pytest.raises(UnreadableImage, match="more than 178 million pixels"):
        open_image(scan)


def test_a_mask_has_the_geometry_of_its_image(scan, tmp_path) -> None:
    mask = np.random.default_rng(0).random((128, 128), np.float32)
    write_dicom_mask(scan, mask, tmp_path / "mask.dcm")
    before, after = pydicom.dcmread(scan), pydicom.dcmread(tmp_path / "mask.dcm")
    np.testing.assert_array_equal(after.pixel_array, np.rint(255 * mask))
    for key in GEOMETRY:
        assert after[key].value == before[key].value
    assert after.PatientID == before.PatientID
    assert after.SOPInstanceUID not in (before.SOPInstanceUID, "")
    assert after.SeriesInstanceUID != before.SeriesInstanceUID
    assert "RescaleSlope" not in after
    np.testing.assert_array_equal(open_image(tmp_path / "mask.dcm")[..., 0], _stretched(np.rint(255 * mask)))


def _stretched(levels):
    return np.rint((levels - levels.min()) * (255 / (levels.max() - levels.min()))).astype(np.uint8)


def test_extract_writes_masks_as_dicom_and_ignores_them_as_photos(scan, tmp_path) -> None:
    for _ in range(2):
        done = extract(tmp_path, out=tmp_path)
        assert (done.skipped, done.written) == ([], 1)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"scan.dcm", "scan-mask.dcm", "scan-mask.png", "scan-overlay.jpg", "boxes.jsonl"}
    assert json.loads((tmp_path / "boxes.jsonl").read_text())["width"] == 128
    deep = pydicom.dcmread(tmp_path / "scan-mask.dcm").pixel_array
    np.testing.assert_array_equal(deep, np.array(PIL.Image.open(tmp_path / "scan-mask.png")))


def test_another_window_gives_another_mask(scan, tmp_path) -> None:
    masks = []
    for number, window in enumerate((None, (40.0, 400.0))):
        extract([str(scan)], out=tmp_path / str(number), window=window)
        masks.append((tmp_path / str(number) / "scan-mask.png").read_bytes())
    assert masks[0] != masks[1]


def test_training_accepts_16_bit_grey_images(casmap, tmp_path) -> None:
    rng = np.random.default_rng(0)
    for number in range(8):
        folder = tmp_path / "scans" / ("ill", "well")[number % 2]
        folder.mkdir(parents=True, exist_ok=True)
        levels = (rng.random((40, 40)) * 4000).astype(np.uint16)
        PIL.Image.fromarray(levels).save(folder / f"{number}.{('png', 'tif')[number // 4]}")
    small = ["--size", "32", "--steps", "2", "--first-steps", "2", "--batch", "4", "--threads", "1"]
    done = casmap("train", "scans", "--recipe", "quick", "--held-out", "0", *small, "--out", "run")
    assert done.code == 0, done.complained
    done = casmap("extract", "scans", "--mapping", "run/mapping.safetensors", "--out", "maps")
    assert done.code == 0, done.complained
    assert len((tmp_path / "maps" / "boxes.jsonl").read_text().splitlines()) == 8


def deflated(scan: Path, zeros: int) -> bytes:
    """A valid deflated file whose private attribute inflates to many zeros, before Rows and Columns are known."""
    data = pydicom.dcmread(scan)
    data.add_new(0x00090010, "LO", "casmap")
    data.add_new(0x00091001, "OB", bytes(zeros))
    data.file_meta.TransferSyntaxUID = pydicom.uid.DeflatedExplicitVRLittleEndian
    content = io.BytesIO()
    data.save_as(content, enforce_file_format=True)
    return content.getvalue()


def test_a_deflated_file_is_refused_before_it_is_inflated(scan) -> None:
    content = deflated(scan, 10**9)
    assert len(content) < 2 * 10**6
    (path := scan.with_name("deflated.dcm")).write_bytes(content)
    tracemalloc.start()
    for source in (content, path):
        with pytest.raises(UnreadableImage, match="its transfer syntax is deflated, which is not supported"):
            open_image(source)
        assert image_size(source) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**8


def test_the_transfer_syntax_is_found_behind_other_attributes_of_the_header(scan) -> None:
    content = deflated(scan, 10)
    meta = pydicom.dcmread(io.BytesIO(content), stop_before_pixels=True).file_meta
    meta.PrivateInformationCreatorUID, meta.PrivateInformation = "1.2.3", bytes(100_000)
    (path := scan.with_name("deflated.dcm")).write_bytes(content)
    data = pydicom.dcmread(path)
    data.file_meta = meta
    data.save_as(path, enforce_file_format=True)
    with pytest.raises(UnreadableImage, match="deflated"):
        open_image(path)
