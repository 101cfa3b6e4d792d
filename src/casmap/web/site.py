"""The page without a server: a folder of static files that run a mapping in the browser."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from casmap.errors import UserError, option
from casmap.inference.mapper import SHIPPED, SaliencyMapper, names_of
from casmap.io.atomic import write_whole
from casmap.io.lock import LOCK, locked
from casmap.reporting import SILENT, Reporter
from casmap.version import __version__
from casmap.web.ort_web import WASM, WEBGPU, runtime_files

HERE = Path(__file__).parent
STATIC, BROWSER = HERE / "static", HERE / "browser"
SHIPPED_NAME = "casmap"
OF_SERVER = "coco.js"  # what only the engine of `casmap serve` uses
WORKER, FIRST, LICENSE, LICENSE_THERE = "worker.js", "index.html", "onnxruntime-license.txt", "LICENSE.txt"
# As strict as the policy of `casmap serve`, except that WebAssembly may be compiled. A page cannot forbid frames.
POLICY = (
    "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; connect-src 'self'; "
    "worker-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'"
)


@dataclass(frozen=True)
class Site:
    """A written site: its folder, and the number of its files and of their bytes."""

    path: Path
    files: int
    bytes: int


def write_site(
    out: Path, *, mappings: Sequence[Path] | None = None, runtime: Path | None = None, webgpu: bool = False,
    reporter: Reporter = SILENT,
) -> Site:  # fmt: skip
    """Write the page to an empty folder.

    runtime: the npm package onnxruntime-web; None: download it. webgpu: browsers that can run the mapping on the GPU.
    """
    wrong = next((path for path in mappings or () if path.suffix != ".onnx"), None)
    if wrong is not None:
        hint = f" (casmap export {wrong} writes one)" if wrong.suffix == ".safetensors" else ""
        raise UserError(f"{wrong} cannot run in a browser: give an .onnx file{hint}.")
    with locked(out, reporter):
        if any(path.name != LOCK for path in out.iterdir()):
            raise UserError(f"{out} is not empty: choose another folder ({option('out')}).")
        files = site_files(mappings, runtime, webgpu=webgpu)
        for name in sorted(files, key=lambda name: name == FIRST):  # the page itself last
            write_whole(out / name, files[name])
    return Site(out, len(files), sum(map(len, files.values())))


def site_files(
    mappings: Sequence[Path] | None = None, runtime: Path | None = None, *, webgpu: bool = False
) -> dict[str, bytes]:
    """The content of each file of the site, by its path in the folder. webgpu: ONNX Runtime for WebGPU as well."""
    names = names_of(mappings) if mappings else [SHIPPED_NAME]
    files = {path.name: path.read_bytes() for path in STATIC.iterdir() if path.name != OF_SERVER}
    files |= {path.name: path.read_bytes() for path in BROWSER.iterdir() if path.name != LICENSE}
    about = []
    for number, (name, path) in enumerate(zip(names, mappings or [SHIPPED], strict=True), 1):
        content, mapper = Path(path).read_bytes(), SaliencyMapper.load(path)
        # A name for each content: a browser that keeps an old mapping then loads the new one.
        file = f"mapping-{number}-{hashlib.sha256(content).hexdigest()[:8]}.onnx"
        files[file] = content
        about.append({
            "name": name, "file": file, "size": mapper.size, "classes": len(mapper.classes),
            "predicts": mapper.network.predicts, "titles": mapper.titles if mapper.network.predicts else [],
            "mean": list(mapper.network.mean), "std": list(mapper.network.std),
        })  # fmt: skip
    builds = {"wasm": WASM, "webgpu": WEBGPU} if webgpu else {"wasm": WASM}
    files["mappings.json"] = json.dumps({"version": __version__, "runtime": builds, "mappings": about}).encode()
    files |= runtime_files(runtime, tuple(builds.values()))
    files |= {f"{build}/{LICENSE_THERE}": (BROWSER / LICENSE).read_bytes() for build in builds.values()}
    meta = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
    files[FIRST] = files[FIRST].replace(b"<title>", meta.encode() + b"<title>", 1)
    files[WORKER] = _worker(files)
    return files


def _worker(files: dict[str, bytes]) -> bytes:
    """The service worker for these files: the name of its cache changes with their content."""
    digest = hashlib.sha256()
    for name, content in sorted(files.items()):
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    kept = ["./", *sorted(name for name in files if name not in (WORKER, FIRST) and not name.endswith(LICENSE_THERE))]
    text = files[WORKER].decode().replace("@NAME@", f"casmap-{digest.hexdigest()[:16]}", 1)
    return text.replace('"@FILES@"', json.dumps(kept), 1).encode()
