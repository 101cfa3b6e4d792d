"""Valid files in which one value is changed in type, size or nesting are opened or refused, within limits.

The changes follow the structure of a file, so that they reach the code behind its parser; `test_fuzz.py` changes bytes.
"""

import copy
import io
import json
import random
import shutil
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
import torch

from casmap.annotations.brush import encode_brush
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.shards import INDEX, write_shards
from casmap.data.write import write_photos
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import read_tree, save_classifier, save_mapping, write_tree
from casmap.models.network import SaliencyNetwork
from casmap.paper.outcome import Cell, Claim, Outcome, write_outcome
from casmap.tools.annotate import annotate
from casmap.tools.export import export_onnx
from casmap.training.recipes import QUICK

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

MEGABYTES = 2048
Mutants = Iterator[tuple[str, Callable[[], bytes]]]  # what is changed, and how to make the file

HOLE = "the value that is changed"
# As they are written in JSON, which is YAML, too.
VALUES = {
    "null": "null", "true": "true", "text": '"x"', "empty text": '""', "long text": f'"{"x" * 10**6}"',
    "odd text": '"\\ud800\\u0000\\n"', "URL": '"http://[x"', "path": '"../../x.jpg"', "list": "[]", "nulls": "[null]",
    "list of lists": "[[1, 2], [3]]", "dict": "{}", "dict of dicts": '{"a": {"b": [1]}}', "zero": "0", "minus": "-1",
    "half": "0.5", "2**31": str(2**31), "2**63": str(2**63), "400 digits": "9" * 400, "5000 digits": "9" * 5000,
    "digits as text": f'"{"9" * 5000}"', "1e308": "1e308", "-1e308": "-1e308", "NaN": "NaN", "inf": "Infinity",
    "900 lists": "[" * 900 + "]" * 900, "10000 lists": "[" * 10**4 + "]" * 10**4,
    "10000 dicts": '{"a":' * 10**4 + "1" + "}" * 10**4,
}  # fmt: skip
TEXTS = {
    "empty": "", "text": "x", "minus": "-1", "zero": "0", "half": "0.5", "2**63": str(2**63), "400 digits": "9" * 400,
    "5000 digits": "9" * 5000, "1e308": "1e308", "-1e308": "-1e308", "nan": "nan", "inf": "inf", "long": "x" * 200_000,
    "NUL": "\0", "superscript": "²", "Arabic": "٣", "path": "../../x.jpg", "URL": "http://[x", "lists": "[" * 10**4,
    "list": "[1, 2]", "dict": "{}", "quote": '"', "alias": "*a", "tag": "!!python/object:os.system",
}  # fmt: skip


def places(tree: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value in a tree; of a long list or dict, of the first entries and of the last."""
    yield at
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree))) if isinstance(tree, list) else []
    few = 9 if isinstance(tree, dict) and "$tensor" not in str(tree)[:200] else 2
    for key in dict.fromkeys([*keys[:few], *keys[-1:]]) if len(keys) > 60 or few == 2 else keys:
        yield from places(tree[key], (*at, key))


def of_json(content: bytes | str, wrap: Callable[[str], bytes] = str.encode) -> Mutants:
    """Change a tree of JSON; wrap: makes the file of the JSON."""
    tree = json.loads(content)
    for at in places(tree):
        whole: Any = {"": copy.deepcopy(tree)}
        *before, last = ("", *at)
        parent, value = whole, tree
        for key in before:
            parent = parent[key]
        for key in at:
            value = value[key]
        parent[last] = HOLE
        text = json.dumps(whole[""])
        for name, raw in VALUES.items():
            yield f"{at}: {name}", partial(lambda text, raw: wrap(text.replace(json.dumps(HOLE), raw)), text, raw)
        if at:
            if isinstance(parent, list):
                parent[last : last + 1] = [value, value]
            else:
                parent[last] = parent[f"{last} again"] = value
            yield f"{at}: twice", partial(wrap, json.dumps(whole[""]))
            del parent[last]
            yield f"{at}: missing", partial(wrap, json.dumps(whole[""]))


def of_table(content: bytes, separator: str = ",") -> Mutants:
    """Change a table: another cell, a cell or a line less or more; of a long table, its first lines."""
    lines = content.decode().splitlines()

    def made(number: int, some: list[str]) -> bytes:
        return "\n".join([*lines[:number], *some, *lines[number + 1 :]]).encode()

    for number, line in list(enumerate(lines))[:4]:
        cells = line.split(separator)
        for column, cell in enumerate(cells):
            changed = {name: [value] for name, value in TEXTS.items()} | {"missing": [], "twice": [cell, cell]}
            for name, put in changed.items():
                new = separator.join([*cells[:column], *put, *cells[column + 1 :]])
                yield f"{(number, column)}: {name}", partial(made, number, [new])
        yield f"line {number}: missing", partial(made, number, [])
        yield f"line {number}: twice", partial(made, number, [line, line])


def of_xml(content: bytes) -> Mutants:
    """Change XML: another text or attribute, an element less, more or deeper."""

    def made(number: int, change: Callable[[ElementTree.Element, ElementTree.Element], object]) -> bytes:
        root = ElementTree.fromstring(content)
        one = list(root.iter())[number]
        parent = next((element for element in root.iter() if one in list(element)), root)
        change(one, parent)
        text = ElementTree.tostring(root)
        return text.replace(b"<deep />", b"<a>" * 10**4 + b"</a>" * 10**4)

    for number, one in enumerate(list(ElementTree.fromstring(content).iter())[:40]):
        for name, value in TEXTS.items():
            yield f"{one.tag}: {name}", partial(made, number, lambda one, _, value=value: setattr(one, "text", value))
            for key in one.attrib:
                change = partial(lambda key, value, one, _: one.set(key, value), key, value)
                yield f"{one.tag}, {key}: {name}", partial(made, number, change)
        for key in one.attrib:
            yield f"{one.tag}, {key}: missing", partial(made, number, lambda one, _, key=key: one.attrib.pop(key))
        yield f"{one.tag}: deep", partial(made, number, lambda one, _: one.append(ElementTree.Element("deep")))
        if number:
            yield f"{one.tag}: twice", partial(made, number, lambda one, parent: parent.append(one))
            yield f"{one.tag}: missing", partial(made, number, lambda one, parent: parent.remove(one))


def of_toml(content: bytes) -> Mutants:
    """Change the value of a key."""
    lines = content.decode().splitlines()
    for number, line in enumerate(lines):
        key = line.partition("=")[0]
        for name, raw in VALUES.items():
            raw = raw.replace("Infinity", "inf").replace("NaN", "nan")
            new = [*lines[:number], f"{key}= {raw}", *lines[number + 1 :]]
            yield f"{key}: {name}", partial("\n".join(new).encode)
    yield "self", partial((content.decode() + "self = 1\n").encode)


def of_safetensors(content: bytes) -> Mutants:
    """Change the tree, which is JSON in the header, and the header itself."""
    (length,) = struct.unpack("<Q", content[:8])
    header, tensors = json.loads(content[8 : 8 + length]), content[8 + length :]

    def file(text: str) -> bytes:
        return struct.pack("<Q", len(text.encode())) + text.encode() + tensors

    tree = header["__metadata__"]["tree"]
    yield from of_json(tree, lambda text: file(json.dumps(header | {"__metadata__": {"tree": text}})))
    first = dict(list(header.items())[:3])
    rest = json.dumps({name: value for name, value in header.items() if name not in first})[1:]
    for what, make in of_json(json.dumps({"first": first})):
        yield f"header {what}", partial(lambda make: file(make().decode()[10:-2] + ", " + rest), make)


def of_onnx(content: bytes) -> Mutants:
    """Change the metadata."""
    model = onnx.ModelProto.FromString(content)
    (entry,) = model.metadata_props

    def file(text: str) -> bytes:
        entry.value = text
        return bytes(model.SerializeToString())

    return of_json(entry.value, file)


def of_npz(content: bytes) -> Mutants:
    """Change an array of the index of shards."""
    with np.load(io.BytesIO(content)) as file:
        arrays = dict(file)

    def saved(**changes: Any) -> bytes:
        made = io.BytesIO()
        np.savez(made, **{key: value for key, value in (arrays | changes).items() if value is not None})
        return made.getvalue()

    def lying(key: str, shape: str) -> bytes:
        """An array whose header promises more than there is."""
        made = io.BytesIO()
        with zipfile.ZipFile(made, "w") as archive:
            for name, array in arrays.items():
                one = io.BytesIO()
                np.save(one, array)
                raw = one.getvalue()
                if name == key:
                    end = raw.index(b"\n")
                    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': {shape}, }}"
                    raw = raw[:10] + text.encode().ljust(end - 10) + raw[end:]
                archive.writestr(f"{name}.npy", raw)
        return made.getvalue()

    for key, array in arrays.items():
        others = {
            "floats": array.astype(float), "nan": np.full(array.shape, np.nan), "texts": array.astype("U9"),
            "minus": np.full(array.shape, -1), "large": np.full(array.shape, 2**62), "empty": array[:0],
            "longer": np.concatenate([array, array]), "square": array[None], "scalar": np.array(1),
            "objects": array.astype(object), "2**50": np.full(array.shape, 2**50 - 1), "complex": array.astype(complex),
            "missing": None,
        }  # fmt: skip
        for name, other in others.items():
            yield f"{key}: {name}", partial(saved, **{key: other})
        for shape in ("(1000000000,)", "(100000000000000,)", "(-1,)", f"({'1,' * 40})", "(1.5,)", "(9999999999,)"):
            yield f"{key}: promises {shape}", partial(lying, key, shape)


FIRST = "plain-48-0-00000"  # a photo
SPACES = partial(of_table, separator=" ")
# The file that is changed: how and where it is opened, how it is changed, and how many mutants `make test` tries.
KINDS: dict[str, tuple[str, str, Callable[[bytes], Mutants], int]] = {
    "coco.json": ("annotations", "coco.json", of_json, 60),
    "tasks.json": ("annotations", "tasks.json", of_json, 60),
    "brush.json": ("annotations", "brush.json", of_json, 40),
    "cvat.xml": ("annotations", "cvat.xml", of_xml, 40),
    "masks.xml": ("annotations", "masks.xml", of_xml, 30),
    f"geojson/class-00/{FIRST}.geojson": ("annotations", "geojson", of_json, 40),
    "boxes.csv": ("annotations", "boxes.csv", of_table, 40),
    f"voc/Annotations/{FIRST}.xml": ("annotations", "voc", of_xml, 40),
    "yolo/data.yaml": ("annotations", "yolo", of_json, 40),
    f"yolo/labels/{FIRST}.txt": ("annotations", "yolo", SPACES, 40),
    "wsol/localization.txt": ("annotations", "wsol", of_table, 20),
    "wsol/image_sizes.txt": ("annotations", "wsol", of_table, 20),
    "wsol/class_labels.txt": ("annotations", "wsol", of_table, 20),
    "VOC/ImageSets/Main/all.txt": ("folder", "VOC", SPACES, 20),
    "recipe.toml": ("recipe", "recipe.toml", of_toml, 40),
    "recipe.yaml": ("recipe", "recipe.yaml", of_json, 40),
    "mapping.safetensors": ("mapping", "mapping.safetensors", of_safetensors, 40),
    "mapping.onnx": ("mapping", "mapping.onnx", of_onnx, 40),
    "classifier.safetensors": ("classifier", "classifier.safetensors", of_safetensors, 20),
    "finished/mapping.safetensors": ("finished", "finished", of_safetensors, 20),
    "run/checkpoint.safetensors": ("checkpoint", "run", of_safetensors, 20),
    "run/recipe.json": ("checkpoint", "run", of_json, 20),
    "run/log.csv": ("checkpoint", "run", of_table, 20),
    f"shards/{INDEX}": ("shards", "shards", of_npz, 40),
    "maps/boxes.jsonl": ("boxes", "maps/boxes.jsonl", of_json, 40),
    "options.json": ("options", "options.json", of_json, 40),
    "outcome/table1.json": ("outcome", "outcome/table1.json", of_json, 40),
    "found/class-00/recipe.json": ("folder", "found", of_json, 20),
    "found/class-00/boxes.jsonl": ("folder", "found", of_json, 20),
}  # fmt: skip


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A folder with a valid file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    write_photos(Scenes(photos=4, classes=2, size=48), folder / "scenes")
    photos = (folder / "scenes" / "photos").rename(folder / "photos")
    (folder / "scenes" / "boxes.csv").rename(folder / "boxes.csv")
    shutil.copytree(photos, folder / "found")
    (folder / "flat").mkdir()
    for path in photos.rglob("*.png"):
        shutil.copy(path, folder / "flat")
    for form in ("coco", "label-studio", "cvat", "geojson", "voc", "yolo", "wsol"):
        annotate(photos, format=form, out=folder / form, objects="all")
    shutil.copytree(folder / "voc", folder / "VOC")
    (folder / "label-studio" / "tasks.json").rename(folder / "tasks.json")
    (folder / "cvat" / "annotations.xml").rename(folder / "cvat.xml")
    mask = np.eye(48, dtype=bool)
    painted = {"format": "rle", "rle": encode_brush(mask), "brushlabels": ["a"]}
    region = {"type": "brushlabels", "original_width": 48, "original_height": 48, "value": painted}
    task = {"data": {"image": f"/data/upload/1/{FIRST}.png"}, "annotations": [{"result": [region]}]}
    (folder / "brush.json").write_text(json.dumps([task]))
    (folder / "masks.xml").write_text(
        f'<annotations><image name="class-00/{FIRST}.png" width="48" height="48">'
        '<mask label="a" rle="1, 4, 2, 3" left="10" top="20" width="5" height="2"/></image></annotations>'
    )
    coco = json.loads((folder / "coco" / "annotations.json").read_text())
    for category in coco["categories"]:
        category["name"] = str(category["id"])  # numbers are sorted as such
    extra = {"image_id": 1, "category_id": 1, "bbox": [1, 1, 9, 9], "area": 64}
    coco["annotations"][:0] = [
        extra | {"id": 98, "iscrowd": 1, "segmentation": {"size": [48, 48], "counts": [2000, 300, 4]}},
        extra | {"id": 99, "iscrowd": 0, "segmentation": {"size": [48, 48], "counts": "PPY11"}},
    ]
    (folder / "coco.json").write_text(json.dumps(coco))
    (folder / "yolo" / "data.yaml").write_text(json.dumps({"train": "images", "names": {"0": "1", "1": "2"}}))
    recipe = {"recipe": "quick", "thinning": "L8", "area": 0.4, "steps": 30, "pretrained": False, "backbone": "lite0"}
    (folder / "recipe.yaml").write_text(json.dumps(recipe))
    (folder / "recipe.toml").write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in recipe.items()))
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 3)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["a", "b", "c"], True).eval()
    training = {"origin": "random", "steps": 3, "area": 0.4, "lambda_r": 1.0, "accuracy": 0.5, "masked_accuracy": 0.5}
    about = {"size": 32, "recipe": QUICK.options(), "training": training}
    for path in (folder, folder / "finished"):
        save_mapping(path / "mapping.safetensors", network, about)
    export_onnx(network, {"size": 32}, folder / "mapping.onnx")
    save_classifier(folder / "classifier.safetensors", encoder, ["a", "b", "c"], {"origin": "Nobody trained it."})
    optimizer = torch.optim.AdamW(encoder.parameters(), 1e-3)
    encoder(torch.zeros(2, 3, 32, 32)).sum().backward()
    optimizer.step()
    states = {"classifier": dict(encoder.state_dict()), "optimizer": optimizer.state_dict(), "none": None}
    write_tree(folder / "run" / "checkpoint.safetensors", {"step": 3, **states})
    for run in ("run", "finished"):
        (folder / run / "recipe.json").write_text(json.dumps(QUICK.options()))
    (folder / "run" / "log.csv").write_text("step,loss,area\n1,0.5,0.25\n2,0.5,0.25\n3,0.5,0.25\n")
    write_shards(PhotoFolder(photos), folder / "shards")
    line = {"photo": "a.jpg", "folder": "photos", "name": "a", "box": [1, 2, 3, 4], "label": "cat"}
    for place in ("maps", "found/class-00"):
        (folder / place).mkdir(exist_ok=True)
        (folder / place / "boxes.jsonl").write_text(json.dumps(line))
    (folder / "found" / "class-00" / "recipe.json").write_text(json.dumps({"photos": [1, 2], "taken": {"by": "me"}}))
    (folder / "options.json").write_text(json.dumps({"seed": 0, "classes": ["a", "b"]}))
    claim = Claim("It is so.", "yes", "it is", "it is")
    cells = [[Cell("a"), Cell("1")]]
    figures = {"-one": (photos / "class-00" / f"{FIRST}.png").read_bytes()}
    outcome = Outcome("table1", "Table 1", "How.", ["name", "n"], cells, [{"name": "a", "n": 1}], figures, [claim])
    write_outcome(outcome, folder / "outcome")
    return folder


@pytest.mark.parametrize("name", KINDS)
def test_a_valid_file_is_opened(good, opener, name) -> None:
    kind, opened, *_ = KINDS[name]
    assert opener.open(kind, good / opened)[0] == "fine"


@pytest.mark.parametrize("name", KINDS)
def test_a_file_with_one_changed_value_is_refused_or_opened(good, opener, name, long) -> None:
    kind, opened, change, number = KINDS[name]
    content = (good / name).read_bytes()
    mutants = list(change(content))
    chosen = mutants if long else random.Random(name).sample(mutants, number)
    results = {}
    try:
        for what, make in chosen:
            (good / name).write_bytes(make())
            result, megabytes = opener.open(kind, good / opened)
            results[what] = result if megabytes < MEGABYTES else f"{megabytes} MB"
    finally:
        (good / name).write_bytes(content)
    wrong = {what: result for what, result in results.items() if result not in ("fine", "refused")}
    kinds = Counter(result.partition(":")[0] for result in wrong.values())
    assert not wrong, f"{len(wrong)} of {len(chosen)} mutants: {dict(kinds)}, {dict(list(wrong.items())[:9])}"
    assert results


def bomb(depth: int) -> str:
    """YAML whose aliases stand for 10 ** depth values."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, depth)]
    return "\n".join([*lines, f"names: [*a{depth - 1}]", ""])


def zeros(path: Path, key: str) -> None:
    """Replace an array of the index of shards by a gigabyte of zeros, compressed to a few megabytes."""
    with np.load(path) as file:
        arrays = dict(file)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
                if name == key:
                    header["shape"] = (2**27,)
                np.lib.format.write_array_header_1_0(file, header)
                for _ in range(64 if name == key else 0):
                    file.write(bytes(2**24))
                file.write(b"" if name == key else array.tobytes())


def large(path: Path, start: str, size: int) -> None:
    """Write a file of this many bytes that takes no space on the disk."""
    path.write_text(start)
    with open(path, "r+b") as file:
        file.truncate(size)


def test_a_small_file_does_not_become_gigabytes(good, opener, tmp_path) -> None:
    (tmp_path / "recipe.yaml").write_text(bomb(8))
    for name in ("yolo", "photos", "shards"):
        shutil.copytree(good / name, tmp_path / name)
    (tmp_path / "yolo" / "data.yaml").write_text(bomb(8))
    zeros(tmp_path / "shards" / INDEX, "labels")
    assert (tmp_path / "shards" / INDEX).stat().st_size < 10**7
    kinds = {"recipe.yaml": "recipe", "yolo": "annotations", "shards": "shards"}
    results = {}
    _, before = opener.open("image", tmp_path / "missing.jpg")
    for name, kind in kinds.items():
        results[name] = opener.open(kind, tmp_path / name)
    assert {name: result for name, (result, _) in results.items()} == dict.fromkeys(kinds, "refused")
    assert max(megabytes for _, megabytes in results.values()) < before + 100, results


@pytest.mark.parametrize("change", [{"backbone": "vit_giant_patch14_224"}, {"classes": [""] * 10**6}, {"size": 10**5}])
def test_metadata_do_not_allocate_gigabytes(good, opener, tmp_path, change) -> None:
    tree = read_tree(good / "mapping.safetensors")
    tree["about"] |= change
    write_tree(tmp_path / "mapping.safetensors", tree)
    _, before = opener.open("image", tmp_path / "missing.jpg")
    result, megabytes = opener.open("mapping", tmp_path / "mapping.safetensors")
    assert result == "refused"
    assert megabytes < before + 300


LARGE = {
    "coco.json": ("annotations", '{"images": ['), "tasks.json": ("annotations", "["),
    "cvat.xml": ("annotations", "<annotations>"), "boxes.csv": ("annotations", "file,xmin,ymin,xmax,ymax\n"),
    "recipe.toml": ("recipe", "a = 1"), "recipe.yaml": ("recipe", "a: 1"), "options.json": ("options", "{"),
    "boxes.jsonl": ("boxes", "{}"), "table1.json": ("outcome", "{"),
}  # fmt: skip


def test_a_large_file_is_refused_before_it_is_read(good, opener, tmp_path) -> None:
    shutil.copytree(good / "photos", tmp_path / "photos")
    _, before = opener.open("image", tmp_path / "missing.jpg")
    for name, (kind, start) in LARGE.items():
        large(tmp_path / name, start, 3 * 2**30)
        result, megabytes = opener.open(kind, tmp_path / name)
        assert (name, result) == (name, "refused")
        assert megabytes < before + 100, name
