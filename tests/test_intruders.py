"""Malicious files that try to run code or to access other folders."""

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
from casmap.annotations.format import FORMATS
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
from casmap.models.files import load_classifier, load_mapping, read_tree
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

    assert load("own.bin").size == 224
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
