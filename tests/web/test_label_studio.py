"""Label Studio's protocol: recorded requests of Label Studio 1.23.2, and addresses that must not be fetched."""

import base64
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen

import numpy as np
import PIL.Image
import pytest

import casmap
from casmap.annotations.brush import decode_brush
from casmap.data.scenes import Scenes
from casmap.errors import UnreadableImage, UserError
from casmap.integrations.label_studio import controls_of
from casmap.io.images import encode_png
from casmap.web.label_studio_photos import LabelStudio

RECORDED = json.loads((Path(__file__).parent / "label_studio_requests.json").read_text())
JWT, LEGACY = "header.payload.signature", "0123456789abcdef"
PHOTO = Scenes(classes=3, photos=6, size=96).image(1)
CONFIG = (
    '<View><Image name="i" value="$image"/>'
    '<RectangleLabels name="b" toName="i"{}><Label value="{}"/></RectangleLabels></View>'
)


class Host(ThreadingHTTPServer):
    """A server that gives photos as Label Studio does, and notes what it was asked for."""

    daemon_threads = True

    def __init__(self, tokens: set[str] | None = None) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.tokens, self.asked, self.accesses = tokens, [], 0
        self.address = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(BaseHTTPRequestHandler):
    server: Host

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self) -> None:
        sent = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.path, sent.decode()))
        if self.path != "/api/token/refresh/" or json.loads(sent) != {"refresh": JWT}:
            return self.answer(401)
        self.server.accesses += 1
        return self.answer(200, json.dumps({"access": f"access-{self.server.accesses}"}).encode())

    def do_GET(self) -> None:
        sent = self.headers.get("Authorization", "")
        self.server.asked.append((self.path, sent))
        parts = urlsplit(self.path)
        name = parse_qs(parts.query).get("d", [""])[0] or unquote(parts.path)
        if self.server.tokens is not None and sent not in self.server.tokens and name != "/public.png":
            return self.answer(401)
        if name.endswith("redirect.png"):
            return self.answer(302, Location="http://127.0.0.1:1/elsewhere.png")
        if name.endswith("slow.png"):
            return self.drip()
        if name.endswith("endless.png"):
            return self.flood()
        if name.endswith("text.png"):
            return self.answer(200, b"not a photo")
        if name.endswith("missing.png"):
            return self.answer(404)
        return self.answer(200, encode_png(PHOTO))

    def drip(self) -> None:
        """Send a byte of the head now and then, for ever."""
        try:
            while True:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n" if self.path else b"")
                self.path = ""
                self.wfile.write(b"X: y\r\n")
                threading.Event().wait(0.2)
        except OSError:
            pass

    def flood(self) -> None:
        try:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                self.wfile.write(bytes(2**20))
        except OSError:
            pass


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    one = Host({"Bearer access-1", "Bearer access-2"})
    yield one
    one.shutdown()


@pytest.fixture(scope="module")
def backend(host, start):
    return start(
        "--label-studio", host.address, "--megabytes", "2", "--seconds", "3", environment={"LABEL_STUDIO_API_KEY": JWT}
    )


def send(server, path: str, body: object = None, **headers: str):
    content = None if body is None else json.dumps(body).encode()
    request = Request(server.address + path, content, {"Content-Type": "application/json", **headers})
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except HTTPError as error:
        return error.code, json.load(error)


def predict(server, *addresses: object, config: str = CONFIG.format("", "cat"), key: str = "image"):
    return send(server, "/predict", {"tasks": [{"data": {key: each}} for each in addresses], "label_config": config})


def test_recorded_requests_are_answered(host, backend) -> None:
    found = casmap.load()(PHOTO)
    for asked in RECORDED:
        body = asked["body"] and json.loads(json.dumps(asked["body"]).replace("http://LABEL-STUDIO", host.address))
        status, answer = send(backend, asked["path"], body, **asked["headers"])
        assert status == 200, answer
        if asked["path"] == "/setup":
            version = answer["model_version"]
            assert version.startswith(f"casmap {casmap.__version__} casmap ")
        if asked["path"] != "/predict":
            continue
        assert len(answer["results"]) == len(body["tasks"])
        assert answer["errors"] == []
        for task, prediction in zip(body["tasks"], answer["results"], strict=True):
            assert prediction["model_version"] == version
            assert prediction["score"] == pytest.approx(found.objects("largest")[0].score, abs=1e-4)
            folder = task["data"]["image"].split("/")[-2]
            for region in prediction["result"]:
                assert (region["original_width"], region["original_height"]) == (96, 96)
                labels = region["value"][region["type"]]
                assert labels == ([] if folder.isdecimal() else [folder])  # an upload is in no class folder
            kinds = [region["type"] for region in prediction["result"]]
            if "brushlabels" in kinds:
                rle = prediction["result"][0]["value"]["rle"]
                np.testing.assert_array_equal(decode_brush(rle, (96, 96)), found.connected())
            else:
                assert kinds == ["rectanglelabels", "polygonlabels"]
                box = prediction["result"][0]["value"]
                edges = [box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]]
                np.testing.assert_allclose(np.array(edges) * 0.96, found.box(), atol=1e-6)
    assert not any("access_token" in text or "0" * 40 in text for _, text in host.asked)


def test_the_token_is_exchanged_once_and_again_when_it_has_expired(backend) -> None:
    host = Host({"Bearer access-2"})
    server = LabelStudio(host.address, JWT)
    for _ in range(2):
        assert server.photo("/data/upload/1/a.png", 2**20)
    assert [path for path, _ in host.asked].count("/api/token/refresh/") == 2  # access-1 is refused, access-2 is not
    assert LabelStudio(host.address, JWT).target("/data/a b.png") == "/data/a%20b.png"
    host.shutdown()


def test_a_legacy_token_is_sent_as_it_is_and_only_where_photos_are() -> None:
    host = Host({f"Token {LEGACY}"})
    server = LabelStudio(f"{host.address}/", LEGACY)
    assert server.photo("/data/local-files/?d=a/b c.png", 2**20)
    assert server.photo(f"{host.address}/public.png", 2**20)
    assert host.asked == [("/data/local-files/?d=a/b%20c.png", f"Token {LEGACY}"), ("/public.png", "")]
    with pytest.raises(UnreadableImage, match=r"needs a token \(LABEL_STUDIO_API_KEY\)"):
        LabelStudio(host.address).photo("/data/upload/1/a.png", 2**20)
    with pytest.raises(UnreadableImage, match="refuses the token in LABEL_STUDIO_API_KEY: create a new one"):
        LabelStudio(host.address, "not.this.one").photo("/data/upload/1/a.png", 2**20)
    host.shutdown()


def test_an_exchanged_token_is_not_sent_elsewhere_after_a_401() -> None:
    host = Host({"Bearer access-1"})
    server = LabelStudio(host.address, JWT)
    assert server.photo("/data/upload/1/a.png", 2**20)
    host.asked.clear()
    with pytest.raises(UnreadableImage, match="needs a token"):
        server.photo("/api/projects/1/export", 2**20)
    assert host.asked == [("/api/projects/1/export", "")]
    host.shutdown()


def test_an_empty_token_is_none() -> None:
    host = Host()
    assert LabelStudio(host.address, "").photo("/data/upload/1/a.png", 2**20)
    assert host.asked == [("/data/upload/1/a.png", "")]
    host.shutdown()


def test_threads_exchange_the_token_once_and_once_more_when_it_has_expired() -> None:
    host = Host({"Bearer access-2"})
    server, together = LabelStudio(host.address, JWT), threading.Barrier(8)

    def fetch(number: int) -> bytes:
        together.wait(60)
        return server.photo(f"/data/upload/1/{number}.png", 2**20)

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(fetch, range(8)))
    assert host.accesses == 2
    host.shutdown()


def test_a_server_below_a_path(host) -> None:
    server = LabelStudio(f"{host.address}/studio", LEGACY)
    assert server.target("/data/upload/1/a.png") == "/studio/data/upload/1/a.png"
    assert server.target("/studio/data/upload/1/a.png") == "/studio/data/upload/1/a.png"
    assert server.target(f"{host.address}/studio/data/a.png") == "/studio/data/a.png"


@pytest.mark.parametrize(("base", "quoted"), [("/studio", "/studio"), ("/my studio", "/my%20studio")])
def test_the_token_stays_below_the_path_of_the_server(base, quoted) -> None:
    host = Host()
    server = LabelStudio(host.address + base, LEGACY)
    for path in (f"{base}/data/a.png", "/data/a.png", f"{base}x/data/a.png", f"{base}/api/a.png"):
        assert server.photo(host.address + path, 2**20)
    assert [sent for _, sent in host.asked] == [f"Token {LEGACY}", "", "", ""]
    assert host.asked[0][0] == f"{quoted}/data/a.png"
    host.shutdown()


@pytest.fixture(scope="module")
def secret() -> Iterator[Host]:
    """A server that must never be asked."""
    one = Host()
    yield one
    one.shutdown()


ELSEWHERE = [
    "{secret}/data/upload/1/a.png", "//{secret_host}/data/a.png", "/\\{secret_host}/a.png",
    "{host}@{secret_host}/a.png",
    "http://{secret_host}#{host}/a.png", "http://user:pass@{secret_host}/a.png", "http://user@{host_host}/a.png",
    "https://{host_host}/data/a.png", "http://localhost.:{port}/a.png", "http://127.1:{port}/a.png",
    "http://0x7f000001:{port}/a.png", "http://[::ffff:127.0.0.1]:{port}/a.png", "http://[/a.png", "http://{host_host}0/a.png",
    "http://169.254.169.254/latest/meta-data/", "http://metadata.google.internal/", "http://host:99999/a.png",
    "file:///etc/passwd", "ftp://{host_host}/a.png", "gopher://{secret_host}/", "data:image/png;base64,AAAA",
    "s3://bucket/a.png", "gs://bucket/a.png", "../etc/passwd", "data/upload/a.png", "", " ", "\n", "javascript:1",
    "/data/../api/users", "/data/%2e%2e/api/users", "/data/./a", "{host}/data/..%2fapi", "/data/..\\api",
]  # fmt: skip


@pytest.mark.parametrize("address", ELSEWHERE)
def test_addresses_elsewhere_are_not_fetched(host, secret, backend, address) -> None:
    names = {
        "secret": secret.address, "secret_host": secret.address[7:], "host": host.address,
        "host_host": host.address[7:], "port": secret.address.rpartition(":")[2],
    }  # fmt: skip
    before = len(host.asked)
    status, answer = predict(backend, address.format(**names))
    assert status == 422
    assert answer["detail"].endswith("it is not fetched.")
    assert len(host.asked) == before
    assert secret.asked == []


@pytest.mark.parametrize("value", [None, 3, ["http://a"], {"url": "x"}])
def test_tasks_without_an_address(backend, value) -> None:
    status, answer = predict(backend, value)
    assert (status, answer["detail"]) == (422, "The task has no address of a photo in 'image'.")
    assert predict(backend, "/data/a.png", key="photo")[0] == 422


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("redirect.png", "redirects it, which is not followed"),
        ("missing.png", "does not have it"),
        ("slow.png", "took longer than"),
        ("endless.png", "has more than 2 MB"),
        ("text.png", "is not an image"),
    ],
)
def test_what_the_host_does_not_give_in_time_or_size_is_an_error(host, secret, backend, name, reason) -> None:
    status, answer = predict(backend, f"/data/upload/1/{name}")
    assert status in (408, 422)
    assert reason in answer["detail"] or status == 408
    assert secret.asked == []
    good, bad = predict(backend, "/data/upload/1/a.png", f"/data/upload/1/{name}")[1]["results"]
    assert good["result"]
    assert bad == []
    assert send(backend, "/health")[0] == 200


def test_a_header_in_an_address_stays_an_address(host, backend) -> None:
    before = len(host.asked)
    injected = "/data/a.png HTTP/1.1\r\nX-Injected: yes\r\n\r\n"
    status, answer = predict(backend, injected, "/data/b c\u00e9.png", "/data/a%0d%0aHost: evil.png")
    assert (status, answer["errors"]) == (200, [])
    assert [path for path, _ in host.asked[before:] if path != "/api/token/refresh/"] == [
        "/data/a.png%20HTTP/1.1X-Injected:%20yes", "/data/b%20c%C3%A9.png", "/data/a%0d%0aHost:%20evil.png",
    ]  # fmt: skip


def test_an_unreachable_host_is_an_error(start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(UnreadableImage, match=r"cannot be fetched from http://127\.0\.0\.1:\d+: Connection refused\."):
        LabelStudio(f"http://127.0.0.1:{port}").photo("/data/a.png", 2**20)


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8080", "ftp://localhost", "http://", "http://[", "http://a:99999", "http://me:secret@a", "http://a?b",
     "file:///etc"],
)  # fmt: skip
def test_a_wrong_address_of_the_host_is_refused(url) -> None:
    with pytest.raises(UserError, match="is not the address of a server"):
        LabelStudio(url)


def test_a_wrong_address_or_token_ends_the_command(fresh) -> None:
    assert "is not the address of a server" in fresh("serve", "--label-studio", "localhost", "--no-browser").sentence()
    with pytest.raises(UserError, match="is not a token"):
        LabelStudio("http://localhost:8080", "a token\r\nX: y")


def test_without_the_option_there_are_no_such_routes(server) -> None:
    assert send(server, "/health")[0] == 404
    assert send(server, "/predict", {})[0] in (404, 405)


def test_the_token_of_casmap_may_come_as_a_password(host, start) -> None:
    server = start("--label-studio", host.address, environment={"CASMAP_TOKEN": "a-secret-token"})

    def basic(password: str) -> dict[str, str]:
        return {"Authorization": f"Basic {base64.b64encode(f'casmap:{password}'.encode()).decode()}"}

    asked = {"schema": CONFIG.format("", "cat")}
    assert send(server, "/health")[0] == 200
    assert send(server, "/setup", asked)[0] == 401
    assert send(server, "/setup", asked, **basic("another-token"))[0] == 401
    assert send(server, "/setup", asked, Authorization="Basic !")[0] == 401
    assert send(server, "/setup", asked, **basic("a-secret-token"))[0] == 200
    assert send(server, "/setup", asked, Authorization="Bearer a-secret-token")[0] == 200
    assert send(server, "/api/mappings", **basic("a-secret-token"))[0] == 401  # only Label Studio's routes


def test_a_page_of_another_origin_cannot_ask(host, backend) -> None:
    body = {"tasks": [{"data": {"image": "/data/a.png"}}], "label_config": CONFIG.format("", "cat")}
    before = len(host.asked)
    assert send(backend, "/predict", body, Origin="http://evil.example")[0] == 403
    assert send(backend, "/predict", body, Host="evil.example")[0] == 403
    assert len(host.asked) == before


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({}, "tasks"), ({"tasks": [], "label_config": ""}, "tasks"), ({"tasks": [{}], "label_config": ""}, "data"),
        ({"tasks": 3, "label_config": ""}, "tasks"), ([], "body"),
        ({"tasks": [{"data": {}}], "label_config": "<View"}, "not well-formed XML"),
        ({"tasks": [{"data": {}}], "label_config": "<!DOCTYPE a [<!ENTITY b 'c'>]><View>&b;</View>"}, "DOCTYPE"),
        ({"tasks": [{"data": {}}], "label_config": "<View/>"}, "RectangleLabels, PolygonLabels or BrushLabels"),
        ({"tasks": [{"data": {}}], "label_config": "<View/>" * 200_000}, "label_config"),
    ],
)  # fmt: skip
def test_invalid_requests_get_one_sentence(backend, body, reason) -> None:
    status, answer = send(backend, "/predict", body)
    assert status == 422
    assert reason in answer["detail"]
    assert answer["detail"].count("\n") == 0


def test_setup_refuses_an_interface_without_regions_but_not_a_new_project(backend) -> None:
    choices = '<View><Image name="i" value="$image"/><Choices name="c" toName="i"><Choice value="a"/></Choices></View>'
    assert send(backend, "/setup", {"schema": choices})[0] == 422
    assert send(backend, "/setup", {"schema": "<View></View>"})[0] == 200


def test_attributes_of_the_interface_set_the_threshold_and_the_objects(backend) -> None:
    found = casmap.load()(PHOTO)
    for attributes, expected in (
        ("", found.objects("largest")),
        (' model_objects="all" model_min_area="0" model_threshold="0.3"', found.objects("all", 0, threshold=0.3)),
        (' model_alpha="1"', found.objects("largest", alpha=1)),
    ):
        _, answer = predict(backend, "/data/upload/1/a.png", config=CONFIG.format(attributes, "cat"))
        boxes = [each["value"]["x"] * 0.96 for each in answer["results"][0]["result"]]
        np.testing.assert_allclose(boxes, [one.box[0] for one in expected], atol=1e-6)
    for wrong in (' model_threshold="x"', ' model_threshold="2"', ' model_objects="two"'):
        assert predict(backend, "/data/upload/1/a.png", config=CONFIG.format(wrong, "cat"))[0] == 422


@pytest.mark.parametrize("name", ["model_threshold", "model_alpha", "model_min_area"])
@pytest.mark.parametrize("value", ["nan", "inf", "-inf", "x", ""])
def test_attributes_of_the_interface_are_finite_numbers(name, value) -> None:
    with pytest.raises(UserError, match=f"{name} must be a number, not '{value}'"):
        controls_of(CONFIG.format(f' {name}="{value}"', "cat"))


def test_labels_come_from_the_folder_the_prediction_or_are_the_only_one() -> None:
    labels = '<Label value="Cat" predicted_values="tabby, tiger cat"/><Label value="dog" alias="hound"/>'
    config = f'<View><Image name="i" value="$p"/><PolygonLabels name="o" toName="i">{labels}</PolygonLabels></View>'
    (control,) = controls_of(config)
    assert control.label("/data/local-files/?d=photos/dog/CAT/1.jpg", ["tabby"]) == "Cat"
    assert control.label("/data/local-files/?d=photos/dog/2.jpg", ["tabby"]) == "hound"
    assert control.label("/data/upload/1/2.jpg", ["Tiger cat"]) == "Cat"
    assert control.label("/data/upload/1/2.jpg", ["car"]) == ""
    (only,) = controls_of(CONFIG.format("", "thing"))
    assert only.label("http://[", []) == "thing"


def test_a_photo_on_its_side_has_the_size_that_label_studio_shows(tmp_path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.fromarray(PHOTO[:60]).save(tmp_path / "a.jpg", exif=exif)
    from casmap.integrations.label_studio import regions_of

    (mapped,) = casmap.load().map([tmp_path / "a.jpg"])
    (region,) = regions_of(controls_of(CONFIG.format(' model_alpha="1"', "cat")), "/a.jpg", mapped)
    assert (region["original_width"], region["original_height"]) == (60, 96)
