"""A folder of photos end to end, compared with decoding plus ONNX Runtime's forward passes; and how it scales.

python benchmarks/extraction.py [PHOTOS]

Without PHOTOS: 500 scenes of 512 x 384 pixels as JPEG files.
"""

import os
import resource
import shutil
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from bench import Ratio, in_turns, ratio, report

from casmap.data.resizing import resize
from casmap.data.scenes import Scenes
from casmap.inference.folder import extract
from casmap.inference.mapper import SaliencyMapper
from casmap.io.find import find_images
from casmap.io.images import encode_jpeg, open_image
from casmap.io.memory import reuse_memory

PHOTOS, BATCH, ROUNDS = 500, 8, 5
GROWTH = (100, 1_000, 10_000)


def main() -> None:
    """Write files to a temporary folder on the same disk."""
    reuse_memory()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        arguments = [argument for argument in sys.argv[1:2] if not argument.startswith("-")]
        photos = Path(arguments[0]) if arguments else make_photos(Path(folder) / "photos", PHOTOS)
        out = Path(folder) / "maps"
        report([*end_to_end(photos, out), *growth(photos, Path(folder) / "many", out)])


def make_photos(folder: Path, count: int) -> Path:
    """Write scenes as JPEG files with the size of photos on the web."""
    folder.mkdir()
    scenes = Scenes(photos=count, size=128)
    for number in range(count):
        large = cv2.resize(scenes.image(number), (512, 384), interpolation=cv2.INTER_CUBIC)
        (folder / f"{number}.jpg").write_bytes(encode_jpeg(large))
    return folder


def end_to_end(photos: Path, out: Path) -> list[Ratio]:
    """`casmap extract` with and without overlays, compared with its two necessary parts run sequentially."""
    paths = find_images([photos])
    mapper = SaliencyMapper.load()
    noise = np.random.default_rng(0).normal(size=(BATCH, 3, mapper.size, mapper.size)).astype(np.float32)

    def decode() -> None:
        for path in paths:
            resize(open_image(path), mapper.size, "squash")

    def forward() -> None:
        for at in range(0, len(paths), BATCH):
            mapper.network.run(noise[: len(paths[at : at + BATCH])])

    seconds = in_turns(
        {
            "decode": decode,
            "forward": forward,
            "masks": lambda: extracted(photos, out, ("mask",)),
            "overlays": lambda: extracted(photos, out, ("mask", "overlay")),
        },
        ROUNDS,
    )
    both = [a + b for a, b in zip(seconds["decode"], seconds["forward"], strict=True)]
    what = "extraction / (decoding + ONNX Runtime's passes)"
    return [
        ratio(f"{what}, masks and boxes", seconds["masks"], both, "<= 1.10", len(paths)),
        ratio(f"{what}, overlays too", seconds["overlays"], both, "", len(paths)),
    ]


def growth(photos: Path, many: Path, out: Path) -> list[Ratio]:
    """Time and memory per photo for more photos, which are hard links to the same files; one run each."""
    paths, times, memory = find_images([photos]), {}, {}
    for count in GROWTH:
        many.mkdir()
        for number in range(count):
            source = paths[number % len(paths)]
            os.link(source, many / f"{number}{source.suffix}")
        seconds = in_turns({"": lambda: extracted(many, out, ("mask",))}, rounds=5 if count < 1_000 else 1)[""]
        times[count] = [np.median(seconds) / count]
        memory[count] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000  # peak so far
        shutil.rmtree(many)
    first, *others = GROWTH
    return [
        ratio(f"time for a photo, {count:,} photos / {first:,}", times[count], times[first], "<= 1.10")
        for count in others
    ] + [
        Ratio(
            f"memory, {count:,} photos / {first:,}", grown := memory[count] / memory[first], grown, grown, "",
            f"{memory[count]:.0f} MB / {memory[first]:.0f} MB",
        )
        for count in others
    ]  # fmt: skip


def extracted(photos: Path, out: Path, kinds: tuple[str, ...]) -> None:
    """Run what `casmap extract` runs."""
    shutil.rmtree(out, ignore_errors=True)
    extract([str(photos)], out=out, views=kinds)


if __name__ == "__main__":
    main()
