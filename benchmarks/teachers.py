"""Which masks should teach the second stage? Candidates, measured on boxes that training never sees.

python benchmarks/teachers.py PHOTOS BOXES [MAPPING]

Whole photos, resized to a square; class activation maps (CAMs) of lite0 for the photo's label. LE by the share of the
photo that the box covers, at each candidate's best threshold from 0.15 to 0.7: to compare candidates, not as a result.
"""

import sys
from itertools import pairwise
from pathlib import Path

import cv2
import numpy as np
import torch

import casmap
from casmap.data.batches import normalised, whole_photos
from casmap.data.folders import PhotoFolder
from casmap.evaluation.localization import iou
from casmap.evaluation.numbers import bootstrap_interval
from casmap.inference.components import largest_box
from casmap.models.class_activation import class_activation, min_max
from casmap.models.classifier import Classifier

MASK_SIZES, CAM_SIZES, GRID = (224, 288), (224, 320, 448), 112
THRESHOLDS = np.arange(0.15, 0.75, 0.05)
EDGES = (0, 0.1, 0.2, 0.33, 0.5, 0.7, 1.01)
FLOOR = 0.05  # as in the second stage


def main() -> None:
    """One row for each candidate."""
    photos = PhotoFolder(Path(sys.argv[1]), boxes=Path(sys.argv[2]))
    mapper = casmap.load(sys.argv[3] if len(sys.argv) > 3 else None)
    f = Classifier("lite0", len(photos.classes), pretrained=True).eval()
    masks: dict[int, list[np.ndarray]] = {size: [] for size in MASK_SIZES}
    cams: dict[int, list[np.ndarray]] = {size: [] for size in CAM_SIZES}
    chosen = np.array([i for i in range(len(photos)) if photos.annotation(i) is not None])
    for labels, arrays in whole_photos(photos, chosen, (*MASK_SIZES, *CAM_SIZES), 8):
        for size, images in zip(MASK_SIZES, arrays, strict=False):
            masks[size] += list(mapper.masks(images)[0][:, 1::4, 1::4])  # one value for each of the decoder's cells
        for size, images in zip(CAM_SIZES, arrays[len(MASK_SIZES) :], strict=True):
            maps = class_activation(f, normalised(images, f.mean, f.std), labels)
            cams[size] += list(min_max(torch.relu(maps)).numpy())
    m = {size: enlarge(maps) for size, maps in masks.items()}
    c = {size: enlarge(maps) for size, maps in cams.items()}
    mean_cam = np.mean(list(c.values()), axis=0)
    candidates = {f"mask at {size} px": m[size] for size in MASK_SIZES}
    candidates |= {f"CAM at {size} px": c[size] for size in CAM_SIZES}
    candidates["CAM, mean of three sizes"] = mean_cam
    for size in MASK_SIZES:
        candidates[f"sqrt(mask at {size}, CAM at 448)"] = agreement(m[size], c[448])
        candidates[f"sqrt(mask at {size}, mean CAM)"] = agreement(m[size], mean_cam)
    boxes = [photos.annotation(int(i)).boxes / sides(photos.image(int(i))) for i in chosen]
    names = [f"{low:g}-{high:g}" for low, high in pairwise(EDGES)]
    print(f"| | threshold | LE | {' | '.join(names)} |\n|{'---|' * (len(names) + 3)}")
    for name, maps in candidates.items():
        found = {threshold: errors(maps, boxes, threshold) for threshold in THRESHOLDS}
        best = min(found, key=lambda threshold: found[threshold][0].mean())
        wrong, shares = found[best]
        low, high = bootstrap_interval(wrong)
        bins = [f"{100 * wrong[(shares >= a) & (shares < b)].mean():.1f}" for a, b in pairwise(EDGES)]
        error = f"{100 * wrong.mean():.1f} [{100 * low:.1f}, {100 * high:.1f}]"
        print(f"| {name} | {best:.2f} | {error} | {' | '.join(bins)} |")


def agreement(mask: np.ndarray, cam: np.ndarray) -> np.ndarray:
    """The second stage's t = sqrt(m M), rescaled to 0..1: (N, h, w) each."""
    stretched = min_max(torch.from_numpy(mask)).numpy()
    return min_max(torch.from_numpy(np.sqrt((stretched + FLOOR) * (cam + FLOOR)))).numpy()


def enlarge(maps: list[np.ndarray]) -> np.ndarray:
    """All maps at one size, bilinear."""
    return np.stack([cv2.resize(one, (GRID, GRID), interpolation=cv2.INTER_LINEAR) for one in maps])


def errors(maps: np.ndarray, boxes: list[np.ndarray], threshold: float) -> tuple[np.ndarray, np.ndarray]:
    """LE of each photo, and the share of the photo that the best matching box covers."""
    wrong, shares = [], []
    for one, true in zip(maps, boxes, strict=True):
        box = largest_box(one >= threshold)
        overlaps = np.zeros(len(true)) if box is None else iou(np.array(box) / GRID, true)
        x0, y0, x1, y1 = true[overlaps.argmax()]
        wrong.append(float(not overlaps.max() > 0.5))
        shares.append((x1 - x0) * (y1 - y0))
    return np.array(wrong), np.array(shares)


def sides(photo: np.ndarray) -> np.ndarray:
    """Width, height, width, height of a photo."""
    height, width = photo.shape[:2]
    return np.array([width, height, width, height], np.float64)


if __name__ == "__main__":
    main()
