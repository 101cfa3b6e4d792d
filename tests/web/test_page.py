"""The page in a real browser."""

import json

import numpy as np
import PIL.Image
import pytest

from casmap.data.free_photos import free_photos
from casmap.inference.mapper import SHIPPED, SaliencyMapper

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
    """The page, which must not stumble and must ask nobody else."""
    context = browser.new_context(accept_downloads=True)
    opened = context.new_page()
    problems, asked = [], []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto(two.address)
    opened.locator("#free button").first.wait_for()
    yield opened
    assert [text for text in problems if "status of 422" not in text] == []  # which browsers complain about, too
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
    assert captions == ["original and box", "mask", "masked in", "masked out", "inpainted"]
    wanted = SaliencyMapper.load()(free_photos()[0]).box()
    np.testing.assert_allclose(box_of(page), wanted, atol=4)  # the page's picture has a pixel for one and a half
    assert "chelsea.png" in page.locator("#status").inner_text()


def test_the_slider_and_the_switch_act_at_once_and_ask_nobody(page) -> None:
    drop(page, free_photos()[4])
    page.locator("article canvas").nth(4).wait_for()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    shares = []
    for alpha in ("0.5", "1", "2"):
        page.locator("#alpha").fill(alpha)
        shares.append(int(page.locator("article .found").inner_text().split("; ")[1].split(" %")[0]))
    assert shares[0] > shares[1] > shares[2]
    page.locator("#alpha").fill("1")
    page.locator("#largest").uncheck()
    every = int(page.locator("article .found").inner_text().split("; ")[1].split(" %")[0])
    assert every >= shares[1]
    assert asked == []


def test_two_mappings_stand_beside_each_other(page) -> None:
    drop(page, free_photos()[1])
    page.locator("article canvas").nth(4).wait_for()
    page.select_option("#other", index=2)
    page.locator("article canvas").nth(9).wait_for()
    assert page.locator("article h4").all_inner_texts() == ["first", "second"]


def test_free_photos_can_be_clicked_and_all_works_with_the_keyboard(page) -> None:
    page.locator("#free button").nth(2).focus()
    page.keyboard.press("Enter")
    page.locator("article canvas").nth(4).wait_for()
    before = page.locator("#alpha-value").inner_text()
    page.locator("#alpha").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#alpha-value").inner_text() != before
    page.locator("#largest").focus()
    page.keyboard.press("Space")
    assert not page.locator("#largest").is_checked()
    page.locator("article .remove").focus()
    page.keyboard.press("Enter")
    assert page.locator("article").count() == 0
    assert "removed" in page.locator("#status").inner_text()


def test_what_is_no_photo_says_so_in_its_card(page, tmp_path) -> None:
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
    from pycocotools import mask as run_lengths

    for annotation, image in zip(content["annotations"], content["images"], strict=True):
        size = image["height"], image["width"]
        pixels = run_lengths.decode(run_lengths.frPyObjects(annotation["segmentation"], *size))
        assert pixels.shape == size
        assert int(pixels.sum()) == annotation["area"]
        rows, columns = np.nonzero(pixels)
        x, y, width, height = annotation["bbox"]
        np.testing.assert_allclose(
            (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1), (x, y, x + width, y + height), atol=2
        )
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
    picture = PIL.Image.open(waiting.value.path())
    assert picture.width > 4 * picture.height


def test_the_page_fits_a_phone_and_follows_the_dark(page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != light


def test_everything_that_acts_has_a_name(page) -> None:
    drop(page, free_photos()[0])
    page.locator("article canvas").nth(4).wait_for()
    for handle in page.locator("button, input, select, canvas").element_handles():
        name = handle.evaluate(
            "e => e.getAttribute('aria-label') || (e.labels && [...e.labels].map(l => l.textContent).join('')) || "
            "e.textContent || [...e.querySelectorAll('img')].map(i => i.alt).join('')"
        )
        assert name.strip(), handle.evaluate("e => e.outerHTML")
