"""Forms stay in memory: the server writes no photo of a batch to a file, wherever the temporary folder is."""

import json
import urllib.error
import urllib.request

import numpy as np
import pytest

from casmap.io.images import encode_png

# No file can be created in this temporary folder, as if its disk were full.
FULL = "import tempfile\ntempfile.tempdir = '/proc'"


@pytest.fixture(scope="module")
def full(start):
    """A server that cannot write files."""
    return start(first=FULL)


@pytest.fixture(scope="module")
def form() -> tuple[bytes, dict[str, str]]:
    """Four photos of 3 MB."""
    chance, parts = np.random.default_rng(0), b""
    for _ in range(4):
        photo = encode_png(chance.integers(0, 255, (1000, 1000, 3), np.uint8))
        parts += b'--X\r\nContent-Disposition: form-data; name="photos"; filename="a.png"\r\n\r\n' + photo + b"\r\n"
    return parts + b"--X--\r\n", {"Content-Type": "multipart/form-data; boundary=X"}


def test_a_batch_needs_no_temporary_file(full, form) -> None:
    with urllib.request.urlopen(urllib.request.Request(f"{full.address}/api/batch", *form), timeout=60) as answer:
        assert [sorted(one) for one in json.load(answer)] == 4 * [
            ["area", "box", "confidence", "flat", "height", "label", "mapping", "mask", "width"]
        ]


def test_a_full_disk_is_not_the_clients_fault(full, form) -> None:
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(urllib.request.Request(f"{full.address}/api/annotations?format=yolo", *form), timeout=60)
    assert failed.value.code == 503
    sentence = "The server cannot write to its temporary folder: No such file or directory."
    assert json.load(failed.value)["detail"] == sentence


def test_a_long_form_in_chunks_is_too_long(start, form) -> None:
    """Not malformed, as a form that ends too early is."""
    body, headers = form
    pieces = (body[begin : begin + 2**16] for begin in range(0, 2**21, 2**16))
    server = start("--megabytes", "1")
    with pytest.raises(urllib.error.HTTPError) as failed:
        urllib.request.urlopen(urllib.request.Request(f"{server.address}/api/batch", pieces, headers), timeout=60)
    assert failed.value.code == 413
