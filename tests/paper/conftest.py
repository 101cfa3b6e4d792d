"""A small setting in which every study of the paper takes seconds."""

import pytest

from casmap.paper.setting import Setting
from casmap.training.recipes import QUICK

SMALL = QUICK.replace(size=32, batch=4, steps=4, first_steps=4, checkpoint_every=2, threads=1)


@pytest.fixture
def shrink(monkeypatch):
    """Give a study of scenes fewer and smaller pictures, and few steps."""

    def shrink_module(module) -> None:
        few = {"QUICK": SMALL.replace(period=1), "PHOTOS": 40, "HELD_OUT_PHOTOS": 40}
        for name, value in few.items():
            monkeypatch.setattr(module, name, value)

    return shrink_module


@pytest.fixture
def small() -> Setting:
    """Twenty classes, as Table 3 needs."""
    data = "scenes:classes=20,photos={},size=32"
    return Setting(data.format(60), SMALL, test=data.format(40))
