"""Take the screenshots of the page in docs/assets, in Chromium: python benchmarks/page_shots.py (needs playwright)."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import PIL.Image
from playwright.sync_api import sync_playwright

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
SHOTS = {  # name: width, height, colour scheme, view
    "page-light": (1440, 900, "light", "overlay"), "page-dark": (1440, 900, "dark", "cutout"),
    "page-phone-light": (360, 740, "light", "overlay"), "page-phone-dark": (360, 740, "dark", "cutout"),
}  # fmt: skip
QUALITY = 70


def main() -> None:
    """Start a server, open its page in four ways, and write JPEG files."""
    code = "from casmap.cli.main import main; main()"
    command = [sys.executable, "-c", code, "serve", "--port", "0", "--no-browser"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[0]
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for name, (width, height, scheme, view) in SHOTS.items():
                context = browser.new_context(
                    viewport={"width": width, "height": height}, color_scheme=scheme, has_touch=width < 500
                )
                page = context.new_page()
                page.goto(address)
                page.locator("#found", has_text="kept").wait_for()
                page.locator(f"#views input[value={view}]").check(force=True)
                page.locator("#free img").last.wait_for()
                page.evaluate("document.activeElement.blur()")
                page.wait_for_timeout(500)
                image = PIL.Image.open(io.BytesIO(page.screenshot())).convert("RGB")
                image.save(ASSETS / f"{name}.jpg", quality=QUALITY, optimize=True)
                context.close()
            browser.close()
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    main()
