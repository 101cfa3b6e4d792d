"""The page without a server, the page of `casmap serve`, and the command line: ms for a map, and masks compared.

python benchmarks/page.py [RUNTIME]

RUNTIME: the npm package onnxruntime-web, as in `casmap page --runtime` (default: download it). Needs playwright and
Chromium. The photos are those of scikit-image. Python and the page without a server use one thread, and the page up to
four on a host that isolates it; `casmap serve` and the command line use theirs, all cores. The command line's masks are
compared as it writes them, with 8 bits.
"""

import base64
import gzip
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

from casmap.data.free_photos import free_photos
from casmap.inference.mapper import SaliencyMapper
from casmap.io.images import open_image
from casmap.web.site import write_site

ROUNDS = 9
# A host of a folder that isolates its pages, so that they may use threads; prints its address.
ISOLATING = """
import sys
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

class Handler(SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        super().end_headers()

server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=sys.argv[1]))
print(f"http://127.0.0.1:{server.server_port}/")
server.serve_forever()
"""
# Opens a photo, runs the network and fits the mask, as the page does; returns the mask and the milliseconds.
CODE = """async ([bytes, name, rounds]) => {
    const [{ OpenPhoto, openPixels }, engine] = [await import("/photo.js"), await import("/engine.js")];
    const file = new Blob([Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0))]), times = [];
    let mask;
    for (let round = 0; round < rounds; round++) {
        const start = performance.now(), open = new OpenPhoto(await openPixels(file, engine.convert));
        mask = open.mask(await engine.map(file, name, async () => open), "sharp");
        times.push(performance.now() - start);
    }
    let text = "";
    for (const byte of new Uint8Array(mask.buffer)) text += String.fromCharCode(byte);
    return [btoa(text), times];
}"""


def main() -> None:
    """Measure and print the table."""
    mapper = SaliencyMapper.load(threads=1)
    wanted = {path: mapper(path).mask for path in free_photos()}
    rows: list[tuple[str, list[float], float | None]] = []
    with TemporaryDirectory() as folder, sync_playwright() as playwright:
        site = Path(folder) / "site"
        write_site(site, runtime=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        static = ["-m", "http.server", "--bind", "127.0.0.1", "--directory", str(site), "0"]
        serve = ["-m", "casmap", "serve", "--port", "0", "--no-browser"]
        hosts = {
            "`casmap page`, in Chromium": static,
            "`casmap page` with threads, in Chromium": ["-c", ISOLATING, str(site)],
            "`casmap serve`, in Chromium": serve,
        }
        for name, command in hosts.items():
            with started(command) as address:
                page = browser.new_page()
                began = time.perf_counter()
                page.goto(address)
                page.locator("#found", has_text="kept").wait_for()
                assert page.evaluate("crossOriginIsolated") or "threads" not in name
                print(f"{name}: first result after {1000 * (time.perf_counter() - began):.0f} ms")
                rows.append((name, *measured(page, wanted)))
                page.close()
        browser.close()
        rows.append(("command line, one photo, with its start", *command_line(Path(folder), wanted)))
        rows.append(("Python, `mapper(photo)`", library(mapper), None))
        files = [path for path in site.rglob("*") if path.is_file()]
        sizes = {path.relative_to(site).as_posix(): len(path.read_bytes()) for path in files}
        packed = sum(len(gzip.compress(path.read_bytes(), 6)) for path in files)
    print(f"\nsite: {len(files)} files, {sum(sizes.values()) / 1e6:.1f} MB, {packed / 1e6:.1f} MB with gzip")
    for name in sorted(sizes, key=lambda name: -sizes[name])[:3]:
        print(f"  {name}: {sizes[name] / 1e6:.1f} MB")
    print("\n| | ms for a map, median [5 %, 95 %] | greatest difference of a mask |\n|---|---|---|")
    for name, times, difference in rows:
        low, middle, high = np.percentile(times, [5, 50, 95])
        compared = "the reference" if difference is None else f"{difference:.1g}"
        print(f"| {name} | {middle:.0f} [{low:.0f}, {high:.0f}] | {compared} |")


def measured(page: Page, wanted: dict[Path, Any]) -> tuple[list[float], float]:
    """The milliseconds of all maps, and the greatest difference from Python's masks."""
    name = page.evaluate("async () => (await (await import('/engine.js')).mappings())[0].name")
    times: list[float] = []
    difference = 0.0
    for path, mask in wanted.items():
        text, took = page.evaluate(CODE, [base64.b64encode(path.read_bytes()).decode(), name, ROUNDS])
        got = np.frombuffer(base64.b64decode(text), "<f4").reshape(mask.shape)
        difference = max(difference, float(abs(got - mask).max()))
        times += took
    return times, difference


def command_line(folder: Path, wanted: dict[Path, Any]) -> tuple[list[float], float]:
    """Milliseconds of `casmap extract PHOTO`, from start to end, and the greatest difference of its mask files."""
    times, difference = [], 0.0
    for number in range(2):
        for path, mask in wanted.items():
            out = folder / f"maps-{number}-{path.stem}"
            command = [sys.executable, "-m", "casmap", "extract", str(path), "--no-overlay", "--out", str(out)]
            began = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times.append(1000 * (time.perf_counter() - began))
            written = open_image(out / f"{path.stem}-mask.png")[..., 0] / 255
            difference = max(difference, float(abs(written - mask).max()))
    return times, difference


def library(mapper: SaliencyMapper) -> list[float]:
    """Milliseconds of a call in Python, from the file to the mask."""
    times = []
    for _ in range(ROUNDS):
        for path in free_photos():
            began = time.perf_counter()
            mapper(path)
            times.append(1000 * (time.perf_counter() - began))
    return times


@contextmanager
def started(command: list[str]) -> Iterator[str]:
    """Start a server; gives its address, which it prints."""
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}  # http.server prints every request
    with subprocess.Popen([sys.executable, "-u", *command], **quiet) as process:  # type: ignore[call-overload]
        assert process.stdout is not None
        line = process.stdout.readline()
        yield next(word.strip("()") for word in line.split() if word.strip("()").startswith("http://"))
        process.terminate()


if __name__ == "__main__":
    main()
