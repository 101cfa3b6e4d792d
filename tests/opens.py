"""Opens files as users' commands do: lines of KIND PATH in; fine, refused or what went wrong, and MB at most, out."""

import json
import resource
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

from casmap import SaliencyMapper
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.shards import Shards
from casmap.data.sources import open_photos
from casmap.errors import UserError
from casmap.io.images import open_image
from casmap.io.kept_options import keep_options
from casmap.io.outputs import read_boxes
from casmap.models.classifier import Classifier
from casmap.paper.outcome import read_outcome
from casmap.tools.classifiers import open_classifier
from casmap.tools.correct import Corrected
from casmap.training.checkpoints import Resumable
from casmap.training.loop import train_mapping
from casmap.training.recipes import QUICK, read_recipe
from casmap.training.run import Run

PHOTO = np.full((32, 48, 3), 100, np.uint8)


def open_mapping(path: Path) -> None:
    SaliencyMapper.load(path)(PHOTO).box()


def open_finished(path: Path) -> None:
    """As `casmap train --resume` opens a finished run."""
    train_mapping(Scenes(photos=2, classes=2), Run(path, QUICK, resume=True))


def open_a_classifier(path: Path) -> None:
    classifier, _ = open_classifier(str(path), Scenes(photos=2, classes=2))
    classifier(torch.zeros(1, 3, 32, 32))


def open_checkpoint(path: Path) -> None:
    """As `casmap train --resume` does, and then one step."""
    classifier = Classifier("test_resnet", 3)
    optimizer = torch.optim.AdamW(classifier.parameters(), 1e-3)
    run = Run(path, QUICK, resume=True)
    stage = Resumable(run, "checkpoint", "log", 9, "the rates", classifier=classifier, optimizer=optimizer, none=None)
    classifier(torch.zeros(2, 3, 32, 32)).sum().backward()
    optimizer.step()
    stage.log.close()


def open_annotations(path: Path) -> None:
    """Photos in class folders, and photos whose classes come from the annotations."""
    flat = path.suffix != ".csv" and (path.parent / "flat").is_dir()  # a table names its photos by their folders
    for root in [path.parent / "flat"] * flat + [path.parent / "photos"]:
        photos = PhotoFolder(root, boxes=path)
        for index in range(len(photos)):
            photos.read_annotation(index)
        corrected = Corrected(photos)
        for index in range(len(corrected)):
            corrected.image(index)


def open_shards(path: Path) -> None:
    shards = Shards(str(path))
    shards.image(0)


WAYS = {
    "mapping": open_mapping,
    "finished": open_finished,
    "classifier": open_a_classifier,
    "checkpoint": open_checkpoint,
    "image": open_image,
    "annotations": open_annotations,
    "folder": lambda path: open_photos(str(path)),
    "recipe": lambda path: read_recipe(str(path)),
    "shards": open_shards,
    "boxes": read_boxes,
    "options": lambda path: keep_options(path, {"seed": 0, "classes": ["a", "b"]}),
    "outcome": read_outcome,
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
            said = str(error)
            told = "refused" if said and "\n" not in said and len(said) < 1000 else f"not one sentence: {said!r:.100}"
        except BaseException as error:
            told = f"{type(error).__name__}: {error!s:.100}"
        print(json.dumps([told, most_memory()]), flush=True)
