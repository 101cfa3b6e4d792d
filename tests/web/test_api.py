"""The HTTP API over a real socket."""

import base64
import contextlib
import http.client
import io
import json
import shutil
import threading
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import PIL.Image
import pytest
from fastapi.testclient import TestClient

from casmap.annotations.format import FORMATS
from casmap.data.free_photos import free_photos
from casmap.inference.components import Threshold
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.objects import objects_in, objects_of
from casmap.tools.annotate import annotate
from casmap.web.app import POLICY, create_app
from casmap.web.limits import Limits


def ask(address, path, body=None, headers=None, method=None):
    """Send a request; returns the status, headers and content of the response."""
    request = urllib.request.Request(f"{address}{path}", body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def wait_until(happened, seconds=60) -> None:
    """Wait until a function says so."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.1)


def detail(answer):
    """The error message of a response."""
    sentence = json.loads(answer[2])["detail"]
    assert isinstance(sentence, str)
    assert "Traceback" not in sentence
    return sentence


@pytest.fixture(scope="module")
def cat() -> bytes:
    return free_photos()[0].read_bytes()


def form(photos, names=None):
    head = '--X\r\nContent-Disposition: form-data; name="photos"; filename="{}"\r\n\r\n'
    sent = zip(photos, names or ["a.png"] * len(photos), strict=True)
    body = b"".join(head.format(name).encode() + content + b"\r\n" for content, name in sent) + b"--X--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=X"}


def test_the_server_runs_and_lists_its_mapping(server) -> None:
    assert json.loads(ask(server.address, "/api/health")[2])["status"] == "ok"
    (mapping,) = json.loads(ask(server.address, "/api/mappings")[2])
    assert mapping == {"name": "casmap", "size": 288, "classes": 1000, "predicts": True}


def test_the_map_of_a_photo_equals_the_librarys(server, cat) -> None:
    status, _, content = ask(server.address, "/api/map", cat)
    assert status == 200
    body = json.loads(content)
    found = SaliencyMapper.load()(cat)
    assert (body["width"], body["height"]) == found.photo.shape[1::-1]
    assert body["box"] == list(found.box())
    assert body["area"] == pytest.approx(found.area, abs=1e-3)
    mask = np.array(PIL.Image.open(io.BytesIO(base64.b64decode(body["mask"]))))
    np.testing.assert_allclose(mask / 255, found.mask, atol=0.01)
    assert body["flat"] is False
    assert (body["label"], body["confidence"]) == (found.label, pytest.approx(found.confidence, abs=1e-5))


def test_raw_is_what_the_decoder_computes(server, cat) -> None:
    status, _, content = ask(server.address, "/api/raw", cat)
    body = json.loads(content)
    mapper = SaliencyMapper.load()
    (found,) = mapper.map([cat])
    assert (status, body["width"], body["height"], body["size"], body["side"]) == (200, 451, 300, 288, 72)
    values = np.frombuffer(base64.b64decode(body["values"]), "<f4").reshape(72, 72)
    np.testing.assert_allclose(values.repeat(4, axis=0).repeat(4, axis=1), found.mask, atol=1e-5)
    assert (body["label"], body["confidence"]) == (found.label, pytest.approx(found.confidence, abs=1e-5))


def test_the_mask_in_a_response_has_at_most_640_pixels_on_its_longer_side(server, cat) -> None:
    with PIL.Image.open(io.BytesIO(cat)) as photo:
        large = io.BytesIO()
        photo.convert("RGB").resize((1500, 1000)).save(large, "JPEG")
    body = json.loads(ask(server.address, "/api/map", large.getvalue())[2])
    assert (body["width"], body["height"]) == (1500, 1000)
    with PIL.Image.open(io.BytesIO(base64.b64decode(body["mask"]))) as mask:
        assert mask.size == (640, 427)


@pytest.mark.parametrize("view", ["mask", "overlay", "masked-in", "masked-out", "inpainted"])
def test_views_have_the_size_of_the_photo(server, cat, view) -> None:
    status, headers, content = ask(server.address, f"/api/view?view={view}&alpha=1.5", cat)
    assert (status, headers["content-type"]) == (200, "image/png")
    image = PIL.Image.open(io.BytesIO(content))
    assert image.size == PIL.Image.open(io.BytesIO(cat)).size
    if view == "masked-in":
        found = SaliencyMapper.load()(cat)
        different = (np.array(image) != found.masked_in(1.5)).any(axis=2).mean()
        assert different < 0.01


def test_a_batch_has_an_error_for_an_unreadable_photo(server, cat) -> None:
    body, headers = form([cat, b"no photo", cat])
    status, _, content = ask(server.address, "/api/batch", body, headers)
    first, second, third = json.loads(content)
    assert status == 200
    assert first == third
    assert "mask" in first
    assert "not an image" in second["detail"]


def unpacked(answer) -> dict[str, bytes]:
    """The files of a response, by name."""
    status, headers, content = answer
    assert status == 200, content
    assert headers["content-disposition"].startswith("attachment; ")
    if headers["content-type"] == "application/zip":
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    return {headers["content-disposition"].rpartition("''")[2]: content}


@pytest.mark.parametrize("objects", ["largest", "all"])
@pytest.mark.parametrize("name", FORMATS.names)
def test_annotations_are_what_annotate_writes(server, tmp_path, name, objects) -> None:
    folder = tmp_path / "photos"
    folder.mkdir()
    paths = [Path(shutil.copy(path, folder)) for path in free_photos()[:2]]
    annotate(paths, format=name, out=tmp_path / "out", classes="none", objects=objects, alpha=1.25)
    wanted = {
        path.relative_to(tmp_path / "out").as_posix(): path.read_bytes()
        for path in (tmp_path / "out").rglob("*") if path.is_file()
    }  # fmt: skip
    if name == "csv":  # a download has no path to the photos
        wanted = {file: content.replace(b"../photos/", b"") for file, content in wanted.items()}
    body, headers = form([path.read_bytes() for path in paths], [path.name for path in paths])
    query = f"/api/annotations?format={name}&objects={objects}&alpha=1.25"
    assert unpacked(ask(server.address, query, body, headers)) == wanted


def test_objects_have_the_requested_classes(server, cat) -> None:
    body, headers = form([cat])
    for classes, label in (("none", "object"), ("predicted", SaliencyMapper.load()(cat).label)):
        answer = ask(server.address, f"/api/annotations?format=coco&classes={classes}", body, headers)
        (content,) = unpacked(answer).values()
        assert [category["name"] for category in json.loads(content)["categories"]] == [label]
        assert answer[1]["casmap-objects"] == "1"


CORRECTED = [[5, 6, 200, 150], [10, 10, 20, 30]]


def corrected(photos, corrections):
    """A form with photos and corrections."""
    body, headers = form(photos, [f"{number}.png" for number in range(len(photos))])
    field = f'--X\r\nContent-Disposition: form-data; name="corrections"\r\n\r\n{corrections}\r\n'.encode()
    return field + body, headers


def test_corrected_boxes_replace_the_objects_of_a_photo(server, cat) -> None:
    body, headers = corrected([cat, cat], json.dumps([CORRECTED, None]))
    for edges in ("sharp", "smooth"):
        query = f"/api/annotations?format=coco&rle=true&threshold=0.4&edges={edges}"
        content = json.loads(ask(server.address, query, body, headers)[2])
        mask = SaliencyMapper.load(edges=edges)(cat).mask
        wanted = objects_in(mask, "object", [tuple(box) for box in CORRECTED], Threshold(fixed=0.4))
        wanted += objects_of(mask, "object", threshold=Threshold(fixed=0.4))
        assert [one["image_id"] for one in content["annotations"]] == [1, 1, 2]
        assert [one["segmentation"] for one in content["annotations"]] == [one.rle for one in wanted]
        assert [one["bbox"] for one in content["annotations"][:2]] == [[5, 6, 195, 144], [10, 10, 10, 20]]


SLOW = """
import time
from pathlib import Path
from casmap.inference import objects
from casmap.web.limits import Limits
Limits.__init__.__defaults__ = (*Limits.__init__.__defaults__[:3], 1, 0, 64)
make = objects._object
def slowly(*arguments):
    time.sleep(0.1)
    with open({calls!r}, "a") as file:
        file.write("x")
    return make(*arguments)
objects._object = slowly
"""


def test_work_on_corrected_boxes_ends_with_its_time(start, cat, tmp_path) -> None:
    """And with it the thread, which cannot be stopped: the server, which has one here, is free again."""
    calls = tmp_path / "calls"
    server = start("--seconds", "1", first=SLOW.format(calls=str(calls)))
    body, headers = corrected([cat], json.dumps([[[0, 0, 9, side] for side in range(1, 101)]]))
    assert ask(server.address, "/api/annotations?format=csv", body, headers)[0] == 408
    wait_until(lambda: ask(server.address, "/api/map", cat)[0] != 503)
    assert 1 <= len(calls.read_text()) < 100


@pytest.mark.parametrize(
    ("corrections", "word"),
    [
        ("x", "must be a JSON list"), ("{}", "must be a JSON list"), ("[]", "for each of 1 photos"),
        ("[null, null]", "for each of 1 photos"), ("[[[1, 2, 3]]]", "boxes [x0, y0, x1, y1]"),
        ("[[[0, 0, 1e9, 2]]]", "boxes"), ("[[[-1, 0, 2, 2]]]", "boxes"), ('[[["a", 0, 2, 2]]]', "boxes"),
        (json.dumps([[[0, 0, 1, 1]] * 101]), "at most 100 boxes"), ("[" * 100_000, "must be a JSON list"),
        ("[[[9, 9, 9, 20]]]", "The box 9, 9, 9, 20 is empty or not inside the photo of 451 x 300."),
        ("[[[0, 0, 452, 300]]]", "not inside the photo"), ("[[[NaN, 0, 2, 2]]]", "boxes"),
    ],
)  # fmt: skip
def test_invalid_corrections_get_a_one_line_error(server, cat, corrections, word) -> None:
    body, headers = corrected([cat], corrections)
    answer = ask(server.address, "/api/annotations?format=coco", body, headers)
    assert answer[0] == 422
    assert word in detail(answer)


def test_one_file_of_several_can_be_requested(server, cat) -> None:
    body, headers = form([cat], ["cat.png"])
    ((name, line),) = unpacked(ask(server.address, "/api/annotations?format=yolo&ending=.txt", body, headers)).items()
    assert name == "cat.txt"
    assert len(line.split()) == 5
    answer = ask(server.address, "/api/annotations?format=yolo&ending=.png.gz", body, headers)
    assert answer[0] == 422
    assert ".png.gz" in detail(answer)


def test_a_photo_that_cannot_be_annotated_is_skipped_and_listed(start, cat) -> None:
    small = start("--megapixels", "1")
    large = io.BytesIO()
    PIL.Image.new("L", (2000, 1000)).save(large, "PNG")
    sent = {"good.png": cat, "bäd.png": b"no photo", "large.png": large.getvalue()}
    body, headers = form(sent.values(), sent)
    answer = ask(small.address, "/api/annotations?format=coco", body, headers)
    (content,) = unpacked(answer).values()
    assert [image["file_name"] for image in json.loads(content)["images"]] == ["good.png"]
    bad, too_large = json.loads(answer[1]["casmap-left-out"])
    assert bad.startswith("bäd.png: ")
    assert "not an image" in bad
    assert too_large == "large.png: A photo may have at most 1 million pixels, and 65,500 on a side."
    for name, status, word in (("bäd.png", 422, "not an image"), ("large.png", 413, "1 million pixels")):
        answer = ask(small.address, "/api/annotations?format=yolo", *form([sent[name]]))
        assert answer[0] == status
        assert word in detail(answer)
    answer = ask(small.address, "/api/annotations?format=coco", *form([b"x"] * 65))
    assert answer[0] == 413
    assert "at most 64 photos" in detail(answer)


HOSTILE = [
    "../../evil.png", "/etc/passwd", "..\\evil.png", "C:\\evil.png", "..", "same.png", "SAME.png", "same.png",
    "x" * 2000 + ".png", "data.yaml", "annotations.json",
]  # fmt: skip


@pytest.mark.parametrize("name", ["yolo", "voc", "coco", "csv"])
def test_hostile_names_are_harmless_and_no_file_is_left(cat, tmp_path, monkeypatch, name) -> None:
    """In this process, so that the temporary folder can be checked."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with TestClient(create_app({"casmap": SaliencyMapper.load()}, hosts=None)) as client:
        body, headers = form([cat] * len(HOSTILE), HOSTILE)
        answer = client.post(f"/api/annotations?format={name}", content=body, headers=headers)
    files = unpacked((answer.status_code, answer.headers, answer.content))
    assert not any(part in ("", "..") or "\\" in part for file in files for part in file.split("/"))
    assert list(tmp_path.iterdir()) == []
    if name == "yolo":
        assert len([file for file in files if file.startswith("labels/")]) == len(HOSTILE)
        assert [content for file, content in files.items() if file.startswith("images/")] == [cat] * len(HOSTILE)
        assert files["data.yaml"].startswith(b"train: train.txt\nval: val.txt\n")
    if name == "coco":
        names = [image["file_name"] for image in json.loads(files["annotations.json"])["images"]]
        assert names[5:8] == ["same.png", "SAME-2.png", "same-3.png"]
        assert len({one.lower() for one in names}) == len(HOSTILE)


def test_a_mapping_without_predicted_classes_is_an_error(cat) -> None:
    mapper = SaliencyMapper.load()
    mapper.network.predicts = False
    with TestClient(create_app({"casmap": mapper}, hosts=None)) as client:
        body, headers = form([cat])
        answer = client.post("/api/annotations?format=coco&classes=predicted", content=body, headers=headers)
        assert (answer.status_code, "use classes=none" in answer.json()["detail"]) == (422, True)
        assert client.post("/api/annotations?format=coco", content=body, headers=headers).status_code == 200


@pytest.mark.parametrize("value", [0.0, 0.7])
def test_a_flat_mask_has_no_box(cat, value) -> None:
    mapper = SaliencyMapper.load()
    mapper.masks = lambda images: (np.full(images.shape[:3], value, np.float32), np.zeros((len(images), 1000)))
    with TestClient(create_app({"casmap": mapper}, hosts=None)) as client:
        body = client.post("/api/map", content=cat).json()
        assert (body["box"], body["area"]) == (None, value)
        answer = client.post("/api/annotations?format=yolo&ending=.txt&alpha=0.5", files={"photos": ("cat.png", cat)})
        assert (answer.status_code, answer.content, answer.headers["casmap-objects"]) == (200, b"", "0")


@pytest.mark.parametrize(("limits", "status"), [(Limits(seconds=0.001), 408), (Limits(waiting=-2), 503)])
def test_annotations_have_the_limits_of_all_requests(cat, limits, status) -> None:
    with TestClient(create_app({"casmap": SaliencyMapper.load()}, limits, hosts=None)) as client:
        answer = client.post("/api/annotations?format=coco", files={"photos": ("cat.png", cat)})
        assert (answer.status_code, list(answer.json())) == (status, ["detail"])


def test_a_slow_photo_of_a_batch_fails_alone(start, scan_bomb, cat) -> None:
    server = start("--seconds", "4")
    # On a busy machine its processes take a while to start.
    wait_until(lambda: ask(server.address, "/api/map", cat)[0] == 200)
    status, _, content = ask(server.address, "/api/batch", *form([cat, scan_bomb, cat]))
    assert status == 200, content
    first, slow, last = json.loads(content)
    assert slow == {"detail": "The request took longer than 4 seconds."}
    assert first == last
    assert "mask" in first


def test_only_free_photos_are_served(server) -> None:
    names = json.loads(ask(server.address, "/api/photos")[2])
    assert names == [path.name for path in free_photos()]
    assert ask(server.address, f"/api/photos/{names[0]}")[2] == free_photos()[0].read_bytes()
    for path in ("/api/photos/..%2F..%2Fpyproject.toml", "/../app.py", "/..%2fapp.py", "/static/../app.py", "/app.py"):
        assert ask(server.address, path)[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "status", "expected"),
    [
        ("GET", "/api/map", 405, "/api/map takes POST, not GET."),
        ("DELETE", "/api/openapi.json", 405, "not DELETE."),
        ("POST", "/api/maps", 404, "The server has no address '/api/maps': did you mean /api/map?"),
        ("GET", "/cat", 404, "The server has no address '/cat': /api/openapi.json lists all addresses."),
        ("GET", "/api/photos/cat", 404, "There is no photo 'cat': /api/photos lists them."),
    ],
)
def test_a_wrong_address_or_method_gets_a_sentence_that_says_what_to_do(server, method, path, status, expected) -> None:
    answer = ask(server.address, path, method=method)
    assert answer[0] == status
    assert detail(answer).endswith(expected)
    assert ("POST" if path == "/api/map" else "GET") in answer[1].get("Allow", "GET")


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/api/map", b"", 422, "no photo"),
        ("/api/map", b"hello", 422, "not an image"),
        ("/api/map?mapping=unknown", b"x", 404, "unknown"),
        ("/api/view?view=x-ray", b"x", 422, "The option view cannot be 'x-ray': choose 'mask', 'overlay', "),
        ("/api/view?view=mask&alpha=-1", b"x", 422, "The option alpha cannot be '-1': give at least 0."),
        ("/api/view?view=mask&alpha=nan", b"x", 422, "The option alpha cannot be 'nan': give at most 100."),
        ("/api/view?view=mask&alpha=much", b"x", 422, "The option alpha cannot be 'much': give a number."),
        ("/api/view?view=mask&threshold=1.5", b"x", 422, "The option threshold cannot be '1.5': give at most 1."),
        ("/api/view?alpha=1&threshold=0", b"x", 422, "alpha and threshold exclude each other: give only one of them."),
        ("/api/view?treshold=0.9", b"x", 422, "/api/view has no option 'treshold': did you mean threshold?"),
        ("/api/map?threshold=0.9", b"x", 422, "/api/map has no option 'threshold': choose from mapping."),
        ("/api/batch", b"x", 422, "The request has no photos: send them as files of a form, in the field photos."),
        ("/api/annotations?format=coco", b"x", 422, "The request has no photos: "),
    ],
)
def test_invalid_requests_get_a_one_line_error(server, path, body, status, word) -> None:
    answer = ask(server.address, path, body, method="POST")
    assert answer[0] == status
    assert word in detail(answer)


def test_text_in_the_field_of_photos_is_no_photo() -> None:
    with TestClient(create_app({"casmap": SaliencyMapper.load()}, hosts=None)) as client:
        answer = client.post("/api/batch", data={"photos": "text"})
    expected = "The request has no photos: send them as files of a form, in the field photos."
    assert (answer.status_code, answer.json()) == (422, {"detail": expected})


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "The request has no option format: add ?format=... to the address (see /api/openapi.json)."),
        ("format=png", "The option format cannot be 'png': choose 'coco', "),
        ("fromat=coco", "/api/annotations has no option 'fromat': did you mean format?"),
        ("format=coco&min_area=0.1", "has no option 'min_area': choose from format, threshold, alpha, "),
        ("format=coco&rle=perhaps", "The option rle cannot be 'perhaps': give true or false."),
        ("format=coco&ending=" + 30 * "x", "': give at most 20 characters."),
    ],
)
def test_invalid_options_of_annotations_get_a_one_line_error(server, cat, query, expected) -> None:
    answer = ask(server.address, f"/api/annotations?{query}", *form([cat]))
    assert answer[0] == 422
    assert expected in detail(answer)


def test_the_page_has_a_strict_content_security_policy(server) -> None:
    status, headers, content = ask(server.address, "/")
    assert status == 200
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert b"http://" not in content
    assert b"https://" not in content
    assert "server" not in {key.lower() for key in headers}


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Origin": "http://evil.example"}]
)
def test_requests_of_foreign_pages_are_rejected(server, headers) -> None:
    answer = ask(server.address, "/api/health", headers=headers)
    assert answer[0] == 403
    assert "only" in detail(answer)


def test_requests_of_the_own_page_are_accepted(server) -> None:
    assert ask(server.address, "/api/health", headers={"Origin": server.address})[0] == 200
    port = urlsplit(server.address).port
    assert ask(server.address, "/api/health", headers={"Host": f"localhost:{port}"})[0] == 200


def test_too_many_bytes_are_refused_before_they_are_read(start) -> None:
    small = start("--megabytes", "1")
    address = urlsplit(small.address)
    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    connection.putrequest("POST", "/api/map")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == 413
    assert "at most 1 MB" in json.loads(answer.read())["detail"]

    def chunks():
        for _ in range(40):
            yield bytes(2**16)

    connection = http.client.HTTPConnection(address.hostname, address.port, timeout=30)
    with contextlib.suppress(OSError):  # the server may close the connection while the request is sent
        connection.request("POST", "/api/map", chunks(), encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 413
    assert ask(small.address, "/api/health")[0] == 200


def test_too_many_pixels_and_too_many_photos_are_refused(start, cat) -> None:
    small = start("--megapixels", "1")
    large = io.BytesIO()
    PIL.Image.new("L", (2000, 1000)).save(large, "PNG")
    answer = ask(small.address, "/api/map", large.getvalue())
    assert answer[0] == 413
    assert "at most 1 million pixels" in detail(answer)
    body, headers = form([b"x"] * 65)
    answer = ask(small.address, "/api/batch", body, headers)
    assert answer[0] == 413
    assert "at most 64 photos" in detail(answer)


def test_a_slow_request_is_stopped(start, cat) -> None:
    hasty = start("--seconds", "0.1")
    large = io.BytesIO()
    PIL.Image.fromarray(np.random.default_rng(0).integers(0, 255, (1800, 2000, 3), np.uint8)).save(large, "PNG")
    answer = ask(hasty.address, "/api/view?view=inpainted", large.getvalue())
    assert answer[0] == 408
    assert "longer than 0.1 seconds" in detail(answer)
    assert ask(hasty.address, "/api/health")[0] == 200


def test_many_requests_at_once_succeed_or_get_503(server, cat) -> None:
    answers = []

    def one() -> None:
        answers.append(ask(server.address, "/api/map", cat)[0])

    threads = [threading.Thread(target=one) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 503}
    assert answers.count(200) >= 18  # working and waiting
    assert ask(server.address, "/api/map", cat)[0] == 200


def test_a_port_in_use_is_a_one_line_error(server, casmap) -> None:
    done = casmap("serve", "--no-browser", "--port", str(urlsplit(server.address).port))
    assert "Cannot bind to 127.0.0.1:" in done.sentence()
    assert "(--port)" in done.sentence()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/bin/false", "The process that opens photos does not start (exit code 1)."),
        ("/nowhere/python", "Cannot start a process that opens photos: No such file or directory."),
    ],
)
def test_a_server_whose_processes_do_not_start_ends_with_one_sentence(fresh, program, expected) -> None:
    start = f"import sys; sys.executable = {program!r}; from casmap.cli.main import main; main()"
    done = fresh("serve", "--no-browser", "--port", "0", start=start)
    assert done.sentence() == f"casmap: {expected}\n"
    assert done.said == ""


def test_two_mappings_have_different_names(start, tmp_path_factory, cat) -> None:
    from casmap.inference.mapper import SHIPPED

    paths = []
    for name in ("one", "two"):
        path = tmp_path_factory.mktemp(name) / "mapping.onnx"
        path.write_bytes(SHIPPED.read_bytes())
        paths += ["--mapping", str(path)]
    both = start(*paths)
    names = [mapping["name"] for mapping in json.loads(ask(both.address, "/api/mappings")[2])]
    assert len(set(names)) == 2
    used = [json.loads(ask(both.address, f"/api/map?mapping={name}", cat)[2])["mapping"] for name in names]
    assert used == names
