"""Fixtures for the tests of training."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest

from casmap.reporting import Reporter


class RecordingReporter(Reporter):
    """Keeps all messages and warnings."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.warnings: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)

    def warning(self, text: str) -> None:
        self.warnings.append(text)

    @property
    def text(self) -> str:
        return "\n".join(self.messages)


@pytest.fixture
def recorder() -> RecordingReporter:
    return RecordingReporter()


@pytest.fixture
def make_folder():
    """Make class folders of random PNGs, 90 by 70 to 73 pixels."""

    def make(root: Path, classes: tuple[str, ...] = ("ant", "bee", "cat"), each: int = 4) -> Path:
        random = np.random.default_rng(0)
        for name in classes:
            (root / name).mkdir(parents=True)
            for number in range(each):
                height, width = (90, 70 + number)  # shorter sides 70, 71, 72, 73: median 71
                image = random.integers(0, 256, (height, width, 3), dtype=np.uint8)
                PIL.Image.fromarray(image).save(root / name / f"{number}.png")
        return root

    return make
