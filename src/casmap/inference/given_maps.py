"""Heatmaps that other programs made of photos: find the map of each photo in a folder, and fit it to the photo."""

import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from casmap.annotations.types import Names
from casmap.errors import UserError, option
from casmap.inference.components import Mask
from casmap.io.heatmaps import SUFFIXES, read_heatmap
from casmap.io.names import file_name
from casmap.io.outputs import BOXES, map_files, read_boxes
from casmap.io.reading import is_inside
from casmap.reporting import counted

SHOWN = 5  # names in a sentence


@dataclass(frozen=True)
class GivenMaps:
    """files: the map of each photo. problems: a sentence for each kind of file that has no counterpart."""

    files: dict[Path, Path]
    problems: list[str]


def find_maps(folder: Path, photos: Mapping[Path, Path]) -> GivenMaps:
    """Match the maps in a folder with photos, given with their paths relative to the folder of photos.

    `cat/1.npy` and `cat/1.jpg.npy` match `cat/1.jpg`. `1.npy` does, too, if no other photo is called `1`. A map that
    `casmap extract` wrote matches the photo in its line of boxes.jsonl.
    """
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder: give the folder of the maps ({option('maps')}).")
    named = {path: relative.as_posix() for path, relative in photos.items()}
    names, paths = Names(list(named.values())), {name: path for path, name in named.items()}
    lines = read_boxes(folder / BOXES)
    own = {folder / f"{file_name(line['name'])}-mask.png": photo for photo, line in lines.items()}
    ours = map_files(folder) - own.keys()  # overlays and other views
    absolute = {os.path.abspath(path): path for path in photos}
    found: dict[Path, list[Path]] = defaultdict(list)
    lost, outside = [], []
    for file in sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path not in ours):
        relative = file.relative_to(folder)
        if any(part.startswith(".") for part in relative.parts) or not file.is_file():
            continue
        if os.path.abspath(file) in absolute:  # the maps are beside the photos
            continue
        name = names.find(relative.with_suffix("").as_posix())
        photo = absolute.get(own[file]) if file in own else paths.get(name or "")
        if file.is_symlink() and not is_inside(file, folder):
            outside.append(relative.as_posix())
        elif photo is None:
            lost.append(relative.as_posix())
        else:
            found[photo].append(file)
    several = [named[photo] for photo, files in found.items() if len(files) > 1]
    without = [name for photo, name in named.items() if photo not in found]
    if len(without) == len(photos):
        raise UserError(
            f"No map in {folder} matches a photo: a map has the path of its photo, relative to the folder of photos, "
            f"and the suffix {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}."
        )
    problems = [
        _sentence(without, "photo", f"without a map in {folder}"),
        _sentence(several, "photo", f"with several maps in {folder}"),
        _sentence(lost, "map", "without a photo"),
        _sentence(outside, "map", f"behind links that lead out of {folder}"),
    ]
    return GivenMaps({photo: files[0] for photo, files in found.items() if len(files) == 1}, [*filter(None, problems)])


def given_mask(file: Path, width: int, height: int) -> Mask:
    """Read a map and resize it to a photo: (height, width) in 0..1.

    An edge that grows is interpolated, one that shrinks is averaged.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "cat.npy"
    >>> np.save(file, np.array([[0.0, 1.0], [0.0, 1.0]]))
    >>> given_mask(file, 4, 1).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    values = read_heatmap(file)
    smaller = min(width, values.shape[1]), min(height, values.shape[0])
    averaged = cv2.resize(values, smaller, interpolation=cv2.INTER_AREA)
    return np.asarray(cv2.resize(averaged, (width, height), interpolation=cv2.INTER_LINEAR), np.float32)


def _sentence(names: Sequence[str], kind: str, what: str) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{counted(len(names), kind)} {what}: {', '.join(names[:SHOWN])}{more}." if names else ""
