"""Around Algorithm 1: two networks, optimisers, schedules, logs, checkpoints, and the file at the end."""

import copy
import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet, Readable
from casmap.models.classifier import Classifier, place
from casmap.models.decoder import Mapping
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.training.algorithm import TrainingState, casm
from casmap.training.checkpoints import Checkpoints, Resumable
from casmap.training.distributed import ONE_PROCESS, Processes, batch_norms
from casmap.training.first_classifier import first_classifier
from casmap.training.lambda_r import AreaController, FixedLambdaR, paper_lambda_r
from casmap.training.recipes import Recipe
from casmap.training.run import Run
from casmap.training.samples import Samples, megabytes
from casmap.training.second_stage import CHECKPOINT as TAUGHT_CHECKPOINT
from casmap.training.second_stage import MASKS, train_second_stage
from casmap.training.thinning import find_thinning

SETTLE = 40  # batches over which batch-norm statistics and the mask's area are taken at the end
CHECKPOINT = "checkpoint"
TOLERANCE = 0.03  # between the masks' area and the one asked for
NOTHING, EVERYTHING = 0.02, 0.95  # mean areas beyond which masks say nothing about where objects are
Verdict = Literal["good", "doubtful", "failed"]


@dataclass(frozen=True)
class TrainingResult:
    """What a run ended with.

    verdict: "failed" where the masks mark (nearly) nothing or everything, a mean area below 0.02 or above 0.95;
    "doubtful" where the run gave any warning; else "good".
    """

    mapping: Path
    verdict: Verdict
    area: float  # mean mask area over training photos, with the weights of the file
    warnings: tuple[str, ...]
    origin: str  # of f(0)
    steps: int
    seconds: float  # 0: the run was finished before
    lambda_r: float
    accuracy: float  # of the classifier on clean training crops, over the last tenth of the steps
    masked_accuracy: float  # of f' on masked ones


def verdict_on(area: float, warnings: Iterable[str]) -> Verdict:
    """Whether a mapping can be used, by the rule of `TrainingResult`.

    >>> verdict_on(0.4, []), verdict_on(0.4, ["f(0) is weak."]), verdict_on(0.97, [])
    ('good', 'doubtful', 'failed')
    """
    if not NOTHING <= area <= EVERYTHING:  # not a number is no area
        return "failed"
    return "doubtful" if list(warnings) else "good"


def train_mapping(
    photos: PhotoSet, recipe: Recipe, run: Run, classifier: str | None = None, kind: type[Mapping] = Mapping
) -> TrainingResult:
    """Train a mapping on photos with class labels; the run's folder gets mapping, logs and checkpoints."""
    path = run.folder / "mapping.safetensors"
    began = time.monotonic()
    with run.begun(photos):
        done = run.resumed and path.exists()
        if done:
            run.say(f"This run is finished: {path}")
            training = load_mapping(path)[1]["training"]
        else:
            first, origin = first_classifier(photos, recipe, run, classifier)
            run.say(origin)
            casm_path = run.folder / "casm.safetensors" if recipe.second_stage_steps else path
            if run.resumed and casm_path.exists():
                training = load_mapping(casm_path)[1]["training"]
            else:
                training = algorithm1(photos, recipe, run, first, origin, casm_path, kind)
            if recipe.second_stage_steps and run.processes.first:  # minutes, after hours of Algorithm 1
                network, area = train_second_stage(load_mapping(casm_path)[0], photos, recipe, run)
                training |= {"area": area}
                save_mapping(path, network, {"size": recipe.size, "recipe": recipe.options(), "training": training})
            run.processes.wait()
        for name in (CHECKPOINT, TAUGHT_CHECKPOINT):
            Checkpoints(run.folder, name).remove()
        shutil.rmtree(run.folder / MASKS, ignore_errors=True)
    warn_of_skipped(photos, run)
    return TrainingResult(
        mapping=path, seconds=0.0 if done else time.monotonic() - began, warnings=tuple(run.warnings),
        verdict=verdict_on(training["area"], run.warnings), **training,
    )  # fmt: skip


def warn_of_skipped(photos: PhotoSet, run: Run) -> None:
    """Name the photos that could not be read, whichever process found them."""
    if isinstance(photos, Readable):
        own = json.dumps(list(photos.skipped.items())).encode()
        for rank in range(run.processes.ranks):
            photos.skipped |= dict(json.loads(run.processes.broadcast(own, rank)))
        if photos.skipped:
            run.warn(photos.skipped_summary())


def algorithm1(
    photos: PhotoSet, recipe: Recipe, run: Run, first: Classifier, origin: str, path: Path, kind: type[Mapping]
) -> dict[str, Any]:
    """Run Algorithm 1 from the last checkpoint to its end, and write its mapping; returns what is told of the run."""
    state = set_up(place(first, run.device), recipe, kind, run.processes)
    memory = megabytes(first, state.samples.thinning, recipe.sample_limit)
    run.say(f"Thinning {recipe.thinning}: the sample set takes at most {memory:.0f} MB beside the classifier.")
    batches = Batches(
        photos, recipe.algorithm_side, recipe.batch, first.mean, first.std, seed=recipe.seed, share=recipe.epoch_share,
        smallest_crop=recipe.smallest_crop, flip=recipe.flip, rank=run.processes.rank, ranks=run.processes.ranks,
    )  # fmt: skip
    steps = recipe.total_steps(len(photos))
    names = ("classifier", "mapping", "samples", "lambda_r", "classifier_optimizer", "mapping_optimizer")
    progress = Resumable(run, CHECKPOINT, "log", steps, **{name: getattr(state, name) for name in names})
    upcoming = batches.between(progress.start, steps, run.device)
    measured = casm(state, _scheduled(state, upcoming, recipe, run, progress.start, steps))
    measures = ({name: float(value) for name, value in vars(one).items()} for one in measured)
    label, note = f"Algorithm 1, thinning {recipe.thinning}", "area {area:.2f}, lambda_R {lambda_r:.3g}"
    rows = progress.follow(label, batches, measures, lambda row: note.format(**row))
    area = settle(state, batches, run.device)
    if recipe.area is not None and abs(area - recipe.area) > TOLERANCE:
        run.warn(
            f"Warning: the masks cover {area:.3f} of the photos, not {recipe.area}: more --steps or another "
            "--seed may bring them nearer."
        )
    encoder = state.mapping.encoder or state.classifier
    predicts = recipe.encoder != "separate"  # which was never trained to tell classes
    network = SaliencyNetwork(encoder, state.mapping.decoder, list(photos.classes), predicts)
    last = rows[-max(1, len(rows) // 10) :]
    accuracies = {name: sum(row[name] for row in last) / len(last) for name in ("accuracy", "masked_accuracy")}
    training = {"origin": origin, "steps": steps, "area": area, "lambda_r": state.lambda_r.value, **accuracies}
    save_mapping(path, network, {"size": recipe.algorithm_side, "recipe": recipe.options(), "training": training})
    Checkpoints(run.folder, CHECKPOINT).remove()
    return training


def set_up(
    first: Classifier, recipe: Recipe, kind: type[Mapping] = Mapping, processes: Processes = ONE_PROCESS
) -> TrainingState:
    """The state of Algorithm 1 at step 0, on the classifier's device."""
    device = next(first.parameters()).device
    first = processes.synchronised(first)
    thinning = find_thinning(recipe.thinning, recipe.period)
    torch.manual_seed(recipe.seed)
    encoder = None if recipe.encoder == "shared" else copy.deepcopy(first)
    mapping = kind(first.stage_channels, encoder, fixed=recipe.encoder == "first")
    mapping = processes.synchronised(place(mapping, device))
    for network in (first, mapping):
        processes.agree(network)
    samples = Samples(first, thinning, recipe.sample_limit, recipe.seed, processes)
    price = paper_lambda_r(recipe.score, recipe.thinning, first.classes) if recipe.lambda_r is None else recipe.lambda_r
    return TrainingState(
        classifier=first, mapping=mapping, samples=samples,
        lambda_r=FixedLambdaR(price) if recipe.area is None else AreaController(recipe.area, price),
        classifier_optimizer=torch.optim.SGD(
            first.parameters(), recipe.classifier_lr, recipe.momentum, weight_decay=recipe.classifier_decay,
        ) if thinning.keeps_last else None,
        mapping_optimizer=torch.optim.Adam(mapping.parameters(), recipe.mapping_lr, weight_decay=recipe.mapping_decay),
        score=recipe.score, loss=recipe.loss, masked_in=recipe.masked_in, clip=recipe.clip,
        freeze_batch_norm=recipe.freeze_batch_norm, reuse_masked=recipe.reuse_masked, processes=processes,
    )  # fmt: skip


def _scheduled(state: TrainingState, batches: Any, recipe: Recipe, run: Run, start: int, steps: int) -> Any:
    """Set seed and learning rates before each batch is used: both follow from the step alone."""
    for step, batch in enumerate(batches, start):
        run.seed(recipe.seed, step)
        drop = 0.1 ** int(step / steps / recipe.drop_every)
        rates = {state.classifier_optimizer: recipe.classifier_lr, state.mapping_optimizer: recipe.mapping_lr}
        for optimizer, rate in rates.items():
            for group in optimizer.param_groups if optimizer else ():
                group["lr"] = rate * drop
        yield batch


@torch.no_grad()
def settle(state: TrainingState, batches: Batches, device: torch.device) -> float:
    """Make the file's masks those of training: returns their mean area.

    In training the classifier's batch norms use each clean batch's own statistics, but the running ones mix clean and
    masked images. A mapping only ever sees clean images, so the statistics are taken anew over clean batches. An
    encoder of the mapping's own has never seen a masked image, and one that was not trained has nothing to mend.
    """
    f, m = state.classifier, state.mapping
    if m.encoder is None and state.classifier_optimizer is not None and not state.freeze_batch_norm:
        for norm in batch_norms(f):
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over all batches to come
        f.train()
        for images, _ in batches.between(0, SETTLE, device):
            f(images)
        state.processes.average_statistics(f)
    f.eval()
    m.eval()
    areas = [m(images, f.forward_stages(images)[1]).mean() for images, _ in batches.between(0, SETTLE, device)]
    return float(state.processes.mean(torch.stack(areas).mean()))
