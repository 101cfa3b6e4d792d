"""What sharp edges cost: `extract` with sharp and with smooth masks, in turns, in CPU time.

python benchmarks/edges_cost.py [PHOTOS]

Without PHOTOS: 100 scenes of 512 x 384 pixels as JPEG files. Besides, one of the photos, enlarged to 12 megapixels.
"""

import resource
import shutil
import sys
import tempfile
from pathlib import Path

import cv2
from bench import Ratio, in_turns, ratio, report
from extraction import make_photos

from casmap.inference.folder import extract
from casmap.io.find import find_images
from casmap.io.images import encode_jpeg, open_image
from casmap.io.memory import reuse_memory

PHOTOS, ROUNDS = 100, 5


def main() -> None:
    """Write files to a temporary folder on the same disk."""
    reuse_memory()
    with tempfile.TemporaryDirectory(dir=".") as folder:
        arguments = [argument for argument in sys.argv[1:2] if not argument.startswith("-")]
        paths = find_images(arguments or [make_photos(Path(folder) / "photos", PHOTOS)])
        paths = paths[:: max(1, len(paths) // PHOTOS)][:PHOTOS]
        large = Path(folder) / "large.jpg"
        enlarged = cv2.resize(open_image(paths[0]), (4000, 3000), interpolation=cv2.INTER_CUBIC)
        large.write_bytes(encode_jpeg(enlarged))
        out, two = Path(folder) / "maps", ("mask", "overlay")
        report([
            cost("extract with sharp / smooth edges", paths, out, two),
            cost("the same, cutouts too", paths, out, (*two, "cutout")),
            cost("one JPEG of 12 megapixels, sharp / smooth edges", [large], out, two),
            cost("the same, cutouts too", [large], out, (*two, "cutout")),
        ])  # fmt: skip


def cost(what: str, paths: list[Path], out: Path, views: tuple[str, ...]) -> Ratio:
    """The CPU time of all processes with sharp edges, as a multiple of that with smooth ones."""

    def extracted(edges: str) -> None:
        shutil.rmtree(out, ignore_errors=True)
        extract(paths, out=out, views=views, edges=edges)

    ways = {edges: lambda edges=edges: extracted(edges) for edges in ("sharp", "smooth")}
    seconds = in_turns(ways, ROUNDS, clock=cpu_seconds)
    return ratio(f"{what}, CPU time", seconds["sharp"], seconds["smooth"], "<= 1.25", len(paths))


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it has started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


if __name__ == "__main__":
    main()
