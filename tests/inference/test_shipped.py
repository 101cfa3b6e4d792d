"""The shipped mapping: its file, its origin and its results on free photos."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from casmap.data.free_photos import free_photos
from casmap.evaluation.localization import iou
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.tools.annotate import annotate
from casmap.training.options_of_0_1_0 import REMOVED, RENAMED
from casmap.training.recipes import SEEDS

# By hand around the cat, cup and saucer, the motorcycle, the astronaut with her helmet, the cameraman and his tripod.
BOXES = {
    "chelsea": (0, 0, 385, 300),
    "coffee": (75, 16, 478, 392),
    "motorcycle_left": (85, 65, 690, 455),
    "astronaut": (20, 10, 505, 512),
    "camera": (0, 62, 400, 512),
}


@pytest.fixture(scope="module")
def mapper() -> SaliencyMapper:
    return SaliencyMapper.load()


def test_it_is_one_small_file_with_the_hash_of_the_model_card() -> None:
    assert SHIPPED.stat().st_size <= 20_000_000
    card = (Path(__file__).parents[2] / "docs" / "model-card.md").read_text()
    assert hashlib.sha256(SHIPPED.read_bytes()).hexdigest() in card


def test_it_was_trained_as_the_model_card_says(mapper: SaliencyMapper) -> None:
    kept = {RENAMED.get(name, name): value for name, value in mapper.about["recipe"].items() if name not in REMOVED}
    assert {name: value for name, value in kept.items() if value != getattr(SEEDS, name)} == {
        "from_scratch": False, "encoder_lr": 1e-4, "second_stage_lr": 3e-4, "second_stage_steps": 500, "batch": 16,
        "start_share": 0.5, "held_out": 0.0, "threads": 1,
    }  # fmt: skip
    assert (len(mapper.classes), mapper.size) == (1000, 288)


@pytest.mark.parametrize("name", BOXES)
def test_its_boxes_match_boxes_drawn_by_hand(mapper: SaliencyMapper, name: str) -> None:
    (photo,) = (path for path in free_photos() if path.stem == name)
    box = mapper(photo).box()
    assert box is not None
    assert iou(np.array(box), np.array([BOXES[name]]))[0] > 0.5


def test_masks_do_not_depend_on_the_batch_size(mapper: SaliencyMapper) -> None:
    one, *_ = mapper(list(free_photos()))
    np.testing.assert_allclose(one.mask, mapper(free_photos()[0]).mask, atol=1e-5)


def test_it_needs_neither_torch_nor_timm() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['timm'] = None; from casmap import SaliencyMapper; "
        f"print(SaliencyMapper.load()({str(free_photos()[0])!r}).box())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("(")


def test_it_is_the_default_of_evaluate(tmp_path) -> None:
    command = ["evaluate", "scenes:photos=3,classes=3,size=64", "--unseen", "--json", str(tmp_path / "all.json")]
    subprocess.run([sys.executable, "-m", "casmap", *command], check=True, capture_output=True)
    assert next(iter(json.loads((tmp_path / "all.json").read_text()))) == "casmap"


def test_classes_have_readable_names(mapper: SaliencyMapper, tmp_path) -> None:
    assert mapper.titles[mapper.classes.index("n02123045")] == "tabby"
    assert len(set(mapper.titles)) == 1000
    cat = next(str(path) for path in free_photos() if path.stem == "chelsea")
    annotate(cat, format="coco", out=tmp_path / "out", classes="predicted")
    (category,) = json.loads((tmp_path / "out" / "annotations.json").read_text())["categories"]
    assert "cat" in category["name"] or category["name"] in ("tabby", "lynx", "Persian cat")
