"""Extract from a video: masks and boxes of its frames, smoothed over time, and a video of overlays."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from casmap.errors import UserError, option
from casmap.inference.components import Threshold
from casmap.inference.edges import Edges
from casmap.inference.folder import Extraction
from casmap.inference.mapper import Mapped, SaliencyMapper, as_mapper
from casmap.inference.pipeline import BATCH
from casmap.inference.video_coco import frame_name, video_objects
from casmap.inference.views import VIEWS, shrunk, write_views
from casmap.io.atomic import own_folder, whole_file
from casmap.io.images import Image
from casmap.io.journal import to_json
from casmap.io.lock import LOCK, locked
from casmap.io.names import file_name
from casmap.io.outputs import BOXES
from casmap.io.video import Frame, frames
from casmap.reporting import SILENT, Reporter

OVERLAY = "overlay.mp4"
CODEC = "vp09"  # VP9 in MP4: OpenCV's wheels can write it, and browsers play it
LONGEST = 1280  # pixels of the longer side of overlays
WEIGHTS = (1, 2, 1)  # of the masks of the previous, the same and the next frame
CUT = 40  # grey levels: frames that differ by more on average are of different scenes
SLOWEST, FASTEST = 1.0, 120.0  # frames per second of overlays; files can claim any


def extract_video(
    video: str | os.PathLike[str], *, mapping: str | os.PathLike[str] | SaliencyMapper | None = None,
    out: str | os.PathLike[str] = "maps", every: int = 1, views: Sequence[str] = VIEWS[:2], alpha: float | None = None,
    threshold: float | None = None, device: str = "cpu", edges: Edges | None = None, reporter: Reporter = SILENT,
) -> Extraction:  # fmt: skip
    """Write masks and boxes of every n-th frame of a video to a folder of its name in `out`.

    views: as in `extract`; overlays become one video. The network's mask of a frame is averaged with those of its
    neighbours, unless the scene changes between them, and then fitted to the frame. boxes.jsonl gets a line for each
    frame, with `frame`, its number, and `seconds`, its time. annotations.json has the objects as COCO for videos.
    """
    path, cut = Path(video), Threshold(alpha, threshold)
    if every < 1:
        raise UserError(f"{option('every')} must be at least 1, not {every}.")
    name = file_name(path.stem)
    folder = own_folder(Path(out) / name)
    files = [view for view in views if view != "overlay"]
    last: Image | None = None  # the frame before, as the network sees it
    empty = 0
    with locked(folder, reporter):
        if any(file.name != LOCK for file in folder.iterdir()):
            raise UserError(f"{folder} is not empty: choose another folder ({option('out')}).")
        mapper = as_mapper(mapping, device, edges=edges)
        if mapper.caution:
            reporter.warning(mapper.caution)
        waiting = frames(path, every)
        first = next(waiting, None)
        if first is None:
            raise UserError(f"{path} has no frames.")
        total = max(1, math.ceil(first.count / every))  # as the file says
        film_file = folder / f"{name}-{OVERLAY}"
        with (
            whole_file(folder / BOXES) as temporary,
            open(temporary, "w", encoding="utf-8") as lines,
            video_objects(folder, path.name) as objects,
            _film(film_file, "overlay" in views) as film,
            reporter.progress("extracting", total) as advance,
        ):
            for frame, mapped in smooth(_mapped(chain([first], waiting), mapper)):
                found = mapped.saliency_map(f"{name}-{frame.number:06d}")
                box = found.box(cut.alpha, cut.fixed)
                kinds = [kind for kind in files if kind != "cutout" or box is not None]
                write_views({kind: found.view(kind, cut.alpha, cut.fixed) for kind in kinds}, folder, found.name)
                film(found.overlay(cut.alpha, cut.fixed), frame.rate / every)
                part = next(iter(found.objects("largest", 0, cut.alpha, cut.fixed)), None)
                objects.add(frame, part, last is not None and is_cut(last, mapped.square))
                last = mapped.square
                place = {"photo": frame_name(path.name, frame.number), "folder": os.path.abspath(path.parent)}
                when = {"frame": frame.number, "seconds": round(frame.seconds, 3)}
                lines.write(f"{to_json(place | found.to_dict(cut.alpha, cut.fixed) | when)}\n")
                empty += box is None
                advance()
    return Extraction(folder, objects.frames, empty, [])


def _mapped(found: Iterable[Frame], mapper: SaliencyMapper) -> Iterator[tuple[Frame, Mapped]]:
    """Map frames in batches."""
    waiting = iter(found)
    while batch := list(islice(waiting, BATCH)):
        for frame, one in zip(batch, mapper.map([frame.image for frame in batch]), strict=True):
            if not isinstance(one, Mapped):
                raise one
            yield frame, one


def smooth(items: Iterable[tuple[Frame, Mapped]]) -> Iterator[tuple[Frame, Mapped]]:
    """Average the network's mask of each frame with those of the frames before and after it, weighted 1, 2 and 1.

    A neighbour from another scene does not count.
    """
    window: list[tuple[Frame, Mapped] | None] = [None, None, None]
    for item in chain(items, [None]):
        window = [*window[1:], item]
        middle = window[1]
        if middle is None:
            continue
        frame, mapped = middle
        near = [
            (weight, other[1].mask)
            for weight, other in zip(WEIGHTS, window, strict=True)
            if other is not None and not is_cut(other[1].square, mapped.square)
        ]
        mask = sum(weight * mask for weight, mask in near) / np.float32(sum(weight for weight, _ in near))
        yield frame, replace(mapped, mask=np.asarray(mask, np.float32))


def is_cut(before: Image, after: Image) -> bool:
    """Whether the scene changes between two frames (S, S, 3).

    >>> black = np.zeros((2, 2, 3), np.uint8)
    >>> is_cut(black, black + np.uint8(30)), is_cut(black, black + np.uint8(50))
    (False, True)
    """
    return bool(cv2.absdiff(before, after).mean() > CUT)


@contextmanager
def _film(path: Path, wanted: bool) -> Iterator[Any]:
    """Write a video of the images that the function is called with; it appears when the block has ended."""
    if not wanted:
        yield lambda image, rate: None
        return
    writer: Any = None
    size = (0, 0)
    with whole_file(path) as temporary:

        def add(image: Image, rate: float) -> None:
            nonlocal writer, size
            if writer is None:
                small = shrunk(image, LONGEST / max(image.shape))
                size = small.shape[1] // 2 * 2 or 2, small.shape[0] // 2 * 2 or 2  # the codec needs even sides
                rate = min(max(rate, SLOWEST), FASTEST) if rate > 0 else 25.0
                writer = cv2.VideoWriter(str(temporary), cv2.CAP_FFMPEG, cv2.VideoWriter.fourcc(*CODEC), rate, size)
                if not writer.isOpened():
                    raise UserError(f"Cannot write {path}: this OpenCV has no VP9; leave out overlays.")
            writer.write(cv2.cvtColor(cv2.resize(image, size, interpolation=cv2.INTER_AREA), cv2.COLOR_RGB2BGR))

        try:
            yield add
        finally:
            if writer is not None:
                writer.release()
