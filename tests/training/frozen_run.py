"""A run whose batch norms are all frozen, the decoder's too: python frozen_run.py CLASSIFIER OUT, or under torchrun.

With the third argument "free" they are not frozen; with "features" they are, and features are erased. At the end each
process writes its weights beside OUT: the lines of two processes would be mixed in one pipe.
"""

import shutil
import sys
from pathlib import Path

from casmap.data.scenes import Scenes
from casmap.models.decoder import Mapping
from casmap.training.distributed import batch_norms, join_processes
from casmap.training.loop import train_mapping
from casmap.training.recipes import QUICK
from casmap.training.run import Run


class Frozen(Mapping):
    """A mapping whose batch norms keep their initial statistics, like those of f with freeze_batch_norm."""

    def train(self, mode: bool = True) -> "Frozen":
        super().train(mode)
        for norm in batch_norms(self):
            norm.eval()
        return self


if __name__ == "__main__":
    classifier, out, *kind = sys.argv[1:]
    free = kind == ["free"]
    recipe = QUICK.replace(
        size=32, batch=8, steps=20, period=3, sample_limit=4, threads=1, freeze_batch_norm=not free, checkpoint_every=6
    )  # fmt: skip
    if kind == ["features"]:
        recipe = recipe.replace(erase="features", score="activation", masked_in=0.5, sharpness=0.3)
    with join_processes() as processes, processes.mirrored(Path(out)) as folder:
        run = Run(folder, recipe, processes=processes)
        train_mapping(Scenes(classes=4, photos=32, size=32), run, classifier, Mapping if free else Frozen)
        shutil.copy(folder / "mapping.safetensors", Path(out).with_name(f"weights-{processes.rank}.safetensors"))
