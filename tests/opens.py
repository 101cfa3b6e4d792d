"""Opens files as users' commands do: lines of KIND PATH in; fine, refused or what went wrong, and MB at most, out."""

import json
import resource
import sys
import warnings
from pathlib import Path

import numpy as np

import casmap.models.files  # noqa: F401 (torch, before the clock runs)
from casmap import SaliencyMapper
from casmap.data.folders import PhotoFolder
from casmap.data.shards import Shards
from casmap.errors import UserError
from casmap.io.images import open_image
from casmap.training.recipes import read_recipe

PHOTO = np.full((32, 48, 3), 100, np.uint8)


def open_mapping(path: Path) -> None:
    SaliencyMapper.load(path)(PHOTO)


def open_annotations(path: Path) -> None:
    photos = PhotoFolder(path.parent / "photos", boxes=path)
    for index in range(len(photos)):
        photos.read_annotation(index)


def open_shards(path: Path) -> None:
    shards = Shards(str(path.parent))
    shards.image(0)


WAYS = {
    "mapping": open_mapping,
    "image": open_image,
    "annotations": open_annotations,
    "recipe": lambda path: read_recipe(str(path)),
    "shards": open_shards,
}


def most_memory() -> int:
    """MB that this process has held at most; ru_maxrss would count what the process that began it held then, too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    memory = 8 << 30  # of addresses: what tries to take more fails at once, and does not take the machine with it
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for line in sys.stdin:
        kind, path = line.rstrip("\n").split(" ", 1)
        try:
            WAYS[kind](Path(path))
            told = "fine"
        except UserError as error:
            told = "refused" if str(error) and "\n" not in str(error) else f"not one sentence: {error!r}"
        except BaseException as error:
            told = f"{type(error).__name__}: {error}"
        print(json.dumps([told, most_memory()]), flush=True)
