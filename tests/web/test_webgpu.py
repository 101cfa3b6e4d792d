"""The page of `casmap page --webgpu`: on a GPU, which Chromium's SwiftShader imitates, and without one."""

import base64
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from casmap.data.free_photos import free_photos
from casmap.inference.mapper import SaliencyMapper
from casmap.web.ort_web import BUILDS, WASM, WEBGPU, site_name
from casmap.web.site import site_files

FLAGS = ["--no-sandbox", "--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"]
ON_GPU = "Photos stay on this device. Runs on its GPU (WebGPU)."
ON_CPU = "Photos stay on this device. Runs on its CPU (WebAssembly)."
# SwiftShader is a GPU in software, which the page does not use.
AS_GPU = "Object.defineProperty(GPUAdapterInfo.prototype, 'isFallbackAdapter', { get: () => false });"
SECONDS = 300  # SwiftShader needs 10 to 30 seconds for a photo


@pytest.fixture(scope="session")
def site(runtime, tmp_path_factory) -> Path:
    """The site, written by the command."""
    out = tmp_path_factory.mktemp("webgpu") / "site"
    command = [sys.executable, "-m", "casmap", "page", "--webgpu", "--out", out, "--runtime", runtime]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


@pytest.fixture(scope="module")
def gpu_browser(chromium):
    """Chromium with SwiftShader as its GPU."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield running
        running.close()


@pytest.fixture
def opened(site, web_host):
    """Open the page in a browser after a script; gives the page, and the paths that it asks for."""
    server, address = web_host(site)
    contexts, problems = [], []

    def begin(browser, script: str = ""):
        context = browser.new_context()
        contexts.append(context)
        context.add_init_script(script)
        page, asked = context.new_page(), []
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: asked.append(request.url.removeprefix(f"{address}/")))
        page.goto(address)
        return page, asked

    begin.server = server
    yield begin
    for context in contexts:
        context.close()
    assert problems == []


def note(page) -> str:
    """Which one runs, as the page says after the first result."""
    page.locator("#found", has_text="of the photo kept").wait_for(timeout=1000 * SECONDS)
    return page.locator("#note").inner_text()


def same_mask_as_pythons(page, photo: Path) -> None:
    code = """async bytes => {
        const [{ OpenPhoto, openPixels }, engine] = [await import("/photo.js"), await import("/engine.js")];
        const file = new Blob([Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0))]);
        const open = new OpenPhoto(await openPixels(file)), raw = await engine.map(file, "casmap", async () => open);
        let text = "";
        for (const byte of new Uint8Array(open.mask(raw, "sharp").buffer)) text += String.fromCharCode(byte);
        return [raw.label, raw.confidence, btoa(text)];
    }"""
    wanted = SaliencyMapper.load()(photo)
    label, confidence, text = page.evaluate(code, base64.b64encode(photo.read_bytes()).decode())
    assert (label, confidence) == (wanted.label, pytest.approx(wanted.confidence, abs=1e-3))
    mask = np.frombuffer(base64.b64decode(text), "<f4").reshape(wanted.mask.shape)
    np.testing.assert_allclose(mask, wanted.mask, atol=1e-3)


def folders(paths) -> set[str]:
    """The builds of ONNX Runtime among the paths of files."""
    return {path.partition("/")[0] for path in paths} & set(BUILDS)


def test_masks_by_webgpu_are_pythons_and_stay_so_when_the_gpu_goes_away(gpu_browser, opened) -> None:
    keep = """const request = GPUAdapter.prototype.requestDevice;
        GPUAdapter.prototype.requestDevice = async function (...options) {
            return globalThis.device = await request.apply(this, options);
        };"""
    page, asked = opened(gpu_browser, AS_GPU + keep)
    if not page.evaluate("async () => Boolean(await navigator.gpu?.requestAdapter())"):
        pytest.skip("Chromium has no WebGPU adapter in software (SwiftShader)")
    assert note(page) == ON_GPU
    assert folders(asked) == {WEBGPU}
    same_mask_as_pythons(page, free_photos()[1])
    page.evaluate("device.destroy()")
    photo = free_photos()[4]
    page.set_input_files("#files", str(photo))
    page.locator("#status", has_text=f"{photo.name}: box").wait_for(timeout=60_000)
    assert page.locator("#note").inner_text() == ON_CPU
    same_mask_as_pythons(page, photo)


# What a browser or a machine may lack.
NO_ADAPTER = "GPU.prototype.requestAdapter = async () => null;"
NO_DEVICE = "GPUAdapter.prototype.requestDevice = async () => { throw new Error('lost'); };"
NO_WEBGPU = "delete Navigator.prototype.gpu;"
NO_JSPI = "delete WebAssembly.Suspending;"


@pytest.mark.parametrize(
    ("script", "build"),
    [("", WEBGPU), (NO_ADAPTER, WEBGPU), (AS_GPU + NO_DEVICE, WEBGPU), (NO_WEBGPU, WASM), (NO_JSPI, WASM)],
    ids=["software", "no adapter", "no device", "no WebGPU", "no JSPI"],
)
def test_without_a_gpu_the_network_runs_by_webassembly(gpu_browser, opened, script, build) -> None:
    """Also offline, with the one build that the browser loaded and keeps."""
    page, asked = opened(gpu_browser, script)
    assert note(page) == ON_CPU
    assert page.locator("#photos li.failed").count() == 0
    assert folders(asked) == {build}
    same_mask_as_pythons(page, free_photos()[1])
    kept = """async () => {
        await navigator.serviceWorker.ready;
        const [name] = await caches.keys(), files = await (await caches.open(name)).keys();
        return files.map(({ url }) => new URL(url).pathname.slice(1));
    }"""
    assert folders(page.evaluate(kept)) == {build}
    opened.server.shutdown()
    opened.server.server_close()
    page.context.set_offline(True)
    page.reload()
    assert note(page) == ON_CPU


def test_the_option_adds_a_build_and_changes_nothing_else(site, runtime) -> None:
    plain = site_files(runtime=runtime)
    written = {path.relative_to(site).as_posix(): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    assert folders(plain) == {WASM}
    assert {name for name in written if name not in plain} == {
        f"{WEBGPU}/{name}" for name in (*map(site_name, BUILDS[WEBGPU]), "LICENSE.txt")
    }
    assert {name for name in plain if written[name] != plain[name]} == {"mappings.json", "worker.js"}
    assert all(f'"{WEBGPU}/{site_name(name)}"' in written["worker.js"].decode() for name in BUILDS[WEBGPU])
