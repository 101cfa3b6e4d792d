"""Read corrected annotations that CVAT exported."""

import numpy as np
import pytest

from casmap.annotations.format import FORMATS
from casmap.annotations.types import Kind, Names
from casmap.data.folders import PhotoFolder
from casmap.errors import UserError

CVAT = """<annotations><version>1.1</version>
<image id="0" name="cat/1.jpg" width="80" height="60">
  <box label="cat" xtl="8" ytl="12" xbr="48" ybr="42"/>
  <polygon label="cat" points="20,15;60,15;60,45;20,45"/>
</image>
<image id="1" name="dog/3.jpg" width="80" height="60"><box label="dog" xtl="1" ytl="2" xbr="30" ybr="40"/>
  <box label="dog" xtl="x" ytl="2" xbr="30" ybr="40"/></image>
<image id="2" name="missing.jpg" width="80" height="60"/>
</annotations>"""


def test_cvat_gives_outlines_and_boxes(photos, tmp_path) -> None:
    path = tmp_path / "annotations.xml"
    path.write_text(CVAT)
    data = PhotoFolder(photos, path)
    found = data.annotation(data.names.index("cat/1.jpg"))
    assert found.boxes.tolist() == [[8.0, 12.0, 48.0, 42.0]]
    assert found.edited == 1  # nothing says that the outline was changed
    assert found.mask[20, 30] == 255
    assert data.annotation(data.names.index("dog/3.jpg")).boxes.tolist() == [[1.0, 2.0, 30.0, 40.0]]
    assert [problem.kind for problem in data.problems] == [Kind.NO_PHOTO]


MASKS = """<annotations><image id="0" name="cat/1.jpg" width="80" height="60">
<mask label="cat" source="manual" occluded="0" rle="1, 4, 2, 3" left="10" top="20" width="5" height="2" z_order="0"/>
</image><image id="1" name="cat/2.jpg" width="80" height="60">
{bad}
</image></annotations>"""


@pytest.mark.parametrize(
    "bad",
    [
        '<mask label="cat" rle="1, 4, 2, 4" left="10" top="20" width="5" height="2"/>',
        '<mask label="cat" rle="-1, 11" left="10" top="20" width="5" height="2"/>',
        '<mask label="cat" rle="0, 10" left="78" top="20" width="5" height="2"/>',
        '<mask label="cat" rle="10" left="1" top="20" width="5" height="2"/>',
        '<mask label="cat" rle="x" left="10" top="20" width="5" height="2"/>',
        '<mask label="cat" rle="0,9223372036854775807,1" left="0" top="0" width="80" height="60"/>',
        f'<mask label="cat" rle="{4 * f"{2**62}, "}4" left="0" top="0" width="2" height="2"/>',  # 4 modulo 2**64
        f'<mask label="cat" rle="0, 4, {2**64}" left="0" top="0" width="2" height="2"/>',
        '<mask label="cat" rle="0, 4" left="4" top="4" width="-2" height="-2"/>',
        '<mask label="cat" rle="0" left="4" top="4" width="0" height="2"/>',
    ],
)
def test_masks_are_read_row_by_row(photos, tmp_path, bad) -> None:
    path = tmp_path / "annotations.xml"
    path.write_text(MASKS.format(bad=bad))
    data = PhotoFolder(photos, path)
    found = data.annotation(data.names.index("cat/1.jpg"))
    wanted = np.zeros((60, 80), np.uint8)
    wanted[20, 11:15] = wanted[21, 12:15] = 255  # a run of 1, 4 and 2 pixels ends at 7 = 5 + 2
    np.testing.assert_array_equal(found.mask, wanted)
    assert found.boxes.tolist() == [[11.0, 20.0, 15.0, 22.0]]
    read = FORMATS["cvat"].read(path, photos, Names(["cat/2.jpg"]))
    assert len(read.of("cat/2.jpg").problems) == 1


@pytest.mark.parametrize("content", ["<annotations>", "<!DOCTYPE x><annotations/>", ""])
def test_an_invalid_file_gives_a_one_sentence_error(photos, tmp_path, content) -> None:
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(UserError, match=r"a\.xml cannot be read"):
        PhotoFolder(photos, tmp_path / "a.xml")
