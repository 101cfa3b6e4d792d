"""Figure 2: photos masked in, masked out, inpainted."""

import cv2
import numpy as np
import pytest

from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.inference.components import binary_mask, largest_box
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.saliency_map import SaliencyMap
from casmap.paper.figure2 import figure2
from casmap.paper.study import Study
from casmap.paper.trainings import Entries
from casmap.tools.page import ROWS, SIDE, WITH_OVERLAY, block, side_by_side


def maps(count):
    """Maps of grey photos of different shapes, with a bright object in the middle."""
    found = []
    for number in range(count):
        photo = np.full((40 + 8 * number, 64, 3), 100, np.uint8)
        mask = np.zeros(photo.shape[:2], np.float32)
        mask[10:30, 20:40] = 1
        photo[mask == 1] = 250
        found.append(SaliencyMap(photo, mask))
    return found


@pytest.mark.parametrize("count", [1, 3])
def test_a_block_has_a_column_for_each_photo_and_a_row_for_each_view(count):
    figure = block(maps(count), side=32)
    assert figure.shape == (4 * 32, count * 32, 3)
    assert figure.dtype == np.uint8


def test_the_rows_are_photo_overlay_masked_in_masked_out_and_inpainted():
    figure = block(maps(1), WITH_OVERLAY, side=44)
    photo, overlay, masked_in, masked_out, inpainted = figure.reshape(5, 44, 44, 3)
    inside, outside = (22, 20), (6, 6)
    assert photo[inside].tolist() == [250] * 3
    assert photo[outside].tolist() == [100] * 3
    assert overlay[inside].tolist() != [250] * 3
    assert overlay[outside].tolist() == [100] * 3
    assert masked_in[inside].tolist() == [250] * 3
    assert masked_in[outside].tolist() == [128] * 3
    assert masked_out[inside].tolist() == [128] * 3
    assert masked_out[outside].tolist() == [100] * 3
    assert abs(inpainted[inside].astype(int) - 100).max() < 40
    assert (figure[:2] == 255).all()  # a white frame around each


def test_mappings_stand_side_by_side_with_white_between():
    figure = side_by_side([maps(2), maps(2)], side=32)
    assert figure.shape == (4 * 32, 4 * 32 + 16, 3)
    assert (figure[:, 64:80] == 255).all()
    np.testing.assert_array_equal(figure[:, :64], figure[:, 80:])


def entries(folder, scenes, *names):
    return Entries(Study(folder, {}), scenes, "scenes", dict.fromkeys(names, SaliencyMapper.load()))


def picture(png: bytes):
    return cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)


def test_seven_consecutive_photos_are_shown(tmp_path):
    scenes = Scenes(classes=4, photos=30, size=64)
    mapper = SaliencyMapper.load()
    outcome = figure2(entries(tmp_path, scenes, "a", "b"), seed=1)
    names = [str(row[0]) for row in outcome.rows]
    begin = scenes.names.index(names[0])
    assert names == scenes.names[begin : begin + 7]
    assert picture(outcome.figures[""]).shape == (len(ROWS) * SIDE, 2 * 7 * SIDE + 16, 3)
    first = outcome.records[0]
    assert (first["photo"], first["mapping"]) == (names[0], "a")
    mask = mapper.masks(cv2.resize(scenes.image(begin), (mapper.size,) * 2)[None])[0][
        0
    ]  # the paper's: no edges, alpha 1
    assert first["box"] == largest_box(binary_mask(cv2.resize(mask, (64, 64))))


def test_the_supplements_pages_have_seven_photos_of_one_class_each(tmp_path):
    scenes = Scenes(classes=4, photos=32, size=64)
    outcome = figure2(entries(tmp_path, scenes, "a"), seed=0, classes=3)
    assert len(outcome.figures) == 3
    assert outcome.name == "figure2-classes"
    for number, ending in enumerate(outcome.figures):
        names = [str(row[0]) for row in outcome.rows[7 * number : 7 * number + 7]]
        assert {name.split("/")[0] for name in names} == {ending.removeprefix(f"-{number + 1:02d}-")}


def test_too_few_photos_of_too_few_classes_are_one_sentence(tmp_path):
    scenes = Scenes(classes=4, photos=24, size=64)  # six of each
    with pytest.raises(UserError, match="Only 0 classes have 7 photos or more, not the requested 2"):
        figure2(entries(tmp_path, scenes, "a"), seed=0, classes=2)
