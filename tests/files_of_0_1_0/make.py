"""How the files beside this one were made: one training by casmap 0.1.0, undisturbed and killed twice on its way.

They are kept as they are: what 0.1.0 wrote, every later version reads. Only 0.1.0 can make them again:

    git worktree add ../before 0b880db  # the last commit of 0.1.0
    PYTHONPATH=../before/src python tests/files_of_0_1_0/make.py

whole/                      the folder of a run that nobody disturbed: classifier, Algorithm 1's mapping, taught mapping
stopped_in_algorithm_1/     the same run, killed after its first checkpoint
stopped_in_second_stage/    the same run, killed after the second stage's first checkpoint
mapping.onnx                casmap export whole/mapping.safetensors
answers.npz                 photos, the masks that 0.1.0 gave for them, and what its classifier said
recipe.toml                 every option that a recipe of 0.1.0 had
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

HERE = Path(__file__).parent
TRAIN = [
    "train", "scenes:classes=4,photos=32,size=48", "--recipe", "quick", "--backbone", "test_efficientnet",
    "--size", "64", "--casm-size", "48", "--teacher-size", "64", "--batch", "8", "--first-steps", "30", "--steps", "24",
    "--period", "8", "--sample-limit", "2", "--area", "0.4", "--mapping-lr", "0.001", "--taught-steps", "24",
    "--taught-lr", "0.01", "--checkpoint-every", "12", "--threads", "1",
]  # fmt: skip
STOPS = {
    "stopped_in_algorithm_1": "checkpoint.safetensors",
    "stopped_in_second_stage": "taught-checkpoint.safetensors",
}
MAPPINGS = {"algorithm_1": "whole/casm.safetensors", "taught": "whole/mapping.safetensors", "onnx": "mapping.onnx"}
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1"}


def casmap(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "casmap", *arguments], env=ENVIRONMENT)


def train(out: Path, until: str | None = None) -> None:
    """Run to the end, or until a file appears."""
    process = casmap(*TRAIN, "--out", str(out))
    while until and process.poll() is None and not (out / until).exists():
        time.sleep(0.002)
    if until:
        process.kill()
    assert process.wait() == (-9 if until else 0)
    for path in out.rglob("events.out.tfevents.*"):  # for TensorBoard; named after the machine
        path.unlink()
    shutil.rmtree(out / "tensorboard", ignore_errors=True)


def kept_options() -> str:
    """A recipe file with all options that have a value."""
    from dataclasses import asdict

    from casmap.training.recipes import QUICK

    values = {name: value for name, value in asdict(QUICK).items() if value is not None}
    told = {name: str(value).lower() if isinstance(value, bool) else repr(value) for name, value in values.items()}
    return 'recipe = "quick"\n' + "".join(f"{name} = {value}\n" for name, value in told.items()).replace("'", '"')


def main() -> None:
    from casmap import SaliencyMapper, __version__  # noqa: I001 (casmap.model was a room of 0.1.0)
    from casmap.data.sources import open_photos
    from casmap.model.files import load_classifier

    assert __version__ == "0.1.0", f"This is {__version__}."
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("whole", *STOPS):
            train(Path(scratch) / name, STOPS.get(name))
            shutil.rmtree(HERE / name, ignore_errors=True)
            shutil.copytree(Path(scratch) / name, HERE / name)
    exported = casmap("export", str(HERE / MAPPINGS["taught"]), "--out", str(HERE / MAPPINGS["onnx"]))
    assert exported.wait() == 0
    scenes = open_photos("scenes:classes=4,photos=3,size=48,seed=7")
    photos = np.stack([scenes.image(index)[:36] for index in range(len(scenes))])
    masks = {
        name: np.stack([SaliencyMapper.load(HERE / path)(photo).mask for photo in photos])
        for name, path in MAPPINGS.items()
    }
    classifier, _ = load_classifier(HERE / "whole" / "classifier.safetensors")
    with torch.no_grad():
        logits = classifier(torch.from_numpy(photos).permute(0, 3, 1, 2) / 255).numpy()
    np.savez_compressed(HERE / "answers.npz", photos=photos, logits=logits, **masks)
    (HERE / "recipe.toml").write_text(kept_options())


if __name__ == "__main__":
    main()
