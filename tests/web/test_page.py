"""The page in a real browser."""

import base64
import io
import json
import re
import time
import zipfile

import cv2
import numpy as np
import PIL.Image
import pytest
from pycocotools import mask as run_lengths

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, labels_of
from casmap.data.free_photos import free_photos
from casmap.data.scenes import Scenes
from casmap.inference.components import Threshold
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.inference.objects import objects_in, objects_of
from casmap.inference.views import HEAT_COLOURS, PHOTO_WEIGHTS
from casmap.io.images import encode_png

pytest.importorskip("playwright.sync_api")
# A server that takes one request at a time, and makes an object when the test says so.
BUSY = """
import time
from pathlib import Path
from casmap.inference import objects
from casmap.web.limits import Limits
Limits.__init__.__defaults__ = (*Limits.__init__.__defaults__[:3], 1, 0, 64)
make, folder = objects._object, Path({folder!r})
def wait(*arguments):
    (folder / "begun").touch()
    while not (folder / "go").exists():
        time.sleep(0.05)
    return make(*arguments)
objects._object = wait
"""
CAT, COFFEE, ROCKET, MOTORCYCLE, ASTRONAUT, CAMERA = range(6)  # of the free photos


@pytest.fixture(scope="module")
def two(start, tmp_path_factory):
    """A server with two mappings."""
    paths = []
    for name in ("first", "second"):
        folder = tmp_path_factory.mktemp("mappings") / name
        folder.mkdir()
        (folder / "mapping.onnx").write_bytes(SHIPPED.read_bytes())
        paths += ["--mapping", str(folder / "mapping.onnx")]
    return start(*paths)


@pytest.fixture
def page(browser, two):
    """The page, which must have no errors and send requests to its own server only."""
    context = browser.new_context(accept_downloads=True)
    opened = context.new_page()
    problems, asked = [], []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(two.address)
    wait(opened)
    yield opened
    assert [text for text in problems if "status of 422" not in text] == []  # which browsers also report as an error
    assert all(url.startswith((two.address, "data:", "blob:")) for url in asked)
    context.close()


@pytest.fixture(scope="module")
def mapper():
    return SaliencyMapper.load()


def wait(page, text="of the photo kept") -> None:
    page.locator("#found", has_text=text).wait_for(timeout=60_000)


def wait_until(page, happened, seconds=60) -> None:
    """Wait until a function says so."""
    end = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < end
        page.wait_for_timeout(20)


def drop(page, *paths) -> None:
    """Open photos and wait for the last one."""
    page.set_input_files("#files", [str(path) for path in paths])
    page.locator("#status").get_by_text(re.compile(f"^{re.escape(paths[-1].name)}: ")).wait_for(timeout=120_000)


def box_of(page) -> list[int]:
    text = page.locator("#found").inner_text()
    return [int(number) for number in text.split("box ")[1].split(";")[0].split(", ")]


def share_of(page) -> int:
    return int(re.search(r"(\d+) % of the photo kept", page.locator("#found").inner_text())[1])


def show_more(page) -> None:
    page.locator("summary").click()


def download(page, what):
    page.select_option("#format", what)
    with page.expect_download() as waiting:
        page.click("#download")
    return waiting.value


def canvas(page, name="after") -> np.ndarray:
    """The pixels of a canvas: (H, W, 4)."""
    address = page.evaluate(f"document.getElementById('{name}').toDataURL()")
    return np.array(PIL.Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGBA"))


def test_the_page_shows_that_it_works(page) -> None:
    held = []
    page.route("**/api/raw?*", lambda route: held.append(route))
    page.set_input_files("#more", str(free_photos()[CAT]))  # the tile beside the photos
    page.locator("#stage[aria-busy=true]").wait_for()
    wait_until(page, lambda: held)
    held[0].continue_()
    page.locator("#stage[aria-busy=false]").wait_for()
    page.locator("#name", has_text="chelsea.png").wait_for()


def test_the_first_screen_shows_an_example_with_its_result(browser, two) -> None:
    for width, height in ((1440, 900), (360, 740)):
        page = browser.new_page(viewport={"width": width, "height": height})
        page.goto(two.address)
        wait(page)
        assert re.fullmatch(r"espresso \d+ %", page.locator("#label").inner_text())
        for part in ("#picture", "#level", "#views", "#edges", "#files"):
            box = page.locator(part).bounding_box()
            assert box["y"] >= 0, part
            assert box["y"] + box["height"] <= height, part
        assert page.locator("#picture").bounding_box()["width"] > 0.6 * min(width, height)
        page.close()


def test_slider_and_picture_share_the_screen_of_a_phone(browser, two) -> None:
    page = browser.new_page(viewport={"width": 360, "height": 740})
    page.goto(two.address)
    wait(page)
    show_more(page)
    page.locator("#zoom").scroll_into_view_if_needed()
    page.mouse.wheel(0, 5000)
    page.wait_for_timeout(200)
    assert page.evaluate("scrollY") > 100
    for part in ("#picture", "#level", "#views"):
        box = page.locator(part).bounding_box()
        assert box["y"] >= -1, part
        assert box["y"] + box["height"] <= 741, part
    page.close()


def test_corners_of_boxes_at_the_edge_of_a_photo_are_whole(page) -> None:
    drop(page, free_photos()[ROCKET])  # its box ends at the lower edge
    for width, height in ((1440, 900), (360, 740)):
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_timeout(200)
        outer = page.locator("#stage").bounding_box()
        corners = page.locator("#marks circle").all()
        assert len(corners) == 4
        assert box_of(page)[3] == 427  # the height of the photo
        for corner in corners:
            box = corner.bounding_box()
            assert outer["y"] <= box["y"], box
            assert box["y"] + box["height"] <= outer["y"] + outer["height"], box


def test_nothing_on_a_phone_is_cut_or_covered(page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    drop(page, free_photos()[ROCKET])
    views = page.locator("#views")
    for view in ("overlay", "mask", "cutout", "masked-out", "inpainted"):
        page.locator(f"#views input[value={view}]").check(force=True)
        assert views.evaluate("bar => bar.scrollWidth <= bar.clientWidth"), view
    handle = page.locator("#divider span").bounding_box()
    assert handle["y"] + handle["height"] <= page.locator("#left-name").bounding_box()["y"]
    page.click("#add")
    said, controls = page.locator("#status").bounding_box(), page.locator("#controls").bounding_box()
    assert "Click a region" in page.locator("#status").inner_text()
    assert said["y"] + said["height"] <= controls["y"]


@pytest.mark.parametrize("number", [CAT, COFFEE, ROCKET, ASTRONAUT, CAMERA])
def test_the_page_has_the_librarys_masks_and_boxes(page, mapper, number) -> None:
    photo = free_photos()[number]
    code = """async ([url, edges]) => {
        const [{ OpenPhoto, openPixels }, engine] = [await import("/photo.js"), await import("/engine.js")];
        const file = await (await fetch(url)).blob(), open = new OpenPhoto(await openPixels(file, engine.convert));
        const bytes = new Uint8Array(open.mask(await engine.map(file, "first"), edges).buffer);
        let text = "";
        for (const byte of bytes) text += String.fromCharCode(byte);
        return btoa(text);
    }"""
    for edges in ("sharp", "smooth"):
        wanted = SaliencyMapper(mapper.network, mapper.size, mapper.about, edges)(photo)
        got = np.frombuffer(base64.b64decode(page.evaluate(code, [f"/api/photos/{photo.name}", edges])), "<f4")
        np.testing.assert_allclose(got.reshape(wanted.mask.shape), wanted.mask, atol=1e-4)
        if edges == "sharp":
            drop(page, photo)
        page.locator(f"#edges input[value={edges}]").check(force=True)
        for level in (0.3, 0.5, 0.62):
            page.locator("#level").fill(str(level))
            assert tuple(box_of(page)) == wanted.box(threshold=level)
            kept = wanted.connected(threshold=level).mean()
            assert abs(share_of(page) - 100 * kept) <= 0.51


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """A photo from a camera: a large JPEG, rotated by its EXIF data."""
    path = tmp_path_factory.mktemp("camera") / "Ünser Foto, 1.JPG"
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    with PIL.Image.open(free_photos()[ASTRONAUT]) as photo:
        photo.convert("RGB").resize((2400, 1600)).save(path, exif=exif)
    return path


def test_numbers_and_pictures_are_those_of_extract(page, taken, casmap, tmp_path) -> None:
    deep = tmp_path / "deep.png"  # 16 bits: Python stretches them, a browser does not
    grey = np.asarray(PIL.Image.open(free_photos()[CAMERA]).convert("L")).astype(np.uint16)
    PIL.Image.fromarray(grey * 3).save(deep)
    scan = tmp_path / "scan.tif"  # browsers open no TIFF
    PIL.Image.open(free_photos()[MOTORCYCLE]).save(scan)
    new, phone = tmp_path / "new.avif", tmp_path / "phone.heic"
    with PIL.Image.open(free_photos()[COFFEE]) as coffee:
        coffee.save(new)
        pytest.importorskip("pillow_heif").from_pillow(coffee).save(phone)
    photos = [free_photos()[CAT], taken, deep, scan, new, phone]
    for photo in photos:  # one after the other: ONNX Runtime rounds differently in a batch
        assert casmap("extract", photo, "--everything", "--threshold", "0.4").code == 0
    lines = [json.loads(line) for line in (tmp_path / "maps" / "boxes.jsonl").read_text().splitlines()]
    found = {line["photo"].rpartition("/")[2]: line for line in lines}
    for photo in photos:
        drop(page, photo)
        page.locator("#photos button.show", has_text=photo.name).click()
        page.locator("#name", has_text=photo.name).wait_for()
        page.locator("#level").fill("0.4")
        assert box_of(page) == found[photo.name]["box"]
        for kind in ("cutout", "mask", "masked-out", "inpainted") if photo in photos[:2] else ("mask",):
            got = download(page, kind)
            assert got.suggested_filename == f"{photo.stem}-{kind}.png"
            wanted = tmp_path / "maps" / f"{found[photo.name]['name']}-{kind}.png"
            assert got.path().read_bytes() == wanted.read_bytes()


def test_the_views_on_the_screen_are_the_librarys(page, mapper) -> None:
    drop(page, free_photos()[MOTORCYCLE])
    wanted = mapper(free_photos()[MOTORCYCLE])
    np.testing.assert_array_equal(canvas(page, "before")[..., :3], wanted.photo)
    views = {}
    for kind in ("overlay", "mask", "cutout", "masked-out", "inpainted"):
        page.locator(f"#views input[value={kind}]").check(force=True)
        views[kind] = canvas(page).astype(int)
    grey = wanted.view("mask").astype(int)
    assert abs(views["mask"][..., 0] - grey).max() <= 1
    heat = wanted.photo * (PHOTO_WEIGHTS[0, grey[..., None], 0] / 255.0) + HEAT_COLOURS[0, grey]
    assert abs(views["overlay"][..., :3] - heat).max() <= 3
    np.testing.assert_array_equal(views["masked-out"][..., :3], wanted.masked_out())
    x0, y0, x1, y1 = wanted.box()
    cut = wanted.cutout()
    assert abs(views["cutout"][y0:y1, x0:x1, 3] - cut[..., 3]).max() <= 1
    outside = np.ones(grey.shape, bool)
    outside[y0 - 1 : y1 + 1, x0 - 1 : x1 + 1] = False
    assert views["cutout"][outside, 3].max() == 0
    hole = wanted.binary()
    np.testing.assert_array_equal(views["inpainted"][~hole][:, :3], wanted.photo[~hole])
    assert (views["inpainted"][hole][:, :3] != wanted.photo[hole]).mean() > 0.9


def test_a_line_surrounds_what_the_threshold_keeps(page, mapper) -> None:
    """On the heat map alone: the other views show the edges themselves."""
    drop(page, free_photos()[CAT])
    found = mapper(free_photos()[CAT])
    for level in (0.5, 0.7):
        page.locator("#level").fill(str(level))
        (line,) = lines_of(page)
        points = np.array([pair.split(",") for pair in line.split()], np.float32)
        (wanted,) = found.objects("largest", threshold=level)
        assert cv2.contourArea(points) == pytest.approx(cv2.contourArea(np.float32(wanted.polygon)), rel=0.02)
        np.testing.assert_allclose([*points.min(0), *points.max(0)], wanted.box, atol=1.5)
    page.locator("#views input[value=cutout]").check(force=True)
    assert lines_of(page) == []


def lines_of(page) -> list[str]:
    """The points of each line on the heat map."""
    paths = [path.get_attribute("d") for path in page.locator("#marks path.over").all()]
    return [line.removesuffix("Z") for path in paths for line in path.split("M")[1:]]


def test_a_line_surrounds_each_part_of_an_object(page, mapper) -> None:
    """Such as an object that is a box around several parts."""
    drop(page, free_photos()[ROCKET])
    count, _ = cv2.connectedComponents(mapper(free_photos()[ROCKET]).binary().astype(np.uint8), connectivity=8)
    assert count - 1 > 1
    page.locator("#objects .remove").click()
    page.click("#add")
    drag(page, (0, 0), (640, 427))
    assert boxes_of(page) == [[0, 0, 640, 427]]
    assert len(lines_of(page)) == count - 1


def test_the_divider_moves_by_pointer_and_keyboard(page) -> None:
    place = page.locator("#picture").bounding_box()
    divider, grip = page.locator("#divider"), page.locator("#divider span").bounding_box()
    page.mouse.move(grip["x"] + 20, grip["y"] + 20)
    page.mouse.down()
    page.mouse.move(place["x"] + 0.8 * place["width"], grip["y"] + 20, steps=4)
    page.mouse.up()
    assert divider.get_attribute("aria-valuenow") == "80"
    divider.focus()
    page.keyboard.press("ArrowLeft")
    assert divider.get_attribute("aria-valuenow") == "75"
    page.keyboard.press("Home")
    assert divider.get_attribute("aria-valuenow") == "0"


def test_slider_and_checkbox_redraw_without_a_request(page) -> None:
    drop(page, free_photos()[ASTRONAUT])
    show_more(page)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    shares = []
    for rule, levels in (("threshold", ("0.25", "0.5", "0.75")), ("alpha", ("0.5", "1", "2"))):
        page.select_option("#rule", rule)
        assert page.locator("#level-value").inner_text() == {"threshold": "0.50", "alpha": "1.00"}[rule]
        for level in levels:
            page.locator("#level").fill(level)
            assert page.locator("#status").inner_text() == ""  # not the numbers of another threshold
            shares.append(share_of(page))
    assert shares[0] > shares[1] > shares[2]
    assert shares[3] > shares[4] > shares[5]
    page.locator("#level").fill("1")
    page.locator("#largest").uncheck()
    assert share_of(page) >= shares[4]
    assert asked == []


def test_two_mappings_are_compared_at_the_divider(page) -> None:
    drop(page, free_photos()[COFFEE])
    show_more(page)
    photo = canvas(page, "before")
    page.select_option("#other", "second")
    page.locator("#left-name", has_text="second").wait_for()
    assert page.locator("#right-name").inner_text() == "first"
    np.testing.assert_array_equal(canvas(page, "before"), canvas(page))  # they are copies of one mapping
    assert (canvas(page, "before") != photo).any()


def test_all_controls_work_with_the_keyboard(page) -> None:
    page.locator("#free button").nth(ROCKET).focus()
    page.keyboard.press("Enter")
    page.locator("#name", has_text="rocket.jpg").wait_for()
    wait(page)
    before = page.locator("#level-value").inner_text()
    page.locator("#level").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#level-value").inner_text() != before
    page.locator("#views input").first.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#right-name").inner_text() == "mask"
    page.locator("summary").focus()
    page.keyboard.press("Enter")
    page.locator("#largest").focus()
    page.keyboard.press("Space")
    assert not page.locator("#largest").is_checked()
    page.locator("#photos .remove").focus()
    page.keyboard.press("Enter")
    assert page.locator("#photos li").count() == 0
    assert "Removed" in page.locator("#status").inner_text()


def test_photos_are_dropped_pasted_and_taken(page) -> None:
    code = """async ([url, kind, name]) => {
        const blob = await (await fetch(url)).blob(), data = new DataTransfer();
        data.items.add(new File([blob], name, { type: blob.type }));
        const pasted = { clipboardData: data, bubbles: true }, dropped = { dataTransfer: data, bubbles: true };
        const made = kind === "paste" ? new ClipboardEvent(kind, pasted) : new DragEvent(kind, dropped);
        document.body.dispatchEvent(made);
    }"""
    page.evaluate(code, ["/api/photos/chelsea.png", "drop", "dropped.png"])
    page.locator("#photos li", has_text="dropped.png").wait_for()
    page.evaluate(code, ["/api/photos/coffee.png", "paste", "pasted.png"])
    page.locator("#photos li", has_text="pasted.png").wait_for()
    assert page.locator("#camera").get_attribute("capture") == "environment"
    page.set_input_files("#camera", str(free_photos()[ROCKET]))
    page.locator("#photos li", has_text="rocket.jpg").wait_for()
    assert page.locator("#photos li").count() == 3  # the example has gone


def test_an_unreadable_file_shows_its_error(page, tmp_path) -> None:
    broken = tmp_path / "broken <b>.png"
    broken.write_bytes(b"no photo")
    drop(page, broken, free_photos()[CAT])
    failed = page.locator("#photos li.failed")
    assert failed.locator("span").inner_text() == "broken <b>.png"
    assert page.locator("#name").inner_text() == "chelsea.png"
    failed.locator(".show").click()
    page.locator("#found", has_text="not an image").wait_for()
    assert page.locator("#name").inner_text() == "broken <b>.png"
    assert page.locator("#empty").is_visible()
    assert page.locator("#download").is_disabled()


def test_downloads_are_what_the_page_shows(page) -> None:
    drop(page, free_photos()[CAT], free_photos()[COFFEE])
    content = json.loads(download(page, "coco").path().read_text())
    assert [image["file_name"] for image in content["images"]] == ["chelsea.png", "coffee.png"]
    assert [category["name"] for category in content["categories"]] == ["object"]
    for annotation, image in zip(content["annotations"], content["images"], strict=True):
        pixels = run_lengths.decode(annotation["segmentation"])
        assert pixels.shape == (image["height"], image["width"])
        assert int(pixels.sum()) == annotation["area"]
        rows, columns = np.nonzero(pixels)
        x, y, width, height = annotation["bbox"]
        edges = columns.min(), rows.min(), columns.max() + 1, rows.max() + 1
        assert edges == (x, y, x + width, y + height)
        page.locator("#photos .show", has_text=image["file_name"]).click()
        page.locator("#name", has_text=image["file_name"]).wait_for()
        assert box_of(page) == [x, y, x + width, y + height]
    download(page, "coco")
    assert "objects: 2, photos: 2" in page.locator("#status").inner_text()
    with zipfile.ZipFile(download(page, "yolo").path()) as archive:
        assert {"data.yaml", "images/chelsea.png", "labels/chelsea.txt", "labels/coffee.txt"} <= set(archive.namelist())
    with zipfile.ZipFile(download(page, "label-studio").path()) as archive:
        assert sorted(archive.namelist()) == ["config.xml", "tasks.json"]
        tasks = json.loads(archive.read("tasks.json"))
    addresses = [task["data"]["image"] for task in tasks]
    assert addresses == [f"/data/local-files/?d=photos/{name}" for name in ("chelsea.png", "coffee.png")]
    show_more(page)
    page.locator("#named").check()
    content = json.loads(download(page, "coco").path().read_text())
    assert [category["name"] for category in content["categories"]] == ["Egyptian cat", "espresso"]


@pytest.mark.parametrize(
    ("rule", "level", "objects", "edges"),
    [
        ("threshold", "0.5", "largest", "sharp"), ("threshold", "0.3", "all", "smooth"),
        ("alpha", "1.25", "all", "sharp"),
    ],
)  # fmt: skip
def test_downloads_are_what_annotate_writes(page, taken, casmap, tmp_path, rule, level, objects, edges) -> None:
    drop(page, taken)
    show_more(page)
    page.select_option("#rule", rule)
    page.locator("#level").fill(level)
    page.locator("#largest").set_checked(objects == "largest")
    page.locator(f"#edges input[value={edges}]").check(force=True)
    options = "--classes", "none", f"--{rule}", level, "--objects", objects, "--edges", edges
    assert casmap("annotate", taken, "--format", "coco", "--rle", "--out", "coco", *options).code == 0
    assert casmap("annotate", taken, "--format", "yolo", "--out", "yolo", *options).code == 0
    got = download(page, "coco")
    assert got.suggested_filename == "annotations.json"
    wanted = json.loads((tmp_path / "coco" / "annotations.json").read_text())
    assert len(wanted["annotations"]) >= 1
    assert json.loads(got.path().read_text()) == wanted
    got = download(page, "yolo")
    assert got.suggested_filename == f"{taken.stem}.txt"
    assert got.path().read_text() == (tmp_path / "yolo" / "labels" / f"{taken.stem}.txt").read_text()


def at(page, x, y) -> tuple[float, float]:
    """Where a pixel of the photo is on the screen."""
    place, (_, _, width, height) = page.locator("#marks").bounding_box(), numbers(page)
    return place["x"] + x * place["width"] / width, place["y"] + y * place["height"] / height


def numbers(page) -> list[float]:
    return [float(one) for one in page.locator("#marks").get_attribute("viewBox").split()]


def drag(page, start, end) -> None:
    page.mouse.move(*at(page, *start))
    page.mouse.down()
    page.mouse.move(*at(page, *end), steps=5)
    page.mouse.up()


def boxes_of(page) -> list[list[int]]:
    texts = page.locator("#objects .select").all_inner_texts()
    return [[int(number) for number in text.partition(":")[0].split(", ")] for text in texts]


def test_corrections_become_part_of_the_downloads(page, mapper, tmp_path) -> None:
    photo = free_photos()[ROCKET]
    drop(page, photo)
    found = mapper(photo)
    x0, y0, x1, y1 = found.box()
    assert boxes_of(page) == [[x0, y0, x1, y1]]
    drag(page, (x0, y0), (x0 - 40, y0 - 30))  # a corner
    (corrected,) = boxes_of(page)
    np.testing.assert_allclose(corrected, [x0 - 40, y0 - 30, x1, y1], atol=1)
    drag(page, (30, 40), (100, 90))  # a new box, outside of the other
    drawn = boxes_of(page)[1]
    np.testing.assert_allclose(drawn, [30, 40, 100, 90], atol=1)
    part = found.objects(min_area=0)[1]  # beside both
    assert part.box[2] < corrected[0]
    rows, columns = np.nonzero(part.mask())
    page.click("#add")
    page.mouse.click(*at(page, columns[0] + 0.5, rows[0] + 0.5))  # a region of the mask
    assert boxes_of(page) == [corrected, drawn, list(part.box)]
    assert "3 objects" in page.locator("#found").inner_text()
    boxes = [tuple(box) for box in boxes_of(page)]
    wanted = Labelled(photo, photo.name, 640, 427, tuple(objects_in(found.mask, "object", boxes)))
    FORMATS["coco"].write([wanted], labels_of([wanted]), tmp_path, WriteOptions(rle=True))
    got = json.loads(download(page, "coco").path().read_text())
    assert got == json.loads((tmp_path / "annotations.json").read_text())
    assert got["annotations"][1]["area"] == (drawn[2] - drawn[0]) * (drawn[3] - drawn[1])  # the mask is empty there
    union = np.any([one.mask() for one in wanted.objects], axis=0)
    np.testing.assert_array_equal(np.array(PIL.Image.open(download(page, "mask").path()))[..., 0], 255 * union)
    cut = np.array(PIL.Image.open(download(page, "cutout").path()))
    low, high = np.min(boxes, axis=0), np.max(boxes, axis=0)
    np.testing.assert_array_equal(cut[..., 3], 255 * union[low[1] : high[3], low[0] : high[2]])
    lines = download(page, "yolo").path().read_text().splitlines()
    assert len(lines) == 3
    page.locator("#objects .remove").nth(1).click()
    assert boxes_of(page) == [corrected, list(part.box)]
    page.mouse.click(*at(page, columns[0] + 0.5, rows[0] + 0.5))
    assert page.locator("#objects .select").nth(1).get_attribute("aria-pressed") == "true"
    page.keyboard.press("Delete")
    assert boxes_of(page) == [corrected]
    page.click("#reset")
    assert boxes_of(page) == [[x0, y0, x1, y1]]
    assert json.loads(download(page, "coco").path().read_text())["annotations"][0]["bbox"] == [x0, y0, x1 - x0, y1 - y0]


def test_boxes_are_corrected_with_the_keyboard(page) -> None:
    drop(page, free_photos()[ROCKET])
    ((x0, y0, x1, y1),) = boxes_of(page)
    page.locator("#objects .select").focus()
    for key in ("ArrowLeft", "ArrowUp", "ArrowUp", "Shift+ArrowRight"):
        page.keyboard.press(key)
    assert boxes_of(page) == [[x0 - 1, y0 - 2, x1, y1 - 2]]
    page.locator("#objects .remove").focus()
    page.keyboard.press("Enter")
    assert boxes_of(page) == []
    assert json.loads(download(page, "coco").path().read_text())["annotations"] == []


def test_an_object_is_added_with_the_keyboard(page) -> None:
    drop(page, free_photos()[ROCKET])
    (found,) = boxes_of(page)
    assert not page.locator("#keys").is_visible()
    page.locator("#panel").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "add"
    assert page.locator("#keys").is_visible()  # what the keys do
    page.keyboard.press("Enter")
    added = [213, 142, 427, 285]  # in the middle of 640 x 427
    assert boxes_of(page) == [found, added]
    for key in ("ArrowLeft", "ArrowDown", "Shift+ArrowRight"):  # the new object has the focus
        page.keyboard.press(key)
    x0, y0, x1, y1 = added
    assert boxes_of(page) == [found, [x0 - 1, y0 + 1, x1, y1 + 1]]
    page.keyboard.down("ArrowUp")
    page.keyboard.down("ArrowUp")  # held
    page.keyboard.up("ArrowUp")
    assert boxes_of(page) == [found, [x0 - 1, y0 + 1 - 6, x1, y1 + 1 - 6]]  # 1 and 5 pixels
    assert len(json.loads(download(page, "coco").path().read_text())["annotations"]) == 2
    page.locator("#objects .select").last.focus()
    page.keyboard.press("Delete")
    assert boxes_of(page) == [found]


@pytest.fixture
def phone(browser, two):
    """The page on a phone."""
    context = browser.new_context(viewport={"width": 360, "height": 740}, has_touch=True)
    opened = context.new_page()
    opened.goto(two.address)
    wait(opened)
    yield opened
    context.close()


def test_an_object_is_removed_on_a_phone(phone) -> None:
    drop(phone, free_photos()[ROCKET])
    ((x0, y0, x1, y1),) = boxes_of(phone)
    phone.touchscreen.tap(*at(phone, (x0 + x1) / 2, (y0 + y1) / 2))
    assert phone.locator("#objects .select").get_attribute("aria-pressed") == "true"
    button = phone.locator("#objects .remove")
    button.tap()
    assert boxes_of(phone) == []
    box = phone.locator("#add").bounding_box()
    assert 0 <= box["x"] < box["x"] + box["width"] <= 360


def swipe(page, across, down) -> None:
    """Move a finger over the picture, ten steps of this size."""
    place, touch = page.locator("#stage").bounding_box(), page.context.new_cdp_session(page)
    x, y = place["x"] + 0.8 * place["width"], place["y"] + 0.6 * place["height"]
    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [{"x": x, "y": y}]})
    for step in range(1, 11):
        points = [{"x": x + step * across, "y": y + step * down}]
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": points})
        page.wait_for_timeout(20)
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_zoomed_picture_pans_by_touch(phone) -> None:
    drop(phone, free_photos()[CAT])
    show_more(phone)
    assert phone.locator("#picture").bounding_box()["width"] <= 360
    for zoom, width in (("1", 451), ("2", 902)):
        phone.select_option("#zoom", zoom)
        assert phone.locator("#picture").bounding_box()["width"] == width
    for across, down in ((-15, 0), (0, -10)):
        swipe(phone, across, down)
    wait_until(phone, lambda: phone.evaluate("document.getElementById('stage').scrollLeft") > 100, 5)
    wait_until(phone, lambda: phone.evaluate("document.getElementById('stage').scrollTop") > 50, 5)
    assert len(boxes_of(phone)) == 1  # nothing was drawn
    phone.select_option("#zoom", "fit")
    assert phone.locator("#picture").bounding_box()["width"] <= 360


def test_every_photo_keeps_its_corrections(page) -> None:
    drop(page, free_photos()[CAT], free_photos()[ROCKET])
    assert page.locator("#name").inner_text() == "chelsea.png"
    page.locator("#objects .remove").click()
    page.locator("#photos .show", has_text="rocket.jpg").click()
    page.locator("#name", has_text="rocket.jpg").wait_for()
    assert len(boxes_of(page)) == 1
    content = json.loads(download(page, "coco").path().read_text())
    assert [one["image_id"] for one in content["annotations"]] == [2]
    page.locator("#photos .show", has_text="chelsea.png").click()
    page.locator("#found", has_text="0 objects").wait_for()


def test_more_photos_than_a_request_may_have_are_one_download(page, casmap, tmp_path) -> None:
    scenes = Scenes(photos=34, size=48)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(len(scenes)):
        (folder / f"{number:02}.png").write_bytes(encode_png(scenes.image(number)))
    drop(page, *sorted(folder.iterdir()))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    got = download(page, "coco")
    assert casmap("annotate", folder, "--format", "coco", "--rle", "--out", "coco", "--classes", "none").code == 0
    assert json.loads(got.path().read_text()) == json.loads((tmp_path / "coco" / "annotations.json").read_text())
    assert sum("/api/annotations" in url for url in asked) == 2
    page.select_option("#format", "yolo")
    page.click("#download")
    page.locator("#status", has_text="too many photos for the page: run casmap annotate").wait_for()


def test_the_selected_mapping_writes_the_annotations(page) -> None:
    drop(page, free_photos()[CAT])
    show_more(page)
    page.select_option("#mapping", "second")
    page.select_option("#format", "coco")
    with page.expect_request("**/api/annotations*") as asked, page.expect_download():
        page.click("#download")
    assert "mapping=second" in asked.value.url


def test_a_second_mapping_that_is_not_ready_is_not_drawn(page) -> None:
    drop(page, free_photos()[CAT])
    show_more(page)
    held = []
    page.route("**/api/raw?mapping=second", lambda route: held.append(route))
    page.select_option("#other", "second")
    wait_until(page, lambda: held)
    page.locator("#level").fill("0.4")  # without the second mapping's values, this raised an error (see `page`)
    held[0].continue_()
    page.locator("#left-name", has_text="second").wait_for()
    wait(page)


def test_a_photo_that_a_busy_server_refused_is_mapped_later(browser, start, tmp_path) -> None:
    busy = start(first=BUSY.format(folder=str(tmp_path)))
    page = browser.new_page()
    page.goto(busy.address)
    wait(page)
    page.evaluate(
        """async () => {
            const form = new FormData();
            form.append("photos", await (await fetch("example.jpg")).blob(), "a.jpg");
            form.append("corrections", "[[[0, 0, 4, 4]]]");
            window.asked = fetch("api/annotations?format=csv", { method: "POST", body: form });
        }"""
    )
    wait_until(page, (tmp_path / "begun").exists)
    page.set_input_files("#files", str(free_photos()[CAT]))
    page.locator("#empty", has_text="Too many requests at once").wait_for()
    (tmp_path / "go").touch()
    assert page.evaluate("async () => (await window.asked).status") == 200
    page.locator("#photos .show").click()
    wait(page)
    assert page.locator("#photos li.failed").count() == 0
    page.close()


def test_a_rejected_download_shows_the_reason(browser, start) -> None:
    small = start("--megabytes", "1")
    page = browser.new_page()
    page.goto(small.address)
    page.locator("#free button").first.wait_for()
    for number in range(4):  # each is below the limit, all together are not
        page.locator("#free button").nth(number).click()
        page.locator("#photos li").nth(number).wait_for()
    page.locator("#status", has_text=re.compile("^motorcycle_left.png: ")).wait_for()
    page.select_option("#format", "coco")
    page.click("#download")
    page.get_by_text("Not saved: A request may have at most 1 MB. For more photos, run casmap annotate.").wait_for()
    page.close()


@pytest.fixture(scope="module")
def flat(start, tmp_path_factory):
    """A server with a mapping that gives flat masks."""
    from casmap.models.classifier import Classifier
    from casmap.models.decoder import Decoder
    from casmap.models.files import save_mapping
    from casmap.models.network import SaliencyNetwork

    encoder = Classifier("test_resnet", 2)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["ant", "bee"], predicts=False)
    network.decoder.mask.weight.data.zero_()
    path = tmp_path_factory.mktemp("flat") / "flat.safetensors"
    save_mapping(path, network, {"size": 64})
    return start("--mapping", str(path))


@pytest.mark.parametrize("largest", [True, False])
def test_a_flat_mask_marks_no_object(browser, flat, largest) -> None:
    page = browser.new_page()
    page.goto(flat.address)
    wait(page, "no object found")
    drop(page, free_photos()[CAT])
    show_more(page)
    assert not page.locator("#other").is_visible()  # there is no second mapping
    assert not page.locator("#label").is_visible()  # nor a predicted class
    page.locator("#largest").set_checked(largest)
    for rule, levels in (("alpha", ("0.5", "1", "2")), ("threshold", ("0.95", "0.05"))):
        page.select_option("#rule", rule)
        for level in levels:
            page.locator("#level").fill(level)
            assert page.locator("#found").inner_text() == "no object found"
    content = json.loads(download(page, "coco").path().read_text())
    assert [image["file_name"] for image in content["images"]] == ["chelsea.png"]
    assert content["annotations"] == []
    assert download(page, "yolo").path().read_text() == ""
    page.select_option("#format", "cutout")
    page.click("#download")
    page.get_by_text("Not saved: there is no object to cut out.").wait_for()
    page.close()


def test_less_than_a_grey_level_is_flat(page) -> None:
    code = "async masks => masks.map((await import('/objects.js')).isFlat)"
    masks = [[0.5, 0.5, 0.501], [0.5, 0.503], [0, 0], [0, 1]]
    assert page.evaluate(code, masks) == [True, False, True, False]


def test_components_are_opencvs_in_noise(page) -> None:
    """Also with many components, with holes and ties, and at the borders."""
    code = """async ([values, width, height, level]) => {
        const { components } = await import("/objects.js");
        const found = components(Float32Array.from(values), width, height, level);
        return found.map(({ box, area, sum }) => [...box, area, sum]);
    }"""
    numbers = np.random.default_rng(0)
    for share in (0.2, 0.4, 0.6):
        mask = numbers.random((37, 53), np.float32)
        wanted = objects_of(mask, "", "all", 0, Threshold(fixed=1 - share))
        got = page.evaluate(code, [mask.ravel().tolist(), 53, 37, float(np.float32(1 - share))])
        assert sorted((*one.box, one.area) for one in wanted) == sorted(tuple(one[:5]) for one in got)
        assert got[0][:4] == list(Threshold(fixed=1 - share).box(mask))
        assert [one[4] for one in got] == [one.area for one in wanted]
        scores = sorted(one[5] / one[4] for one in got)
        np.testing.assert_allclose(scores, sorted(one.score for one in wanted), rtol=1e-6)


def test_heat_has_the_colours_of_the_overlay(page) -> None:
    colours = page.evaluate("async () => (await import('/views.js')).INFERNO")
    values = np.frombuffer(bytes.fromhex(colours), np.uint8).reshape(256, 3)
    opaque = 0.6 * np.linspace(0, 1, 256)[:, None]
    np.testing.assert_array_equal(np.rint(opaque * values), HEAT_COLOURS[0])


def test_the_page_fits_a_phone_and_has_a_dark_mode(page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    drop(page, free_photos()[CAT], free_photos()[COFFEE], free_photos()[ROCKET])
    show_more(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_every_control_has_an_accessible_name(page) -> None:
    drop(page, free_photos()[CAT])
    show_more(page)
    controls = page.locator("button, input, select, canvas:not([aria-hidden]), [role=slider]")
    assert controls.count() > 25
    for handle in controls.element_handles():
        name = handle.evaluate(
            "e => e.getAttribute('aria-label') || (e.labels && [...e.labels].map(l => l.textContent).join('')) || "
            "e.textContent || [...e.querySelectorAll('img')].map(i => i.alt).join('')"
        )
        assert name.strip(), handle.evaluate("e => e.outerHTML")


def test_the_page_works_with_a_token(browser, start) -> None:
    server = start("--host", "0.0.0.0")
    address = server.link.replace("0.0.0.0", "127.0.0.1")
    page = browser.new_page()
    for link in (address, address.partition("?")[0]):  # the second time the cookie has the token
        page.goto(link)
        wait(page)
        drop(page, free_photos()[CAT])
    assert len(json.loads(download(page, "coco").path().read_text())["annotations"]) == 1
    page.close()
    stranger = browser.new_page()
    assert stranger.goto(address.partition("?")[0]).status == 401
    stranger.close()
