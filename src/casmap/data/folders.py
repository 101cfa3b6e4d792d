"""Photos in class folders, as people have them; boxes in a CSV file and masks in a folder where there are any."""

import csv
from collections import defaultdict
from itertools import count, takewhile
from pathlib import Path

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation
from casmap.errors import UserError
from casmap.images import IMAGE_SUFFIXES, open_image


class PhotoFolder:
    """root/class/photo.jpg: each folder with photos, at any depth below it, is a class.

    boxes: a CSV file with the columns file, xmin, ymin, xmax, ymax (the photo's pixels); `file` is relative to it.
    masks: a folder with a picture for each photo, root's names with .png: 0 background, 255 object, 128 not counted.
    parts: a folder with a picture for each sufficient part, root's names with .0.png, .1.png, ...: 255 where it is.
    """

    def __init__(
        self,
        root: str | Path,
        boxes: str | Path | None = None,
        masks: str | Path | None = None,
        parts: str | Path | None = None,
    ) -> None:
        self.root = Path(root)
        if not self.root.is_dir():
            raise UserError(f"There is no folder {root}.")
        if (self.root / "photos").is_dir() and (self.root / "boxes.csv").is_file():
            raise UserError(f"The classes are one folder further down: give {self.root / 'photos'}.")
        folders = sorted(path for path in self.root.iterdir() if path.is_dir() and not path.name.startswith("."))
        found = {folder.name: _images_below(folder) for folder in folders}
        self.classes = [name for name, paths in found.items() if paths]
        if not self.classes:
            raise UserError(
                f"There are no photos in class folders below {root}: give each class a folder with its photos."
            )
        self._paths = [path for name in self.classes for path in found[name]]
        self.labels = np.repeat(np.arange(len(self.classes)), [len(found[name]) for name in self.classes])
        self.names = [path.relative_to(self.root).as_posix() for path in self._paths]
        self._boxes = _read_boxes(Path(boxes)) if boxes else {}
        self._masks = _folder(masks)
        self._parts = _folder(parts)

    def __len__(self) -> int:
        return len(self._paths)

    def image(self, index: int) -> npt.NDArray[np.uint8]:
        """Photo number `index`: (H, W, 3) RGB."""
        return open_image(self._paths[index])

    def annotation(self, index: int) -> Annotation | None:
        """Boxes from the CSV file, else the tightest box of the mask; None where nothing is known."""
        mask = self._mask(index)
        boxes = self._boxes.get(self._paths[index].resolve())
        if boxes is None and mask is not None and (mask == 255).any():
            ys, xs = np.nonzero(mask == 255)
            boxes = np.array([[xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]], dtype=np.float64)
        return None if boxes is None else Annotation(boxes, mask, self._sufficient_parts(index))

    def _mask(self, index: int) -> npt.NDArray[np.uint8] | None:
        path = (self._masks / self.names[index]).with_suffix(".png") if self._masks else None
        return open_image(path)[..., 0] if path is not None and path.exists() else None

    def _sufficient_parts(self, index: int) -> npt.NDArray[np.bool_] | None:
        if self._parts is None:
            return None
        stem = self._parts / self.names[index]
        paths = takewhile(Path.exists, (stem.with_suffix(f".{number}.png") for number in count()))
        pictures = [open_image(path)[..., 0] > 127 for path in paths]
        return np.stack(pictures) if pictures else None


def _folder(path: str | Path | None) -> Path | None:
    if path is not None and not Path(path).is_dir():
        raise UserError(f"There is no folder {path}.")
    return None if path is None else Path(path)


def _images_below(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if _is_photo(path.relative_to(folder)) and path.is_file())


def _is_photo(path: Path) -> bool:
    return path.suffix.lower() in IMAGE_SUFFIXES and not any(part.startswith(".") for part in path.parts)


def _read_boxes(path: Path) -> dict[Path, npt.NDArray[np.float64]]:
    """All boxes of a CSV file, by photo."""
    columns = ("xmin", "ymin", "xmax", "ymax")
    boxes = defaultdict(list)
    try:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                boxes[(path.parent / row["file"]).resolve()].append([float(row[column]) for column in columns])
    except FileNotFoundError as error:
        raise UserError(f"There is no file {path}.") from error
    except (KeyError, ValueError, TypeError, OSError, csv.Error) as error:
        raise UserError(f"{path} must be a CSV file with the columns file, {', '.join(columns)}.") from error
    arrays = {photo: np.array(rows) for photo, rows in boxes.items()}
    for photo, array in arrays.items():
        if not (np.isfinite(array).all() and (array[:, 2:] > array[:, :2]).all()):
            raise UserError(f"{path} has a box for {photo.name} that ends before it begins, or is no number.")
    return arrays
