"""Every format, casmap's own and any other in the registry: what is written is read back."""

import os
import subprocess
import sys

import numpy as np
import PIL.Image
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocotools import mask as run_lengths

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, Object, labels_of
from casmap.annotations.regions import main_class
from casmap.annotations.types import Names
from casmap.data.folders import PhotoFolder
from casmap.data.layouts import read_annotations
from casmap.errors import UserError

OWN_PHOTOS = {"yolo": "images", "yolo-seg": "images", "voc": "JPEGImages"}  # formats that put photos beside labels
NO_CLASSES = {"masks", "wsol"}  # of single objects
WORDS = ("cat", "old dog", "naïve 猫", 'a "b" & <c>', "x.y", "1")


def rectangle(label, box, size):
    """An object that fills its box."""
    x0, y0, x1, y1 = box
    mask = np.zeros(size[::-1], np.uint8, order="F")
    mask[y0:y1, x0:x1] = 1
    rle = run_lengths.encode(mask)
    polygon = [(float(x), float(y)) for x, y in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))]
    return Object(label, box, polygon, rle | {"counts": rle["counts"].decode()}, int(mask.sum()), 0.5)


@st.composite
def boxes(draw, size):
    x0, y0 = (draw(st.integers(0, side - 1)) for side in size)
    return x0, y0, draw(st.integers(x0 + 1, size[0])), draw(st.integers(y0 + 1, size[1]))


@st.composite
def annotated(draw):
    """Names of photos in folders or in none, with their sizes and objects."""
    folders = draw(st.lists(st.sampled_from(["", *WORDS, "deep/er"]), min_size=1, max_size=3, unique=True))
    photos = {}
    for folder in folders:
        for stem in draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=2, unique=True)):
            size = draw(st.integers(2, 40)), draw(st.integers(2, 40))
            named = st.tuples(st.sampled_from(WORDS), boxes(size))
            objects = draw(st.lists(named, max_size=3, unique_by=lambda pair: pair[1]))
            photos[f"{folder}/{stem}.png".lstrip("/")] = size, objects
    return photos


def on_disk(folder, photos):
    labelled = []
    for number, (name, (size, objects)) in enumerate(photos.items()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        PIL.Image.new("L", size, 90 + number).save(folder / name)
        made = tuple(rectangle(label, box, size) for label, box in objects)
        labelled.append(Labelled(folder / name, name, *size, made))
    return labelled


def names_in(folder):
    return [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*.png"))]


def pixels(known, photo):
    """The boxes of what was read, in the photo's pixels; of a mask, its own."""
    scale = np.divide((photo.width, photo.height), known.size) if known.scaled else (1, 1)
    mask = known.mask and known.mask((), (photo.width, photo.height))
    if known.objects or mask is None:
        return [tuple(np.multiply(one.box, np.tile(scale, 2))) for one in known.objects]
    ys, xs = np.nonzero(mask == 255)
    return [(xs.min(), ys.min(), xs.max() + 1, ys.max() + 1)] if len(xs) else []


def expected(form, photo):
    written = [one.box for one in photo.objects]
    if form == "masks" and written:  # their union
        return [(*np.min(written, axis=0)[:2], *np.max(written, axis=0)[2:])]
    return written


@pytest.mark.parametrize("form", FORMATS.names)
@settings(max_examples=40)
@given(annotated(), st.booleans())
def test_what_is_written_is_read_back(tmp_path_factory, form, photos, rle) -> None:
    folder = tmp_path_factory.mktemp("set")
    labelled, out = on_disk(folder / "photos", photos), folder / "out"
    path = FORMATS[form].write(labelled, labels_of(labelled), out, WriteOptions(rle=rle))
    assert FORMATS[form].recognises(path)
    root = out / OWN_PHOTOS[form] if form in OWN_PHOTOS else folder / "photos"
    names = names_in(root)
    found = read_annotations(path, root, Names(names))
    assert not found.problems
    by_content = {(root / name).read_bytes(): name for name in names}
    assert len(by_content) == len(labelled)
    for photo in labelled:
        name = by_content[photo.file.read_bytes()]
        known = found.of(name)
        assert not known.problems
        np.testing.assert_allclose(pixels(known, photo), expected(form, photo), atol=1e-4)
        if form not in NO_CLASSES:
            assert [one.name for one in known.objects] == [one.label for one in photo.objects]
        if form == "wsol" and photo.objects:
            same = [other for other in labelled if other.objects and other.objects[0].label == photo.objects[0].label]
            assert [found.labels[other.name] for other in same].count(found.labels[name]) == len(same)


@pytest.mark.parametrize("form", sorted({*FORMATS.names} - {"csv", "voc", "wsol"}))
def test_masks_are_read_back_where_a_format_has_them(tmp_path, form) -> None:
    photos = {"cat/a.png": ((30, 20), [("cat", (3, 4, 10, 12)), ("cat", (15, 2, 29, 18))])}
    labelled = on_disk(tmp_path / "photos", photos)
    path = FORMATS[form].write(labelled, ["cat"], tmp_path / "out", WriteOptions())
    root = tmp_path / "out" / OWN_PHOTOS[form] if form in OWN_PHOTOS else tmp_path / "photos"
    found = PhotoFolder(root, path).annotation(0)
    wanted = np.zeros((20, 30), np.uint8)
    wanted[4:12, 3:10] = wanted[2:18, 15:29] = 255
    if form == "yolo":  # boxes alone
        assert found.mask is None
    else:
        np.testing.assert_array_equal(found.mask, wanted)


@pytest.mark.parametrize("form", FORMATS.names)
def test_photos_of_one_name_in_two_folders_are_found_again(tmp_path, form) -> None:
    """YOLO and VOC copy photos under other names; their annotations also belong to the original ones."""
    boxes = {"cat/1.png": (3, 4, 10, 12), "dog/1.png": (15, 2, 29, 18), "dog/2.png": (1, 1, 9, 9)}
    photos = {name: ((30, 20), [(name[:3], box)]) for name, box in boxes.items()}
    labelled = on_disk(tmp_path / "photos", photos)
    path = FORMATS[form].write(labelled, ["cat", "dog"], tmp_path / "out", WriteOptions())
    found = read_annotations(path, tmp_path / "photos", Names(names_in(tmp_path / "photos")))
    for photo in labelled:
        np.testing.assert_allclose(pixels(found.of(photo.name), photo), [boxes[photo.name]], atol=1e-4)


@pytest.mark.parametrize("form", FORMATS.names)
def test_a_format_recognises_its_own_and_no_other_does(tmp_path, form) -> None:
    labelled = on_disk(tmp_path / "photos", {"cat/a.png": ((30, 20), [("cat", (3, 4, 10, 12))])})
    path = FORMATS[form].write(labelled, ["cat"], tmp_path / "out", WriteOptions())
    family = {"yolo", "yolo-seg"}
    assert {name for name in FORMATS if FORMATS[name].recognises(path)} == (family if form in family else {form})


def test_formats_are_listed_and_an_unknown_one_is_refused() -> None:
    assert FORMATS.names[:10] == [
        "coco", "csv", "cvat", "geojson", "label-studio", "masks", "voc", "wsol", "yolo", "yolo-seg",
    ]  # fmt: skip
    with pytest.raises(UserError, match="There is no annotation format 'dots'"):
        FORMATS["dots"]


def test_text_files_take_precedence_over_xml_and_xml_over_masks(tmp_path) -> None:
    labelled = on_disk(tmp_path / "photos", {"cat/a.png": ((30, 20), [("cat", (3, 4, 10, 12))])})
    out, names = tmp_path / "out", Names(["cat/a.png"])
    for form, kind in (("masks", "masks"), ("voc", "boxes from XML"), ("wsol", "boxes from the text files")):
        FORMATS[form].write(labelled, ["cat"], out, WriteOptions())
        assert read_annotations(out, tmp_path / "photos", names).kind.startswith(kind)


def test_main_class_is_that_of_the_largest_object_in_shares_too(tmp_path) -> None:
    photos = {"a.png": ((30, 20), [("cat", (3, 4, 10, 12)), ("dog", (0, 0, 29, 18))])}
    path = FORMATS["yolo"].write(on_disk(tmp_path / "photos", photos), ["cat", "dog"], tmp_path / "out", WriteOptions())
    found = read_annotations(path, tmp_path / "photos", Names(["a.png"]))
    assert main_class(found.of("a.png").objects) == "dog"


PLUGIN = """
from casmap.annotations.format import Format
from casmap.annotations.types import Annotations

def write(photos, labels, out, options):
    out.mkdir(exist_ok=True)
    (out / "all.dots").write_text("".join(f"{photo.name}: {len(photo.objects)}\\n" for photo in photos))
    return out / "all.dots"

def read(path, root, names):
    return Annotations("dots", problems=[])

dots = Format(lambda path: path.suffix == ".dots", read, write)
"""


def test_a_format_of_another_package_is_listed_written_and_read(tmp_path) -> None:
    (tmp_path / "dots_plugin.py").write_text(PLUGIN)
    about = tmp_path / "dots_plugin-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: dots-plugin\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[casmap.formats]\ndots = dots_plugin:dots\n")
    on_disk(tmp_path / "photos", {"cat/a.png": ((40, 30), [])})
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))

    def casmap(*arguments):
        environment = os.environ | {"PYTHONPATH": paths, "COLUMNS": "200", "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "casmap", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    assert "|dots>" in casmap("annotate", "--help").replace("]", ">")
    assert "out/all.dots" in casmap("annotate", "photos", "--format", "dots", "--out", "out")
    assert (tmp_path / "out" / "all.dots").read_text().startswith("cat/a.png: ")
    script = "from casmap.data.folders import PhotoFolder; print(PhotoFolder('photos', 'out/all.dots').understood)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": paths}, cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert done.stdout == "photos in class folders; dots\n"
