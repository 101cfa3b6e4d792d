"""ONNX Runtime for browsers: the files of the npm package onnxruntime-web that the page without a server needs."""

import base64
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from casmap.errors import UserError, option
from casmap.io.reading import MAX_OPTIONS, read_bytes, reading

PACKAGE, VERSION = "onnxruntime-web", "1.30.0"
# As npm prints it: npm view onnxruntime-web@1.30.0 dist.integrity
INTEGRITY = "sha512-q0y+JrrtukXSzsBWEMccVfqX25LRmosXHF+CaRJmg8pZClzcV7svNc4rKY3jL02Vb7QmRMDs1SigqR4CXAfKYQ=="
# The files of each build, by the build's folder in the site. The folder has the version: a browser that keeps old files
# then loads new ones.
WASM, WEBGPU = f"ort-{VERSION}", f"ort-webgpu-{VERSION}"
BUILDS = {
    WASM: ("ort.wasm.min.mjs", "ort-wasm-simd-threaded.mjs", "ort-wasm-simd-threaded.wasm"),
    WEBGPU: ("ort.jspi.min.mjs", "ort-wasm-simd-threaded.jspi.mjs", "ort-wasm-simd-threaded.jspi.wasm"),
}
REGISTRY = "https://registry.npmjs.org/"
MOST = 64 * 2**20  # bytes of the package
SECONDS = 60  # without a byte


def runtime_files(source: Path | None = None, builds: Sequence[str] = (WASM,)) -> dict[str, bytes]:
    """The content of each file, by its path in the site.

    source: the package as a .tgz file or an unpacked folder; None: download it.
    """
    if source is None:
        return unpack(download(), f"what {_host(registry())} sent", builds)
    if source.is_dir():
        return _of_folder(source, builds)
    if not source.exists():
        raise UserError(f"There is no file {source}: give {PACKAGE}-{VERSION}.tgz ({option('runtime')}).")
    return unpack(read_bytes(source, MOST), str(source), builds)


def unpack(package: bytes, name: str, builds: Sequence[str] = (WASM,)) -> dict[str, bytes]:
    """The files of a .tgz, which must be exactly the package of `VERSION`.

    >>> unpack(b"something else", "a.tgz")
    Traceback (most recent call last):
    casmap.errors.UserError: The SHA-512 of a.tgz is not that of onnxruntime-web 1.30.0: get it again.
    """
    digest = base64.b64encode(hashlib.sha512(package).digest()).decode()
    if f"sha512-{digest}" != INTEGRITY:
        raise UserError(f"The SHA-512 of {name} is not that of {PACKAGE} {VERSION}: get it again.")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        found = {path: archive.extractfile(f"package/dist/{file}") for path, file in _paths(builds)}
        return {path: content.read() for path, content in found.items() if content is not None}


def site_name(file: str) -> str:
    """The name of one of the package's files in the site. Many web hosts send .mjs as no script.

    >>> site_name("ort.wasm.min.mjs"), site_name("ort-wasm-simd-threaded.wasm")
    ('ort.wasm.min.js', 'ort-wasm-simd-threaded.wasm')
    """
    return re.sub(r"\.mjs$", ".js", file)


def _paths(builds: Sequence[str]) -> list[tuple[str, str]]:
    return [(f"{build}/{site_name(file)}", file) for build in builds for file in BUILDS[build]]


def _of_folder(folder: Path, builds: Sequence[str]) -> dict[str, bytes]:
    wanted = f"{folder} must be the npm package {PACKAGE} {VERSION}, unpacked."
    with reading(folder / "package.json", wanted):
        about = json.loads(read_bytes(folder / "package.json", MAX_OPTIONS))
        if (about["name"], about["version"]) != (PACKAGE, VERSION):
            raise UserError(f"{folder} is {about['name']} {about['version']}, not {PACKAGE} {VERSION}.")
        return {path: read_bytes(folder / "dist" / file, MOST) for path, file in _paths(builds)}


def download() -> bytes:
    """The package from the registry that npm is configured for."""
    base = registry()
    address = f"{base.rstrip('/')}/{PACKAGE}/-/{PACKAGE}-{VERSION}.tgz"
    other = f"Get {PACKAGE}-{VERSION}.tgz elsewhere (npm pack {PACKAGE}@{VERSION}) and give it ({option('runtime')})."
    try:
        if urlsplit(base).scheme not in ("http", "https"):
            raise ValueError("it is not an http address")
        with urllib.request.urlopen(address, timeout=SECONDS) as answer:
            content: bytes = answer.read(MOST + 1)
    except (OSError, ValueError, HTTPException) as error:  # urllib's errors are OSErrors
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        raise UserError(f"Cannot download {PACKAGE} {VERSION} from {_host(base)}: {reason}. {other}") from error
    return content


def registry() -> str:
    """The address of npm's registry: of the environment, of npm's configuration, or the public one."""
    found = next((value for name, value in os.environ.items() if name.lower() == "npm_config_registry"), None)
    npm = shutil.which("npm")
    if not found and npm is not None:
        with suppress(OSError, ValueError, subprocess.SubprocessError):
            asked = subprocess.run([npm, "config", "get", "registry"], capture_output=True, text=True, timeout=SECONDS)
            found = asked.stdout.strip() if asked.returncode == 0 else None
    return found if found and found != "undefined" else REGISTRY


def _host(address: str) -> str:
    """The host of an address, without a password that it may contain.

    >>> _host("https://me:secret@npm.example/path"), _host("http://[")
    ('npm.example', 'the registry')
    """
    with suppress(ValueError):
        return urlsplit(address).hostname or "the registry"
    return "the registry"
