"""Extract: from photos to a folder of maps."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import PIL.ExifTags
import PIL.Image
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from casmap.errors import UserError
from casmap.inference.folder import dicom_mask, extract
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.views import VIEWS, view_paths
from casmap.io.images import open_photo
from casmap.io.journal import JOURNAL
from casmap.io.names import unique_names
from casmap.io.outputs import map_files
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import save_mapping
from casmap.models.network import SaliencyNetwork

TWO = ("mask.png", "overlay.jpg")
ALL = (*TWO, "masked-in.png", "masked-out.png", "inpainted.png", "cutout.png")


def counts(done):
    return done.skipped, done.written, done.empty


@pytest.fixture(scope="module")
def mapping(tmp_path_factory):
    """A mapping file with random weights."""
    torch.manual_seed(0)
    encoder = Classifier("test_resnet", 4)
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), list("abcd"), predicts=True)
    torch.nn.init.normal_(network.decoder.mask.weight)
    path = tmp_path_factory.mktemp("run") / "mapping.safetensors"
    save_mapping(path, network, {"size": 64})
    return path


def photo(path, height=30, width=40, seed=0):
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(seed)
    coarse = rng.integers(0, 256, (5, 6, 3), dtype=np.uint8)
    PIL.Image.fromarray(coarse).resize((width, height)).save(path)
    return path


@pytest.fixture
def trip(tmp_path):
    """A folder with three photos of different shapes."""
    folder = tmp_path / "trip"
    for number, (height, width) in enumerate([(30, 40), (50, 20), (64, 64)]):
        photo(folder / f"{number}.png", height, width, number)
    return folder


def names(folder):
    return sorted(path.name for path in folder.rglob("*")) if folder.exists() else []


def lines(out):
    return [json.loads(line) for line in (out / "boxes.jsonl").read_text().splitlines()]


# ---------------------------------------------------------------------------------------------- what is written


def test_every_photo_gets_a_mask_an_overlay_and_a_line(trip, mapping, tmp_path):
    out = tmp_path / "maps"
    assert counts(extract([str(trip)], mapping=mapping, out=out)) == ([], 3, 0)
    assert names(out) == sorted([f"{n}-{kind}" for n in range(3) for kind in TWO] + ["boxes.jsonl"])
    mapper = SaliencyMapper.load(mapping)
    for line, path in zip(lines(out), sorted(trip.iterdir()), strict=True):
        found = mapper(path)
        assert line == {"photo": path.name, "folder": str(trip), **found.to_dict()}
        height, width = found.mask.shape
        assert (line["width"], line["height"]) == (width, height)
        with PIL.Image.open(out / f"{line['name']}-mask.png") as mask:
            assert mask.mode == "L"
            assert abs(np.asarray(mask) / 255 - found.mask).max() <= 0.5 / 255 + 1e-5
        with PIL.Image.open(out / f"{line['name']}-overlay.jpg") as overlay:
            assert overlay.size == (width, height)
            assert abs(np.asarray(overlay, float) - found.overlay()).mean() < 12  # a tiny JPEG of noise


@pytest.mark.parametrize("batch", [1, 2, 16])
def test_the_size_of_the_batch_changes_nothing(trip, mapping, tmp_path, batch):
    extract([str(trip)], mapping=mapping, out=tmp_path / "one")
    extract([str(trip)], mapping=mapping, out=tmp_path / "other", batch=batch)
    for line, other in zip(lines(tmp_path / "one"), lines(tmp_path / "other"), strict=True):
        assert line["photo"] == other["photo"]
        assert line["area"] == pytest.approx(other["area"], abs=2e-4)


def test_all_views_are_six_files_per_photo(trip, mapping, tmp_path):
    extract([str(trip / "0.png")], mapping=mapping, out=tmp_path / "maps", views=VIEWS)
    assert names(tmp_path / "maps") == [*(f"0-{kind}" for kind in sorted(ALL)), "boxes.jsonl"]


def test_alpha_sets_the_threshold_of_the_binary_mask(trip, mapping, tmp_path):
    extract([str(trip / "0.png")], mapping=mapping, out=tmp_path / "low", alpha=0.0)
    extract([str(trip / "0.png")], mapping=mapping, out=tmp_path / "high", alpha=100.0)
    assert lines(tmp_path / "low")[0]["box"] == [0, 0, 40, 30]
    assert lines(tmp_path / "high")[0]["box"] is None


def test_a_fixed_threshold_is_the_default(trip, mapping, tmp_path):
    mapper = SaliencyMapper.load(mapping)
    for name, options in {"default": {}, "half": {"threshold": 0.5}, "one": {"threshold": 1.0}}.items():
        extract(trip, mapping=mapping, out=tmp_path / name, **options)
    boxes = {name: [line["box"] for line in lines(tmp_path / name)] for name in ("default", "half", "one")}
    assert boxes["default"] == boxes["half"] == [mapper(path).to_dict()["box"] for path in sorted(trip.iterdir())]
    assert boxes["one"] == [None] * 3
    with pytest.raises(UserError, match="exclude each other"):
        extract(trip, mapping=mapping, out=tmp_path / "both", threshold=0.5, alpha=1.0)
    assert not (tmp_path / "both").exists()


def test_a_cutout_is_written_if_there_is_an_object_and_removed_if_there_is_none_any_more(trip, mapping, tmp_path):
    out, found = tmp_path / "maps", SaliencyMapper.load(mapping)(trip / "2.png")
    extract(trip / "2.png", mapping=mapping, out=out, views=("mask", "cutout"))
    assert names(out) == ["2-cutout.png", "2-mask.png", "boxes.jsonl"]
    with PIL.Image.open(out / "2-cutout.png") as cutout:
        assert cutout.mode == "RGBA"
        np.testing.assert_array_equal(np.asarray(cutout), found.cutout())
    assert map_files(out) >= {out / "2-cutout.png"}
    extract(trip / "2.png", mapping=mapping, out=out, views=("mask", "cutout"), threshold=1.0)
    assert names(out) == ["2-mask.png", "boxes.jsonl"]


def test_edges_are_those_requested_or_those_of_the_mapper(trip, mapping, tmp_path):
    for name, options in {
        "default": {"mapping": mapping},
        "smooth": {"mapping": mapping, "edges": "smooth"},
        "mapper": {"mapping": SaliencyMapper.load(mapping, edges="smooth")},
    }.items():
        extract(trip, out=tmp_path / name, **options)
    content = {path.name: (path / "2-mask.png").read_bytes() for path in tmp_path.iterdir() if path != trip}
    assert content["default"] != content["smooth"] == content["mapper"]
    with pytest.raises(UserError, match=r"edges='smooth' cannot change a loaded mapping: give it to casmap\.load"):
        extract(trip, mapping=SaliencyMapper.load(mapping), out=tmp_path / "other", edges="smooth")


def test_files_folders_and_patterns_may_be_mixed(trip, mapping, tmp_path):
    photo(tmp_path / "more" / "deep" / "x.jpg")
    sources = [str(trip / "1.png"), str(tmp_path / "more"), str(trip / "[02].png"), str(trip / "1.png")]
    assert counts(extract(sources, mapping=mapping, out=tmp_path / "maps")) == ([], 4, 0)
    assert [line["name"] for line in lines(tmp_path / "maps")] == ["1", "x", "0", "2"]


def test_maps_of_other_photos_stay_and_those_of_the_same_are_replaced(trip, mapping, tmp_path):
    out = tmp_path / "maps"
    extract([str(trip / "0.png"), str(trip / "1.png")], mapping=mapping, out=out, views=VIEWS)
    first = {line["name"]: line for line in lines(out)}
    other = photo(tmp_path / "oslo" / "0.png", 12, 18)
    assert counts(extract([str(trip / "1.png"), str(other)], mapping=mapping, out=out, alpha=100.0)) == ([], 2, 2)
    found = {line["name"]: line for line in lines(out)}
    assert set(found) == {"0", "1", "oslo-0"}
    assert found["0"] == first["0"]
    assert found["1"]["box"] is None is not first["1"]["box"]
    assert found["oslo-0"]["photo"] == "oslo/0.png"  # relative to the common parent of the photos given
    assert found["oslo-0"]["folder"] == str(tmp_path)
    with PIL.Image.open(out / "oslo-0-mask.png") as mask:
        assert mask.size == (18, 12)
    kinds = {"0": ALL, "1": TWO, "oslo-0": TWO}  # no view of another mask is left
    assert names(out) == sorted(["boxes.jsonl", *(f"{name}-{kind}" for name in kinds for kind in kinds[name])])


def test_a_relative_name_is_the_same_photo(trip, mapping, tmp_path, monkeypatch):
    extract([str(trip / "0.png")], mapping=mapping, out=tmp_path / "maps")
    monkeypatch.chdir(trip)
    extract(["0.png"], mapping=mapping, out=tmp_path / "maps")
    assert [(line["photo"], line["folder"]) for line in lines(tmp_path / "maps")] == [("0.png", str(trip))]


def test_the_photo_of_a_line_is_relative_to_the_folder_given(trip, mapping, tmp_path, monkeypatch):
    photo(trip / "deep" / "er" / "3.png")
    monkeypatch.chdir(tmp_path)
    extract("trip", mapping=mapping, out="maps")
    assert [line["photo"] for line in lines(Path("maps"))] == ["0.png", "1.png", "2.png", "deep/er/3.png"]
    assert {line["folder"] for line in lines(Path("maps"))} == {str(trip)}
    monkeypatch.chdir(trip / "deep")  # another folder given, from another working directory: the same photo
    extract("er", mapping=mapping, out=tmp_path / "maps", alpha=100.0)
    found = {line["name"]: line for line in lines(tmp_path / "maps")}
    assert len(found) == 4
    assert (found["3"]["photo"], found["3"]["folder"]) == ("3.png", str(trip / "deep" / "er"))
    assert found["3"]["box"] is None is not found["0"]["box"]


def test_a_folder_of_0_1_0_is_continued(trip, mapping, tmp_path):
    """Its lines have absolute paths and no folder."""
    out = tmp_path / "maps"
    extract(trip, mapping=mapping, out=out)
    old = lines(out)
    for line in old:
        line["photo"] = os.path.join(line.pop("folder"), line["photo"])
    (out / "boxes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in old))
    extract(trip / "1.png", mapping=mapping, out=out, alpha=100.0)
    found = {line["name"]: line for line in lines(out)}
    assert sorted(found) == ["0", "1", "2"]
    assert found["0"] == old[0]
    assert (found["1"]["photo"], found["1"]["folder"], found["1"]["box"]) == ("1.png", str(trip), None)
    with pytest.raises(UserError, match="maps that casmap wrote"):
        extract(out, mapping=mapping, out=tmp_path / "more")


def test_all_files_of_a_map_are_recognised(tmp_path):
    line = {"photo": "a.dcm", "folder": str(tmp_path), "name": "12:30"}
    (tmp_path / "boxes.jsonl").write_text(json.dumps(line))
    written = {*view_paths(tmp_path, "12:30").values(), dicom_mask(tmp_path, "12:30")}
    assert map_files(tmp_path) == written


def test_photos_of_one_name_in_two_working_folders_are_two(mapping, tmp_path, monkeypatch):
    for place in "rome", "oslo":
        photo(tmp_path / place / "1.png")
        monkeypatch.chdir(tmp_path / place)
        extract(["1.png"], mapping=mapping, out=tmp_path / "maps")
    assert [line["name"] for line in lines(tmp_path / "maps")] == ["1", "oslo-1"]
    assert lines(tmp_path / "maps")[0]["folder"] == str(tmp_path / "rome")


def test_a_file_that_casmap_did_not_write_is_never_removed(trip, mapping):
    mine = photo(trip / "0-inpainted.png")
    before = mine.read_bytes()
    for _ in range(2):
        extract([str(trip / "0.png"), str(mine)], mapping=mapping, out=trip / "maps")
        extract([str(trip / "1.png")], mapping=mapping, out=trip)
    assert mine.read_bytes() == before


def test_maps_finished_before_an_interrupt_are_recorded(trip, mapping, tmp_path, monkeypatch):
    out = tmp_path / "maps"
    extract([str(trip)], mapping=mapping, out=out)
    photo(trip / "0.png", 30, 80)
    photo(trip / "1.png", 30, 80)

    def stopping(_opener, path, **options):
        if path.name == "1.png":
            raise KeyboardInterrupt
        return open_photo(path, **options)

    monkeypatch.setattr("casmap.io.opener.Opener.__call__", stopping)
    with pytest.raises(KeyboardInterrupt):
        extract([str(trip)], mapping=mapping, out=out, batch=1)
    found = {line["name"]: (line["width"], line["height"]) for line in lines(out)}
    assert sorted(found) == ["0", "1", "2"]
    for name, size in found.items():
        with PIL.Image.open(out / f"{name}-mask.png") as mask:
            assert mask.size == size
    assert found["0"] == (80, 30) != found["1"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_leaves_a_line_for_every_map_and_no_other(tmp_path, mapping, number):
    for each in range(400):
        photo(tmp_path / "in" / f"{each}.png", 300, 400, each % 7)
    out = tmp_path / "maps"
    # Processes that a shell starts in the background ignore the signal.
    heeded = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    start = f"{heeded}; from casmap.cli.main import main; main()"
    command = [sys.executable, "-c", start, "extract", "in", "--mapping", str(mapping), "--out", "maps"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        while process.poll() is None and len(names(out)) < 20:
            time.sleep(0.01)
        process.send_signal(number)
        _, complained = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    recorded = {line["name"] for line in lines(out)}
    assert 5 < len(recorded) < 400
    assert {path.name.removesuffix("-mask.png") for path in out.glob("*-mask.png")} == recorded
    words = f"Stopped: {len(recorded)} of 400 maps are in maps; run the same command to continue.\n"
    assert complained.decode() == words
    assert [path.name for path in out.glob(".*")] == [JOURNAL]  # from which the command continues
    assert extract(tmp_path / "in", mapping=mapping, out=out).written == 400
    assert not list(out.glob(".*"))


def test_a_large_jpeg_is_opened_at_a_reduced_size_and_its_mask_at_full_size(tmp_path, mapping):
    smooth = PIL.Image.fromarray(np.random.default_rng(0).integers(0, 256, (5, 6, 3), dtype=np.uint8))
    exif = PIL.Image.Exif()
    exif[PIL.ExifTags.Base.Orientation] = 6  # lies on its side
    smooth.resize((2600, 2100), PIL.Image.Resampling.BICUBIC).save(tmp_path / "camera.jpg", exif=exif)
    assert counts(extract([str(tmp_path / "camera.jpg")], mapping=mapping, out=tmp_path / "maps")) == ([], 1, 0)
    (line,) = lines(tmp_path / "maps")
    found = SaliencyMapper.load(mapping)(tmp_path / "camera.jpg")  # decoded whole
    assert (line["width"], line["height"]) == (2100, 2600) == found.mask.shape[::-1]
    assert np.abs(np.subtract(line["box"], found.box())).max() <= 40
    with PIL.Image.open(tmp_path / "maps" / "camera-mask.png") as mask:
        assert mask.size == (2100, 2600)
        assert abs(np.asarray(mask) / 255 - found.mask).mean() < 0.01
    with PIL.Image.open(tmp_path / "maps" / "camera-overlay.jpg") as overlay:
        assert overlay.size == (525, 650)


def test_a_photo_that_became_unreadable_keeps_its_line(trip, mapping, tmp_path):
    extract([str(trip)], mapping=mapping, out=tmp_path / "maps")
    (trip / "1.png").write_bytes(b"no photo")
    skipped, written, _ = counts(extract([str(trip)], mapping=mapping, out=tmp_path / "maps"))
    assert (len(skipped), written) == (1, 2)
    assert sorted(line["name"] for line in lines(tmp_path / "maps")) == ["0", "1", "2"]


def test_maps_are_not_taken_for_photos(trip, mapping, monkeypatch):
    monkeypatch.chdir(trip)
    photo(trip / "deep" / "0.png")
    for _ in range(2):
        assert counts(extract(["."], mapping=mapping, out=Path("maps"))) == ([], 4, 0)
        assert counts(extract(list(Path().iterdir()), mapping=mapping, out=Path("maps"))) == (
            [],
            4,
            0,
        )
    assert sorted(line["name"] for line in lines(Path("maps"))) == ["1", "2", "deep-0", f"{trip.name}-0"]
    for _ in range(2):
        assert counts(extract(["deep"], mapping=mapping, out=Path("deep"))) == ([], 1, 0)  # into the photos' own folder
    with pytest.raises(UserError, match="maps that casmap wrote"):
        extract(["maps"], mapping=mapping, out=Path("more"))


def test_a_foreign_boxes_file_hides_no_photos(trip, mapping, tmp_path):
    (trip / "boxes.jsonl").write_text('{"image": "0.png", "bbox": [1, 2, 3, 4]}\n')
    assert counts(extract([str(trip)], mapping=mapping, out=tmp_path / "maps")) == ([], 3, 0)


@pytest.mark.parametrize("bad", ["{", "[]", '{"photo": "x.png"}', "7", "\xff"])
def test_a_foreign_boxes_file_is_not_overwritten(trip, mapping, tmp_path, bad):
    out = tmp_path / "maps"
    extract([str(trip / "0.png")], mapping=mapping, out=out)
    with open(out / "boxes.jsonl", "a") as file:
        file.write(bad + "\n")
    before = (out / "boxes.jsonl").read_text()
    with pytest.raises(UserError, match="line 2"):
        extract([str(trip)], mapping=mapping, out=out)
    assert (out / "boxes.jsonl").read_text() == before


def test_unsupported_files_are_listed(trip, mapping, tmp_path):
    (trip / "IMG_1.CR3").write_bytes(b"\0\0\0\x18ftypcrx ")
    PIL.Image.new("RGB", (16, 12)).save(trip / "2.nef", "TIFF")  # the raw twin of a photo, with its thumbnail
    (trip / "notes.txt").write_text("no photo")
    skipped, written, _ = counts(extract([str(trip)], mapping=mapping, out=tmp_path / "maps"))
    assert written == 3
    assert len(skipped) == 1
    assert "IMG_1.CR3" in skipped[0]
    assert [line["name"] for line in lines(tmp_path / "maps")] == ["0", "1", "2"]


def test_empty_masks_are_counted(trip, tmp_path):
    encoder = Classifier("test_resnet", 2)
    decoder = Decoder(encoder.stage_channels)
    torch.nn.init.constant_(decoder.mask.bias, -30.0)
    save_mapping(tmp_path / "blind.safetensors", SaliencyNetwork(encoder, decoder, ["a", "b"], True), {"size": 64})
    assert counts(extract([str(trip)], mapping=tmp_path / "blind.safetensors", out=tmp_path / "maps")) == ([], 3, 3)
    assert [line["box"] for line in lines(tmp_path / "maps")] == [None] * 3


# ---------------------------------------------------------------------------------------------- names


def test_equal_names_in_two_folders_do_not_overwrite_each_other(mapping, tmp_path):
    a = photo(tmp_path / "rome" / "1.png", 20, 30)
    b = photo(tmp_path / "oslo" / "1.png", 40, 25)
    c = photo(tmp_path / "oslo" / "1.jpg", 10, 15)
    extract([str(a), str(b), str(c)], mapping=mapping, out=tmp_path / "maps")
    found = lines(tmp_path / "maps")
    assert [Path(line["folder"], line["photo"]) for line in found] == [a, b, c]
    assert len({line["name"] for line in found}) == 3
    for line, size in zip(found, [(30, 20), (25, 40), (15, 10)], strict=True):
        with PIL.Image.open(tmp_path / "maps" / f"{line['name']}-mask.png") as mask:
            assert mask.size == size


def test_names_that_become_equal_on_disk_do_not_overwrite_each_other(mapping, tmp_path):
    photo(tmp_path / "in" / "12:30.png", 20, 30)
    photo(tmp_path / "in" / "12-30.png", 40, 25)
    extract([str(tmp_path / "in")], mapping=mapping, out=tmp_path / "maps")
    assert len(list((tmp_path / "maps").glob("*-mask.png"))) == 2


PIECES = st.sampled_from(["a", "b", "a-b", "b-a", "a-b-2"])
PATHS = st.builds(
    lambda folders, stem, suffix: Path(*folders, stem + suffix),
    st.lists(PIECES, min_size=1, max_size=2),
    PIECES,
    st.sampled_from([".jpg", ".png", ".webp"]),
)


@settings(deadline=None)
@given(st.lists(PATHS, unique=True, max_size=12))
def test_names_are_unique_and_stable(paths):
    half = len(paths) // 2
    earlier = {os.path.abspath(path): name for path, name in unique_names(paths[:half]).items()}
    added = unique_names(paths[half // 2 :], earlier)
    assert all(added[path] == earlier[os.path.abspath(path)] for path in paths[half // 2 : half])
    assert len(set(earlier.values()) | set(added.values())) == len(paths)
    found = unique_names(paths)
    assert list(found) == paths
    assert len(set(found.values())) == len(paths)
    for path, name in found.items():
        assert path.stem in name
        if [p.stem for p in paths].count(path.stem) == 1:
            assert name == path.stem


# ---------------------------------------------------------------------------------------------- what is wrong


@pytest.mark.parametrize("batch", [1, 2, 16])
def test_an_unreadable_photo_is_listed_and_the_others_are_mapped(trip, mapping, tmp_path, batch):
    (trip / "1.png").write_bytes(b"no photo")
    skipped, written, _ = counts(extract([str(trip)], mapping=mapping, out=tmp_path / "maps", batch=batch))
    assert written == 2
    assert len(skipped) == 1
    assert str(trip / "1.png") in skipped[0]
    assert [line["name"] for line in lines(tmp_path / "maps")] == ["0", "2"]
    assert not list((tmp_path / "maps").glob("1-*"))


def test_only_unreadable_photos_are_an_error_and_leave_no_file(trip, mapping, tmp_path):
    for path in trip.iterdir():
        path.write_bytes(b"no photo")
    with pytest.raises(UserError, match=r"0\.png") as caught:
        extract([str(trip)], mapping=mapping, out=tmp_path / "maps")
    assert "\n" not in str(caught.value)
    assert names(tmp_path / "maps") == []


def test_a_failed_extraction_keeps_the_old_boxes(trip, mapping, tmp_path):
    out = tmp_path / "maps"
    extract([str(trip / "0.png")], mapping=mapping, out=out)
    before = (out / "boxes.jsonl").read_text()
    (trip / "1.png").write_bytes(b"no photo")
    with pytest.raises(UserError):
        extract([str(trip / "1.png")], mapping=mapping, out=out)
    assert (out / "boxes.jsonl").read_text() == before


def test_a_wrong_mapping_is_refused_before_anything_is_written(trip, tmp_path):
    with pytest.raises(UserError, match=r"0\.png is not a mapping: .*\.onnx"):
        extract([str(trip)], mapping=trip / "0.png", out=tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


def test_photos_that_are_not_there_are_refused_before_anything_is_written(mapping, tmp_path):
    with pytest.raises(UserError, match="nothing"):
        extract([str(tmp_path / "nothing*.jpg")], mapping=mapping, out=tmp_path / "maps")
    assert not (tmp_path / "maps").exists()


def test_a_file_is_rejected_as_output_folder(trip, mapping):
    with pytest.raises(UserError, match=r"2\.png"):
        extract([str(trip)], mapping=mapping, out=trip / "2.png")
    assert names(trip) == ["0.png", "1.png", "2.png"]


# ---------------------------------------------------------------------------------------------- in Python


@pytest.mark.parametrize("views", [["masked-in"], ["mask", "inpainted"], ["overlay"]])
def test_only_the_requested_views_are_written(tmp_path, mapping, views):
    big = photo(tmp_path / "big.jpg", 1400, 1200)
    extract(big, mapping=mapping, out=tmp_path / "maps", views=views)
    found = {path.stem.removeprefix("big-"): path for path in (tmp_path / "maps").glob("big-*")}
    assert set(found) == set(views)
    for view in set(views) - {"overlay"}:
        with PIL.Image.open(found[view]) as image:
            assert image.size == (1200, 1400)


def test_invalid_arguments_are_one_line_errors(trip, mapping, tmp_path):
    with pytest.raises(UserError, match="There is no view 'heat': choose from mask, overlay"):
        extract(trip, mapping=mapping, out=tmp_path / "maps", views=["heat"])
    with pytest.raises(UserError, match="No photos given"):
        extract([], mapping=mapping, out=tmp_path / "maps")
    with pytest.raises(UserError, match=r"^batch must be at least 1, not 0\.$"):
        extract(trip, mapping=mapping, out=tmp_path / "maps", batch=0)
    assert not (tmp_path / "maps").exists()
