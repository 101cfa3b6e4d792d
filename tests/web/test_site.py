"""The page without a server: its files, and the mapping in a real browser, also without a network."""

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest
from pycocotools import mask as run_lengths

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, labels_of
from casmap.data.free_photos import free_photos
from casmap.errors import UserError
from casmap.inference.components import largest_component
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.inference.objects import objects_of, outline
from casmap.io.images import encode_png
from casmap.io.names import written
from casmap.version import __version__
from casmap.web import ort_web
from casmap.web.annotation_files import photo_names
from casmap.web.app import POLICY
from casmap.web.site import BROWSER, STATIC, write_site
from casmap.web.site import POLICY as SITE_POLICY

PACKAGE = f"{ort_web.PACKAGE}-{ort_web.VERSION}.tgz"
OTHER = Path(__file__).parents[1] / "files_of_0_1_0" / "mapping.onnx"


@pytest.fixture(scope="session")
def site(runtime, tmp_path_factory) -> Path:
    """The site, written by the command."""
    out = tmp_path_factory.mktemp("site") / "site"
    command = [sys.executable, "-m", "casmap", "page", "--out", out, "--runtime", runtime]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert str(out) in done.stdout
    return out


@pytest.fixture
def page(browser, site, web_host):
    """The page, which must have no errors and send requests to its own host only."""
    _, address = web_host(site)
    context = browser.new_context(accept_downloads=True)
    opened = context.new_page()
    problems, asked = [], []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    context.on("request", lambda request: asked.append((request.method, request.url)))
    opened.goto(address)
    wait(opened)
    yield opened
    assert problems == []
    assert all(method == "GET" and url.startswith((address, "data:", "blob:")) for method, url in asked)  # no photo
    context.close()


def wait(page) -> None:
    page.locator("#found", has_text="of the photo kept").wait_for(timeout=60_000)


def drop(page, path) -> None:
    page.set_input_files("#files", str(path))
    page.locator("#status", has_text=f"{path.name}: box").wait_for(timeout=60_000)


def test_masks_boxes_and_classes_are_pythons(page) -> None:
    code = """async ([bytes, edges]) => {
        const [{ OpenPhoto, openPixels }, engine] = [await import("/photo.js"), await import("/engine.js")];
        const file = new Blob([Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0))]);
        const open = new OpenPhoto(await openPixels(file)), raw = await engine.map(file, "casmap", async () => open);
        let text = "";
        for (const byte of new Uint8Array(open.mask(raw, edges).buffer)) text += String.fromCharCode(byte);
        return [raw.label, raw.confidence, btoa(String.fromCharCode(...new Uint8Array(raw.values.buffer))), btoa(text)];
    }"""
    for photo in free_photos():
        content = base64.b64encode(photo.read_bytes()).decode()
        for edges in ("sharp", "smooth"):
            mapper = SaliencyMapper.load(edges=edges)
            (wanted,) = mapper.map([photo])
            label, confidence, *numbers = page.evaluate(code, [content, edges])
            values, mask = (np.frombuffer(base64.b64decode(one), "<f4") for one in numbers)
            assert (label, confidence) == (wanted.label, pytest.approx(wanted.confidence, abs=1e-3))
            np.testing.assert_allclose(values.reshape(72, 72), wanted.mask[::4, ::4], atol=1e-3)
            np.testing.assert_allclose(mask.reshape(wanted.fitted_mask.shape), wanted.fitted_mask, atol=1e-3)


def test_the_page_shows_and_downloads_what_python_finds(page, tmp_path) -> None:
    photo = free_photos()[1]
    drop(page, photo)
    found = SaliencyMapper.load()(photo)
    shown = page.locator("#found").inner_text().partition(";")[0].removeprefix("box ")
    np.testing.assert_allclose([int(side) for side in shown.split(", ")], found.box(), atol=1)
    assert page.locator("#label").inner_text() == f"{found.label} {100 * found.confidence:.0f} %"
    assert page.locator("#note").inner_text() == "Photos stay on this device."
    for kind in ("cutout", "mask", "masked-out"):
        page.select_option("#format", kind)
        with page.expect_download() as waiting:
            page.click("#download")
        assert waiting.value.suggested_filename == f"coffee-{kind}.png"
        got = np.array(PIL.Image.open(waiting.value.path())).astype(int)
        wanted = found.view(kind).astype(int)
        if kind == "mask":
            assert abs(got[..., 0] - wanted).max() <= 1
        else:  # pixels at the threshold may differ
            assert got.shape[:2] == wanted.shape[:2]
            assert (
                abs(got[..., 3] - wanted[..., 3]) if kind == "cutout" else abs(got[..., 0] - wanted[..., 0])
            ).mean() < 0.1
    page.select_option("#format", "coco")
    with page.expect_download() as waiting:
        page.click("#download")
    content = json.loads(waiting.value.path().read_text())
    (wanted,) = found.objects("largest")
    got = run_lengths.decode(content["annotations"][0]["segmentation"]).astype(bool)
    assert (got & wanted.mask()).sum() / (got | wanted.mask()).sum() > 0.999


def test_photos_that_only_a_server_opens_as_python_does_open_as_well_as_the_browser_can(page, tmp_path) -> None:
    with PIL.Image.open(free_photos()[5]) as photo:
        PIL.Image.fromarray(257 * np.asarray(photo.convert("L")).astype(np.uint16)).save(tmp_path / "deep.png")
        photo.convert("RGB").save(tmp_path / "new.avif")
        photo.save(tmp_path / "scan.tif")
    drop(page, tmp_path / "deep.png")
    page.set_input_files("#files", str(tmp_path / "new.avif"))
    page.locator("#status", has_text="new.avif: ").wait_for()
    assert page.locator("#photos li.failed").count() == 0
    page.set_input_files("#files", str(tmp_path / "scan.tif"))
    page.locator("#status", has_text="scan.tif: This browser cannot open the file").wait_for()
    assert page.locator("#photos li.failed").count() == 1


def test_the_page_works_offline_once_it_is_loaded(browser, site, web_host) -> None:
    server, address = web_host(site)
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    wait(page)
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    first = page.locator("#found").inner_text()
    server.shutdown()
    server.server_close()
    context.set_offline(True)
    page.reload()
    wait(page)
    assert page.locator("#found").inner_text() == first
    drop(page, free_photos()[4])
    page.locator("#level").fill("0.3")
    assert "box" in page.locator("#found").inner_text()
    context.close()


@pytest.fixture(scope="session")
def two_mappings(runtime, tmp_path_factory) -> Path:
    """The site with the shipped mapping under two names."""
    folder = tmp_path_factory.mktemp("two")
    for name in ("first", "second"):
        (folder / f"{name}.onnx").write_bytes(SHIPPED.read_bytes())
    write_site(folder / "site", mappings=[folder / "first.onnx", folder / "second.onnx"], runtime=runtime)
    return folder / "site"


def test_annotations_are_those_of_the_mapping_that_is_chosen_now(browser, two_mappings, web_host) -> None:
    """Also of photos that it has not mapped yet: only the shown photo is mapped when the mapping changes."""
    page = browser.new_page()
    page.goto(web_host(two_mappings)[1])
    wait(page)
    drop(page, free_photos()[0])
    page.set_input_files("#files", str(free_photos()[1]))
    page.locator("#status", has_text="coffee.png: done").wait_for(timeout=60_000)
    page.locator("summary").click()
    page.select_option("#mapping", "second")
    page.select_option("#format", "coco")
    with page.expect_download() as waiting:
        page.click("#download")
    content = json.loads(waiting.value.path().read_text())
    assert [image["file_name"] for image in content["images"]] == ["chelsea.png", "coffee.png"]
    assert len(content["annotations"]) == 2
    page.close()


def test_two_sites_of_one_host_keep_their_own_files(browser, site, two_mappings, web_host, tmp_path) -> None:
    """A worker that is new removes old files of its own site only."""
    for name, folder in (("one", site), ("two", two_mappings)):
        shutil.copytree(folder, tmp_path / "host" / name)
    server, address = web_host(tmp_path / "host")
    context = browser.new_context()
    page = context.new_page()
    for name in ("one", "two"):
        page.goto(f"{address}/{name}/")
        wait(page)
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    server.shutdown()
    server.server_close()
    for name, mappings in (("one", ["casmap"]), ("two", ["first", "second"])):
        page.goto(f"{address}/{name}/")
        wait(page)
        assert page.locator("#mapping option").all_text_contents() == mappings
    context.close()


def test_another_page_at_the_address_is_shown_while_the_host_answers(browser, site, web_host, tmp_path) -> None:
    shutil.copytree(site, tmp_path / "host")
    os.utime(tmp_path / "host" / "index.html", (0, 0))  # browsers keep old files without asking
    _, address = web_host(tmp_path / "host")
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    wait(page)
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    (tmp_path / "host" / "index.html").write_text("<h1>Another page</h1>")
    page.goto(address)
    assert page.locator("h1").inner_text() == "Another page"
    context.close()


MASK = """async bytes => {
    const [{ OpenPhoto, openPixels }, engine] = [await import("/photo.js"), await import("/engine.js")];
    const file = new Blob([Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0))]);
    const open = new OpenPhoto(await openPixels(file)), [{ name }] = await engine.mappings();
    const mask = open.mask(await engine.map(file, name, async () => open), "sharp");
    let text = "";
    for (const byte of new Uint8Array(mask.buffer)) text += String.fromCharCode(byte);
    return btoa(text);
}"""


def same_mask_as_pythons(page, mapper) -> None:
    """Of a photo, by the page's first mapping."""
    photo = free_photos()[0]
    wanted = mapper(photo).mask
    mask = np.frombuffer(base64.b64decode(page.evaluate(MASK, base64.b64encode(photo.read_bytes()).decode())), "<f4")
    np.testing.assert_allclose(mask.reshape(wanted.shape), wanted, atol=1e-3)


def test_a_new_mapping_on_the_host_is_used_at_once(browser, runtime, web_host, tmp_path) -> None:
    """Not the old one, which the browser keeps for use offline."""
    _, address = web_host(tmp_path / "host")
    context = browser.new_context()
    page = context.new_page()
    mapping = tmp_path / "mine.onnx"
    for content in (SHIPPED, OTHER):
        shutil.copy(content, mapping)
        shutil.rmtree(tmp_path / "host", ignore_errors=True)
        write_site(tmp_path / "host", mappings=[mapping], runtime=runtime)
        page.goto(address)
        page.locator("#found", has_text=re.compile(".")).wait_for(timeout=60_000)
        same_mask_as_pythons(page, SaliencyMapper.load(mapping))
        page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    context.close()


def test_the_host_sends_each_file_once(browser, site, web_host, tmp_path, chromium) -> None:
    """Also to the worker, which keeps them. Without a profile, Chromium's own cache has no room for large files."""
    sent: list[tuple[str, int]] = []
    _, address = web_host(site, sent=sent)
    context = browser.browser_type.launch_persistent_context(
        tmp_path / "profile", executable_path=chromium, args=["--no-sandbox"]
    )
    page = context.new_page()
    page.goto(address)
    wait(page)
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    kept = "async () => (await (await caches.open((await caches.keys())[0])).keys()).map(({ url }) => url)"
    files = [path for path in site.rglob("*") if path.is_file() and path.name not in ("worker.js", "LICENSE.txt")]
    assert len(page.evaluate(kept)) == len(files)
    context.close()
    whole = [path for path, code in sent if code == 200 and path != "/worker.js"]
    assert sorted(whole) == sorted(set(whole))


ISOLATED = {"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp"}


def test_threads_give_the_same_masks(browser, site, web_host) -> None:
    """On a host that isolates the page, also offline."""
    server, address = web_host(site, ISOLATED)
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    wait(page)
    assert page.evaluate("crossOriginIsolated")
    cores = page.evaluate("navigator.hardwareConcurrency")
    assert len(page.workers) >= min(4, cores) - 1  # the page is the first thread
    same_mask_as_pythons(page, SaliencyMapper.load())
    page.evaluate("async () => { await navigator.serviceWorker.ready; }")
    server.shutdown()
    server.server_close()
    context.set_offline(True)
    page.reload()
    wait(page)
    assert page.evaluate("crossOriginIsolated")
    same_mask_as_pythons(page, SaliencyMapper.load())
    context.close()


@pytest.mark.parametrize("file", ["ort.wasm.min.js", "ort-wasm-simd-threaded.js", "ort-wasm-simd-threaded.wasm"])
def test_a_file_of_the_runtime_that_did_not_arrive_is_loaded_again(browser, site, web_host, file) -> None:
    page = browser.new_page()
    page.route(f"**/{file}*", lambda route: route.abort())
    page.goto(web_host(site)[1])
    page.locator("#empty.failed").wait_for()
    page.unroute_all()
    page.locator("#photos .show").click()
    wait(page)
    page.close()


def test_no_file_needs_a_type_that_web_hosts_lack(site) -> None:
    """Nginx sends .mjs as application/octet-stream, and browsers refuse it."""
    assert {path.suffix for path in site.rglob("*") if path.is_file()} <= {
        ".css", ".html", ".jpg", ".js", ".json", ".onnx", ".txt", ".wasm",
    }  # fmt: skip


def test_the_site_is_one_page_with_another_engine(site) -> None:
    for file in STATIC.iterdir():
        if file.name not in ("engine.js", "coco.js", "index.html"):
            assert (site / file.name).read_bytes() == file.read_bytes()
    assert (site / "engine.js").read_bytes() == (BROWSER / "engine.js").read_bytes()
    (about,) = json.loads((site / "mappings.json").read_text())["mappings"]
    assert (site / about["file"]).read_bytes() == SHIPPED.read_bytes()
    assert "Copyright (c) Microsoft" in (site / ort_web.WASM / "LICENSE.txt").read_text()
    policy = SITE_POLICY.replace(" 'wasm-unsafe-eval'", "").replace("worker-src 'self'; ", "")
    assert policy == POLICY.removesuffix("; frame-ancestors 'none'")
    assert f'content="{SITE_POLICY}"' in (site / "index.html").read_text()


# Names that formats write in other ways than they are, and stems that differ in their endings only.
NAMES = [
    "a.png",
    "a.b.PNG",
    "caf\u00e9 (1)'!*.png",
    "bell\x07.png",
    "back\\\\xe9.png",
    "one:two.png",
    "same.png",
    "same.jpg",
    ".png",
]
LABELS = ['Klasse \u00e9 "1" & <2>', "\u2028 \U0001f600\n"]


def runs_of(part) -> list[int]:
    """An object's pixels as the page has them: y, x0, x1 of each run."""
    runs = []
    for y, row in enumerate(part.astype(int)):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], row, [0]])))
        for x0, x1 in edges.reshape(-1, 2).tolist():
            runs += [y, x0, x1]
    return runs


@pytest.fixture
def modules(browser, web_host, tmp_path):
    """An empty page that can import the site's modules; its folder."""
    for folder in (STATIC, BROWSER):
        shutil.copytree(folder, tmp_path / "files", dirs_exist_ok=True)
    page = browser.new_page()
    page.goto(f"{web_host(tmp_path / 'files')[1]}/style.css")
    yield page
    page.close()


def test_annotation_files_equal_pythons(modules, tmp_path) -> None:
    """The second writer writes what the first one writes, for the same objects."""
    code = """async ([sent, classes, version]) => {
        const [{ WRITERS }, { zip }] = [await import("/annotations.js"), await import("/zip.js")], made = {};
        for (const photo of sent) photo.file = await (await fetch(`/photos/${encodeURIComponent(photo.name)}`)).blob();
        for (const [format, write] of Object.entries(WRITERS)) {
            const packed = await zip(await write(sent, classes, version));
            made[format] = btoa(String.fromCharCode(...new Uint8Array(await packed.arrayBuffer())));
        }
        return made;
    }"""
    numbers = np.random.default_rng(0)
    folder = tmp_path / "files" / "photos"
    folder.mkdir()
    photos, sent = [], []
    for number, name in enumerate(NAMES):
        height, width = 40 + 7 * number, (64, 60, 20, 128)[number % 4]
        mask = 0.6 * numbers.random((height, width), np.float32)
        mask[5:30, 4:15], mask[35:, 17:], mask[0, 0] = 0.9, 0.8, 1
        objects = [] if number == 3 else objects_of(mask, LABELS[number % 2], "all", 0.01)
        (folder / name).write_bytes(encode_png((255 * mask).astype(np.uint8)))
        photos.append(Labelled(folder / name, written(name), width, height, tuple(objects)))
        seen = []
        for one in objects:
            total = float(mask[one.mask()].sum(dtype=np.float64))
            runs = runs_of(one.mask())
            seen.append({"box": one.box, "area": one.area, "sum": total, "runs": runs, "label": one.label})
        sent.append({"name": name, "width": width, "height": height, "objects": seen})
    assert sum(len(photo.objects) for photo in photos) > len(photos)
    for format, packed in modules.evaluate(code, [sent, labels_of(photos), __version__]).items():
        out = tmp_path / format
        FORMATS[format].write(photos, labels_of(photos), out, WriteOptions(rle=True, folder="photos"))
        with zipfile.ZipFile(io.BytesIO(base64.b64decode(packed))) as archive:
            assert archive.testzip() is None
            found = {name: archive.read(name) for name in archive.namelist()}
        assert sorted(found) == sorted(path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file())
        for name, content in found.items():
            wanted = (out / name).read_bytes()
            assert json.loads(content) == json.loads(wanted) if name.endswith(".json") else content == wanted, name


def test_a_photo_that_fails_is_skipped_and_named(modules) -> None:
    """As the server does; and names differ also where case does not count."""
    code = """async broken => {
        const { annotationFile } = await import("/annotations.js");
        const photos = ["cat.jpg", "bad.jpg", "CAT.jpg"].map(name => ({ name, file: new Blob() }));
        const analyse = async ({ name }) => {
            if (broken.includes(name)) throw new Error("no memory");
            return { objects: [], width: 4, height: 3, label: null };
        };
        const made = await annotationFile(photos, "coco", { classes: "none", version: "1" }, analyse);
        return [made.skipped, JSON.parse(await made.blob.text()).images.map(({ file_name }) => file_name)];
    }"""
    skipped, names = modules.evaluate(code, ["bad.jpg"])
    assert skipped == ["bad.jpg: no memory"]
    assert names == photo_names(["cat.jpg", "CAT.jpg"]) == ["cat.jpg", "CAT-2.jpg"]
    with pytest.raises(Exception, match=r"cat\.jpg: no memory"):
        modules.evaluate(code, ["cat.jpg", "bad.jpg", "CAT.jpg"])


def test_outlines_are_opencvs_in_noise(modules) -> None:
    """Also of parts with holes, of lines of pixels, and of several components."""
    code = "async sent => { const { outline } = await import('/outline.js'); return sent.map(outline); }"
    numbers = np.random.default_rng(0)
    parts = []
    for number in range(120):
        noise = numbers.random(numbers.integers(1, 50, 2), np.float32)
        smooth = cv2.GaussianBlur(noise, (0, 0), 0.1 + number / 30)
        binary = smooth >= np.quantile(smooth, 0.8 * numbers.random())
        parts += [binary, largest_component(binary)]
    wanted = [outline(part) for part in parts]
    assert max(map(len, wanted)) > 50
    for got, points in zip(modules.evaluate(code, [runs_of(part) for part in parts]), wanted, strict=True):
        assert list(map(tuple, got)) == points
    every = "async sent => { const { outlines } = await import('/outline.js'); return sent.map(outlines); }"
    noise = parts[::2]
    for got, part in zip(modules.evaluate(every, [runs_of(part) for part in noise]), noise, strict=True):
        count, numbered = cv2.connectedComponents(part.astype(np.uint8), connectivity=8)
        alone = [outline(numbered == number) for number in range(1, count)]
        assert sorted([tuple(point) for point in points] for points in got) == sorted(alone)


def test_numbers_are_rounded_as_python_rounds_them(modules) -> None:
    code = "async sent => { const { rounded } = await import('/text.js'); return sent.map(one => rounded(...one)); }"
    values = [(k / 128, 6) for k in range(129)] + [(k / 32, 4) for k in range(33)] + [(k / 97, 5) for k in range(98)]
    assert modules.evaluate(code, values) == [f"{value:.{digits}f}" for value, digits in values]


OPTIONS = {"coco": ("--rle",)}


def test_files_of_several_photos_are_those_of_annotate(page, casmap, tmp_path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for path in free_photos():
        shutil.copy(path, photos)
    shutil.copy(photos / "coffee.png", photos / "rocket.png")  # beside rocket.jpg
    page.set_input_files("#files", sorted(map(str, photos.iterdir())))
    page.locator("#photos li").nth(6).wait_for()
    page.locator("#status", has_text="rocket.png: ").wait_for(timeout=60_000)
    page.locator("#status", has_text="Processing").wait_for(state="detached")
    for format in ("coco", "yolo", "label-studio"):
        options = OPTIONS.get(format, ())
        assert (
            casmap("annotate", "photos", "--format", format, "--out", format, "--classes", "none", *options).code == 0
        )
        page.select_option("#format", format)
        with page.expect_download() as waiting:
            page.click("#download")
        got, out = waiting.value, tmp_path / format
        assert got.suggested_filename == ("annotations.json" if format == "coco" else f"{format}.zip")
        assert "objects: 7, photos: 7" in page.locator("#status").inner_text()
        if format == "coco":
            same(json.loads(got.path().read_text()), json.loads((out / "annotations.json").read_text()))
            continue
        with zipfile.ZipFile(got.path()) as archive:
            names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
            assert set(archive.namelist()) == names
            for name in names:
                content, wanted = archive.read(name), (out / name).read_bytes()
                if name.endswith(".json"):
                    same(json.loads(content), json.loads(wanted))
                elif name.startswith("labels/"):
                    np.testing.assert_allclose(np.float64(content.split()), np.float64(wanted.split()), atol=3e-3)
                else:
                    assert content == wanted, name


MEASURED = {"x", "y", "width", "height", "bbox"}  # in pixels, or in percent of a photo


def same(got, wanted, key="") -> None:
    """Compare JSON; pixels at the threshold may differ, so boxes and scores may a little, and outlines and masks."""
    if isinstance(wanted, dict) and "counts" in wanted:
        one, two = (run_lengths.decode(each).astype(bool) for each in (got, wanted))
        assert (one & two).sum() / (one | two).sum() > 0.999
    elif isinstance(wanted, dict):
        assert got.keys() == wanted.keys()
        if "points" in wanted:  # in percent
            assert abs(area(got["points"]) - area(wanted["points"])) < 10
        for name in wanted.keys() - {"points", "area"}:
            same(got[name], wanted[name], name)
    elif isinstance(wanted, list):
        assert len(got) == len(wanted)
        for one, two in zip(got, wanted, strict=True):
            same(one, two, key)
    elif key in MEASURED or key == "score":
        assert got == pytest.approx(wanted, abs=1e-3 if key == "score" else 1)
    else:  # among others names and numbers of photos, objects and classes
        assert got == wanted, key


def area(points) -> float:
    return float(cv2.contourArea(np.array(points, np.float32)))


def test_the_runtime_can_be_an_unpacked_package(runtime, tmp_path) -> None:
    shutil.unpack_archive(runtime, tmp_path, "gztar", filter="data")
    assert ort_web.runtime_files(tmp_path / "package") == ort_web.runtime_files(runtime)
    about = tmp_path / "package" / "package.json"
    about.write_text(about.read_text().replace(f'"version": "{ort_web.VERSION}"', '"version": "1.0.0"'))
    with pytest.raises(UserError, match=r"is onnxruntime-web 1\.0\.0, not onnxruntime-web "):
        ort_web.runtime_files(tmp_path / "package")


def test_the_package_comes_from_the_registry_that_npm_is_configured_for(
    runtime, web_host, tmp_path, monkeypatch
) -> None:
    folder = tmp_path / "npm" / ort_web.PACKAGE / "-"
    folder.mkdir(parents=True)
    shutil.copy(runtime, folder / PACKAGE)
    _, address = web_host(tmp_path)
    monkeypatch.setenv("npm_config_registry", f"{address}/npm/")
    assert ort_web.runtime_files() == ort_web.runtime_files(runtime)


def test_a_changed_package_is_refused(web_host, tmp_path, monkeypatch, casmap) -> None:
    folder = tmp_path / "npm" / ort_web.PACKAGE / "-"
    folder.mkdir(parents=True)
    (folder / PACKAGE).write_bytes(b"other code")
    monkeypatch.setenv("npm_config_registry", f"{web_host(tmp_path)[1]}/npm")
    with pytest.raises(UserError, match=r"^The SHA-512 of what 127\.0\.0\.1 sent is not that of onnxruntime-web"):
        ort_web.runtime_files()
    sentence = casmap("page", "--out", "site", "--runtime", folder / PACKAGE).sentence()
    assert "The SHA-512 of" in sentence
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize("registry", ["http://127.0.0.1:1/", "http://[", "file:///etc", "http://a registry/"])
def test_without_the_registry_the_error_says_what_to_do(monkeypatch, registry) -> None:
    monkeypatch.setenv("npm_config_registry", registry)
    with pytest.raises(UserError, match=r"Get onnxruntime-web-.*\.tgz elsewhere \(npm pack onnxruntime-web@") as error:
        ort_web.runtime_files()
    assert "\n" not in str(error.value)


def test_useless_arguments_are_one_line_errors(casmap, tmp_path) -> None:
    said = casmap("page", "--mapping", "mapping.safetensors").sentence()
    assert "cannot run in a browser: give an .onnx file (casmap export mapping.safetensors writes one)." in said
    assert "cannot run in a browser: give an .onnx file." in casmap("page", "--mapping", "photo.jpg").sentence()
    assert "There is no file missing.tgz" in casmap("page", "--runtime", "missing.tgz").sentence()
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "mine.txt").write_text("mine")
    assert "is not empty" in casmap("page", "--out", "site").sentence()
