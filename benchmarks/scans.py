"""Train on ultrasound scans with several seeds and measure the maps against the lesions that people drew.

    python benchmarks/scans.py DATA OUT [RUNS]

DATA holds train/ and dev/ with class folders, and dev_masks/ with masks of the lesions. RUNS, such as
casmap-0,baseline-0,casmap-1, are trained in OUT; the number is the seed. casmap is the recipe scans, which `casmap
train DATA/train` chooses by itself; baseline is the same with thinning F, from the same f(0). A finished run is not
repeated, and a stopped one is resumed. Without RUNS, the runs in OUT are measured.

Grad-CAM and CAM explain the same f(0) at the same size. Pointing game, coverage at equal area and average precision use
the map without a threshold. For mask IoU and area, maps that are not masks are cut so that each mask has the area of
casmap's mask of the same scan. Each number is the mean over seeds for each lesion, then over lesions, in percent, with
its 95 % interval over lesions; differences are paired, in points.
"""

import sys
from pathlib import Path

import cv2
import numpy as np
import torch

from casmap import SaliencyMapper, train
from casmap.baselines import find_baseline
from casmap.data.batches import normalised
from casmap.data.folders import PhotoFolder
from casmap.data.resizing import resize
from casmap.evaluation.control_masks import BLOB
from casmap.evaluation.insertion import most_salient_first, ranks
from casmap.evaluation.localization import mask_iou
from casmap.evaluation.numbers import mean_of, paired_difference, percent, points
from casmap.evaluation.pointing import coverage_at_equal_area, pointing_game
from casmap.evaluation.wsol_metrics import average_precision, pixel_histograms
from casmap.io.memory import reuse_memory
from casmap.models.files import load_classifier
from casmap.training.held_out import SUMMARY

MEASURES = ("pointing game", "coverage at equal area", "AUPRC", "mask IoU", "area on lesions", "area on normals")
OURS, BASELINE, CENTRE = "casmap", "Baseline (thinning F)", "centre"
FIRST = "classifier.safetensors"
METHODS = {"Grad-CAM": "grad-cam", "CAM": "cam"}
Maps = list[np.ndarray]


def train_run(data: Path, out: Path, name: str) -> None:
    """Train the run of this name, unless it is finished; Baseline needs casmap's run of the same seed."""
    kind, seed = name.split("-")
    options = {} if kind == "casmap" else {"thinning": "F", "classifier": out / f"casmap-{seed}" / FIRST}
    if not (out / name / SUMMARY).exists():
        resume = (out / name / "recipe.json").exists()
        done = train(
            data / "train", out=out / name, recipe="scans", seed=int(seed), threads=1, held_out=0.1, resume=resume,
            **options,
        )  # fmt: skip
        print(f"{name}: {done.verdict}, {done.seconds / 60:.1f} minutes. {done.origin}")
        print(*(f"  {reason}" for reason in done.reasons), sep="\n", flush=True)


def explained(photos: PhotoFolder, path: Path, size: int) -> tuple[dict[str, Maps], float]:
    """Grad-CAM and CAM of a classifier for the predicted and the true classes, and its accuracy."""
    classifier = load_classifier(path)[0].eval()
    found: dict[str, Maps] = {f"{name}, {of} class": [] for name in METHODS for of in ("predicted", "true")}
    correct = []
    for index in range(len(photos)):
        image = normalised(resize(photos.image(index), size, "squash")[None], classifier.mean, classifier.std)
        true = torch.from_numpy(photos.labels[[index]])
        with torch.no_grad():
            predicted = classifier(image).argmax(dim=1)
        correct.append(bool(predicted == true))
        for name, method in METHODS.items():
            for of, classes in (("predicted", predicted), ("true", true)):
                one = find_baseline(method).explain(classifier, image, classes)[0].detach().numpy()
                found[f"{name}, {of} class"].append(cv2.resize(one, photos.image(index).shape[1::-1]))
    return found, float(np.mean(correct))


def controls(photos: PhotoFolder, seed: int) -> dict[str, Maps]:
    """Maps that know nothing of the scan: high in the centre, and random blobs."""
    rng, found = np.random.default_rng(seed), {CENTRE: [], "random": []}
    for index in range(len(photos)):
        height, width = photos.image(index).shape[:2]
        rows, columns = (np.abs((np.arange(n) + 0.5) / n - 0.5) for n in (height, width))
        found[CENTRE].append(-np.maximum(rows[:, None], columns))
        found["random"].append(cv2.GaussianBlur(rng.standard_normal((height, width)), (0, 0), BLOB * height))
    return found


def highest(values: np.ndarray, count: int) -> np.ndarray:
    """Whether each pixel is one of the `count` highest, random ones of equal values: (H, W) -> (H, W)."""
    return ranks(most_salient_first(values)).reshape(values.shape) < count


def scores(maps: Maps, masks: Maps, truth: list[np.ndarray | None]) -> dict[str, np.ndarray]:
    """Each measure for each lesion, or each normal scan."""
    found: dict[str, list[float]] = {name: [] for name in MEASURES}
    for values, mask, lesion in zip(maps, masks, truth, strict=True):
        if lesion is None:
            found["area on normals"].append(mask.mean())
            continue
        region = lesion == 255
        measured = (
            pointing_game(values, region), coverage_at_equal_area(values, region),
            average_precision(pixel_histograms(values, lesion)), mask_iou(mask, lesion), mask.mean(),
        )  # fmt: skip
        for name, value in zip(MEASURES, measured, strict=False):
            found[name].append(value)
    return {name: np.array(values) for name, values in found.items()}


def measure(photos: PhotoFolder, out: Path, seed: int) -> dict[str, dict[str, np.ndarray]]:
    """The scores of all methods for one seed."""
    truth = [None if (of := photos.annotation(i)) is None or of.mask is None else of.mask for i in range(len(photos))]
    truth = [None if mask is None or not (mask == 255).any() else mask for mask in truth]
    images = [photos.image(index) for index in range(len(photos))]
    rows = {}
    mapping = SaliencyMapper.load(out / f"casmap-{seed}" / "mapping.safetensors")
    ours = [mapping(image) for image in images]
    rows[OURS] = scores([one.mask for one in ours], [one.binary() for one in ours], truth)
    if (path := out / f"baseline-{seed}" / "mapping.safetensors").exists():
        theirs = [SaliencyMapper.load(path)(image) for image in images]
        rows[BASELINE] = scores([one.mask for one in theirs], [one.binary() for one in theirs], truth)
    others, accuracy = explained(photos, out / f"casmap-{seed}" / FIRST, mapping.size)
    shipped = SaliencyMapper.load(threads=1)
    others |= controls(photos, seed) | {"shipped mapping": [shipped(image).mask for image in images]}
    for name, maps in others.items():
        masks = [highest(each, int(one.binary().sum())) for each, one in zip(maps, ours, strict=True)]
        rows[name] = scores(maps, masks, truth)
    print(f"seed {seed}: accuracy of f(0) on dev {accuracy:.1%}", flush=True)
    return rows


def main() -> None:
    """Train the runs given; without runs, print a table and the paired differences."""
    reuse_memory()
    torch.set_num_threads(1)
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    if len(sys.argv) > 3:
        for name in sys.argv[3].split(","):
            train_run(data, out, name)
        return
    photos = PhotoFolder(data / "dev", masks=data / "dev_masks")
    seeds = [seed for seed in range(100) if (out / f"casmap-{seed}" / SUMMARY).exists()]
    by_seed = [measure(photos, out, seed) for seed in seeds]
    names = list(by_seed[0])
    mean = {
        name: {of: np.mean([rows[name][of] for rows in by_seed if name in rows], axis=0) for of in MEASURES}
        for name in names
    }
    counts = {name: sum(name in rows for rows in by_seed) for name in names}
    print("\n| | seeds | " + " | ".join(MEASURES) + " |\n|" + "---|" * (len(MEASURES) + 2))
    for name in names:
        print(f"| {name} | {counts[name]} | " + " | ".join(percent(mean_of(mean[name][of])) for of in MEASURES) + " |")
    print("\n| casmap less | " + " | ".join(MEASURES[:4]) + " |\n|" + "---|" * 5)
    for name in names[1:]:
        shown = (points(paired_difference(mean[OURS][of], mean[name][of])) for of in MEASURES[:4])
        print(f"| {name} | " + " | ".join(shown) + " |")
    print("\nSpread over seeds (standard deviation, points): ", end="")
    print(", ".join(f"{of} {100 * np.std([rows[OURS][of].mean() for rows in by_seed]):.1f}" for of in MEASURES))


if __name__ == "__main__":
    main()
