"""Do a few corrected photos improve the others? IoU before and after, on photos without corrections.

python benchmarks/corrections.py MAPPING.safetensors PHOTOS MASKS
"""

import sys
from pathlib import Path
from tempfile import mkdtemp

import numpy as np

from casmap.data.photos import Subset
from casmap.data.sources import open_photos
from casmap.evaluation.numbers import paired_difference, points
from casmap.inference.mapper import SaliencyMapper
from casmap.io.memory import reuse_memory
from casmap.tools.correct import agreement, train_on_corrections

CORRECTED, OTHERS, SEED = 50, 200, 0


def main(mapping: str, data: str, masks: str) -> None:
    """Correct random photos with their true masks, and measure on others."""
    reuse_memory()
    photos = open_photos(data, masks=masks)
    order = np.random.default_rng(SEED).permutation(len(photos))
    few, others = (Subset(photos, np.sort(order[a:b])) for a, b in ((0, CORRECTED), (CORRECTED, CORRECTED + OTHERS)))
    trained = train_on_corrections(Path(mapping), few, out=Path(mkdtemp()) / "corrected")
    before, after = (agreement(SaliencyMapper.load(file), others).ious for file in (mapping, trained))
    print(
        f"IoU on {len(others)} others: {100 * before.mean():.1f} before, {100 * after.mean():.1f} after, "
        f"{points(paired_difference(after, before))}"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
