"""Take the screenshots of Label Studio in docs/assets: python benchmarks/label_studio_shots.py (needs playwright).

It installs Label Studio from PyPI in an environment of its own, connects casmap in the browser, retrieves predictions,
corrects a box with the mouse, and submits it.
"""

import io
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import PIL.Image
from playwright.sync_api import Page, sync_playwright

from casmap.data.free_photos import free_photos

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "web"))
from label_studio_server import PASSWORD, USER, LabelStudioServer, environment_of  # noqa: E402

ASSETS = ROOT / "docs" / "assets"
SIZE, QUALITY = (960, 540), 85
MODEL = "http://127.0.0.1:8765"  # the guide's address: the port must be free
CLASSES = {"chelsea": "cat", "coffee": "cup", "motorcycle_left": "motorcycle", "rocket": "rocket"}
SHOWN = "cup"  # its predicted box and outline contain a spoon
CORRECT = {"x": 28.5, "y": 4.5, "width": 39.3, "height": 73.7}  # the box of the cup alone, in percent
LABELS = "".join(f'<Label value="{label}"/>' for label in CLASSES.values())
CONFIG = f"""<View><Image name="image" value="$image"/>
<RectangleLabels name="box" toName="image">{LABELS}</RectangleLabels>
<PolygonLabels name="outline" toName="image">{LABELS}</PolygonLabels></View>"""


def main() -> None:
    """Start both servers, walk through the guide in Chromium, and write JPEG files."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        label_studio = LabelStudioServer(environment_of(Path(folder, "programs")), Path(folder, "server"))
        code = "from casmap.cli.main import main; main()"
        command = [sys.executable, "-c", code, "serve", "--no-browser", "--label-studio", label_studio.address]
        token = {"LABEL_STUDIO_API_KEY": label_studio.token}
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=os.environ | token)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        try:
            assert server.stdout is not None
            assert server.stdout.readline().startswith(MODEL)
            project = f"{label_studio.address}/projects/{make_project(label_studio)}"
            page = browser.new_page(viewport={"width": 1280, "height": 720})
            page.goto(f"{label_studio.address}/user/login/")
            page.locator("input[name=email]").fill(USER)
            page.locator("input[name=password]").fill(PASSWORD)
            page.locator("button[type=submit]").click()
            page.wait_for_url(f"{label_studio.address}/")
            connect(page, project)
            retrieve_predictions(page, project)
            page.locator(f"img[src*={SHOWN}]").first.click()
            page.get_by_text("Submit", exact=True).wait_for()
            save(page, "label-studio")
            task = f"/api/tasks/{page.url.partition('task=')[2]}/"
            correct(page, label_studio.get(task)["predictions"][0]["result"])
            save(page, "label-studio-corrected")
            (region,) = label_studio.get(task)["annotations"][0]["result"]
            assert all(abs(region["value"][name] - number) < 0.3 for name, number in CORRECT.items()), region
        finally:
            browser.close()
            server.terminate()
            server.wait()
            label_studio.stop()


def make_project(label_studio: LabelStudioServer) -> int:
    """Make a project with photos of local files, in folders that name their classes; returns its number."""
    for path in free_photos():
        if path.stem in CLASSES:
            folder = label_studio.files / "photos" / CLASSES[path.stem]
            folder.mkdir(parents=True)
            with PIL.Image.open(path) as photo:
                photo.convert("RGB").save(folder / "1.jpg", quality=95)
    project = label_studio.post("/api/projects/", {"title": "My photos", "label_config": CONFIG})["id"]
    storage = label_studio.post("/api/storages/localfiles", {
        "project": project, "path": str(label_studio.files / "photos"), "use_blob_urls": True,
        "regex_filter": ".*jpg", "recursive_scan": True,
    })  # fmt: skip
    label_studio.post(f"/api/storages/localfiles/{storage['id']}/sync", {})
    return project


def connect(page: Page, project: str) -> None:
    """Connect casmap in the project's settings."""
    page.goto(f"{project}/settings/ml")
    page.get_by_text("Connect Model", exact=True).click()
    page.locator("input[name=title]").fill("casmap")
    page.locator("input[name=url]").fill(MODEL)
    page.get_by_text("Validate and Save").click()
    page.get_by_text("Connected", exact=True).wait_for()
    save(page, "label-studio-model")


def retrieve_predictions(page: Page, project: str) -> None:
    """Select all tasks in the data manager, and ask for predictions."""
    page.goto(f"{project}/data")
    page.locator("input[type=checkbox]").first.check(force=True)
    page.get_by_text(f"{len(CLASSES)} Tasks", exact=True).click()
    page.get_by_text("Retrieve Predictions").click()
    page.get_by_text("OK", exact=True).click()
    page.get_by_text(f"Predictions: {len(CLASSES)}").wait_for()


def correct(page: Page, predicted: list[dict]) -> None:
    """Remove the outline, drag the lower left corner and the right edge of the box, and submit."""
    box, outline = (page.get_by_text(SHOWN, exact=True).nth(number) for number in (2, 3))  # after the labels
    outline.click()
    page.keyboard.press("Backspace")
    box.click()
    (old,) = [one["value"] for one in predicted if one["type"] == "rectanglelabels"]
    shown = page.locator("canvas").first.bounding_box()
    assert shown is not None

    def move(value: dict[str, float], across: float, down: float) -> None:
        """Move the mouse to a point of a box; across, down: 0 to 1."""
        x, y = value["x"] + across * value["width"], value["y"] + down * value["height"]
        page.mouse.move(shown["x"] + shown["width"] * x / 100, shown["y"] + shown["height"] * y / 100, steps=5)

    between = CORRECT | {"width": old["x"] + old["width"] - CORRECT["x"]}  # after the first of two moves
    for start, end, point in ((old, CORRECT, (0, 1)), (between, CORRECT, (1, 0.5))):
        page.wait_for_timeout(500)
        move(start, *point)
        page.mouse.down()
        move(end, *point)
        page.mouse.up()
    page.get_by_text("Submit", exact=True).click()
    page.get_by_text("Annotation saved successfully", exact=True).wait_for()
    box.click()


def save(page: Page, name: str) -> None:
    """Write what the browser shows to a JPEG file."""
    page.wait_for_timeout(2000)  # until what fades in is there
    image = PIL.Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    image.resize(SIZE, PIL.Image.Resampling.LANCZOS).save(ASSETS / f"{name}.jpg", quality=QUALITY, optimize=True)


if __name__ == "__main__":
    main()
