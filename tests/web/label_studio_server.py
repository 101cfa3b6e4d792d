"""A real Label Studio server of PyPI in an environment of its own, and a client of its API."""

import http.cookiejar
import json
import os
import re
import socket
import subprocess
import time
import uuid
import venv
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, Request, build_opener

VERSION = "1.23.2"
USER, PASSWORD = "me@example.org", "casmap-casmap"
PROGRAM = "CASMAP_LABEL_STUDIO"  # a folder with an environment that has Label Studio already


def environment_of(folder: Path) -> Path:
    """An environment with Label Studio: the one in the variable, or a new one."""
    if PROGRAM in os.environ:
        return Path(os.environ[PROGRAM])
    venv.create(folder, with_pip=True)
    wanted = f"label-studio=={VERSION}"
    subprocess.run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", wanted], check=True, timeout=3600)
    return folder


class LabelStudioServer:
    """Label Studio on a free port of this machine; files: its document root for local files."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs, self.files = programs, folder / "files"
        self.files.mkdir(parents=True)
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        mine = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CASMAP_SOAK")}
        with open(folder / "log.txt", "wb") as log:
            self.process = subprocess.Popen(
                [programs / "bin" / "label-studio", "start", "--no-browser", "--host", "127.0.0.1", "--internal-host",
                 "127.0.0.1", "--port", str(port), "--username", USER, "--password", PASSWORD],
                stdout=log, stderr=log, cwd=folder, start_new_session=True,
                env=mine | {
                    "LABEL_STUDIO_BASE_DATA_DIR": str(folder / "data"), "LABEL_STUDIO_HOST": self.address,
                    "LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED": "true", "COLLECT_ANALYTICS": "false",
                    "LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT": str(self.files), "LATEST_VERSION_CHECK": "false",
                    "SENTRY_DSN": "", "FRONTEND_SENTRY_DSN": "", "ML_BLOCK_LOCAL_IP": "false",
                    "SSRF_PROTECTION_ENABLED": "false",
                },
            )  # fmt: skip
        self._cookies = http.cookiejar.CookieJar()
        self._opener = build_opener(HTTPCookieProcessor(self._cookies))
        self._wait(300)
        self._log_in()
        self.token = self.post("/api/token/", {})["token"]  # a personal access token

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)

    def get(self, path: str):
        return self._send(Request(self.address + path))

    def post(self, path: str, content: object, method: str = "POST"):
        headers = {"Content-Type": "application/json"}
        return self._send(Request(self.address + path, json.dumps(content).encode(), headers, method=method))

    def upload(self, project: int, files: list[Path]):
        """Import photos as a person does: by a form."""
        edge = uuid.uuid4().hex
        parts = [
            f'--{edge}\r\nContent-Disposition: form-data; name="{file.name}"; filename="{file.name}"\r\n'
            f"Content-Type: image/png\r\n\r\n".encode()
            + file.read_bytes()
            + b"\r\n"
            for file in files
        ]
        body = b"".join(parts) + f"--{edge}--\r\n".encode()
        headers = {"Content-Type": f"multipart/form-data; boundary={edge}"}
        return self._send(Request(f"{self.address}/api/projects/{project}/import", body, headers))

    def export(self, project: int) -> list[dict]:
        """Pull the annotations with Label Studio's own SDK."""
        code = (
            "import json, sys; from label_studio_sdk import LabelStudio as Client\n"
            "client = Client(base_url=sys.argv[1], api_key=sys.argv[2])\n"
            "print(json.dumps(list(client.projects.exports.as_json(int(sys.argv[3])))))\n"
        )
        python = self.programs / "bin" / "python"
        arguments = [python, "-c", code, self.address, self.token, str(project)]
        mine = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        return json.loads(subprocess.check_output(arguments, env=mine, timeout=300))

    def _wait(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            assert self.process.poll() is None, "Label Studio has ended: see log.txt"
            try:
                self._opener.open(f"{self.address}/health", timeout=5)
                return
            except (URLError, OSError):
                time.sleep(1)
        raise AssertionError("Label Studio does not start")

    def _log_in(self) -> None:
        page = self._opener.open(f"{self.address}/user/login/").read().decode()
        hidden = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
        assert hidden
        form = {"csrfmiddlewaretoken": hidden[1], "email": USER, "password": PASSWORD}
        sent = Request(f"{self.address}/user/login/", urlencode(form).encode(), {"Referer": self.address})
        self._opener.open(sent)

    def _send(self, request: Request):
        found = {cookie.name: cookie.value for cookie in self._cookies}
        request.add_header("X-CSRFToken", found.get("csrftoken", ""))
        request.add_header("Referer", self.address)
        try:
            content = self._opener.open(request, timeout=120).read()
        except HTTPError as error:
            raise AssertionError(f"{request.full_url}: {error.code} {error.read().decode()[:2000]}") from error
        return json.loads(content) if content else None
