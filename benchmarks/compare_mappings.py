"""Compare mappings with the shipped one on annotated photos: LE and mask IoU as extracted, and paired differences.

    python benchmarks/compare_mappings.py PHOTOS MASKS MAPPING...

LE and IoU in percent, differences in points, with 95 % intervals over photos. Photos without a mask are left out.
"""

import sys

import numpy as np

from casmap import SaliencyMapper
from casmap.data.folders import PhotoFolder
from casmap.evaluation.localization import localization_error, mask_iou
from casmap.evaluation.numbers import mean_of, paired_difference, percent, points


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


def main() -> None:
    """Print a row for the shipped mapping and for each given one."""
    data, masks, *mappings = sys.argv[1:]
    photos = PhotoFolder(data, masks=masks)
    shipped = measure(SaliencyMapper.load(threads=1), photos)
    print(f"{len(shipped[0])} photos\nshipped: LE {percent(mean_of(shipped[0]))}, IoU {percent(mean_of(shipped[1]))}")
    for path in mappings:
        found = measure(SaliencyMapper.load(path), photos)
        differences = [points(paired_difference(one, other)) for one, other in zip(found, shipped, strict=True)]
        print(f"{path}: LE {percent(mean_of(found[0]))}, IoU {percent(mean_of(found[1]))}")
        print(f"  less shipped: LE {differences[0]}, IoU {differences[1]}", flush=True)


if __name__ == "__main__":
    main()
