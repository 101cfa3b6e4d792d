"""Read corrected annotations that CVAT exported."""

import pytest

from casmap.annotations.types import Kind
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


def test_cvat_gives_outlines_or_boxes(photos, tmp_path) -> None:
    path = tmp_path / "annotations.xml"
    path.write_text(CVAT)
    data = PhotoFolder(photos, path)
    found = data.annotation(data.names.index("cat/1.jpg"))
    assert found.boxes.tolist() == [[20.0, 15.0, 60.0, 45.0]]
    assert found.mask[20, 30] == 255
    assert data.annotation(data.names.index("dog/3.jpg")).boxes.tolist() == [[1.0, 2.0, 30.0, 40.0]]
    assert [problem.kind for problem in data.problems] == [Kind.NO_PHOTO]


@pytest.mark.parametrize("content", ["<annotations>", "<!DOCTYPE x><annotations/>", ""])
def test_an_invalid_file_gives_a_one_sentence_error(photos, tmp_path, content) -> None:
    (tmp_path / "a.xml").write_text(content)
    with pytest.raises(UserError, match=r"a\.xml cannot be read"):
        PhotoFolder(photos, tmp_path / "a.xml")
