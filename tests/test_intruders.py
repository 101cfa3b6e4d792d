"""Files that want to run code, or to reach other folders: neither happens."""

import io
import json
import os
import pickle
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from typer.testing import CliRunner

from casmap import SaliencyMapper
from casmap.annotations.format import FORMATS
from casmap.cli.main import app
from casmap.data.folders import PhotoFolder
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
def test_no_pickle_is_ever_opened(tmp_path, how) -> None:
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


def test_a_recipe_is_no_program(tmp_path) -> None:
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


@pytest.mark.parametrize("name", ["../secret/3.jpg", "{outside}", "cat/../../secret/3.jpg", "..\\secret\\3.jpg"])
def test_annotations_name_photos_of_their_folder_only(photos, name) -> None:
    name = name.replace("{outside}", str(photos.parent / "secret" / "3.jpg"))
    csv, coco = photos.parent / "boxes.csv", photos.parent / "coco.json"
    csv.write_text(f"file,class,xmin,ymin,xmax,ymax\n{name},cat,1,1,9,9\ncat/1.jpg,cat,1,1,9,9\n")
    coco.write_text(
        json.dumps(
            {
                "images": [
                    {"id": 1, "file_name": name, "width": 48, "height": 48},
                    {"id": 2, "file_name": "cat/1.jpg", "width": 48, "height": 48},
                ],
                "annotations": [
                    {"id": n, "image_id": n, "category_id": 1, "bbox": [1, 1, 8, 8], "area": 64, "iscrowd": 0}
                    for n in (1, 2)
                ],
                "categories": [{"id": 1, "name": "cat"}],
            }
        )
    )
    for boxes in (csv, coco):
        found = PhotoFolder(photos, boxes=boxes)
        assert all(found.path(index).resolve().is_relative_to(photos.resolve()) for index in range(len(found)))


def test_a_link_that_leads_out_of_the_folder_is_left_out(photos) -> None:
    (photos / "cat" / "9.jpg").symlink_to(photos.parent / "secret" / "3.jpg")
    (photos / "cat" / "8.jpg").symlink_to(photos / "dog" / "2.jpg")
    (photos / "bird").symlink_to(photos.parent / "secret")
    assert PhotoFolder(photos).names == ["cat/1.jpg", "cat/8.jpg", "dog/2.jpg"]
    assert [path.name for path in find_images([photos])] == ["1.jpg", "8.jpg", "2.jpg"]


def test_a_link_in_the_way_of_what_is_written_is_replaced_and_not_followed(photos, tmp_path) -> None:
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
def test_names_of_photos_lead_nowhere(photos, tmp_path, form) -> None:
    odd = photos / "cat" / "..%2f..%2fx.jpg"
    odd.write_bytes((photos / "cat" / "1.jpg").read_bytes())
    before = set(tmp_path.rglob("*"))
    annotate(photos, format=form, out=tmp_path / "out")
    made = set(tmp_path.rglob("*")) - before
    assert made
    assert all(path.is_relative_to(tmp_path / "out") for path in made)


def test_entries_of_an_archive_are_read_from_their_place_and_never_unpacked(photos, tmp_path) -> None:
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
