"""Files with random changes give a clear error or a correct result, within limits of time and memory."""

import contextlib
from collections import Counter
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.shards import INDEX, write_shards
from casmap.data.sources import open_photos
from casmap.data.write import write_photos
from casmap.io.images import encode_jpeg
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.tools.annotate import annotate
from casmap.tools.export import export_onnx

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")

MEGABYTES = 2048
SHORT, LONG = 5, 1000  # files of each kind

WAYS = ("put", "cut", "insert", "repeat", "end")
Changes = list[tuple[str, float, bytes]]
CHANGES = st.lists(
    st.tuples(st.sampled_from(WAYS), st.floats(0, 1), st.binary(min_size=1, max_size=9)),
    min_size=1,
    max_size=6,
)  # fmt: skip


def changed(content: bytes, changes: Changes) -> bytes:
    """Replace, remove, insert or repeat bytes, or truncate, at a position from 0 to 1, more often near the start."""
    for what, where, some in changes:
        at = int(where**3 * len(content))
        match what:
            case "put":
                content = content[:at] + some + content[at + len(some) :]
            case "cut":
                content = content[:at] + content[at + 13 * len(some) :]
            case "insert":
                content = content[:at] + some + content[at:]
            case "repeat":
                content = content[:at] + content[at : at + 40] * len(some) + content[at:]
            case _:
                content = content[:at]
    return content


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> dict[str, tuple[str, Path]]:
    """A valid file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    write_photos(Scenes(photos=4, classes=2, size=48), folder / "scenes")
    photos = folder / "photos"
    (folder / "scenes" / "photos").rename(photos)
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 3)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["a", "b", "c"], True).eval()
    save_mapping(folder / "mapping.safetensors", network, {"size": 32})
    export_onnx(network, {"size": 32}, folder / "mapping.onnx")
    found = {"safetensors": ("mapping", folder / "mapping.safetensors"), "onnx": ("mapping", folder / "mapping.onnx")}
    image = Scenes(photos=1, size=48).image(0)
    (folder / "photo.jpg").write_bytes(encode_jpeg(image))
    PIL.Image.fromarray(image).save(folder / "photo.png")
    PIL.Image.fromarray(image).save(folder / "photo.webp")
    PIL.Image.fromarray(image).save(folder / "photo.gif")
    PIL.Image.fromarray(image[..., 0].astype(np.uint16) * 250).save(folder / "photo.tif")
    for kind in ("jpg", "png", "webp", "gif", "tif"):
        found[kind] = ("image", folder / f"photo.{kind}")
    found["csv"] = ("annotations", folder / "boxes.csv")
    (folder / "scenes" / "boxes.csv").rename(folder / "boxes.csv")
    for form, ending in (("coco", "json"), ("label-studio", "json"), ("cvat", "xml")):
        path = annotate(photos, format=form, out=folder / form).path
        (folder / f"{form}.{ending}").write_bytes(path.read_bytes())
        found[form] = ("annotations", folder / f"{form}.{ending}")
    (folder / "recipe.toml").write_text('recipe = "quick"\nthinning = "L"\narea = 0.4\nsteps = 30\n')
    (folder / "recipe.yaml").write_text("recipe: quick\nthinning: L\narea: 0.4\nsteps: 30\n")
    found["toml"], found["yaml"] = ("recipe", folder / "recipe.toml"), ("recipe", folder / "recipe.yaml")
    write_shards(PhotoFolder(photos), folder / "shards")
    found["shards"] = ("shards", folder / "shards")
    assert len(open_photos(str(folder / "shards"))) == 4
    return found


KINDS = (
    "safetensors", "onnx", "jpg", "png", "webp", "gif", "tif", "csv", "coco", "label-studio", "cvat", "toml", "yaml",
    "shards",
)  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_a_valid_file_is_opened(good, opener, name) -> None:
    assert opener.open(*good[name])[0] == "fine"


@pytest.mark.parametrize("name", KINDS)
def test_a_changed_file_is_refused_or_opened(good, opener, name, long) -> None:
    kind, path = good[name]
    beside = path / INDEX if kind == "shards" else path.with_name(f"changed-{path.name}")
    content = (beside if kind == "shards" else path).read_bytes()
    seen: Counter[str] = Counter()

    @settings(
        max_examples=LONG if long else SHORT, deadline=None, database=None, derandomize=not long,
        suppress_health_check=list(HealthCheck), phases=[Phase.generate],
    )  # fmt: skip
    @given(CHANGES)
    def try_one(changes: Changes) -> None:
        beside.write_bytes(changed(content, changes))
        result, megabytes = opener.open(kind, path if kind == "shards" else beside)
        assert result in ("fine", "refused"), result
        assert megabytes < MEGABYTES
        seen[result] += 1

    try:
        try_one()
    finally:
        if kind == "shards":
            beside.write_bytes(content)
        else:
            with contextlib.suppress(OSError):
                beside.unlink()
    assert seen.total() >= (LONG if long else SHORT) // 2
