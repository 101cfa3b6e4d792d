"""Write a set of photos with all that is known of them as ordinary files."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from casmap.data.photos import PhotoSet
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.images import encode_png


def write_photos(photos: PhotoSet, out: Path, console: Console | None = None) -> int:
    """Write photos/, masks/, parts/ (class folders of PNG files) and boxes.csv below `out`; returns how many photos."""
    if out.exists() and not out.is_dir():
        raise UserError(f"{out} is a file; choose a folder.")
    if out.exists() and any(out.iterdir()):
        raise UserError(f"The folder {out} is not empty; choose another one.")
    lines = ["file,width,height,xmin,ymin,xmax,ymax"]
    console = console or Console(quiet=True)
    for index, name in enumerate(track(photos.names, "writing", console=console, transient=True)):
        image, annotation = photos.image(index), photos.annotation(index)
        write_whole(out / "photos" / name, encode_png(image))
        if annotation is None:
            continue
        height, width = image.shape[:2]
        lines += [f"photos/{name},{width},{height},{','.join(f'{edge:g}' for edge in box)}" for box in annotation.boxes]
        if annotation.mask is not None:
            write_whole((out / "masks" / name).with_suffix(".png"), encode_png(annotation.mask))
        for number, part in enumerate([] if annotation.parts is None else annotation.parts):
            path = (out / "parts" / name).with_suffix(f".{number}.png")
            write_whole(path, encode_png(part.astype(np.uint8) * 255))
    write_whole(out / "boxes.csv", "\n".join(lines) + "\n")
    return len(photos)
