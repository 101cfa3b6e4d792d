"""SaliencyMapper: masks of the photo's size for every kind of source."""

import io
import os
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cv2
import numpy as np
import PIL.Image
import pytest
import torch

from casmap.data.resizing import resize
from casmap.errors import UnreadableImage, UserError
from casmap.inference.edges import fit_mask
from casmap.inference.mapper import Mapped, SaliencyMapper
from casmap.inference.saliency_map import SaliencyMap
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import save_mapping
from casmap.models.network import SaliencyNetwork

SIZE = 64
SOURCES = Path(__file__).parents[2] / "src"
CLASSES = ["ant", "bee", "cat", "dog"]


@pytest.fixture(scope="module")
def mapping(tmp_path_factory):
    """A mapping file with random weights."""
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", len(CLASSES))
    path = tmp_path_factory.mktemp("run") / "mapping.safetensors"
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), CLASSES, predicts=True)
    torch.nn.init.normal_(network.decoder.mask.weight)  # masks that differ from place to place
    save_mapping(path, network, {"size": SIZE})
    return path


@pytest.fixture(scope="module")
def mapper(mapping):
    return SaliencyMapper.load(mapping)


def noise(height, width, seed=0):
    """A photo with something in it at every scale."""
    rng = np.random.default_rng(seed)
    coarse = PIL.Image.fromarray(rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)).resize((width, height))
    return np.asarray(coarse) // 2 + rng.integers(0, 128, (height, width, 3), dtype=np.uint8)


def as_png(pixels):
    buffer = io.BytesIO()
    PIL.Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


# ---------------------------------------------------------------------------------------------- photos in


def test_every_kind_of_source_gives_the_same_mask(mapper, tmp_path):
    pixels = noise(50, 70)
    path = tmp_path / "trip.to.rome.png"
    path.write_bytes(as_png(pixels))
    expected = mapper(pixels)
    for source in (path, str(path), path.read_bytes(), PIL.Image.open(path)):
        found = mapper(source)
        np.testing.assert_array_equal(found.mask, expected.mask)
        np.testing.assert_array_equal(found.photo, pixels)
    assert expected.mask.std() > 0.01


def test_a_list_gives_a_list_in_its_order(mapper):
    photos = [noise(40, 60, seed) for seed in range(3)]
    found = mapper(photos)
    assert isinstance(found, list)
    for one, photo in zip(found, photos, strict=True):
        np.testing.assert_array_equal(one.photo, photo)
        np.testing.assert_allclose(one.mask, mapper(photo).mask, atol=1e-5)
    assert not np.array_equal(found[0].mask, found[1].mask)


def test_an_empty_list_gives_an_empty_list(mapper):
    assert mapper([]) == []


@pytest.mark.parametrize(
    "many",
    [
        list,
        tuple,
        iter,
        lambda photos: (photo for photo in photos),
        np.stack,
        lambda photos: torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2),
        lambda photos: [torch.from_numpy(photo).permute(2, 0, 1) / 255 for photo in photos],
        lambda photos: [io.BytesIO(as_png(photo)) for photo in photos],
    ],
    ids=["list", "tuple", "iterator", "generator", "array", "tensor", "tensors", "files"],
)
def test_several_photos_in_any_form_give_a_list(mapper, many):
    photos = [noise(40, 60, seed) for seed in range(3)]
    found = mapper(many(photos))
    assert [one.name for one in found] == ["photo", "photo-2", "photo-3"]
    for one, photo in zip(found, photos, strict=True):
        np.testing.assert_array_equal(one.photo, photo)


def test_photos_that_cannot_be_read_are_raised_or_skipped(mapper, tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(as_png(noise(20, 30)))
    bad.write_bytes(b"no photo")
    with pytest.raises(OSError, match=r"bad\.png is not an image"):
        mapper([good, bad, good])
    found = mapper([good, bad, good], on_error="skip")
    assert [one.source for one in found] == [str(good), str(good)]
    with pytest.raises(ValueError, match="a photo is a path, bytes"):
        mapper(42)
    with pytest.raises(UserError, match="on_error must be 'raise' or 'skip', not 'ignore'"):
        mapper([good], on_error="ignore")
    np.testing.assert_array_equal(mapper(memoryview(good.read_bytes())).photo, mapper(good).photo)


def test_invalid_arguments_are_one_line_errors(mapper):
    found = mapper(noise(20, 30))
    for wrong, word in (
        (lambda: found.view("heat"), "no view 'heat'"),
        (lambda: found.objects(which="some"), "which must be largest or all"),
        (lambda: list(mapper.stream([noise(20, 30)], batch=0)), "batch must be at least 1, not 0"),
    ):
        with pytest.raises(UserError, match=word):
            wrong()


def test_a_map_takes_the_name_of_the_file_of_its_source(mapper, tmp_path):
    path = tmp_path / "cat.png"
    path.write_bytes(as_png(noise(20, 30)))
    with open(path, "rb") as file:
        assert (mapper(file).name, mapper(PIL.Image.open(path)).name) == ("cat", "cat")
    assert [found.source for found in mapper.stream(str(path))] == [str(path)]
    with pytest.raises(ValueError, match=r"The given image cannot be used: the array has the shape \(7, 5, 6\)"):
        mapper(torch.zeros(6, 7, 5))


def test_a_mapper_can_be_sent_to_another_process(mapper):
    photo = noise(20, 30)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(mapper))(photo).mask, mapper(photo).mask)


def test_a_map_has_the_predicted_class_and_its_probability(mapper):
    photo = noise(SIZE, SIZE)
    _, logits = mapper.masks(photo[None])
    found = mapper(photo)
    shares = np.exp(logits[0]) / np.exp(logits[0]).sum()
    assert found.label == CLASSES[int(shares.argmax())]
    assert found.confidence == pytest.approx(float(shares.max()), abs=1e-5)
    blind = SaliencyMapper(SaliencyNetwork(mapper.network.encoder, mapper.network.decoder, CLASSES, False), SIZE)
    assert (blind(photo).label, blind(photo).confidence) == (None, None)


def test_threads_that_share_a_mapper_find_the_same(mapper):
    photos = [noise(40, 60, seed) for seed in range(8)]
    alone = [mapper(photo).mask for photo in photos]
    with ThreadPoolExecutor(4) as pool:
        together = [found.mask for found in pool.map(mapper, photos)]
    for one, other in zip(alone, together, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_list_of_paths_passes_a_strict_type_check(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "from pathlib import Path\n\nimport casmap\n\n"
        "paths: list[Path] = [Path('a.jpg')]\n"
        "mapper = casmap.load()\n"
        "many: list[casmap.SaliencyMap] = mapper(paths)\n"
        "one: casmap.SaliencyMap = mapper(paths[0])\n"
        "lazily: list[casmap.SaliencyMap] = mapper(path for path in paths)\n"
        "box: tuple[int, int, int, int] | None = one.box()\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", "", str(program)],
        capture_output=True, text=True, cwd=tmp_path, env={**os.environ, "MYPYPATH": str(SOURCES)},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("height", "width"), [(40, 120), (120, 40), (64, 64), (7, 9), (1, 30), (300, 200)])
def test_the_mask_has_the_photos_size(mapper, height, width):
    found = mapper(noise(height, width))
    assert isinstance(found, SaliencyMap)
    assert found.mask.shape == (height, width)
    assert found.photo.shape == (height, width, 3)
    assert found.mask.dtype == np.float32
    assert found.mask.min() >= 0
    assert found.mask.max() <= 1


def test_a_file_is_turned_upright_as_its_exif_says(mapper, tmp_path):
    pixels = noise(30, 60)
    exif = PIL.Image.Exif()
    exif[0x0112] = 6  # the camera was turned
    path = tmp_path / "turned.png"
    PIL.Image.fromarray(pixels).save(path, exif=exif)
    assert mapper(path).mask.shape == (60, 30)


@pytest.mark.parametrize("batch", [1, 2, 5, 16])
def test_the_size_of_the_batch_changes_no_mask(mapper, batch):
    photos = [noise(40 + seed, 60, seed) for seed in range(5)]
    for found, photo in zip(mapper.stream(photos, batch), photos, strict=True):
        np.testing.assert_allclose(found.mask, mapper(photo).mask, atol=1e-5)


def test_a_stream_holds_one_batch_at_a_time(mapper):
    opened = []

    def photos():
        for seed in range(6):
            opened.append(seed)
            yield noise(20, 20, seed)

    found = mapper.stream(photos(), batch=2)
    assert opened == []
    next(found)
    assert opened == [0, 1]
    next(found)
    next(found)
    assert opened == [0, 1, 2, 3]


def test_the_error_of_an_unreadable_photo_names_it(mapper, tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no photo")
    with pytest.raises(UnreadableImage, match=r"broken\.jpg"):
        mapper(tmp_path / "broken.jpg")
    with pytest.raises(UnreadableImage):
        mapper(b"no photo")


# ---------------------------------------------------------------------------------------------- masks out


def test_a_mask_is_the_networks_output_for_the_normalised_photo(mapper):
    photo = noise(SIZE, SIZE)
    encoder = mapper.network.encoder
    tensor = torch.from_numpy(photo).permute(2, 0, 1)[None].float() / 255
    tensor = (tensor - torch.tensor(encoder.mean).view(3, 1, 1)) / torch.tensor(encoder.std).view(3, 1, 1)
    with torch.no_grad():
        mask, logits = mapper.network(tensor)
    masks, also_logits = mapper.masks(photo[None])
    np.testing.assert_allclose(masks, mask[:, 0].numpy(), atol=1e-5)
    np.testing.assert_allclose(also_logits, logits.numpy(), atol=1e-4)


@pytest.mark.parametrize("edges", ["sharp", "smooth"])
def test_a_long_photo_is_squashed_so_that_its_ends_count(mapper, edges):
    photo = noise(40, 120)
    square = resize(photo, SIZE, "squash")
    mapper = SaliencyMapper(mapper.network, SIZE, edges=edges)
    expected = fit_mask(mapper.masks(square[None])[0][0], square, photo, edges)
    np.testing.assert_allclose(mapper(photo).mask, expected, atol=1e-6)
    other = photo.copy()
    other[:, :20] = 255 - other[:, :20]
    assert abs(mapper(other).mask - mapper(photo).mask)[:, :20].max() > 0.01


def test_masks_are_sharp_unless_smooth_ones_are_requested(mapping, mapper):
    photo = noise(40, 60)
    smooth = SaliencyMapper.load(mapping, edges="smooth")
    assert (mapper.edges, smooth.edges) == ("sharp", "smooth")
    for one in (smooth, mapper):
        (found,) = one.map([photo])
        np.testing.assert_array_equal(one(photo).mask, fit_mask(found.mask, found.square, photo, one.edges))
    assert not np.array_equal(smooth(photo).mask, mapper(photo).mask)
    with pytest.raises(UserError, match="must be sharp or smooth, not 'soft'"):
        SaliencyMapper.load(mapping, edges="soft")


def test_a_map_is_the_same_whichever_photos_came_before(mapper):
    photo = noise(40, 40)
    before = mapper(photo).mask
    mapper([noise(60, 30, 1), noise(30, 60, 2)])
    np.testing.assert_array_equal(mapper(photo).mask, before)


def test_the_mask_of_a_reduced_photo_is_enlarged(mapper):
    photo = noise(30, 40)
    whole, half = mapper.map([photo])[0], resize(photo, 20, "squash")
    reduced = Mapped("photo.jpg", half, 40, 30, whole.square, whole.mask)
    np.testing.assert_array_equal(whole.full_mask(), mapper(photo).mask)
    assert reduced.saliency_map().mask.shape == (20, 20)
    np.testing.assert_array_equal(reduced.full_mask(), cv2.resize(reduced.saliency_map().mask, (40, 30)))


# ---------------------------------------------------------------------------------------------- names


def test_a_map_has_the_name_of_its_file_without_the_ending(mapper, tmp_path):
    path = tmp_path / "trip.to.rome.png"
    path.write_bytes(as_png(noise(20, 20)))
    assert mapper(path).name == "trip.to.rome"
    assert mapper(str(path)).name == "trip.to.rome"
    assert [found.name for found in mapper([path, path.read_bytes(), noise(20, 20)])] == [
        "trip.to.rome", "photo-2", "photo-3",
    ]  # fmt: skip
    assert mapper(noise(20, 20)).name == "photo"


def test_a_mapper_describes_itself(mapper):
    assert repr(mapper) == "SaliencyMapper(test_resnet, 64 px, 4 classes)"
    assert mapper.classes == CLASSES
    assert mapper.size == SIZE
    assert mapper.about["backbone"] == "test_resnet"


def test_a_mapper_can_be_made_of_a_network(mapper):
    other = SaliencyMapper(mapper.network, 32)
    assert other(noise(50, 70)).mask.shape == (50, 70)
    assert "32 px" in repr(other)
    assert other.about == {}


# ---------------------------------------------------------------------------------------------- files


def test_a_loaded_mapping_gives_the_same_masks_again(mapping, mapper):
    photo = noise(40, 60)
    np.testing.assert_array_equal(SaliencyMapper.load(str(mapping))(photo).mask, mapper(photo).mask)


def test_a_missing_mapping_is_refused(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        SaliencyMapper.load(tmp_path / "nowhere")


def test_a_file_that_is_no_mapping_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("Dear Kevin")
    with pytest.raises(UserError, match="letter"):
        SaliencyMapper.load(tmp_path / "letter.txt")


@pytest.mark.parametrize("device", ["banana", "cuda:99"])
def test_a_device_that_is_not_there_is_refused(mapping, device):
    with pytest.raises(UserError, match=device):
        SaliencyMapper.load(mapping, device)


def test_a_missing_shipped_mapping_is_reported(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("casmap.inference.mapper.SHIPPED", tmp_path / "casmap.onnx")
    with pytest.raises(UserError, match="shipped mapping is missing: reinstall casmap, or give a mapping"):
        SaliencyMapper.load()
