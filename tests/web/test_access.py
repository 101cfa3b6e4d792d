"""Who may use the server: names, tokens, and the headers of every response."""

import http.client
import json
import socket
from urllib.parse import urlsplit

import pytest

from casmap.data.free_photos import free_photos
from casmap.web.app import HEADERS

OPEN_TO_ALL = ("--host", "0.0.0.0")


def ask(server, path="/api/mappings", *, host=None, body=None, headers=None, method=None):
    """Send a request to 127.0.0.1; returns the status, headers and content of the response."""
    port = urlsplit(server.address).port
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    named = {"Host": host or f"127.0.0.1:{port}", **(headers or {})}
    connection.request(method or ("POST" if body else "GET"), path, body, named)
    answer = connection.getresponse()
    return answer.status, answer.headers, answer.read()


@pytest.fixture(scope="module")
def reachable(start):
    return start(*OPEN_TO_ALL)


def test_a_reachable_server_needs_its_token(reachable) -> None:
    assert len(reachable.token) >= 32
    photo = free_photos()[0].read_bytes()
    wrong = reachable.token[:-1] + ("a" if reachable.token[-1] != "a" else "b")
    for sent in ({}, {"Authorization": f"Bearer {wrong}"}, {"Authorization": "Bearer "}, {"Cookie": "casmap-1=x"}):
        for path, body in (("/", None), ("/app.js", None), ("/api/openapi.json", None), ("/api/map", photo)):
            status, headers, content = ask(reachable, path, body=body, headers=sent)
            assert (status, headers["www-authenticate"]) == (401, "Bearer")
            assert "token" in json.loads(content)["detail"]
    assert ask(reachable, f"/?token={wrong}")[0] == 401
    assert ask(reachable, f"/api/mappings?token={reachable.token}")[0] == 401  # the page alone takes it from an address
    assert ask(reachable, "/api/map", body=photo, headers={"Authorization": f"Bearer {reachable.token}"})[0] == 200
    assert ask(reachable, "/api/health")[0] == 200


def test_the_page_keeps_the_token_in_a_cookie(reachable) -> None:
    status, headers, content = ask(reachable, f"/?token={reachable.token}")
    assert (status, content[:15].lower()) == (200, b"<!doctype html>")
    cookie, *attributes = headers["set-cookie"].split("; ")
    assert {one.lower() for one in attributes} == {"httponly", "path=/", "samesite=strict"}
    for path in ("/", "/app.js", "/api/mappings"):
        status, headers, _ = ask(reachable, path, headers={"Cookie": cookie})
        assert (status, headers["set-cookie"]) == (200, None)


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200), ("LOCALHOST.", 200), ("192.0.2.7:80", 200), ("[2001:db8::1]:80", 200), ("[::1]", 200),
        (socket.gethostname(), 200), ("evil.example", 403), ("127.0.0.1.evil.example", 403), ("a@localhost", 403),
        ("[::1].evil.example", 403), ("localhost:80:evil.example", 403),
    ],
)  # fmt: skip
def test_a_reachable_server_answers_to_addresses_and_its_own_names(reachable, host, status) -> None:
    sent = {"Authorization": f"Bearer {reachable.token}"}
    assert ask(reachable, host=host, headers=sent)[0] == status


def test_the_given_names_replace_the_default(start) -> None:
    server = start(*OPEN_TO_ALL, "--allowed-host", "casmap.example", "--allowed-host", "Maps.Example")
    sent = {"Authorization": f"Bearer {server.token}"}
    for host, status in (
        ("casmap.example", 200), ("maps.example:443", 200), ("localhost", 200), ("evil.example", 403),
        ("192.0.2.7", 403), ("x.casmap.example", 403),
    ):  # fmt: skip
        assert ask(server, host=host, headers=sent)[0] == status


def test_a_token_can_be_chosen_and_is_printed_nowhere(start) -> None:
    server = start(environment={"CASMAP_TOKEN": "my-secret-token"})
    assert server.token == ""
    assert ask(server)[0] == 401
    assert ask(server, headers={"Authorization": "bearer my-secret-token"})[0] == 200
    assert ask(server, "/?token=my-secret-token")[0] == 200
    server.process.terminate()
    out, err = server.process.communicate(timeout=60)
    assert "my-secret" not in server.link + out + err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--token", "short"], "8 to 200 letters"), (["--token", "semi;colon;semi"], "8 to 200 letters"),
        (["--allowed-host", "http://x"], "Not a host name: http://x"),
    ],
)  # fmt: skip
def test_a_useless_token_or_name_is_a_one_line_error(fresh, arguments, words) -> None:
    sentence = fresh("serve", "--no-browser", "--port", "0", *arguments).sentence()
    assert words in sentence
    assert "semi;" not in sentence


def test_every_response_has_the_guarding_headers(start) -> None:
    server = start("--megabytes", "1", first="import casmap.web.app as app\napp.encode_png = None")
    photo = free_photos()[0].read_bytes()
    requests = {
        200: {"path": "/"}, 403: {"host": "evil.example"}, 404: {"path": "/none"}, 405: {"method": "DELETE"},
        413: {"path": "/api/map", "body": bytes(2**20 + 1)}, 422: {"path": "/api/map", "body": b"x"},
        500: {"path": "/api/map", "body": photo},
    }  # fmt: skip
    answers = {status: ask(server, **request) for status, request in requests.items()}
    connection = socket.create_connection(("127.0.0.1", urlsplit(server.address).port), timeout=60)
    connection.sendall(b"no HTTP\r\n\r\n")
    malformed = http.client.HTTPResponse(connection)
    malformed.begin()
    answers[400] = malformed.status, malformed.headers, malformed.read()
    for status, (got, headers, content) in answers.items():
        assert got == status
        assert {name: headers.get_all(name) for name in HEADERS} == {name: [text] for name, text in HEADERS.items()}
        assert status == 200 or list(json.loads(content)) == ["detail"]
    assert HEADERS["Cross-Origin-Resource-Policy"] == "same-origin"


def test_what_clients_send_does_not_reach_the_terminal(start) -> None:
    server = start()
    escape, photo = "\x1b]0;owned\x07", free_photos()[0].read_bytes()
    part = f'--X\r\nContent-Disposition: form-data; name="photos"; filename="{escape}.png"\r\n\r\n'.encode()
    sent = {"Content-Type": "multipart/form-data; boundary=X"}
    for content in (photo, b"no photo"):
        ask(server, "/api/annotations?format=coco", body=part + content + b"\r\n--X--\r\n", headers=sent)
    ask(server, "/%1b]0;owned%07", headers={"User-Agent": "owned", "Upgrade": "owned", "Connection": "Upgrade"})
    server.process.terminate()
    out, err = server.process.communicate(timeout=60)
    assert (out, err) == ("Stopped.\n", "")
