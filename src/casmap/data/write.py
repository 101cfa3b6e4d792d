"""Write a set of photos with its boxes, masks and parts as ordinary files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.images import encode_png
from casmap.io.lock import LOCK, locked
from casmap.reporting import SILENT, Reporter


@dataclass(frozen=True)
class WrittenPhotos:
    """The folders and the table that `write_photos` wrote; masks and parts exist only if the set has any."""

    photos: Path
    boxes: Path
    masks: Path
    parts: Path


def write_photos(photos: PhotoSet, out: Path, *, reporter: Reporter = SILENT) -> WrittenPhotos:
    """Write photos/, masks/ and parts/ (class folders of PNG files) and boxes.csv to `out`.

    >>> import tempfile
    >>> from casmap.data.scenes import Scenes
    >>> written = write_photos(Scenes(classes=2, photos=2, size=32), Path(tempfile.mkdtemp()))
    >>> [path.name for path in sorted(written.photos.iterdir())]
    ['class-00', 'class-01']
    """
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file: choose a folder.")
    with locked(out, reporter):
        if any(path.name != LOCK for path in out.iterdir()):
            raise UserError(f"The folder {out} is not empty: choose another one.")
        return _write_photos(photos, out, reporter)


def _write_photos(photos: PhotoSet, out: Path, reporter: Reporter) -> WrittenPhotos:
    written = WrittenPhotos(out / "photos", out / "boxes.csv", out / "masks", out / "parts")
    lines = ["file,width,height,xmin,ymin,xmax,ymax"]
    for index, name in enumerate(reporter.track(photos.names, "Writing photos")):
        image, annotation = photos.image(index), photos.annotation(index)
        write_whole(written.photos / name, encode_png(image))
        if annotation is None:
            continue
        height, width = image.shape[:2]
        lines += [f"photos/{name},{width},{height},{','.join(f'{edge:g}' for edge in box)}" for box in annotation.boxes]
        if annotation.mask is not None:
            write_whole((written.masks / name).with_suffix(".png"), encode_png(annotation.mask))
        for number, part in enumerate([] if annotation.parts is None else annotation.parts):
            part_image = encode_png(part.astype(np.uint8) * 255)
            write_whole((written.parts / name).with_suffix(f".{number}.png"), part_image)
    write_whole(written.boxes, "\n".join(lines) + "\n")
    return written
