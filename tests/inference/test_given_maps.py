"""Maps of other programs: matched with photos, resized, and made into annotations."""

import json
from pathlib import Path

import numpy as np
import PIL.Image
import pytest

import casmap
from casmap.annotations.format import FORMATS
from casmap.errors import UserError
from casmap.inference.given_maps import find_maps, given_mask
from casmap.inference.objects import objects_of


@pytest.fixture
def photos(tmp_path) -> Path:
    """Three photos of 80 x 60 pixels, one of which lies on its side but for its EXIF data."""
    generator = np.random.default_rng(0)
    for name in ("cat/1.jpg", "cat/2.png", "dog/3.jpg"):
        path = tmp_path / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        exif = PIL.Image.Exif()
        if "3" in name:
            exif[0x0112] = 6
        PIL.Image.fromarray(generator.integers(0, 255, (60, 80, 3), np.uint8)).save(path, exif=exif)
    return tmp_path / "photos"


def save(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".png":
        PIL.Image.fromarray(np.rint(values * 255).astype(np.uint8)).save(path)
    else:
        (np.save if path.suffix == ".npy" else np.savez)(path, values)


def block(height: int, width: int, y: slice, x: slice) -> np.ndarray:
    values = np.zeros((height, width))
    values[y, x] = 0.9
    return values


def relative(photos: Path) -> dict[Path, Path]:
    return {path: path.relative_to(photos) for path in sorted(photos.rglob("*.*"))}


def test_boxes_are_those_of_the_maps(photos, tmp_path) -> None:
    maps = tmp_path / "maps"
    save(maps / "cat/1.npy", block(60, 80, np.s_[10:30], np.s_[20:60]))
    save(maps / "cat/2.png", block(30, 40, np.s_[5:15], np.s_[10:30]))  # half the size
    save(maps / "dog/3.npz", block(160, 120, np.s_[40:120], np.s_[20:100]))  # twice, and upright
    done = casmap.annotate(photos, format="coco", maps=maps, out=tmp_path / "out")
    assert done.skipped == []
    boxes = {photo.name: photo.objects[0].box for photo in done.photos}
    assert boxes == {"cat/1.jpg": (20, 10, 60, 30), "cat/2.png": (20, 10, 60, 30), "dog/3.jpg": (10, 20, 50, 60)}
    assert [(photo.width, photo.height) for photo in done.photos] == [(80, 60), (80, 60), (60, 80)]
    assert {one.label for photo in done.photos for one in photo.objects} == {"cat", "dog"}
    assert done.photos[0].objects[0].score == pytest.approx(0.9)
    written = json.loads(done.path.read_text())
    assert [one["bbox"] for one in written["annotations"]] == [[20, 10, 40, 20], [20, 10, 40, 20], [10, 20, 40, 40]]


@pytest.mark.parametrize("form", FORMATS.names)
def test_every_format_and_threshold_works_with_maps(photos, tmp_path, form) -> None:
    for name in ("cat/1", "cat/2", "dog/3"):
        save(tmp_path / "maps" / f"{name}.npy", np.linspace(0, 1, 80)[None].repeat(60, 0))
    first, second = (
        casmap.annotate(photos, format=form, maps=tmp_path / "maps", out=tmp_path / f"{number}", threshold=cut)
        for number, cut in enumerate((0.25, 0.75))
    )
    assert FORMATS[form].recognises(first.path)
    assert first.photos[0].objects[0].area == 60 * 60
    assert second.photos[0].objects[0].area == 20 * 60


def test_maps_of_casmap_itself_give_the_boxes_of_casmap(photos, tmp_path) -> None:
    (photos / "dog/1.jpg").write_bytes((photos / "cat/1.jpg").read_bytes())  # two of one name
    casmap.extract(photos, out=tmp_path / "maps", views=["mask", "overlay", "masked-out"])
    own = casmap.annotate(photos, format="csv", out=tmp_path / "own", objects="all", min_area=0)
    again = casmap.annotate(photos, format="csv", maps=tmp_path / "maps", out=tmp_path / "b", objects="all", min_area=0)
    assert again.skipped == []
    assert len(again.photos) == 4
    mapper = casmap.load()
    for one, other in zip(own.photos, again.photos, strict=True):
        grey = np.rint(mapper(one.file).mask * 255) / np.float32(255)  # a file has 256 grey levels
        expected = objects_of(grey.astype(np.float32), "", "all", 0)
        assert [each.box for each in other.objects] == [each.box for each in expected]
        assert one.name == other.name


def test_names_with_and_without_the_suffix_of_the_photo_match(photos, tmp_path) -> None:
    for name in ("cat/1.jpg.npy", "2.npy", "dog/3.NPY"):
        save(tmp_path / "maps" / name.replace("NPY", "npy"), np.eye(3))
    (tmp_path / "maps/dog/3.npy").rename(tmp_path / "maps/dog/3.NPY")
    found = find_maps(tmp_path / "maps", relative(photos))
    assert {path.name: file.name for path, file in found.files.items()} == {
        "1.jpg": "1.jpg.npy", "2.png": "2.npy", "3.jpg": "3.NPY",
    }  # fmt: skip
    assert found.problems == []


def test_what_does_not_match_is_named_in_sentences(photos, tmp_path) -> None:
    maps = tmp_path / "maps"
    for name in ("cat/1.npy", "cat/2.npy", "cat/2.png", "dog/1.npy", "far/9.npy", ".hidden.npy"):
        save(maps / name, np.eye(3))
    save(tmp_path / "elsewhere.npy", np.eye(3))
    (maps / "dog/3.npy").symlink_to(tmp_path / "elsewhere.npy")
    (maps / "notes.txt").write_text("not a map")
    found = find_maps(maps, relative(photos))
    assert [path.name for path in found.files] == ["1.jpg"]
    assert found.problems == [
        f"1 photo without a map in {maps}: dog/3.jpg.",
        f"1 photo with several maps in {maps}: cat/2.png.",
        "2 maps without a photo: dog/1.npy, far/9.npy.",
        f"1 map behind links that lead out of {maps}: dog/3.npy.",
    ]


def test_many_names_are_shortened(photos, tmp_path) -> None:
    for number in range(7):
        save(tmp_path / "maps" / f"x{number}.npy", np.eye(3))
    save(tmp_path / "maps" / "1.npy", np.eye(3))
    problems = find_maps(tmp_path / "maps", relative(photos)).problems
    assert problems[1] == "7 maps without a photo: x0.npy, x1.npy, x2.npy, x3.npy, x4.npy and 2 more."


def test_maps_may_lie_beside_or_below_the_photos(photos, tmp_path) -> None:
    for name in ("cat/1.npy", "cat/2.npy", "dog/3.npy"):
        save(photos / name, block(60, 80, np.s_[10:30], np.s_[20:60]))
    beside = casmap.annotate(photos, format="csv", maps=photos, out=tmp_path / "beside")
    for name in ("cat/1", "cat/2", "dog/3"):
        (photos / f"{name}.npy").unlink()
        save(photos / "maps" / f"{name}.png", block(60, 80, np.s_[10:30], np.s_[20:60]))
    below = casmap.annotate(photos, format="csv", maps=photos / "maps", out=tmp_path / "below")
    for done in (beside, below):
        assert done.skipped == []
        assert [photo.name for photo in done.photos] == ["cat/1.jpg", "cat/2.png", "dog/3.jpg"]


def test_unreadable_maps_and_photos_are_skipped_with_a_sentence(photos, tmp_path) -> None:
    for name in ("cat/1", "cat/2", "dog/3"):
        save(tmp_path / "maps" / f"{name}.npy", block(6, 8, np.s_[1:3], np.s_[2:6]))
    (tmp_path / "maps/cat/1.npy").write_bytes(b"\x93NUMPY")
    (photos / "dog/3.jpg").write_bytes(b"no photo")
    done = casmap.annotate(photos, format="csv", maps=tmp_path / "maps", out=tmp_path / "out")
    assert [photo.name for photo in done.photos] == ["cat/2.png"]
    assert [Path(sentence.split()[0]).name for sentence in done.skipped] == ["1.npy", "3.jpg"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"mapping": "m.onnx"}, "maps replaces the mapping: leave out mapping."),
        ({"edges": "sharp"}, "maps replaces the mapping: leave out edges."),
        ({"classes": "predicted"}, "maps replaces the mapping: leave out classes."),
    ],
)
def test_options_of_a_mapping_are_refused(photos, tmp_path, more, sentence) -> None:
    with pytest.raises(UserError, match=sentence):
        casmap.annotate(photos, format="csv", maps=tmp_path, out=tmp_path / "out", **more)


def test_a_folder_without_matching_maps_is_an_error(photos, tmp_path) -> None:
    with pytest.raises(UserError, match="is not a folder"):
        casmap.annotate(photos, format="csv", maps=tmp_path / "none", out=tmp_path / "out")
    save(tmp_path / "maps" / "other.npy", np.eye(3))
    with pytest.raises(UserError, match=r"No map in .*maps matches a photo: .* \.png, \.npy or \.npz\."):
        casmap.annotate(photos, format="csv", maps=tmp_path / "maps", out=tmp_path / "out")
    assert not list((tmp_path / "out").glob("[!.]*"))


def test_a_map_that_shrinks_is_averaged(tmp_path) -> None:
    np.save(tmp_path / "a.npy", np.arange(16).reshape(4, 4) / 15)
    expected = np.arange(16).reshape(2, 2, 2, 2).mean((1, 3)) / 15
    np.testing.assert_allclose(given_mask(tmp_path / "a.npy", 2, 2), expected, atol=1e-6)


def test_the_command_names_what_it_left_out(fresh, photos, tmp_path) -> None:
    save(tmp_path / "maps/cat/1.npy", block(60, 80, np.s_[10:30], np.s_[20:60]))
    done = fresh("annotate", photos, "--maps", tmp_path / "maps", "--format", "csv", "--out", tmp_path / "out")
    assert done.code == 1
    assert "1 object in 1 photo" in done.said
    assert "skipped: 2 photos without a map in" in done.complained
    assert "cat/2.png, dog/3.jpg." in done.complained
    wrong = fresh("annotate", photos, "--maps", tmp_path / "maps", "--edges", "sharp", "--format", "csv")
    assert "--maps replaces the mapping: leave out --edges." in wrong.sentence()
