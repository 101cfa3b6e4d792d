"""Decoding of videos: the right frames, flat memory, and files that must not be believed."""

import random
import tracemalloc

import cv2
import numpy as np
import pytest

from casmap.errors import UnreadableImage, UserError
from casmap.io import video
from casmap.io.video import frames
from casmap.io.video_worker import check_beginning


def write(path, images, codec="mp4v", rate=10):
    height, width = images[0].shape[:2]
    writer = cv2.VideoWriter(str(path), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*codec), rate, (width, height))
    assert writer.isOpened()
    for image in images:
        writer.write(np.ascontiguousarray(image[..., ::-1]))
    writer.release()
    return path


def greys(count, side=64):
    return [np.full((side, side + 16, 3), 20 * number, np.uint8) for number in range(count)]


@pytest.fixture
def clip(tmp_path):
    return write(tmp_path / "clip.mp4", greys(12))


@pytest.mark.parametrize(("suffix", "codec"), [("mp4", "mp4v"), ("mkv", "VP80"), ("mp4", "vp09"), ("avi", "MJPG")])
@pytest.mark.parametrize("every", [1, 3, 5, 50])
def test_every_nth_frame_is_decoded(tmp_path, suffix, codec, every) -> None:
    path = write(tmp_path / f"clip.{suffix}", greys(12), codec)
    found = list(frames(path, every))
    assert [frame.number for frame in found] == list(range(0, 12, every))
    for frame in found:
        assert frame.image.shape == (64, 80, 3)
        assert abs(frame.image.mean() - 20 * frame.number) < 10  # nearer than to any other frame
        assert frame.seconds == pytest.approx(frame.number / 10, abs=0.051)
    assert (found[0].rate, found[0].count) == (pytest.approx(10), 12)


def test_colours_are_red_green_blue(tmp_path) -> None:
    red = np.zeros((64, 64, 3), np.uint8)
    red[..., 0] = 200
    (frame,) = frames(write(tmp_path / "red.mp4", [red]))
    assert frame.image[..., 0].mean() > 150 > 50 > frame.image[..., 2].mean()


def test_the_decoding_process_ends_with_the_last_frame_and_if_nobody_wants_more(clip, workers_of) -> None:
    import os

    before = set(workers_of(os.getpid()))  # of other tests
    waiting = frames(clip)
    next(waiting)
    assert len(set(workers_of(os.getpid())) - before) == 1
    waiting.close()
    list(frames(clip))
    assert set(workers_of(os.getpid())) <= before


def test_memory_does_not_grow_with_the_video(tmp_path) -> None:
    path = write(tmp_path / "long.mp4", [np.full((240, 320, 3), number % 250, np.uint8) for number in range(200)])
    tracemalloc.start()
    count = sum(1 for _ in frames(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200
    assert peak < 10 * 240 * 320 * 3


def test_too_many_frames_are_refused(clip) -> None:
    assert len(list(frames(clip, most=12))) == 12
    with pytest.raises(UserError, match=r"clip.mp4 has more than 5 frames to map: choose fewer \(every\)"):
        list(frames(clip, most=5))


TEXTS = [
    b"", b"no video", b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", b"ffconcat version 1.0\nfile /etc/passwd\n",
    b"#EXTftyp\n#EXTM3U\nhttp://127.0.0.1:1/a.ts\n", b"#EXTM3U\nAVI \n#EXTINF:1,\nfile:///etc/passwd\n",
    b"<!--ftyp--><MPD></MPD>", b"\x00\x00\x00\x07ftypmp42",
]  # fmt: skip


@pytest.mark.parametrize("content", TEXTS)
def test_texts_are_not_given_to_ffmpeg(tmp_path, content) -> None:
    (tmp_path / "clip.mp4").write_bytes(content)
    with pytest.raises(ValueError, match="it is not a video in a supported format"):
        check_beginning(tmp_path / "clip.mp4")


@pytest.mark.parametrize(
    "content",
    [
        *TEXTS,
        b"\x00\x00\x00\x18ftypmp42", b"\x1a\x45\xdf\xa3" + bytes(200), b"RIFF\xff\xff\xff\xffAVI " + bytes(200),
    ],
)  # fmt: skip
def test_files_that_are_no_videos(tmp_path, content) -> None:
    (tmp_path / "clip.mp4").write_bytes(content)
    with pytest.raises(UnreadableImage, match=r"clip.mp4 cannot be opened: it is .*\.$"):
        list(frames(tmp_path / "clip.mp4"))


def test_a_missing_file(tmp_path) -> None:
    with pytest.raises(UnreadableImage, match=r"missing\.mp4 does not exist"):
        list(frames(tmp_path / "missing.mp4"))


def test_frames_with_too_many_pixels_are_refused(clip, monkeypatch) -> None:
    monkeypatch.setattr(video, "MAX_PIXELS", 64 * 79)
    with pytest.raises(UnreadableImage, match="has more than 0 million pixels, which is the limit"):
        list(frames(clip))


def test_a_video_that_takes_too_long_costs_its_process_only(clip, monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(
        video, "START", video.START.replace("import main;", "import main; import time; time.sleep(60);")
    )
    monkeypatch.setattr(video, "WALL_SECONDS", 1)
    with pytest.raises(UnreadableImage, match="takes more than 1 s to open"):
        list(frames(clip))


def test_damaged_videos_give_frames_or_a_sentence(tmp_path, long) -> None:
    content = write(tmp_path / "good.mp4", greys(4)).read_bytes()
    draw = random.Random(0)
    for number in range(200 if long else 15):
        damaged = bytearray(content[: draw.randrange(40, len(content))] if number % 3 == 0 else content)
        for _ in range(draw.randrange(1, 20)):
            damaged[draw.randrange(12, len(damaged))] = draw.randrange(256)
        (tmp_path / "bad.mp4").write_bytes(damaged)
        sentence = "Nothing is wrong."
        try:
            for frame in frames(tmp_path / "bad.mp4", most=1000):
                assert frame.image.dtype == np.uint8
        except UserError as error:
            sentence = str(error)
        assert sentence.endswith(".")
        assert "\n" not in sentence
