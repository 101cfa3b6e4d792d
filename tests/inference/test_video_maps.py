"""Maps of a video: masks smoothed over time, a box for each frame, and a video of overlays that browsers play."""

import json
import shutil
import tracemalloc
from contextlib import contextmanager
from dataclasses import replace

import cv2
import numpy as np
import pytest
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO

import casmap
from casmap.annotations.labelled import Object
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.inference.components import largest_component
from casmap.inference.folder import to_map
from casmap.inference.objects import objects_of
from casmap.inference.pipeline import BATCH
from casmap.inference.video_coco import video_objects
from casmap.inference.video_maps import extract_video, smooth
from casmap.io.images import open_image
from casmap.io.outputs import read_boxes
from casmap.io.video import Frame, frames
from casmap.reporting import Reporter


@pytest.fixture(scope="module")
def clip(tmp_path_factory):
    """Six frames of a window that moves over a scene, then four of another scene."""
    path = tmp_path_factory.mktemp("videos") / "my clip.mp4"
    scenes = Scenes(classes=3, photos=6, size=160)
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"mp4v"), 10, (128, 96))
    for number in range(10):
        scene = scenes.image(1) if number < 6 else 255 - scenes.image(2)
        writer.write(np.ascontiguousarray(scene[10:106, 3 * number : 3 * number + 128, ::-1]))
    writer.release()
    return path


def items(masks, squares):
    mapper = casmap.load()
    (one,) = mapper.map([np.zeros((8, 8, 3), np.uint8)])
    for number, (mask, square) in enumerate(zip(masks, squares, strict=True)):
        image = np.zeros((8, 8, 3), np.uint8)
        shape = np.full((2, 2, 3), square, np.uint8)
        yield Frame(image, number, 0.0, 10.0, 3), replace(one, mask=np.full((2, 2), mask, np.float32), square=shape)


def test_masks_are_averaged_with_their_neighbours_and_not_over_a_cut() -> None:
    found = [float(mapped.mask[0, 0]) for _, mapped in smooth(items([0.0, 1.0, 0.0, 0.4], [0, 10, 20, 200]))]
    np.testing.assert_allclose(found, [1 / 3, 0.5, 1 / 3, 0.4], atol=1e-6)  # (2·0+1)/3, (0+2+0)/4, (1+0)/3, alone


def test_a_constant_video_is_unchanged_and_noise_shrinks() -> None:
    constant = [float(mapped.mask[0, 0]) for _, mapped in smooth(items([0.25] * 5, [0] * 5))]
    assert constant == [0.25] * 5
    noise = np.random.default_rng(0).random(200).astype(np.float32)
    smoothed = [float(mapped.mask[0, 0]) for _, mapped in smooth(items(noise, [0] * 200))]
    # The variance of (a + 2b + c) / 4 of independent values is 6/16 of theirs.
    assert np.var(smoothed) / np.var(noise) == pytest.approx(6 / 16, abs=0.1)
    assert [mapped for _, mapped in smooth([])] == []


def test_masks_and_boxes_are_those_of_the_smoothed_network_output(clip, tmp_path) -> None:
    done = extract_video(clip, out=tmp_path, every=2)
    assert (done.out, done.written, done.skipped) == (tmp_path / "my clip", 5, [])
    mapper, found = casmap.load(), list(frames(clip, 2))
    mapped = mapper.map([frame.image for frame in found])
    raw = [one.mask for one in mapped]
    expected = [
        (2 * raw[0] + raw[1]) / 3, (raw[0] + 2 * raw[1] + raw[2]) / 4, (raw[1] + 2 * raw[2]) / 3,
        (2 * raw[3] + raw[4]) / 3, (raw[3] + 2 * raw[4]) / 3,
    ]  # fmt: skip
    lines = [json.loads(line) for line in (done.out / "boxes.jsonl").read_text().splitlines()]
    for frame, one, mask, line in zip(found, mapped, expected, lines, strict=True):
        result = replace(one, mask=mask.astype(np.float32)).saliency_map()
        written = open_image(done.out / f"my clip-{frame.number:06d}-mask.png")[..., 0]
        assert np.abs(written / 255 - result.mask).max() < 1 / 255
        assert line["box"] == (None if result.box() is None else list(result.box()))
        assert line["photo"] == f"my clip.mp4#frame={frame.number}"
        assert (line["frame"], line["seconds"]) == (frame.number, pytest.approx(frame.number / 10, abs=0.051))
        assert (line["width"], line["height"]) == (128, 96)
    assert done.empty == sum(line["box"] is None for line in lines)
    overlay = list(frames(done.out / "my clip-overlay.mp4"))
    assert len(overlay) == 5
    assert overlay[0].rate == pytest.approx(5)  # of 10 frames per second, every second one


def object_in(mask) -> Object:
    return objects_of(np.array(mask, np.float32), "", min_area=0)[0]


def test_an_object_keeps_its_number_while_its_masks_overlap_in_a_scene(tmp_path) -> None:
    one = object_in([[1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    near = object_in([[0, 1, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]])  # IoU 1/2
    far = object_in([[0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 0, 0]])  # IoU with near 1/3, with one 1/4
    with video_objects(tmp_path, "clip.mp4") as objects:
        for number, (found, cut) in enumerate(
            [(one, False), (near, False), (None, False), (far, False), (one, False), (one, True), (one, False)]
        ):
            objects.add(Frame(np.zeros((2, 6, 3), np.uint8), 5 * number, number / 2, 10.0, 35), found, cut)
        assert not (tmp_path / "annotations.json").exists()
    content = json.loads((tmp_path / "annotations.json").read_text())
    assert list(content) == ["info", "videos", "images", "categories", "annotations"]
    assert content["videos"] == [{"id": 1, "name": "clip.mp4"}]
    assert content["images"][3] == {
        "id": 4, "video_id": 1, "frame_id": 3, "file_name": "clip.mp4#frame=15", "width": 6, "height": 2, "frame": 15,
        "seconds": 1.5,
    }  # fmt: skip
    found = [(one["image_id"], one["instance_id"]) for one in content["annotations"]]
    assert found == [(1, 1), (2, 1), (4, 1), (5, 2), (6, 3), (7, 3)]
    assert content["annotations"][1] | {"segmentation": None} == {
        "id": 2, "image_id": 2, "video_id": 1, "category_id": 1, "instance_id": 1, "bbox": [1, 0, 1, 1], "area": 1,
        "segmentation": None, "iscrowd": 0, "score": 1.0,
    }  # fmt: skip
    assert run_lengths.decode(content["annotations"][2]["segmentation"]).tolist() == [[0, 1, 1, 1, 0, 0], [0] * 6]


def test_the_annotations_of_a_video_are_its_masks_and_boxes(clip, tmp_path) -> None:
    done = extract_video(clip, out=tmp_path, threshold=0.4)
    lines = [json.loads(line) for line in (done.out / "boxes.jsonl").read_text().splitlines()]
    read = COCO(done.out / "annotations.json")  # pycocotools reads the file
    assert [image["file_name"] for image in read.imgs.values()] == [line["photo"] for line in lines]
    for image, line in zip(read.imgs.values(), lines, strict=True):
        (one,) = read.imgToAnns[image["id"]]
        x, y, width, height = one["bbox"]
        assert [x, y, x + width, y + height] == line["box"]
        mask = open_image(done.out / f"my clip-{line['frame']:06d}-mask.png")[..., 0] >= 0.4 * 255
        assert abs(read.annToMask(one).sum() - largest_component(mask).sum()) < 0.01 * mask.size
    first, last = (read.imgToAnns[number][0]["instance_id"] for number in (1, 10))
    assert first != last  # two scenes


def test_memory_does_not_grow_with_the_length_of_a_video(tmp_path) -> None:
    """What Python's objects take, at the same place of a batch; single jumps, such as for a buffer, do not count."""
    scene, path, held = Scenes(classes=3, photos=6, size=160).image(1), tmp_path / "long.mp4", []

    class Measuring(Reporter):
        @contextmanager
        def progress(self, *_: object, **__: object):
            yield lambda: held.append(tracemalloc.get_traced_memory()[0])

    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*"mp4v"), 10, (64, 48))
    for _ in range(200):
        writer.write(np.ascontiguousarray(scene[40:88, 40:104, ::-1]))
    writer.release()
    tracemalloc.start()
    extract_video(path, out=tmp_path, views=["overlay"], reporter=Measuring())
    tracemalloc.stop()
    assert len(json.loads((tmp_path / "long" / "annotations.json").read_text())["annotations"]) == len(held) == 200
    apart = 12 * BATCH
    growth = np.subtract(held[apart:], held[:-apart])
    assert np.median(growth) < 40_000  # bytes, of the files' buffers: 96 lines and annotations have 140,000


def test_a_video_that_fails_leaves_no_list(clip, tmp_path) -> None:
    class Stopping(Reporter):
        @contextmanager
        def progress(self, *_: object, **__: object):
            yield self.stop

        def stop(self) -> None:
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        extract_video(clip, out=tmp_path, reporter=Stopping())
    assert {path.name for path in (tmp_path / "my clip").iterdir()} == {"my clip-000000-mask.png"}


def test_a_failed_verdict_is_repeated(clip, tmp_path) -> None:
    said = []

    class Noting(Reporter):
        def warning(self, text: str) -> None:
            said.append(text)

    shipped = casmap.load()
    failed = {"verdict": {"verdict": "failed", "reasons": ["It misses."]}}
    mapper = casmap.SaliencyMapper(shipped.network, shipped.size, shipped.about | failed)
    extract_video(clip, mapping=mapper, out=tmp_path, every=9, views=["mask"], reporter=Noting())
    assert said == ["This mapping has the verdict failed: It misses."]


def test_its_masks_are_not_taken_for_photos(clip, tmp_path) -> None:
    done = extract_video(clip, out=tmp_path, every=5)
    assert len(read_boxes(done.out / "boxes.jsonl")) == 2
    with pytest.raises(UserError, match="are maps that casmap wrote"):
        to_map(done.out)


def test_views_other_than_overlays_are_files(clip, tmp_path) -> None:
    done = extract_video(clip, out=tmp_path, every=9, views=["mask", "masked-in"])
    names = {path.name for path in done.out.iterdir()}
    assert {"my clip-000000-masked-in.png", "my clip-000009-mask.png", "boxes.jsonl"} <= names
    assert not any("overlay" in name for name in names)


def test_errors_are_sentences_and_leave_nothing_half_done(clip, tmp_path) -> None:
    with pytest.raises(UserError, match="every must be at least 1, not 0"):
        extract_video(clip, out=tmp_path, every=0)
    (tmp_path / "no.mp4").write_bytes(b"no video")
    with pytest.raises(UserError, match=r"no\.mp4 cannot be opened"):
        extract_video(tmp_path / "no.mp4", out=tmp_path / "maps")
    assert [path for path in (tmp_path / "maps/no").iterdir() if not path.name.startswith(".")] == []
    extract_video(clip, out=tmp_path / "maps", every=9)
    with pytest.raises(UserError, match=r"my clip is not empty: choose another folder \(out\)"):
        extract_video(clip, out=tmp_path / "maps", every=9)


def test_the_command_takes_videos_and_photos(fresh, clip, tmp_path) -> None:
    photo = tmp_path / "cat.png"
    cv2.imwrite(str(photo), Scenes(classes=3, photos=6, size=96).image(1))
    done = fresh("extract", clip, photo, "--every", 5, "--out", tmp_path / "maps")
    assert done.code == 0, done.complained
    assert done.complained == ""
    assert done.said.splitlines()[-2:] == [f"2 frames in {tmp_path}/maps/my clip", f"1 map in {tmp_path}/maps"]
    assert (tmp_path / "maps" / "cat-mask.png").exists()
    assert "leave out videos" in fresh("extract", clip, "--ray", "--out", tmp_path / "ray").sentence()
    assert "missing.mp4 does not exist." in fresh("extract", tmp_path / "missing.mp4", "--out", tmp_path).sentence()


def test_a_browser_plays_the_overlays(clip, tmp_path) -> None:
    sync_api = pytest.importorskip("playwright.sync_api")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("Chromium is missing (Debian: apt-get install chromium)")
    extract_video(clip, out=tmp_path)
    (tmp_path / "page.html").write_text('<video src="my clip/my clip-overlay.mp4" muted></video>')
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri())
        size = page.evaluate(
            "() => new Promise((done, fail) => { const v = document.querySelector('video');"
            "v.onended = () => done([v.videoWidth, v.videoHeight, v.duration]);"
            "v.onerror = () => fail(v.error.message); v.play(); })"
        )
        browser.close()
    assert size == [128, 96, pytest.approx(1.0, abs=0.11)]
