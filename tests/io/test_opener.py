"""Photos that are opened in a process of their own are the same; a hostile one costs this process and nothing else."""

import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.errors import TooLarge, TooSlow, UnreadableImage, UserError
from casmap.io.images import encode_png, open_photo
from casmap.io.opener import Opener

PATIENCE = 60  # seconds until something hangs
NOISE = np.random.default_rng(0).integers(0, 255, (600, 1100, 3), np.uint8)


@pytest.fixture(scope="module")
def opener():
    with Opener(workers=1) as running:
        yield running


@pytest.fixture
def workers(workers_of):
    """Find the processes that this test has started."""
    earlier = set(workers_of(os.getpid()))
    return lambda: [pid for pid in workers_of(os.getpid()) if pid not in earlier]


def encoded(kind: str, pixels=NOISE, mode: str | None = None, **options) -> bytes:
    saved = io.BytesIO()
    image = PIL.Image.fromarray(pixels)
    (image if mode is None else image.convert(mode)).save(saved, kind, **options)
    return saved.getvalue()


def rotated(orientation: int) -> bytes:
    exif = PIL.Image.Exif()
    exif[0x0112] = orientation
    return encoded("JPEG", exif=exif)


def scan() -> bytes:
    """A DICOM file of 16-bit grey values."""
    pydicom = pytest.importorskip("pydicom")
    data = pydicom.Dataset()
    data.file_meta = pydicom.dataset.FileMetaDataset()
    data.file_meta.TransferSyntaxUID = pydicom.uid.ExplicitVRLittleEndian
    data.file_meta.MediaStorageSOPClassUID = data.SOPClassUID = pydicom.uid.SecondaryCaptureImageStorage
    data.file_meta.MediaStorageSOPInstanceUID = data.SOPInstanceUID = pydicom.uid.generate_uid()
    data.Rows, data.Columns, data.SamplesPerPixel, data.PhotometricInterpretation = 30, 40, 1, "MONOCHROME2"
    data.BitsAllocated = data.BitsStored = 16
    data.HighBit, data.PixelRepresentation = 15, 0
    data.PixelData = np.arange(1200, dtype=np.uint16).tobytes()
    saved = io.BytesIO()
    data.save_as(saved, enforce_file_format=True)
    return saved.getvalue()


GOOD = {
    "jpeg": lambda: encoded("JPEG"),
    "progressive": lambda: encoded("JPEG", progressive=True),
    "cmyk": lambda: encoded("JPEG", mode="CMYK"),
    "png": lambda: encoded("PNG"),
    "transparent": lambda: encoded("PNG", mode="RGBA"),
    "grey": lambda: encoded("PNG", NOISE[..., 0]),
    "16 bits": lambda: encoded("PNG", NOISE[..., 0].astype(np.uint16) * 40),
    "float": lambda: encoded("TIFF", NOISE[..., 0].astype(np.float32)),
    "gif": lambda: encoded("GIF"),
    "webp": lambda: encoded("WEBP"),
    "tiff": lambda: encoded("TIFF"),
    "bmp": lambda: encoded("BMP"),
    "one pixel": lambda: encoded("PNG", NOISE[:1, :1]),
    "dicom": scan,
    **{f"exif {number}": lambda number=number: rotated(number) for number in range(1, 9)},
}


@pytest.mark.parametrize("kind", GOOD)
def test_pixels_and_sizes_are_the_same_from_paths_and_bytes(opener, tmp_path, kind) -> None:
    content = GOOD[kind]()
    path = tmp_path / "photo"
    path.write_bytes(content)
    for options in ({}, {"least": 256}, {"window": (600.0, 300.0)}):
        wanted = open_photo(content, **options)
        for source in (path, str(path), content):
            found = opener(source, **options)
            assert (found.width, found.height) == (wanted.width, wanted.height)
            assert np.array_equal(found.image, wanted.image)
            assert found.image.flags.writeable


def test_arrays_and_pillow_images_are_opened_as_well(opener) -> None:
    for source in (NOISE, PIL.Image.fromarray(NOISE), io.BytesIO(encode_png(NOISE))):
        assert np.array_equal(opener(source).image, NOISE)


def test_error_sentences_are_the_same(opener, tmp_path, thin_png, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"od\xe9\n.jpg")
    good, large = encode_png(NOISE), io.BytesIO()
    PIL.Image.new("1", (40_000, 5_000)).save(large, "PNG")
    contents = {
        "text.jpg": b"no photo", odd: b"no photo", "empty.png": b"", "cut.png": good[: len(good) // 2],
        "thin.png": thin_png, "large.png": large.getvalue(), "dicom.dcm": bytes(128) + b"DICM" + bytes(20),
    }  # fmt: skip
    for name, content in contents.items():
        Path(name).write_bytes(content)
    Path("folder.jpg").mkdir()
    os.mkfifo("pipe.jpg")
    named = [*contents, "folder.jpg", "pipe.jpg", "missing.jpg", "x" * 5000, "\0", "https://example.com/cat.jpg"]
    for source in [*named, *map(Path, contents), *contents.values(), 3, b"x", "", Path()]:
        with pytest.raises(UnreadableImage) as wanted:
            open_photo(source)
        with pytest.raises(UnreadableImage) as found:
            opener(source)
        assert (str(found.value), found.type) == (str(wanted.value), wanted.type)


def test_each_side_has_a_limit_and_so_have_the_pixels(opener, thin_png) -> None:
    with pytest.raises(TooLarge, match=r"has a side of more than 65,500 pixels, which is the limit\.$"):
        opener(thin_png)
    assert opener(encoded("PNG", np.zeros((65_500, 1), np.uint8))).height == 65_500
    with Opener(workers=1, max_pixels=1_000_000) as small, pytest.raises(TooLarge, match="more than 1 million pixels"):
        small(encoded("PNG", np.zeros((1000, 1001), np.uint8)))


def test_a_photo_that_takes_too_long_is_stopped_and_the_next_is_opened(scan_bomb, workers) -> None:
    with Opener(workers=1, cpu_seconds=1) as opener:
        opener(encode_png(NOISE))
        (first,) = workers()
        with pytest.raises(UnreadableImage, match=r"^The given image takes more than 1 s of CPU time to open\.$"):
            opener(scan_bomb)
        assert np.array_equal(opener(encode_png(NOISE)).image, NOISE)
        (second,) = workers()
        with pytest.raises(TooSlow, match=r"^The given image takes more than 0\.2 s to open\.$"):
            opener(scan_bomb, seconds=0.2)
        assert workers() == []
        assert np.array_equal(opener(encode_png(NOISE)).image, NOISE)
        (third,) = workers()
        assert len({first, second, third}) == 3
    assert workers() == []


def test_cpu_time_is_counted_for_each_photo_alone(workers) -> None:
    def used(pid: int) -> float:
        """The seconds of CPU time that a process has used."""
        user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    slow = encoded("PNG", np.random.default_rng(0).integers(0, 255, (2500, 2500, 3), np.uint8), compress_level=1)
    with Opener(workers=1, cpu_seconds=1) as opener:
        opener(slow)
        (pid,) = workers()
        while used(pid) < 3:  # the limit of a photo, rounded up, is 2 s at most
            opener(slow)
        assert workers() == [pid]


def test_a_process_that_is_killed_costs_one_photo(scan_bomb, workers) -> None:
    with Opener(workers=1) as opener:
        opener(encode_png(NOISE))
        (pid,) = workers()
        killing = threading.Timer(0.5, os.kill, (pid, signal.SIGKILL))
        killing.start()
        with pytest.raises(UnreadableImage, match=r"the process that decoded it ended \(SIGKILL\)\.$"):
            opener(scan_bomb)
        assert np.array_equal(opener(encode_png(NOISE)).image, NOISE)
        (pid,) = workers()
        os.kill(pid, signal.SIGKILL)  # between two photos it costs none
        end = time.monotonic() + PATIENCE
        while workers() and time.monotonic() < end:
            time.sleep(0.01)
        assert workers() == []
        assert np.array_equal(opener(encode_png(NOISE)).image, NOISE)
        assert len(workers()) == 1


def test_a_photo_that_needs_too_much_memory_is_refused(monkeypatch, workers) -> None:
    monkeypatch.setattr("casmap.io.opener.BASE_BYTES", 400 << 20)
    monkeypatch.setattr("casmap.io.opener.PIXEL_BYTES", 0)
    with Opener(workers=1) as opener:
        opener(encode_png(NOISE))
        first = workers()
        assert len(first) == 1
        with pytest.raises(UnreadableImage, match="needs more memory than a photo may use"):
            opener(encoded("PNG", np.zeros((9000, 9000), np.uint8)))
        assert np.array_equal(opener(encode_png(NOISE)).image, NOISE)
        assert workers() == first  # the process survives


def test_threads_share_an_opener(tmp_path) -> None:
    pictures = [NOISE[: 10 + number] for number in range(12)]
    found: dict[int, bool] = {}
    with Opener(workers=2) as opener:

        def one(number: int) -> None:
            found[number] = np.array_equal(opener(encode_png(pictures[number])).image, pictures[number])

        threads = [threading.Thread(target=one, args=(number,)) for number in range(len(pictures))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
    assert found == dict.fromkeys(range(len(pictures)), True)


def test_the_process_ends_with_its_parent(workers_of) -> None:
    program = (
        "from casmap.io.images import *; from casmap.io.opener import Opener; o = Opener(1)\n"
        "o(encode_png(np.zeros((2, 3), np.uint8))); print('opened', flush=True); input()"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout.readline() == "opened\n"
    (pid,) = workers_of(parent.pid)
    parent.kill()
    parent.communicate()
    end = time.monotonic() + PATIENCE
    while (stat := Path(f"/proc/{pid}/stat")).exists() and ") Z" not in stat.read_text():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_modules_in_the_working_directory_are_not_imported(tmp_path) -> None:
    for name in ("numpy", "PIL", "json", "casmap"):
        (tmp_path / f"{name}.py").write_text("import os; os.mkdir('intruder was here')")
    (tmp_path / "photo.png").write_bytes(encode_png(NOISE))
    # With "" in the path, as in an interactive Python; -P, because the test is about the modules of the process.
    program = (
        "import sys; from casmap.io.opener import Opener; sys.path.insert(0, ''); print(Opener(1)('photo.png').width)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.stdout == "1100\n", done.stderr
    assert not (tmp_path / "intruder was here").exists()


def test_a_process_starts_without_numpy_and_opencv() -> None:
    program = "import sys; import casmap.io.worker; print({'numpy', 'cv2', 'PIL'} & {*sys.modules})"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "{'PIL'}\n"


def test_a_process_that_cannot_start_is_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with Opener(workers=1) as opener:
        with pytest.raises(UserError, match=r"does not start \(exit code 1\)\.$") as raised:
            opener(encode_png(NOISE))
        assert not isinstance(raised.value, UnreadableImage)
        monkeypatch.setattr(sys, "executable", "/missing/python")
        with pytest.raises(UserError, match=r"^Cannot start a process that opens photos: "):
            opener(encode_png(NOISE))
    monkeypatch.undo()
    assert opener(encode_png(NOISE)).width == 1100
