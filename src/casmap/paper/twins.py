"""The paper's example: two halves, each sufficient; f(0) has learned to look at one of them only.

The halves show the same picture, the left creature with only its head and the right one with only its tail. f(0) is
trained on pictures whose right cue is drawn for a class at random, so it can use the left one only; the mappings are
trained on intact pictures. A mapping of that classifier alone has no reason to mark the right half; a
classifier-agnostic one has.
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
from casmap.evaluation.numbers import apart, columns, mean_of, percent, points, turned
from casmap.inference.components import binary_mask
from casmap.inference.mapper import SaliencyMapper
from casmap.io.images import encode_png
from casmap.models.decoder import Mapping
from casmap.models.files import load_classifier
from casmap.models.network import SaliencyNetwork
from casmap.paper.outcome import Cell, Claim, Outcome, verdict_below
from casmap.paper.study import Study
from casmap.reporting import SILENT, Reporter
from casmap.tools.demo import train_pair
from casmap.tools.page import SHOWN, WITH_OVERLAY, block
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

PHOTOS, HELD_OUT_PHOTOS = 2000, 500
AREA = 0.2  # both cues together cover about 0.07 of these pictures
BATCH = 50
SIDES = ("left", "right")
SHARES = ("binary area", "accuracy without left", "accuracy without right")


def run_twins(*, out: Path, seed: int = 1, reporter: Reporter = SILENT) -> Outcome:
    """Train f(0) on half-destroyed twins and the pair on intact ones, and measure how much of each half they cover."""
    recipe = QUICK.replace(seed=seed, area=AREA, flip=False)  # a mirrored picture would swap the halves
    options = {"seed": seed, "area": AREA, "size": recipe.size, "steps": recipe.steps, "photos": PHOTOS}
    study = Study(out, options | {"photos to measure on": HELD_OUT_PHOTOS})
    intact = Scenes(photos=PHOTOS, seed=seed, size=recipe.size, variant="split-twins")
    destroyed = Scenes(photos=PHOTOS, seed=seed, size=recipe.size, variant="split-twins", destroyed="right")
    run = Run(out / "first", recipe, resume=True, reporter=reporter)
    with run.started(destroyed):
        first_classifier(destroyed, recipe, run)
    first = out / "first" / "classifier.safetensors"
    mappers = train_pair(intact, recipe, out=out, classifier=first, reporter=reporter)
    mappers["untrained"] = untrained(first, recipe.size, seed)
    photos = Scenes(photos=HELD_OUT_PHOTOS, seed=seed + HELD_OUT, size=recipe.size, variant="split-twins")
    found = {name: study.part(name, partial(measure, mapper, photos)) for name, mapper in mappers.items()}
    shown = [photos.image(index) for index in range(SHOWN)]
    figures = {f"-{name}": encode_png(block(mapper([*shown]), WITH_OVERLAY)) for name, mapper in mappers.items()}
    return twins(found, seed, figures)


def measure(mapper: SaliencyMapper, photos: Scenes) -> dict[str, Any]:
    """Coverage of the left and the right cue by binary masks of equal area, and what the classifier still sees."""
    pictures = np.stack([photos.image(index) for index in range(len(photos))])
    masks, _ = _looked_at(mapper, pictures)
    binary = binary_mask(masks, alpha_for_area(masks, AREA))
    if abs(float(binary.mean()) - AREA) > TOLERANCE:
        raise UserError(f"A mapping's masks cannot be brought to the area {AREA}, so there is nothing to compare.")
    covered: list[list[float]] = [[], []]
    hidden = [pictures.copy(), pictures.copy()]
    grey = np.round(np.array(mapper.network.mean) * 255).astype(np.uint8)
    for index in range(len(photos)):
        parts = photos.annotation(index).parts
        assert parts is not None
        for half, part in enumerate(parts):
            covered[half].append(float((binary[index] & part).sum() / max(1, part.sum())))
            hidden[half][index][part] = grey
    right = [_looked_at(mapper, without)[1].argmax(axis=1) == photos.labels for without in hidden]
    shares = [float(binary.mean()), *(float(told.mean()) for told in right)]
    return dict(zip(SIDES, covered, strict=True)) | dict(zip(SHARES, shares, strict=True))


def _looked_at(mapper: SaliencyMapper, pictures: npt.NDArray[np.uint8]) -> tuple[Floats, Floats]:
    outputs = [mapper.masks(pictures[at : at + BATCH]) for at in range(0, len(pictures), BATCH)]
    return np.concatenate([masks for masks, _ in outputs]), np.concatenate([logits for _, logits in outputs])


def untrained(classifier: Path, size: int, seed: int) -> SaliencyMapper:
    """A mapping with f(0)'s encoder and a decoder of random weights."""
    encoder, about = load_classifier(classifier)
    torch.manual_seed(seed)
    decoder = Mapping(encoder.stage_channels).decoder
    return SaliencyMapper(SaliencyNetwork(encoder, decoder, list(about["classes"]), predicts=True), size)


def twins(found: dict[str, dict[str, Any]], seed: int, figures: dict[str, bytes]) -> Outcome:
    """A row for each mapping, and whether CASM covers more of the half that f(0) cannot use."""
    rows, records = [], []
    for name, of in found.items():
        left, right = (mean_of(of[side]) for side in SIDES)
        shares = {key: of[key] for key in SHARES}
        rows.append([*map(Cell, (name, percent(left), percent(right), *(f"{share:.3f}" for share in shares.values())))])
        about = {"mapping": name, "seed": seed, "area": AREA}
        records.append(about | columns("left", left) | columns("right", right) | shares)
    more = apart(found["CASM"]["right"], found["Baseline"]["right"])
    claim = Claim(
        "CASM covers more of the half that f(0) cannot use than Baseline", "its example, in words",
        f"share of the right half's evidence, CASM - Baseline: {points(more)}", verdict_below([turned(more)]),
    )  # fmt: skip
    return Outcome(
        "twins", f"Split twins, seed {seed}: share of each half's evidence covered, binary area {AREA}",
        (__doc__ or "").strip(),
        ["", "left (f(0) uses it)", "right (f(0) cannot)", "binary area", "f accuracy, left hidden", "right hidden"],
        rows, records, figures, [claim],
    )  # fmt: skip
