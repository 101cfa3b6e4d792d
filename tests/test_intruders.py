"""Malicious files that try to run code or to access other folders."""

import csv
import io
import json
import os
import pickle
import sys
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import quote

import numpy as np
import onnx
import PIL.Image
import pytest
import torch
from typer.testing import CliRunner

from casmap import SaliencyMapper
from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.types import Kind, Names, PhotoRecord
from casmap.cli.main import app
from casmap.data.folders import PhotoFolder
from casmap.data.layouts import read_annotations
from casmap.data.scenes import Scenes
from casmap.data.shards import INDEX, Shards, write_shards
from casmap.errors import UserError
from casmap.inference.mapper import SHIPPED
from casmap.io.find import find_images
from casmap.io.images import encode_jpeg
from casmap.io.tabular import to_csv
from casmap.models.files import load_classifier, load_mapping, read_tree
from casmap.paper.outcome import read_outcome
from casmap.tools.annotate import annotate
from casmap.training.recipes import read_recipe


class Intruder:
    """Makes a folder as soon as it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def pickled(mark: Path, how: str) -> bytes:
    content = io.BytesIO()
    if how == "torch":
        torch.save({"weights": Intruder(mark)}, content)
    elif how == "npz":
        np.savez(content, labels=np.array([Intruder(mark)], object), allow_pickle=True)
    elif how == "zip":
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("archive/data.pkl", pickle.dumps(Intruder(mark)))
    else:
        pickle.dump(Intruder(mark), content)
    return content.getvalue()


@pytest.mark.parametrize("how", ["plain", "torch", "npz", "zip"])
def test_pickles_are_never_loaded(tmp_path, how) -> None:
    mark = tmp_path / "intruder was here"
    content = pickled(mark, how)
    ways = {
        "mapping.safetensors": SaliencyMapper.load,
        "mapping.onnx": SaliencyMapper.load,
        "mapping.pt": SaliencyMapper.load,
        "network.safetensors": load_mapping,
        "classifier.safetensors": load_classifier,
        "checkpoint.safetensors": read_tree,
        "recipe.yaml": lambda path: read_recipe(str(path)),
        "recipe.toml": lambda path: read_recipe(str(path)),
        INDEX: lambda path: Shards(str(path.parent)),
    }
    for name, way in ways.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(UserError) as caught:
            way(path)
        assert "\n" not in str(caught.value)
    for option in ("--weights", "--classifier"):
        arguments = [
            "train",
            "scenes:classes=2,photos=8,size=32",
            "--recipe",
            "quick",
            option,
            str(tmp_path / "mapping.pt"),
        ]
        done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "run")])
        assert isinstance(done.exception, UserError), done.output
    assert not mark.exists()


def test_a_recipe_cannot_run_code(tmp_path) -> None:
    mark = tmp_path / "intruder was here"
    path = tmp_path / "recipe.yaml"
    path.write_text(f"recipe: !!python/object/apply:os.mkdir ['{mark}']\n")
    with pytest.raises(UserError):
        read_recipe(str(path))
    assert not mark.exists()


def test_an_onnx_file_reads_no_other_file(tmp_path) -> None:
    """A tensor of an ONNX file may lie in another file: not in one outside the mapping's folder."""
    inside = tmp_path / "inside"
    inside.mkdir()
    model = onnx.load(str(SHIPPED))
    tensor = max(model.graph.initializer, key=lambda one: len(one.raw_data))
    for path in (tmp_path / "secret.bin", inside / "own.bin"):
        path.write_bytes(tensor.raw_data)
    length = len(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL

    def load(location: str) -> SaliencyMapper:
        del tensor.external_data[:]
        for key, value in (("location", location), ("offset", "0"), ("length", str(length))):
            tensor.external_data.add(key=key, value=value)
        (inside / "mapping.onnx").write_bytes(model.SerializeToString())
        return SaliencyMapper.load(inside / "mapping.onnx")

    assert load("own.bin").size == 288
    for location in ("../secret.bin", str(tmp_path / "secret.bin")):
        with pytest.raises(UserError, match="not a readable ONNX file"):
            load(location)


@pytest.fixture
def photos(tmp_path) -> Path:
    """Two photos, and one outside of their folder."""
    scenes = Scenes(photos=3, size=48)
    folder = tmp_path / "photos"
    for number, path in enumerate((folder / "cat" / "1.jpg", folder / "dog" / "2.jpg", tmp_path / "secret" / "3.jpg")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_jpeg(scenes.image(number)))
    return folder


_opened: list[str] | None = None


def _watch(event: str, arguments: tuple) -> None:
    """Record every file that Python opens; an audit hook cannot be removed."""
    if event == "open" and _opened is not None and isinstance(arguments[0], str | bytes):
        _opened.append(os.path.realpath(os.fsdecode(arguments[0])))


sys.addaudithook(_watch)


@pytest.fixture
def opened():
    """The real paths of all files that this test opens."""
    global _opened
    _opened = []
    yield _opened
    _opened = None


OUTSIDE, INSIDE = [2, 3, 20, 30], [1, 1, 9, 9]  # boxes


def csv_of(folder: Path, name: str) -> Path:
    rows = [f"{given},{','.join(map(str, box))}" for given, box in ((name, OUTSIDE), ("photos/cat/1.jpg", INSIDE))]
    path = folder / "boxes.csv"
    path.write_text("\n".join(["file,xmin,ymin,xmax,ymax", *rows]))
    return path


def coco_of(folder: Path, name: str) -> Path:
    boxes = {1: (name, OUTSIDE), 2: ("cat/1.jpg", INSIDE)}
    content = {
        "images": [{"id": n, "file_name": given, "width": 48, "height": 48} for n, (given, _) in boxes.items()],
        "annotations": [
            {"id": n, "image_id": n, "category_id": 1, "bbox": [x, y, right - x, down - y]}
            for n, (_, (x, y, right, down)) in boxes.items()
        ],
        "categories": [{"id": 1, "name": "cat"}],
    }
    path = folder / "coco.json"
    path.write_text(json.dumps(content))
    return path


def xml_of(folder: Path, name: str) -> Path:
    """Two files: their own names refer to photos, the names inside of them are ignored."""
    for file, box in (("cat/1.xml", INSIDE), ("secret/3.xml", OUTSIDE)):
        path = folder / "xml" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        edges = "".join(
            f"<{tag}>{edge}</{tag}>" for tag, edge in zip(("xmin", "ymin", "xmax", "ymax"), box, strict=True)
        )
        path.write_text(
            f"<annotation><folder>../secret</folder><filename>{name}</filename><path>{name}</path>"
            f"<object><name>cat</name><bndbox>{edges}</bndbox></object></annotation>"
        )
    return folder / "xml"


def label_studio_of(folder: Path, name: str) -> Path:
    def task(given: str, box: list[int]) -> dict:
        x, y, right, down = (100 * edge / 48 for edge in box)
        value = {"x": x, "y": y, "width": right - x, "height": down - y, "rotation": 0, "rectanglelabels": ["cat"]}
        region = {"type": "rectanglelabels", "value": value, "original_width": 48, "original_height": 48}
        return {"data": {"image": f"/data/local-files/?d={quote(given)}"}, "annotations": [{"result": [region]}]}

    path = folder / "tasks.json"
    path.write_text(json.dumps([task(name, OUTSIDE), task("cat/1.jpg", INSIDE)]))
    return path


def cvat_of(folder: Path, name: str) -> Path:
    images = [
        f'<image id="{number}" name="{given}" width="48" height="48">'
        f'<box label="cat" xtl="{box[0]}" ytl="{box[1]}" xbr="{box[2]}" ybr="{box[3]}"/></image>'
        for number, (given, box) in enumerate(((name, OUTSIDE), ("cat/1.jpg", INSIDE)))
    ]
    path = folder / "cvat.xml"
    path.write_text(f"<annotations>{''.join(images)}</annotations>")
    return path


def wsol_of(folder: Path, name: str) -> Path:
    path = folder / "wsol"
    path.mkdir()
    photos = (name, "cat/1.jpg", "dog/2.jpg")
    (path / "image_ids.txt").write_text("\n".join(photos))
    (path / "class_labels.txt").write_text("\n".join(f"{given},{n}" for n, given in enumerate(photos)))
    (path / "image_sizes.txt").write_text("\n".join(f"{given},48,48" for given in photos))
    boxes = [f"{given},{','.join(map(str, box))}" for given, box in ((name, OUTSIDE), ("cat/1.jpg", INSIDE))]
    (path / "localization.txt").write_text("\n".join(boxes))
    return path


OUT = ["../secret/3.jpg", "{folder}/secret/3.jpg", "cat/../../secret/3.jpg", "..\\secret\\3.jpg"]


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("write", [csv_of, coco_of, xml_of, label_studio_of, cvat_of, wsol_of])
def test_annotations_name_photos_of_their_folder_only(photos, opened, write, name) -> None:
    folder = photos.parent
    name = name.replace("{folder}", str(folder))
    if write is csv_of:
        name = name.replace("..", "photos/..", 1)  # as it is seen from the table
    boxes, inside = write(folder, name), ["cat/1.jpg", "dog/2.jpg"]
    secret = folder / "secret" / "3.jpg"

    known = read_annotations(boxes, photos, Names(inside))
    assert [list(one.box) for one in known.of("cat/1.jpg").objects] == [INSIDE]
    given = {name, os.path.normpath(name.replace("\\", "/")), "../secret/3.jpg", "secret/3.jpg", "3.jpg", str(secret)}
    assert all(known.of(one) == PhotoRecord() for one in given)
    assert {*known.labels, *(known.listed or ())} <= set(inside)
    if write is not csv_of:  # a table may serve several folders: its other rows are no fault
        assert [one.kind for one in known.problems] == [Kind.NO_PHOTO]

    found = PhotoFolder(photos, boxes=boxes)
    assert found.names == inside
    assert found.annotation(0).boxes.tolist() == [INSIDE]
    assert found.annotation(1) is None
    for index in range(len(found)):
        found.image(index)
    real = [str(path.resolve()) for path in (photos / "cat" / "1.jpg", secret)]
    assert real[0] in opened
    assert real[1] not in opened


@pytest.mark.parametrize("name", [*OUT, "cat/link.png"])
@pytest.mark.parametrize("ignored", [False, True])
def test_a_mask_outside_of_the_folders_is_refused(photos, opened, name, ignored) -> None:
    """wsolevaluation's lists name files of masks, too."""
    secret, own = photos.parent / "secret" / "3.png", photos / "masks" / "1.png"
    own.parent.mkdir()
    for path in (secret, own):
        PIL.Image.fromarray(np.full((48, 48), 255, np.uint8)).save(path)
    (photos / "cat" / "link.png").symlink_to(secret)
    name = name.replace("{folder}", str(photos.parent)).replace(".jpg", ".png")
    folder = photos.parent / "wsol"
    folder.mkdir()

    def read(mask: str, ignored: str):
        (folder / "image_ids.txt").write_text("cat/1.jpg\ndog/2.jpg")
        (folder / "localization.txt").write_text(f"cat/1.jpg,{mask},{ignored}")
        return PhotoFolder(photos, boxes=folder).read_annotation(0)

    opened.clear()
    annotation, problems = read("masks/1.png", name) if ignored else read(name, "")
    assert annotation is None
    assert [one.kind for one in problems] == [Kind.MASK_SKIPPED]
    assert str(secret.resolve()) not in opened
    annotation, problems = read("masks/1.png", "")
    assert annotation.mask.all()
    assert problems == []
    assert str(own.resolve()) in opened


def test_a_link_that_leads_out_of_the_folder_is_left_out(photos) -> None:
    (photos / "cat" / "9.jpg").symlink_to(photos.parent / "secret" / "3.jpg")
    (photos / "cat" / "8.jpg").symlink_to(photos / "dog" / "2.jpg")
    (photos / "bird").symlink_to(photos.parent / "secret")
    assert PhotoFolder(photos).names == ["cat/1.jpg", "cat/8.jpg", "dog/2.jpg"]
    assert [path.name for path in find_images([photos])] == ["1.jpg", "8.jpg", "2.jpg"]


def test_a_link_at_an_output_path_is_replaced_and_not_followed(photos, tmp_path) -> None:
    secret = tmp_path / "secret" / "3.jpg"
    before = secret.read_bytes()
    maps = tmp_path / "maps"
    maps.mkdir()
    for name in ("1-mask.png", "1-overlay.jpg", "boxes.jsonl"):
        (maps / name).symlink_to(secret)
    (maps / "boxes.jsonl").unlink()
    done = CliRunner().invoke(app, ["extract", str(photos / "cat" / "1.jpg"), "--out", str(maps)])
    assert done.exit_code == 0, done.output
    assert secret.read_bytes() == before
    assert not any(path.is_symlink() for path in maps.iterdir())


@pytest.mark.parametrize("form", FORMATS.names)
def test_names_of_photos_cannot_leave_the_output_folder(photos, tmp_path, form) -> None:
    odd = photos / "cat" / "..%2f..%2fx.jpg"
    odd.write_bytes((photos / "cat" / "1.jpg").read_bytes())
    before = set(tmp_path.rglob("*"))
    annotate(photos, format=form, out=tmp_path / "out")
    made = set(tmp_path.rglob("*")) - before
    assert made
    assert all(path.is_relative_to(tmp_path / "out") for path in made)


def test_archive_entries_are_read_in_place_and_never_unpacked(photos, tmp_path) -> None:
    shards = tmp_path / "shards"
    write_shards(PhotoFolder(photos), shards)
    tar = shards / "shard-000000.tar"
    with tarfile.open(tar, "a") as archive:
        entry = tarfile.TarInfo("../../intruder.jpg")
        entry.size = 4
        archive.addfile(entry, io.BytesIO(b"evil"))
    found = Shards(str(shards))
    assert found.image(0).shape == (48, 48, 3)
    assert not list(tmp_path.parent.rglob("intruder.jpg"))


def outside(photos: Path, name: str, content: str = "") -> Path:
    """A file beside the folder of photos, to which a link may lead."""
    path = photos.parent / "secret" / name
    path.write_text(content)
    return path


def test_linked_annotations_are_reported_and_not_followed(photos, opened) -> None:
    """As links of photos: a file that is found in a folder must be in it."""
    box = "<object><name>cat</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object>"
    xml = outside(photos, "1.xml", f"<annotation>{box}</annotation>")
    text = outside(photos, "1.txt", "0 0.5 0.5 0.5 0.5")
    voc, yolo = photos.parent / "voc", photos.parent / "yolo"
    for link, secret in ((voc / "cat" / "1.xml", xml), (yolo / "labels" / "cat" / "1.txt", text)):
        link.parent.mkdir(parents=True)
        link.symlink_to(secret)
    (yolo / "data.yaml").write_text("names: [cat]")
    opened.clear()
    for boxes in (voc, yolo):
        found = PhotoFolder(photos, boxes=boxes)
        assert found.annotation(0) is None
        assert [one.kind for one in found.problems] == [Kind.MALFORMED]
        assert "a link that leads out of the folder" in found.problems[0].what
    assert not {str(xml.resolve()), str(text.resolve())} & {*opened}
    (voc / "cat" / "1.xml").unlink()
    (voc / "cat" / "1.xml").write_text(xml.read_text())
    assert PhotoFolder(photos, boxes=voc).annotation(0).boxes.tolist() == [[1, 1, 9, 9]]


def test_linked_masks_and_parts_are_reported_and_not_followed(photos, opened) -> None:
    secret = photos.parent / "secret" / "1.png"
    PIL.Image.fromarray(np.full((48, 48), 255, np.uint8)).save(secret)
    masks, folders, parts = (photos.parent / name for name in ("masks", "folders", "parts"))
    for folder in (masks / "cat", folders, parts / "cat"):
        folder.mkdir(parents=True)
    (masks / "cat" / "1.png").symlink_to(secret)
    (folders / "cat").symlink_to(secret.parent)  # a folder that is a link
    (parts / "cat" / "1.0.png").symlink_to(secret)
    opened.clear()
    for folder in (masks, folders):
        annotation, problems = PhotoFolder(photos, masks=folder).read_annotation(0)
        assert annotation is None
        assert [one.kind for one in problems] == [Kind.MASK_SKIPPED]
        assert "a link that leads out of" in problems[0].what
    (masks / "cat" / "1.png").unlink()
    PIL.Image.fromarray(np.full((48, 48), 255, np.uint8)).save(masks / "cat" / "1.png")
    annotation, problems = PhotoFolder(photos, masks=masks, parts=parts).read_annotation(0)
    assert annotation.parts is None
    assert [one.kind for one in problems] == [Kind.MASK_SKIPPED]
    assert str(secret.resolve()) not in opened


@pytest.mark.parametrize(
    "place", ["yolo/labels", "yolo/data.yaml", "voc/Annotations", "inner/masks", "wsol/image_ids.txt"]
)
def test_a_linked_folder_or_list_of_annotations_is_refused(photos, opened, place) -> None:
    for form in ("yolo", "voc", "wsol"):
        annotate(photos, format=form, out=photos.parent / form)
    annotate(photos, format="masks", out=photos.parent / "inner")
    link = photos.parent / place
    secret = link.rename(photos.parent / "secret" / link.name)
    link.symlink_to(secret)
    if place == "voc/Annotations":
        (link.parent / "other.xml").touch()  # else nothing shows that there are annotations
    opened.clear()
    with pytest.raises(UserError, match="is a link that leads out of"):
        PhotoFolder(photos, boxes=link.parent)
    assert not [path for path in opened if path.startswith(str(secret.resolve()))]


@pytest.mark.parametrize("name", ["Annotations", "SegmentationClass", "ImageSets/Main/all.txt"])
def test_a_linked_part_of_a_layout_is_refused(photos, name) -> None:
    root = photos.parent / "VOC"
    annotate(photos, format="voc", out=root)
    (root / "SegmentationClass").mkdir()
    assert PhotoFolder(root).names
    secret = (root / name).rename(photos.parent / "secret" / Path(name).name)
    (root / name).symlink_to(secret)
    with pytest.raises(UserError, match="is a link that leads out of"):
        PhotoFolder(root)


@pytest.mark.parametrize("name", ["shard-000000.tar", INDEX])
def test_a_linked_shard_is_refused(photos, tmp_path, opened, name) -> None:
    shards = tmp_path / "shards"
    write_shards(PhotoFolder(photos), shards)
    secret = (shards / name).rename(tmp_path / "secret" / name)
    (shards / name).symlink_to(secret)
    opened.clear()
    with pytest.raises(UserError, match=f"{name} is a link that leads out of"):
        Shards(str(shards)).image(0)
    assert str(secret.resolve()) not in opened
    (shards / name).unlink()
    (shards / "files").mkdir()
    (shards / name).symlink_to(secret.rename(shards / "files" / name))
    assert Shards(str(shards)).image(0).shape == (48, 48, 3)


def test_a_report_embeds_no_file_of_another_folder(tmp_path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    path = tmp_path / "study" / "table1" / "table1.json"
    path.parent.mkdir(parents=True)
    content = {"name": "table1", "title": "", "text": "", "head": [], "rows": [], "records": [], "claims": []}
    for figure in ("../../secret.png", str(tmp_path / "secret.png")):
        path.write_text(json.dumps(content | {"figures": [figure]}))
        with pytest.raises(UserError, match="is damaged: run the study again"):
            read_outcome(path)


FORMULAS = ["=HYPERLINK(1)", "+1+1", "-1+1", "@SUM(1)", "'=1", "''@x", "\tx", "＝1"]


@pytest.mark.parametrize("name", FORMULAS)
def test_a_spreadsheet_executes_no_name(photos, name) -> None:
    """Classes and names of photos that begin like formulas become texts, and are read back as they were."""
    odd = photos.parent / "odd" / name
    odd.mkdir(parents=True)
    for number in range(2):
        (odd / f"{number}.jpg").write_bytes((photos / "cat" / "1.jpg").read_bytes())
    labelled = annotate(odd.parent, format="csv", out=photos.parent / "out").photos
    table = FORMATS["csv"].write(labelled, [name], odd.parent, WriteOptions())
    with open(table, newline="") as file:
        rows = list(csv.reader(file))[1:]
    assert rows
    assert not [cell for row in rows for cell in (row[0], row[-1]) if cell[0] in "=+-@\t\r＝"]
    found = PhotoFolder(odd.parent, boxes=table)
    assert found.names == [f"{name}/0.jpg", f"{name}/1.jpg"]
    known = read_annotations(table, odd.parent, Names(found.names))
    assert known.problems == []
    for photo in found.names:
        assert [one.name for one in known.of(photo).objects] == [name]


def test_numbers_stay_numbers_in_tables() -> None:
    assert to_csv([{"a": -3.5, "b": "-3.5", "c": "+2e-3", "d": "-x", "e": None}]) == "a,b,c,d,e\n-3.5,-3.5,+2e-3,'-x,\n"
