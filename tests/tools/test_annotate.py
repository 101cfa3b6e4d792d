"""Annotations of photos, read back by readers that are not ours, and by ours."""

import contextlib
import io
import json
import shutil
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import PIL.Image
import pytest
import yaml
from lxml import etree
from pycocotools.coco import COCO

from casmap.annotations.format import FORMATS
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.inference.mapper import SaliencyMapper
from casmap.reporting import Reporter
from casmap.tools.annotate import annotate

NAMES = ("cat & <dog>", 'quoted "one"', "naïve 猫")


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    """Three classes with awkward names; two photos of one name; one that lies on its side but for its EXIF data."""
    folder = tmp_path_factory.mktemp("photos")
    scenes = Scenes(classes=3, photos=6, size=96)
    for index in range(6):
        path = folder / NAMES[index % 3] / f"{index // 3}.jpg"
        path.parent.mkdir(exist_ok=True)
        image = PIL.Image.fromarray(scenes.image(index)[: 64 + 8 * index])
        exif = PIL.Image.Exif()
        if index == 4:
            exif[0x0112] = 6  # turn it by 90 degrees to see it
        image.save(path, exif=exif, quality=95)
    return folder


def test_coco_is_read_by_pycocotools(photos, tmp_path) -> None:
    done = annotate(photos, format="coco", out=tmp_path / "out", objects="all", min_area=0.0)
    path, labelled = done.path, done.photos
    assert done.skipped == []
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(path))
    assert {category["name"] for category in coco.loadCats(coco.getCatIds())} == set(NAMES)
    for photo, image in zip(labelled, coco.loadImgs(coco.getImgIds()), strict=True):
        assert (image["file_name"], image["width"], image["height"]) == (photo.name, photo.width, photo.height)
        annotations = coco.loadAnns(coco.getAnnIds(imgIds=image["id"]))
        assert len(annotations) == len(photo.objects) > 0
        for annotation, one in zip(annotations, photo.objects, strict=True):
            x, y, width, height = annotation["bbox"]
            assert (x, y, x + width, y + height) == one.box
            assert coco.loadCats(annotation["category_id"])[0]["name"] == Path(photo.name).parent.name
            assert coco.annToMask(annotation).shape == (photo.height, photo.width)
            assert 0 < annotation["score"] <= 1


def test_run_lengths_are_the_pixels_of_the_map(photos, tmp_path) -> None:
    done = annotate(photos, format="coco", out=tmp_path / "out", rle=True, min_area=0.0)
    path, labelled = done.path, done.photos
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO(str(path))
    mapper = SaliencyMapper.load()
    for photo, image in zip(labelled, coco.dataset["images"], strict=True):
        (annotation,) = coco.imgToAnns[image["id"]]
        np.testing.assert_array_equal(coco.annToMask(annotation).astype(bool), mapper(photo.file).connected())


@pytest.mark.parametrize("form", ["yolo", "yolo-seg"])
def test_yolo_is_read_by_supervision(photos, tmp_path, form) -> None:
    sv = pytest.importorskip("supervision")
    done = annotate(photos, format=form, out=tmp_path / "out")
    path, labelled = done.path, done.photos
    data = sv.DetectionDataset.from_yolo(
        str(tmp_path / "out" / "images"), str(tmp_path / "out" / "labels"), str(path), force_masks=form == "yolo-seg"
    )
    assert set(data.classes) == set(NAMES)
    assert len(data) == len(labelled)
    read = {}
    for file, _, detections in data:
        assert len(detections) == 1
        read[Path(file).read_bytes()] = data.classes[int(detections.class_id[0])], detections.xyxy[0]
    for photo in labelled:
        label, box = read[Path(photo.file).read_bytes()]
        assert label == Path(photo.name).parent.name
        np.testing.assert_allclose(box, photo.objects[0].box, atol=1.5)


def test_yolo_names_photos_of_one_name_apart_and_points_to_its_own_images(photos, tmp_path) -> None:
    path = annotate(photos, format="yolo", out=tmp_path / "out").path
    images = sorted(file.name for file in (tmp_path / "out" / "images").iterdir())
    labels = sorted(file.name for file in (tmp_path / "out" / "labels").iterdir())
    assert len(images) == len(labels) == 6
    assert [Path(name).stem for name in images] == [Path(name).stem for name in labels]
    content = yaml.safe_load(path.read_text())
    assert content == {"train": "train.txt", "val": "val.txt", "names": dict(enumerate(sorted(NAMES)))}
    train, val = ((tmp_path / "out" / content[split]).read_text().splitlines() for split in ("train", "val"))
    assert not set(train) & set(val)
    assert sorted(train + val) == [f"./images/{name}" for name in images]
    assert train
    assert val


def test_voc_is_read_by_supervision_lxml_and_ourselves(photos, tmp_path) -> None:
    sv = pytest.importorskip("supervision")
    done = annotate(photos, format="voc", out=tmp_path / "out")
    path, labelled = done.path, done.photos
    images = tmp_path / "out" / "JPEGImages"
    data = sv.DetectionDataset.from_pascal_voc(str(images), str(path))
    boxes = {Path(file).read_bytes(): detections.xyxy[0] for file, _, detections in data}
    for photo in labelled:
        np.testing.assert_allclose(boxes[Path(photo.file).read_bytes()], photo.objects[0].box, atol=1)
    for file in path.glob("*.xml"):
        root = etree.parse(file).getroot()
        width, height = (int(root.findtext(f"size/{key}")) for key in ("width", "height"))
        low, high = ([int(root.findtext(f"object/bndbox/{axis}{end}")) for axis in "xy"] for end in ("min", "max"))
        assert 1 <= low[0] <= high[0] <= width
        assert 1 <= low[1] <= high[1] <= height
        assert root.findtext("object/name") in NAMES
    again = open_photos(str(tmp_path / "out"), split="all")
    by_file = {Path(photo.file).read_bytes(): photo for photo in labelled}
    for index, name in enumerate(again.names):
        photo = by_file[Path(images / Path(name).name).read_bytes()]
        assert again.annotation(index).boxes.tolist() == [list(map(float, photo.objects[0].box))]


def test_label_studio_is_read_by_its_converter(photos, tmp_path) -> None:
    converter = pytest.importorskip("label_studio_converter")
    done = annotate(photos, format="label-studio", out=tmp_path / "out")
    path, labelled = done.path, done.photos
    tasks = json.loads(path.read_text())
    addresses = [task["data"]["image"] for task in tasks]
    assert [parse_qs(urlsplit(address).query)["d"] for address in addresses] == [
        [f"{photos.name}/{photo.name}"] for photo in labelled
    ]  # below the parent of the folder: Label Studio refuses its document root as a storage
    for number, task in enumerate(tasks, 1):  # Label Studio numbers them; what a person accepts becomes an annotation
        task |= {"id": number, "annotations": task.pop("predictions")}
    (tmp_path / "accepted").mkdir()
    (tmp_path / "accepted" / "tasks.json").write_text(json.dumps(tasks))
    reader = converter.Converter(str(tmp_path / "out" / "config.xml"), str(tmp_path), download_resources=False)
    reader.convert_to_coco(
        str(tmp_path / "accepted"), str(tmp_path / "coco"), output_image_dir=str(tmp_path / "images")
    )
    coco = json.loads((tmp_path / "coco" / "result.json").read_text())
    assert {category["name"] for category in coco["categories"]} == set(NAMES)
    assert len(coco["images"]) == 6
    for photo, image in zip(labelled, coco["images"], strict=True):
        assert (image["width"], image["height"]) == (photo.width, photo.height)
        boxes = [item["bbox"] for item in coco["annotations"] if item["image_id"] == image["id"]]
        x0, y0, x1, y1 = photo.objects[0].box
        assert any(np.allclose(box, (x0, y0, x1 - x0, y1 - y0), atol=0.01) for box in boxes)
        outlines = [item for item in coco["annotations"] if item["image_id"] == image["id"] and item["segmentation"]]
        assert len(outlines) == 1


def test_cvat_has_what_its_format_asks_for(photos, tmp_path) -> None:
    done = annotate(photos, format="cvat", out=tmp_path / "out", objects="all", min_area=0.0)
    path, labelled = done.path, done.photos
    root = etree.parse(path).getroot()
    assert root.tag == "annotations"
    assert root.findtext("version") == "1.1"
    assert {label.text for label in root.findall("meta/task/labels/label/name")} == set(NAMES)
    for number, (photo, image) in enumerate(zip(labelled, root.findall("image"), strict=True)):
        assert (image.get("id"), image.get("name")) == (str(number), photo.name)
        assert (int(image.get("width")), int(image.get("height"))) == (photo.width, photo.height)
        boxes = [tuple(int(box.get(key)) for key in ("xtl", "ytl", "xbr", "ybr")) for box in image.findall("box")]
        assert boxes == [one.box for one in photo.objects]
        for polygon, one in zip(image.findall("polygon"), photo.objects, strict=True):
            points = [tuple(map(float, point.split(","))) for point in polygon.get("points").split(";")]
            np.testing.assert_allclose(points, one.polygon, atol=0.005)


def test_a_photo_on_its_side_is_annotated_as_people_see_it(photos, tmp_path) -> None:
    labelled = annotate(photos, format="coco", out=tmp_path / "out").photos
    lying = next(photo for photo in labelled if photo.name == f"{NAMES[1]}/1.jpg")
    with PIL.Image.open(lying.file) as stored:
        assert stored.size == (lying.height, lying.width)
    upright = tmp_path / "upright" / NAMES[1] / "1.png"
    upright.parent.mkdir(parents=True)
    PIL.Image.fromarray(SaliencyMapper.load()(lying.file).photo).save(upright)
    (same,) = annotate(upright, format="coco", out=tmp_path / "other").photos
    assert [one.box for one in same.objects] == [one.box for one in lying.objects]


@pytest.mark.parametrize(("classes", "labels"), [("folder", set(NAMES)), ("none", {"object"})])
def test_classes_come_from_folders_or_there_is_one(photos, tmp_path, classes, labels) -> None:
    labelled = annotate(photos, format="coco", out=tmp_path / "out", classes=classes).photos
    assert {one.label for photo in labelled for one in photo.objects} == labels


def test_classes_may_be_those_that_the_mapping_sees(photos, tmp_path) -> None:
    mapper = SaliencyMapper.load()
    labelled = annotate(photos, format="coco", out=tmp_path / "out", classes="predicted").photos
    assert {one.label for photo in labelled for one in photo.objects} <= set(mapper.titles)


class Messages(Reporter):
    """Keeps all messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def test_nested_folders_that_train_would_name_otherwise_are_told(photos, tmp_path) -> None:
    for number, folder in enumerate(("cat/2023", "cat/2024", "dog/2023")):
        (tmp_path / "nest" / folder).mkdir(parents=True)
        shutil.copy(photos / NAMES[0] / "0.jpg", tmp_path / "nest" / folder / f"{number}.jpg")
    said = Messages()
    annotate(tmp_path / "nest", format="coco", out=tmp_path / "out", reporter=said)
    told = "Classes are the names of the innermost folders (2023, 2024). casmap train takes the first ones (cat, dog)."
    assert told in said.messages
    annotate(photos, format="coco", out=tmp_path / "flat", reporter=(quiet := Messages()))
    assert not any("innermost" in message for message in quiet.messages)


@pytest.mark.parametrize(("sources", "names"), [
    ([""], {f"{name}/{n}.jpg" for name in NAMES for n in (0, 1)}),
    ([NAMES[0]], {"0.jpg", "1.jpg"}),
    ([f"{NAMES[0]}/1.jpg"], {"1.jpg"}),
    ([f"{NAMES[0]}/*.jpg"], {"0.jpg", "1.jpg"}),
    (["*/1.jpg"], {f"{name}/1.jpg" for name in NAMES}),
    ([NAMES[0], f"{NAMES[1]}/1.jpg"], {f"{NAMES[0]}/0.jpg", f"{NAMES[0]}/1.jpg", f"{NAMES[1]}/1.jpg"}),
])  # fmt: skip
def test_names_are_relative_to_the_folder_given(photos, tmp_path, sources, names) -> None:
    given = [photos / source for source in sources]
    for form in ("coco", "label-studio"):
        path = annotate(given, format=form, out=tmp_path / form, classes="none").path
        content = json.loads(path.read_text())
        if form == "coco":
            assert {image["file_name"] for image in content["images"]} == names
        else:
            addresses = [urlsplit(task["data"]["image"]).query for task in content]
            found = {parse_qs(address)["d"][0] for address in addresses}
            assert {name.partition("/")[2] for name in found} == names
            assert len({name.partition("/")[0] for name in found}) == 1  # the folder's own name


@pytest.mark.parametrize("source", [NAMES[0], f"{NAMES[0]}/1.jpg"])
def test_photos_in_no_class_folder_have_the_class_object_and_a_message_says_so(photos, tmp_path, source) -> None:
    heard = Messages()
    labelled = annotate(photos / source, format="coco", out=tmp_path / "out", reporter=heard).photos
    assert {one.label for photo in labelled for one in photo.objects} == {"object"}
    (message,) = heard.messages
    assert message.startswith(f"{len(labelled)} photo")
    assert message.endswith(("and get the class 'object'.", "and gets the class 'object'."))


def test_loose_photos_beside_class_folders_have_the_class_object(photos, tmp_path, monkeypatch) -> None:
    shutil.copytree(photos, tmp_path / "holiday")
    shutil.copy(photos / NAMES[0] / "0.jpg", tmp_path / "holiday" / "loose.jpg")
    monkeypatch.chdir(tmp_path / "holiday")
    heard = Messages()
    labelled = annotate(".", format="coco", out=tmp_path / "out", reporter=heard).photos
    labels = {photo.name: photo.objects[0].label for photo in labelled}
    assert labels.pop("loose.jpg") == "object"
    assert labels == {name: name.partition("/")[0] for name in labels}
    assert heard.messages == ["1 photo is in no class folder and gets the class 'object'."]


@pytest.mark.parametrize(
    ("format", "given", "owners"),
    [
        ("yolo", {"rle": True}, "coco"),
        ("voc", {"prefix": "/"}, "label-studio"),
        ("coco", {"val": 0.5}, "yolo, yolo-seg"),
    ],
)
def test_an_option_of_another_format_is_refused_before_anything_is_written(
    photos, tmp_path, casmap, format, given, owners
) -> None:
    ((name, value),) = given.items()
    with pytest.raises(UserError, match=f"{name} works only with format {owners}, not with {format}."):
        annotate(photos, format=format, out=tmp_path / "out", **given)
    flags = [f"--{name}"] if value is True else [f"--{name}", value]
    assert (
        f"--{name} works only with --format {owners}"
        in casmap("annotate", photos, "--format", format, *flags).sentence()
    )
    assert not any((tmp_path / folder).exists() for folder in ("out", "annotations"))


@pytest.mark.parametrize("val", [0.0, 0.5, 1.0])
def test_the_share_of_the_validation_split_can_be_chosen(photos, tmp_path, val) -> None:
    path = annotate(photos, format="yolo", out=tmp_path / "out", val=val).path
    content = yaml.safe_load(path.read_text())
    if val == 0:  # Ultralytics names the missing key; an empty list would fail later
        assert content == {"train": "images", "names": dict(enumerate(sorted(NAMES)))}
        assert not (tmp_path / "out" / "val.txt").exists()
    else:
        count = len((tmp_path / "out" / "val.txt").read_text().splitlines())
        assert count == 5 if val == 1 else 1 <= count <= 5


@pytest.mark.parametrize("form", FORMATS.names)
def test_nothing_is_written_over(photos, tmp_path, form) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    with pytest.raises(UserError, match="is not empty"):
        annotate(photos, format=form, out=tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_unreadable_photo_is_told_of_and_left_out(photos, tmp_path) -> None:
    broken = tmp_path / "photos" / "cat"
    broken.mkdir(parents=True)
    (broken / "a.jpg").write_bytes((photos / NAMES[0] / "0.jpg").read_bytes())
    (broken / "b.jpg").write_bytes(b"no photo")
    done = annotate(tmp_path / "photos", format="voc", out=tmp_path / "out")
    assert len(done.photos) == 1
    assert "b.jpg" in done.skipped[0]
    assert [path.name for path in (tmp_path / "out" / "Annotations").iterdir()] == ["a.xml"]


def test_a_photo_without_objects_stays_in_every_format(photos, tmp_path) -> None:
    for form in FORMATS.names:
        done = annotate(photos, format=form, out=tmp_path / form, min_area=1.0)
        path, labelled = done.path, done.photos
        assert all(photo.objects == () for photo in labelled)
        assert path.exists()
    assert len(json.loads((tmp_path / "coco" / "annotations.json").read_text())["images"]) == 6
    assert len(list((tmp_path / "yolo" / "labels").iterdir())) == 6


def test_characters_that_xml_cannot_hold_do_not_break_the_file(photos, tmp_path) -> None:
    odd = tmp_path / "photos" / "bell\a"
    odd.mkdir(parents=True)
    (odd / "a.jpg").write_bytes((photos / NAMES[0] / "0.jpg").read_bytes())
    for form in ("voc", "cvat"):
        path = annotate(tmp_path / "photos", format=form, out=tmp_path / form).path
        file = path if path.suffix == ".xml" else path / "a.xml"
        assert "bell\\x07" in etree.tostring(etree.parse(file), encoding="unicode")


@pytest.mark.parametrize("form", FORMATS.names)
def test_what_is_written_comes_back(photos, tmp_path, form) -> None:
    done = annotate(photos, format=form, out=tmp_path / "out")
    own = next((folder for name in ("images", "JPEGImages") if (folder := tmp_path / "out" / name).is_dir()), photos)
    data = PhotoFolder(own, done.path)
    by_file = {Path(data.path(index)).read_bytes(): index for index in range(len(data))}
    for photo in done.photos:
        (one,) = photo.objects
        index = by_file[Path(photo.file).read_bytes()]
        found = data.annotation(index)
        np.testing.assert_allclose(found.boxes, [one.box], atol=0.3)
        assert data.classes[data.labels[index]] == one.label
        if found.mask is not None:
            assert abs(int((found.mask == 255).sum()) - one.area) < 0.15 * one.area


def test_several_sources_may_be_given(photos, tmp_path) -> None:
    done = annotate([photos / NAMES[0], str(photos / NAMES[1] / "0.jpg")], format="csv", out=tmp_path / "out")
    assert [photo.name for photo in done.photos] == [f"{NAMES[0]}/0.jpg", f"{NAMES[0]}/1.jpg", f"{NAMES[1]}/0.jpg"]


def test_a_format_that_nobody_knows_is_one_sentence(photos, tmp_path) -> None:
    with pytest.raises(UserError, match=r"There is no annotation format 'dots': choose from coco, csv, .*\.$"):
        annotate(photos, format="dots", out=tmp_path / "out")


@pytest.mark.parametrize("form", ["yolo", "yolo-seg", "voc"])
def test_the_users_own_photos_stay_as_they_are(photos, tmp_path, form) -> None:
    """A hard link shared its permissions and its content with the photo."""
    folder = tmp_path / "mine"
    shutil.copytree(photos, folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for number, path in enumerate(files):
        path.chmod(0o400 if number % 2 else 0o600)
    before = [(path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes()) for path in files]
    annotate(folder, format=form, out=tmp_path / "out")
    copies = list((tmp_path / "out").rglob("*.jpg"))
    assert len(copies) == len(files)
    assert sorted(path.read_bytes() for path in copies) == sorted(content for *_, content in before)
    for copy in copies:
        copy.write_bytes(b"edited")
    assert [(path.stat().st_mode, path.stat().st_mtime_ns, path.read_bytes()) for path in files] == before
