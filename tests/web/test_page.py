"""The page in a real browser."""

import json
import re

import numpy as np
import PIL.Image
import pytest
from pycocotools import mask as run_lengths

from casmap.data.free_photos import free_photos
from casmap.data.scenes import Scenes
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.io.images import encode_png

sync_api = pytest.importorskip("playwright.sync_api")


@pytest.fixture(scope="module")
def browser(chromium):
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield running
        running.close()


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
    opened.locator("#free button").first.wait_for()
    yield opened
    assert [text for text in problems if "status of 422" not in text] == []  # which browsers also report as an error
    assert all(url.startswith((two.address, "data:", "blob:")) for url in asked)
    context.close()


def drop(page, *paths) -> None:
    page.set_input_files("#files", [str(path) for path in paths])


def box_of(page) -> list[int]:
    text = page.locator("article .found").first.inner_text()
    return [int(number) for number in text.split("box ")[1].split(";")[0].split(", ")]


def test_a_photo_shows_five_views_and_the_librarys_box(page) -> None:
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    captions = page.locator("article figcaption").all_inner_texts()
    assert captions == ["photo and box", "mask", "masked in", "masked out", "inpainted"]
    wanted = SaliencyMapper.load()(free_photos()[0]).box()
    np.testing.assert_allclose(box_of(page), wanted, atol=4)  # one pixel of the view is 1.5 pixels of the photo
    assert "chelsea.png" in page.locator("#status").inner_text()


def test_slider_and_checkbox_redraw_without_a_request(page) -> None:
    drop(page, free_photos()[4])
    page.locator("article canvas").nth(4).wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    shares = []
    for rule, levels in (("threshold", ("0.25", "0.5", "0.75")), ("alpha", ("0.5", "1", "2"))):
        page.select_option("#rule", rule)
        assert page.locator("#level-value").inner_text() == {"threshold": "0.50", "alpha": "1.00"}[rule]
        for level in levels:
            page.locator("#level").fill(level)
            shares.append(int(page.locator("article .found").inner_text().split("; ")[1].split(" %")[0]))
    assert shares[0] > shares[1] > shares[2]
    assert shares[3] > shares[4] > shares[5]
    page.locator("#level").fill("1")
    page.locator("#largest").uncheck()
    every = int(page.locator("article .found").inner_text().split("; ")[1].split(" %")[0])
    assert every >= shares[4]
    assert asked == []


def test_two_mappings_are_shown_together(page) -> None:
    drop(page, free_photos()[1])
    page.locator("article canvas").nth(4).wait_for()
    page.select_option("#other", index=2)
    page.locator("article canvas").nth(9).wait_for()
    assert page.locator("article h4").all_inner_texts() == ["first", "second"]


def test_free_photos_and_all_controls_work_with_the_keyboard(page) -> None:
    page.locator("#free button").nth(2).focus()
    page.keyboard.press("Enter")
    page.locator("article canvas").nth(4).wait_for()
    before = page.locator("#level-value").inner_text()
    page.locator("#level").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#level-value").inner_text() != before
    page.locator("#largest").focus()
    page.keyboard.press("Space")
    assert not page.locator("#largest").is_checked()
    page.locator("article .remove").focus()
    page.keyboard.press("Enter")
    assert page.locator("article").count() == 0
    assert "Removed" in page.locator("#status").inner_text()


def test_the_card_of_an_unreadable_file_shows_the_error(page, tmp_path) -> None:
    broken = tmp_path / "broken <b>.png"
    broken.write_bytes(b"no photo")
    drop(page, broken, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    failed = page.locator("article.failed")
    assert failed.locator("h3").inner_text() == "broken <b>.png"
    assert "not an image" in failed.locator(".found").inner_text()


def test_downloads_are_what_the_page_shows(page, tmp_path) -> None:
    drop(page, free_photos()[0], free_photos()[1])
    page.locator("article canvas").nth(9).wait_for()
    with page.expect_download() as waiting:
        page.click("#coco")
    content = json.loads(waiting.value.path().read_text())
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
    assert "objects: 2, photos: 2" in page.locator("#status").inner_text()
    card = page.locator("article", has_text="chelsea.png")
    with page.expect_download() as waiting:
        card.locator(".yolo").click()
    label, *numbers = waiting.value.path().read_text().split()
    assert label == "0"
    x0, y0, x1, y1 = SaliencyMapper.load()(free_photos()[0]).box()
    width, height = PIL.Image.open(free_photos()[0]).size
    wanted = [(x0 + x1) / 2 / width, (y0 + y1) / 2 / height, (x1 - x0) / width, (y1 - y0) / height]
    np.testing.assert_allclose([float(number) for number in numbers], wanted, atol=0.01)
    with page.expect_download() as waiting:
        card.locator(".png").click()
    image = PIL.Image.open(waiting.value.path())
    assert image.width > 4 * image.height


@pytest.fixture(scope="module")
def taken(tmp_path_factory):
    """A photo from a camera: a large JPEG, rotated by its EXIF data."""
    path = tmp_path_factory.mktemp("camera") / "Ünser Foto, 1.JPG"
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    with PIL.Image.open(free_photos()[4]) as photo:
        photo.convert("RGB").resize((2400, 1600)).save(path, exif=exif)
    return path


@pytest.mark.parametrize(
    ("rule", "level", "objects"),
    [("threshold", "0.5", "largest"), ("threshold", "0.3", "all"), ("alpha", "1.25", "all")],
)
def test_downloads_are_what_annotate_writes(page, taken, casmap, tmp_path, rule, level, objects) -> None:
    drop(page, taken)
    page.locator("article canvas").nth(4).wait_for()
    page.select_option("#rule", rule)
    page.locator("#level").fill(level)
    page.locator("#largest").set_checked(objects == "largest")
    options = "--classes", "none", f"--{rule}", level, "--objects", objects
    assert casmap("annotate", taken, "--format", "coco", "--rle", "--out", "coco", *options).code == 0
    assert casmap("annotate", taken, "--format", "yolo", "--out", "yolo", *options).code == 0
    with page.expect_download() as waiting:
        page.click("#coco")
    assert waiting.value.suggested_filename == "annotations.json"
    got = json.loads(waiting.value.path().read_text())
    wanted = json.loads((tmp_path / "coco" / "annotations.json").read_text())
    assert len(wanted["annotations"]) >= 1
    assert got == wanted
    with page.expect_download() as waiting:
        page.locator("article .yolo").click()
    assert waiting.value.suggested_filename == f"{taken.stem}.txt"
    assert waiting.value.path().read_text() == (tmp_path / "yolo" / "labels" / f"{taken.stem}.txt").read_text()


def test_more_photos_than_a_request_may_have_are_one_download(page, casmap, tmp_path) -> None:
    scenes = Scenes(photos=34, size=48)
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(len(scenes)):
        (folder / f"{number:02}.png").write_bytes(encode_png(scenes.image(number)))
    page.set_input_files("#files", sorted(folder.iterdir()))
    page.get_by_text(re.compile(r"^33\.png: ")).wait_for(timeout=120_000)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_download(timeout=120_000) as waiting:
        page.click("#coco")
    assert casmap("annotate", folder, "--format", "coco", "--rle", "--out", "coco", "--classes", "none").code == 0
    assert json.loads(waiting.value.path().read_text()) == json.loads(
        (tmp_path / "coco" / "annotations.json").read_text()
    )
    assert sum("/api/annotations" in url for url in asked) == 2


def test_the_selected_mapping_writes_the_annotations(page) -> None:
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    page.select_option("#mapping", "second")
    with page.expect_request("**/api/annotations*") as asked, page.expect_download():
        page.click("#coco")
    assert "mapping=second" in asked.value.url


def test_a_rejected_download_shows_the_reason(browser, start) -> None:
    small = start("--megabytes", "1")
    page = browser.new_page()
    page.goto(small.address)
    page.locator("#free button").first.wait_for()
    for number in range(4):  # each is below the limit, all together are not
        page.locator("#free button").nth(number).click()
    page.locator("article canvas").nth(19).wait_for()
    page.click("#coco")
    page.get_by_text(
        "annotations.json: A request may have at most 1 MB. For more photos, run casmap annotate."
    ).wait_for()
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
    page.locator("#free button").first.wait_for()
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    assert not page.locator("#other").is_visible()  # there is no second mapping
    page.locator("#largest").set_checked(largest)
    for rule, levels in (("alpha", ("0.5", "1", "2")), ("threshold", ("0.95", "0.05"))):
        page.select_option("#rule", rule)
        for level in levels:
            page.locator("#level").fill(level)
            assert page.locator("article .found").inner_text() == "no object found"
    with page.expect_download() as waiting:
        page.click("#coco")
    content = json.loads(waiting.value.path().read_text())
    assert [image["file_name"] for image in content["images"]] == ["chelsea.png"]
    assert content["annotations"] == []
    with page.expect_download() as waiting:
        page.locator("article .yolo").click()
    assert waiting.value.path().read_text() == ""
    page.close()


def test_less_than_a_grey_level_is_flat(page) -> None:
    assert page.evaluate("[[7, 7, 7], [7, 8, 7], [0, 0], [0, 255]].map(isFlat)") == [True, False, True, False]


def test_the_page_fits_a_phone_and_has_a_dark_mode(page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_every_control_has_an_accessible_name(page) -> None:
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    for handle in page.locator("button, input, select, canvas").element_handles():
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
        page.locator("#free button").first.wait_for()
        drop(page, free_photos()[0])
        page.locator("article canvas").nth(4).wait_for()
    with page.expect_download() as waiting:
        page.click("#coco")
    assert len(json.loads(waiting.value.path().read_text())["annotations"]) == 1
    page.close()
    stranger = browser.new_page()
    assert stranger.goto(address.partition("?")[0]).status == 401
    stranger.close()
