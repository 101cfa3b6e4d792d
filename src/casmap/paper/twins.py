"""The paper's example: two halves, each sufficient; f(0) has learned to look at one of them only.

The halves show the same picture, the left creature with only its head and the right one with only its tail. f(0) is
trained on pictures whose right cue is drawn for a class at random, so it can use the left one only; the mappings are
trained on intact pictures. A mapping of that classifier alone has no reason to mark the right half; a
classifier-agnostic one has.
"""

import json
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.errors import UserError
from casmap.evaluation.evaluate import TOLERANCE
from casmap.evaluation.evidence import alpha_for_area
from casmap.evaluation.intervals import bootstrap_interval
from casmap.inference.components import binary_mask
from casmap.inference.mapper import SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.models.decoder import Mapping
from casmap.models.files import load_classifier
from casmap.models.network import SaliencyNetwork
from casmap.tools.page import Section, data_address, write_page
from casmap.tools.pair import train_pair
from casmap.tools.pictures import SHOWN, WITH_OVERLAY, block
from casmap.training.first_classifier import first_classifier
from casmap.training.recipes import QUICK
from casmap.training.run import Run

PHOTOS, HELD_OUT_PHOTOS = 2000, 500
AREA = 0.2  # both cues together cover about 0.07 of these pictures


def run_twins(out: Path, seed: int, console: Console) -> dict[str, object]:
    """Train f(0) on half-destroyed twins, the pair on intact ones; print how much of each half is covered."""
    recipe = QUICK.replace(seed=seed, area=AREA, flip=False)  # a mirrored picture would swap the halves
    intact = Scenes(photos=PHOTOS, seed=seed, size=recipe.size, variant="split-twins")
    destroyed = Scenes(photos=PHOTOS, seed=seed, size=recipe.size, variant="split-twins", destroyed="right")
    run = Run(out / "first", recipe, resume=True)
    with run.begun(destroyed):
        first_classifier(destroyed, recipe, run)
    mappers = train_pair(intact, out, recipe, console, classifier=out / "first" / "classifier.safetensors")
    mappers["untrained"] = untrained(out / "first" / "classifier.safetensors", recipe.size, seed)

    photos = Scenes(photos=HELD_OUT_PHOTOS, seed=seed + HELD_OUT, size=recipe.size, variant="split-twins")
    pictures = np.stack([photos.image(i) for i in range(len(photos))])
    result: dict[str, object] = {"seed": seed, "area": AREA}
    table = Table(title=f"split twins, seed {seed}: share of each half's evidence covered, binary area {AREA}")
    for column in (
        "",
        "left (f(0) uses it)",
        "right (f(0) cannot)",
        "binary area",
        "f accuracy, left hidden",
        "right hidden",
    ):
        table.add_column(column, justify="right" if column else "left")
    for name, mapper in mappers.items():
        numbers = measure(mapper, photos, pictures)
        result[name] = numbers
        table.add_row(
            name,
            *(
                "{:.1f} [{:.1f}, {:.1f}]".format(*(100 * x for x in numbers[key]))
                if len(numbers[key]) > 1
                else f"{numbers[key][0]:.3f}"
                for key in numbers
            ),
        )
    console.print(table)
    write_whole(out / "twins.json", json.dumps(result, indent=2) + "\n")
    shown = [
        (name, data_address(block(mapper([photos.image(i) for i in range(SHOWN)]), WITH_OVERLAY)))
        for name, mapper in mappers.items()
    ]
    write_page(out / "twins.html", "Twins", (__doc__ or "").strip(), [Section("Maps", pictures=shown)])
    console.print(f"\nAll numbers: {out / 'twins.json'}\nPictures:    {out / 'twins.html'}")
    return result


def measure(
    mapper: SaliencyMapper, photos: Scenes, pictures: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
) -> dict[str, list[float]]:
    """Coverage of the left and the right cue by binary masks of equal area, and what the classifier still sees."""
    outputs = [mapper.masks(pictures[at : at + 50]) for at in range(0, len(pictures), 50)]
    masks = np.concatenate([mask for mask, _ in outputs])
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
    accuracy = []
    for pictures_without in hidden:
        logits = np.concatenate([mapper.masks(pictures_without[at : at + 50])[1] for at in range(0, len(pictures), 50)])
        accuracy.append(float((logits.argmax(axis=1) == photos.labels).mean()))
    numbers = {
        side: [float(np.mean(values)), *bootstrap_interval(np.array(values))]
        for side, values in zip(("left", "right"), covered, strict=True)
    }
    return numbers | {
        "area": [float(binary.mean())],
        "accuracy without left": [accuracy[0]],
        "accuracy without right": [accuracy[1]],
    }


def untrained(classifier: Path, size: int, seed: int) -> SaliencyMapper:
    """A mapping with f(0)'s encoder and a decoder of random weights."""
    encoder, about = load_classifier(classifier)
    torch.manual_seed(seed)
    decoder = Mapping(encoder.stage_channels).decoder
    return SaliencyMapper(SaliencyNetwork(encoder, decoder, list(about["classes"]), predicts=True), size)
