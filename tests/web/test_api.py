"""The HTTP interface, asked over a real socket."""

import base64
import contextlib
import http.client
import io
import json
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import numpy as np
import PIL.Image
import pytest

from casmap.data.free_photos import free_photos
from casmap.inference.mapper import SaliencyMapper
from casmap.web.app import POLICY


def ask(address, path, body=None, headers=None, method=None):
    """Status, headers and content of an answer."""
    request = urllib.request.Request(f"{address}{path}", body, headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read()


def detail(answer):
    """The one sentence of a refusal."""
    sentence = json.loads(answer[2])["detail"]
    assert isinstance(sentence, str)
    assert "Traceback" not in sentence
    return sentence


@pytest.fixture(scope="module")
def cat() -> bytes:
    return free_photos()[0].read_bytes()


def form(photos):
    head = b'--X\r\nContent-Disposition: form-data; name="photos"; filename="a.png"\r\n\r\n'
    body = b"".join(head + content + b"\r\n" for content in photos) + b"--X--\r\n"
    return body, {"Content-Type": "multipart/form-data; boundary=X"}


def test_it_is_there_and_names_its_mapping(server) -> None:
    assert json.loads(ask(server.address, "/api/health")[2])["status"] == "ok"
    (mapping,) = json.loads(ask(server.address, "/api/mappings")[2])
    assert mapping == {"name": "casmap", "size": 224, "classes": 1000, "predicts": True}


def test_a_photo_gets_the_map_that_the_library_finds(server, cat) -> None:
    status, _, content = ask(server.address, "/api/map", cat)
    assert status == 200
    told = json.loads(content)
    found = SaliencyMapper.load()(cat)
    assert (told["width"], told["height"]) == found.photo.shape[1::-1]
    assert told["box"] == list(found.box())
    assert told["area"] == pytest.approx(found.area, abs=1e-3)
    mask = np.array(PIL.Image.open(io.BytesIO(base64.b64decode(told["mask"]))))
    assert mask.shape == (224, 224)
    assert mask.mean() / 255 == pytest.approx(found.area, abs=0.01)


@pytest.mark.parametrize("view", ["mask", "overlay", "masked-in", "masked-out", "inpainted"])
def test_views_are_pictures_of_the_photos_size(server, cat, view) -> None:
    status, headers, content = ask(server.address, f"/api/view?view={view}&alpha=1.5", cat)
    assert (status, headers["content-type"]) == (200, "image/png")
    picture = PIL.Image.open(io.BytesIO(content))
    assert picture.size == PIL.Image.open(io.BytesIO(cat)).size
    if view == "masked-in":
        found = SaliencyMapper.load()(cat)
        different = (np.array(picture) != found.masked_in(1.5)).any(axis=2).mean()
        assert different < 0.01


def test_a_batch_tells_of_the_one_that_cannot_be_read(server, cat) -> None:
    body, headers = form([cat, b"no photo", cat])
    status, _, content = ask(server.address, "/api/batch", body, headers)
    first, second, third = json.loads(content)
    assert status == 200
    assert first == third
    assert "mask" in first
    assert "not an image" in second["detail"]


def test_free_photos_are_given_and_nothing_else_is(server) -> None:
    names = json.loads(ask(server.address, "/api/photos")[2])
    assert names == [path.name for path in free_photos()]
    assert ask(server.address, f"/api/photos/{names[0]}")[2] == free_photos()[0].read_bytes()
    for path in ("/api/photos/..%2F..%2Fpyproject.toml", "/../app.py", "/..%2fapp.py", "/static/../app.py", "/app.py"):
        assert ask(server.address, path)[0] == 404


@pytest.mark.parametrize(
    ("path", "body", "status", "word"),
    [
        ("/api/map", b"", 422, "no photo"),
        ("/api/map", b"hello", 422, "not an image"),
        ("/api/map?mapping=nobody", b"x", 404, "nobody"),
        ("/api/view?view=x-ray", b"x", 422, "view"),
        ("/api/view?alpha=-1", b"x", 422, "alpha"),
        ("/api/view?alpha=nan", b"x", 422, "alpha"),
        ("/api/batch", b"x", 422, "photos"),
    ],
)
def test_what_cannot_be_done_is_one_sentence(server, path, body, status, word) -> None:
    answer = ask(server.address, path, body, method="POST")
    assert answer[0] == status
    assert word in detail(answer)


def test_the_page_comes_with_a_policy_that_lets_nothing_in_from_elsewhere(server) -> None:
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
def test_a_page_from_elsewhere_gets_no_answer(server, headers) -> None:
    answer = ask(server.address, "/api/health", headers=headers)
    assert answer[0] == 403
    assert "only" in detail(answer)


def test_its_own_page_does(server) -> None:
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
    with contextlib.suppress(OSError):  # it may hang up while we are still talking
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


def test_what_takes_too_long_is_ended(start, cat) -> None:
    hasty = start("--seconds", "0.1")
    large = io.BytesIO()
    PIL.Image.fromarray(np.random.default_rng(0).integers(0, 255, (1800, 2000, 3), np.uint8)).save(large, "PNG")
    answer = ask(hasty.address, "/api/view?view=inpainted", large.getvalue())
    assert answer[0] == 408
    assert "longer than 0.1 seconds" in detail(answer)
    assert ask(hasty.address, "/api/health")[0] == 200


def test_many_at_once_are_answered_or_told_to_come_back(server, cat) -> None:
    answers = []

    def one() -> None:
        answers.append(ask(server.address, "/api/map", cat)[0])

    threads = [threading.Thread(target=one) for _ in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(answers) <= {200, 503}
    assert answers.count(200) >= 18  # as many as may work and wait
    assert ask(server.address, "/api/map", cat)[0] == 200


def test_a_port_that_is_taken_is_one_sentence(server, casmap) -> None:
    done = casmap("serve", "--no-browser", "--port", str(urlsplit(server.address).port))
    assert "choose another --port" in done.sentence()


def test_two_mappings_are_told_apart(start, tmp_path_factory, cat) -> None:
    from casmap.inference.mapper import SHIPPED

    paths = []
    for name in ("one", "two"):
        path = tmp_path_factory.mktemp(name) / "mapping.onnx"
        path.write_bytes(SHIPPED.read_bytes())
        paths += ["--mapping", str(path)]
    both = start(*paths)
    names = [mapping["name"] for mapping in json.loads(ask(both.address, "/api/mappings")[2])]
    assert len(set(names)) == 2
    told = [json.loads(ask(both.address, f"/api/map?mapping={name}", cat)[2])["mapping"] for name in names]
    assert told == names
