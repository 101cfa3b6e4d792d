"""Compare mappings with the first one on annotated photos: the same measures of the same photos, paired.

    python benchmarks/compare_mappings.py PHOTOS BOXES-OR-MASKS MAPPING...

A MAPPING is a file, or shipped. In percent, differences in points, with 95 % intervals over photos; threshold 0.5
except where alpha is named. Photos without a box or mask are left out.
"""

import sys
from collections import defaultdict
from pathlib import Path

import numpy as np

from casmap import SaliencyMapper
from casmap.annotations.format import FORMATS
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize, resize_annotation
from casmap.evaluation.box_fit import best_ious
from casmap.evaluation.field_protocol import gt_known
from casmap.evaluation.localization import localization_error, mask_iou
from casmap.evaluation.numbers import mean_of, paired_difference, percent, points
from casmap.inference.components import PAPER, Threshold


def measure(mapper: SaliencyMapper, photos: PhotoFolder) -> tuple[np.ndarray, np.ndarray]:
    """LE of each annotated photo (N,), and mask IoU of each that has a mask."""
    errors, ious = [], []
    for index in range(len(photos)):
        if (annotation := photos.annotation(index)) is not None:
            found = mapper(photos.image(index))
            errors.append(float(localization_error([found.box()], [annotation.boxes])[0]))
            if annotation.mask is not None:
                ious.append(mask_iou(found.binary(), annotation.mask))
    return np.array(errors), np.array(ious)


def measure_all(mapper: SaliencyMapper, photos: PhotoFolder) -> dict[str, np.ndarray]:
    """Measures of each annotated photo as extracted, by the paper's and by the field's protocol: (N,) each."""
    found: dict[str, list[float]] = defaultdict(list)
    for index in range(len(photos)):
        if (true := photos.annotation(index)) is None:
            continue
        photo = photos.image(index)
        binary = mapper(photo).binary()
        iou = best_ious(binary[None], [true.boxes])[0]
        found["LE, as extracted"].append(float(not iou > 0.5))
        found["boxes above IoU 0.75, as extracted"].append(float(iou > 0.75))
        if true.mask is not None:
            found["mask IoU, as extracted"].append(mask_iou(binary, true.mask))
        for policy in ("crop", "squash and crop"):
            mask = mapper.masks(resize(photo, mapper.size, policy)[None])[0]
            boxes = [resize_annotation(true, *photo.shape[:2], mapper.size, policy).boxes]
            ious = {rule: best_ious(rule.binary(mask), boxes) for rule in (PAPER, Threshold())}
            if policy == "crop":
                found["LE, paper's protocol, alpha 1"].append(float(not ious[PAPER] > 0.5))
                found["LE, paper's protocol"].append(float(not ious[Threshold()] > 0.5))
            else:
                found["GT-known, field's protocol"].append(float(gt_known(ious[Threshold()])[0]))
    return {name: np.array(values) for name, values in found.items()}


def kind_of(truth: Path) -> str:
    """What a path has: boxes, unless it is a folder that no format of boxes recognises; then it has masks."""
    of_boxes = (form for form in FORMATS.values() if form is not FORMATS["masks"])
    return "boxes" if truth.is_file() or any(form.recognises(truth) for form in of_boxes) else "masks"


def main() -> None:
    """Print a table with a column for each mapping and one for each difference from the first."""
    data, truth, *mappings = sys.argv[1:]
    photos = PhotoFolder(data, **{kind_of(Path(truth)): truth})
    loaded = [SaliencyMapper.load(None if path == "shipped" else path, threads=1) for path in mappings]
    first, *others = [measure_all(mapper, photos) for mapper in loaded]
    print(f"| {len(first['LE, as extracted'])} photos | " + " | ".join(Path(path).stem for path in mappings), end="")
    print("".join(f" | {Path(path).stem} less {Path(mappings[0]).stem}" for path in mappings[1:]) + " |")
    print("|---" * (2 * len(mappings)) + "|")
    for name, values in first.items():
        cells = [percent(mean_of(one[name])) for one in (first, *others)]
        cells += [points(paired_difference(one[name], values)) for one in others]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
