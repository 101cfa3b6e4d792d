"""The paper's example: two halves, each sufficient for the class; f(0) has learned to use one of them only.

The halves show the same scene, the left creature with only its head and the right one with only its tail. f(0) is
trained on scenes whose right cue belongs to a random class, so it can use the left cue only; the mappings are trained
on intact scenes. A mapping of that classifier alone has no reason to mark the right half; a classifier-agnostic one
does.
"""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.errors import UserError
from casmap.evaluation.evaluate import TOLERANCE, Floats
from casmap.evaluation.evidence import alpha_for_area
from casmap.evaluation.numbers import columns, mean_of, negated, paired_difference, percent, points
from casmap.inference.components import binary_mask
from casmap.inference.mapper import SaliencyMapper
from casmap.io.images import encode_png
from casmap.models.decoder import Mapping
from casmap.models.files import load_classifier
from casmap.models.network import SaliencyNetwork
from casmap.paper.figure2 import ALPHA, decoded
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.study import Study
from casmap.reporting import SILENT, Reporter
from casmap.tools.demo import train_pair
from casmap.tools.page import SHOWN, WITH_OVERLAY, block
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

PHOTOS, HELD_OUT_PHOTOS = 2000, 500
AREA = 0.2  # both cues together cover about 0.07 of these scenes
BATCH = 50
SIDES = ("left", "right")
SHARES = ("binary area", "accuracy without left", "accuracy without right")


def run_twins(*, out: Path, seed: int = 1, reporter: Reporter = SILENT) -> Outcome:
    """Train f(0) on half-destroyed twins and both mappings on intact ones; measure how much of each half they cover."""
    recipe = QUICK.replace(seed=seed, area=AREA, flip=False)  # a flip would swap the halves
    options = {"seed": seed, "area": AREA, "size": recipe.size, "steps": recipe.steps, "photos": PHOTOS}
    study = Study(out, options | {"photos to measure on": HELD_OUT_PHOTOS})
    intact = Scenes(photos=PHOTOS, seed=seed, size=recipe.size, variant="split-twins")
    destroyed = Scenes(photos=PHOTOS, seed=seed, size=recipe.size, variant="split-twins", destroyed="right")
    run = Run(out / "first", recipe, resume=True, reporter=reporter)
    with run.started(destroyed):
        first_classifier(destroyed, run)
    first = out / "first" / "classifier.safetensors"
    mappers = train_pair(intact, recipe, out=out, classifier=first, reporter=reporter)
    mappers["untrained"] = untrained(first, recipe.size, seed)
    photos = Scenes(photos=HELD_OUT_PHOTOS, seed=seed + HELD_OUT, size=recipe.size, variant="split-twins")
    found = {name: study.part(name, partial(measure, mapper, photos)) for name, mapper in mappers.items()}
    shown = [photos.image(index) for index in range(SHOWN)]
    figures = {
        f"-{name}": encode_png(block(decoded(mapper, shown), WITH_OVERLAY, alpha=ALPHA))
        for name, mapper in mappers.items()
    }
    return twins(found, seed, figures)


def measure(mapper: SaliencyMapper, photos: Scenes) -> dict[str, Any]:
    """Coverage of the left and the right cue by binary masks of equal area; the classifier's accuracy without each."""
    images = np.stack([photos.image(index) for index in range(len(photos))])
    masks, _ = _run(mapper, images)
    binary = binary_mask(masks, alpha_for_area(masks, AREA))
    if abs(float(binary.mean()) - AREA) > TOLERANCE:
        raise UserError(f"A mapping's masks cannot reach the area {AREA}, so they cannot be compared at equal area.")
    covered: list[list[float]] = [[], []]
    hidden = [images.copy(), images.copy()]
    grey = np.round(np.array(mapper.network.mean) * 255).astype(np.uint8)
    for index in range(len(photos)):
        parts = photos.annotation(index).parts
        assert parts is not None
        for half, part in enumerate(parts):
            covered[half].append(float((binary[index] & part).sum() / max(1, part.sum())))
            hidden[half][index][part] = grey
    correct = [_run(mapper, without)[1].argmax(axis=1) == photos.labels for without in hidden]
    shares = [float(binary.mean()), *(float(one.mean()) for one in correct)]
    return dict(zip(SIDES, covered, strict=True)) | dict(zip(SHARES, shares, strict=True))


def _run(mapper: SaliencyMapper, images: npt.NDArray[np.uint8]) -> tuple[Floats, Floats]:
    outputs = [mapper.masks(images[at : at + BATCH]) for at in range(0, len(images), BATCH)]
    return np.concatenate([masks for masks, _ in outputs]), np.concatenate([logits for _, logits in outputs])


def untrained(classifier: Path, size: int, seed: int) -> SaliencyMapper:
    """A mapping with f(0)'s encoder and a decoder of random weights."""
    encoder, about = load_classifier(classifier)
    torch.manual_seed(seed)
    decoder = Mapping(encoder.stage_channels).decoder
    return SaliencyMapper(SaliencyNetwork(encoder, decoder, list(about["classes"]), predicts=True), size)


def twins(found: dict[str, dict[str, Any]], seed: int, figures: dict[str, bytes]) -> Outcome:
    """One row for each mapping, and whether CASM covers more of the half that f(0) cannot use."""
    rows, records = [], []
    for name, of in found.items():
        left, right = (mean_of(of[side]) for side in SIDES)
        shares = {key: of[key] for key in SHARES}
        rows.append([*map(Cell, (name, percent(left), percent(right), *(f"{share:.3f}" for share in shares.values())))])
        about = {"mapping": name, "seed": seed, "area": AREA}
        records.append(about | columns("left", left) | columns("right", right) | shares)
    more = paired_difference(found["CASM"]["right"], found["Baseline"]["right"])
    claim = Claim(
        "CASM covers more of the half that f(0) cannot use than Baseline", "an example in words",
        f"share of the right half's evidence, CASM - Baseline: {points(more)}", verdict_below([negated(more)]),
    )  # fmt: skip
    return Outcome(
        "twins", f"Split twins, seed {seed}: share of each half's evidence covered, binary area {AREA}",
        (__doc__ or "").strip(),
        ["", "left (f(0) uses it)", "right (f(0) cannot)", "binary area", "f accuracy, left hidden", "right hidden"],
        rows, records, figures, [claim],
    )  # fmt: skip
