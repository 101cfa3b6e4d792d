"""Do a few corrected photos improve the others? IoU before and after, on photos without corrections.

    python benchmarks/corrections.py MAPPING PHOTOS MASKS [--counts 5 20 50] [--draws 1] [--look maps.jpg]

MAPPING: a mapping file, or `shipped`. The true masks of random photos stand in for corrections: `casmap correct`
learns them, with its defaults. At most 200 other photos, the same for all counts, are measured. With several draws,
other photos are corrected in each, and a photo counts with its mean over the draws in which it was not corrected.
--look: write photos with the masks before and after the most corrections, the worst first.
"""

import argparse
from pathlib import Path
from tempfile import mkdtemp

import cv2
import numpy as np

from casmap.data.photos import PhotoSet, Subset
from casmap.data.sources import open_photos
from casmap.evaluation.evaluate import annotated_indices
from casmap.evaluation.numbers import mean_of, paired_difference, percent, points
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.io.images import Image
from casmap.io.memory import reuse_memory
from casmap.tools.correct import agreement, train_on_corrections

OTHERS = 200
SHOWN, ROW, SIDE = 20, 5, 200


def main() -> None:
    """Correct random photos with their true masks, and measure on others."""
    parser = argparse.ArgumentParser()
    parser.add_argument("mapping")
    parser.add_argument("photos")
    parser.add_argument("masks")
    parser.add_argument("--counts", type=int, nargs="+", default=[5, 20, 50])
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--look", type=Path)
    given = parser.parse_args()
    reuse_memory()
    photos, scratch = open_photos(given.photos, masks=given.masks), Path(mkdtemp())
    mapping = SHIPPED if given.mapping == "shipped" else Path(given.mapping)
    annotated = np.array(annotated_indices(photos))
    # (draws, photos): nan where a photo is not measured; before is the same for all counts
    before, after = np.full((given.draws, len(photos)), np.nan), {}
    for draw in range(given.draws):
        order = np.random.default_rng(draw).permutation(annotated)
        others = np.sort(order[max(given.counts) :][:OTHERS])
        before[draw, others] = agreement(SaliencyMapper.load(mapping), Subset(photos, others)).ious
        for count in given.counts:
            few = Subset(photos, np.sort(order[:count]))
            trained = train_on_corrections(mapping, few, out=scratch / f"{draw}-{count}")
            of = after.setdefault(count, np.full((given.draws, len(photos)), np.nan))
            of[draw, others] = agreement(SaliencyMapper.load(trained), Subset(photos, others)).ious
            print(f"draw {draw}, {count} corrected: IoU {100 * np.nanmean(of[draw]):.1f}", flush=True)
    measured = ~np.isnan(before).all(axis=0)
    first = np.nanmean(before[:, measured], axis=0)
    print(f"\n| corrected photos | IoU of {measured.sum()} others | less before |\n|---|---|---|")
    print(f"| 0 | {percent(mean_of(first))} | |")
    for count, of in after.items():
        mean = np.nanmean(of[:, measured], axis=0)
        print(f"| {count} | {percent(mean_of(mean))} | {points(paired_difference(mean, first))} |")
    if given.look:
        gains = after[max(given.counts)][-1] - before[-1]
        worst = np.argsort(gains)[: min(SHOWN, int((~np.isnan(gains)).sum()))]  # nan comes last
        corrected = scratch / f"{given.draws - 1}-{max(given.counts)}" / "mapping.safetensors"
        both = [SaliencyMapper.load(file) for file in (mapping, corrected)]
        cv2.imwrite(str(given.look), look(photos, worst, both)[:, :, ::-1])


def look(photos: PhotoSet, chosen: np.ndarray, mappers: list[SaliencyMapper]) -> Image:
    """A picture of photos, each with the outline of its true mask (white) and of the masks before and after (red)."""
    tiles = []
    for index in chosen:
        photo, annotation = photos.image(int(index)), photos.annotation(int(index))
        assert annotation is not None
        assert annotation.mask is not None
        for binary in (mapper(photo).binary() for mapper in mappers):
            tile = photo.copy()
            for mask, colour in ((annotation.mask == 255, (255, 255, 255)), (binary, (255, 0, 0))):
                outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
                cv2.drawContours(tile, outlines, -1, colour, 2)
            tiles.append(cv2.resize(tile, (SIDE, SIDE)))
    rows = [np.hstack(tiles[at : at + 2 * ROW]) for at in range(0, len(tiles), 2 * ROW)]
    return np.asarray(np.vstack(rows), np.uint8)


if __name__ == "__main__":
    main()
