"""The demo: masks of real photos with the shipped mapping; then train, extract and evaluate on scenes; one page."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from casmap.data.free_photos import free_photos
from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.data.sources import HELD_OUT
from casmap.data.write import write_photos
from casmap.evaluation.evaluation_json import to_json
from casmap.evaluation.table import FORMULAS, WHOLE_PHOTO_F1, Evaluation, compare, table_rows
from casmap.inference.folder import extract
from casmap.inference.mapper import SaliencyMapper
from casmap.inference.views import VIEWS
from casmap.io.atomic import write_whole
from casmap.io.images import encode_png
from casmap.reporting import SILENT, Reporter
from casmap.tools.page import SHOWN, WITH_OVERLAY, Section, block, curve, side_by_side, write_page
from casmap.training.checkpoints import read_log
from casmap.training.loop import train_mapping
from casmap.training.recipes import QUICK, Recipe
from casmap.training.run import Run

PHOTOS, HELD_OUT_PHOTOS = 2000, 400


@dataclass(frozen=True)
class Demo:
    """The numbers of the demo, and the paths of its table, page and masks."""

    results: Evaluation
    table: Path
    page: Path
    maps: Path


def run_demo(*, out: Path, seed: int = 0, reporter: Reporter = SILENT) -> Demo:
    """Map free photos, then train CASM and Baseline on scenes, extract and evaluate; a second run resumes."""
    real = out / "maps" / "photos"
    reporter.heading("Real photos, with the shipped mapping")
    if not (real / "boxes.jsonl").exists():
        extract(free_photos(), out=real, views=VIEWS, reporter=reporter)
    reporter.message(f"{len(free_photos())} free photos: masks, boxes and views in {real}")
    recipe = QUICK.replace(seed=seed)
    photos = Scenes(photos=PHOTOS, seed=seed, size=recipe.size)
    held_out = Scenes(photos=HELD_OUT_PHOTOS, seed=seed + HELD_OUT, size=recipe.size)
    mappers = train_pair(photos, recipe, out=out, reporter=reporter)

    files = out / "scenes"
    if not (files / "boxes.csv").exists():  # written last
        shutil.rmtree(files, ignore_errors=True)
        write_photos(Scenes(photos=SHOWN, seed=seed + HELD_OUT, size=recipe.size), files, reporter=reporter)
    for name in map(str.lower, mappers):
        if not (out / "maps" / name / "boxes.jsonl").exists():
            mapping = out / name / "mapping.safetensors"
            extract(files / "photos", mapping=mapping, out=out / "maps" / name, views=VIEWS)

    results = compare(held_out, mappers, area=recipe.area, reporter=reporter)
    found = Demo(results, out / "table.json", out / "report.html", out / "maps")
    write_whole(found.table, to_json(results))
    write_demo_page(found.page, results, mappers, held_out, out, recipe.area or 0.0)
    return found


def train_pair(
    photos: PhotoSet, recipe: Recipe, *, out: Path, classifier: Path | None = None, reporter: Reporter = SILENT
) -> dict[str, SaliencyMapper]:
    """Train CASM (the recipe's thinning) and Baseline (thinning F) from one f(0), or resume an earlier run."""
    first = classifier or out / "casm" / "classifier.safetensors"
    mappers = {}
    for name, thinning, given in (("CASM", recipe.thinning, classifier), ("Baseline", "F", first)):
        run = Run(out / name.lower(), recipe.replace(thinning=thinning), resume=True, reporter=reporter)
        reporter.heading(f"{name}, thinning {thinning}")
        trained = train_mapping(photos, run, None if given is None else str(given))
        mappers[name] = SaliencyMapper.load(trained.mapping)
    return mappers


def write_demo_page(
    path: Path, results: Evaluation, mappers: dict[str, SaliencyMapper], photos: Scenes, out: Path, area: float
) -> None:
    """One page: Figure 2 of free photos, the table, Figure 2 of scenes, training curves; both figures as files."""
    rows = results.central_crop  # scenes are square: this is the whole scene, by the paper's protocol
    table = table_rows(rows)
    logs = {name: read_log(out / name.lower() / "log.csv") for name in mappers}
    keys = {"mean mask area": "area", "lambda_R": "lambda_r", "accuracy on masked images": "masked_accuracy"}
    found = {name: mapper([photos.image(i) for i in range(SHOWN)]) for name, mapper in mappers.items()}
    write_whole(out / "figure2.png", encode_png(side_by_side(list(found.values()), WITH_OVERLAY)))
    photographs = encode_png(block(SaliencyMapper.load()([*free_photos()]), WITH_OVERLAY, side=160))
    write_whole(out / "photographs.png", photographs)
    views = "original, overlay, masked-in, masked-out, inpainted"
    sections = [
        Section(
            "Photographs",
            "Free photos, each mapped in one forward pass by the shipped mapping, without a class.",
            images=[(views, photographs)],
        ),
        Section(
            "Scenes",
            f"{len(photos)} held-out scenes, {len(photos.classes)} classes, alpha = 1, 95 % intervals. At equal area: "
            f"one alpha for all photos, so that binary masks cover {area:.2f} of them on average. "
            f"{FORMULAS}. {WHOLE_PHOTO_F1}", ["", *(row.name for row in rows)], table,
        ),
        Section(
            "Maps",
            "Each creature carries three parts that identify its class: head, coat and tail; the coat is easiest to "
            "recognise. Parts that are still visible in the inpainted row were missed by the mapping.",
            images=[(f"{name}: {views}", encode_png(block(of, WITH_OVERLAY))) for name, of in found.items()],
        ),
        Section(
            "Training", "lambda_R, the weight of the mask's area, is adjusted until the masks have the requested area.",
            curves=[curve(title, key, logs) for title, key in keys.items()],
        ),
    ]  # fmt: skip
    lead = (
        "CASM and Baseline have the same architecture and start from the same classifier. Baseline's mapping is "
        "trained against that one classifier; CASM's against a classifier that keeps learning from the masked photos, "
        "and against its earlier states."
    )
    write_page(path, "casmap: all the evidence in a photo", lead, sections)
