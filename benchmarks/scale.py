"""The numbers in docs/scale.md: a row of Parquet, a photo from a shard, the bytes that a step sends.

python benchmarks/scale.py
"""

import tempfile
import time
from pathlib import Path

from bench import in_turns, ratio, report
from extraction import make_photos

from casmap.data.folders import PhotoFolder
from casmap.data.shards import Shards, write_shards
from casmap.inference.mapper import SHIPPED
from casmap.inference.on_ray import PartMaker, part_file
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder

PHOTOS = 200


def main() -> None:
    """Use one process, and one core for the mapping."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "photos").mkdir()
        make_photos(folder / "photos" / "scene", PHOTOS)
        paths = [str(path) for path in sorted((folder / "photos").rglob("*.jpg"))]
        began = time.perf_counter()
        PartMaker(SHIPPED, folder, 1.0)({"number": 0, "paths": paths})
        seconds = (time.perf_counter() - began) / PHOTOS
        print(f"a photo by one worker on one core: {1000 * seconds:.1f} ms", flush=True)
        print(f"a row of Parquet: {part_file(folder, 0).stat().st_size / PHOTOS:.0f} bytes", flush=True)
        photos = PhotoFolder(folder / "photos")
        write_shards(photos, folder / "shards", megabytes=1)
        shards = Shards(str(folder / "shards"))
        turns = in_turns(
            {
                "shards": lambda: [shards.image(number) for number in range(PHOTOS)],
                "folder": lambda: [photos.image(number) for number in range(PHOTOS)],
            },
            5,
        )
        report([ratio("reading photos from shards / from a folder", turns["shards"], turns["folder"], "", PHOTOS)])
    f = Classifier("resnet50", 1000)
    for what, network in (("f", f), ("the decoder of m", Decoder(f.stage_channels))):
        count = sum(weights.numel() for weights in network.parameters())
        print(f"gradients of {what}: {count * 4 / 1e6:.1f} MB a step", flush=True)


if __name__ == "__main__":
    main()
