"""The training loop around Algorithm 1: set-up, learning rates, logs, checkpoints, and the mapping file at the end."""

import copy
import json
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet, Readable
from casmap.errors import UnsupportedBackbone, UserError, option
from casmap.evaluation.verdict import Verdict, with_warnings
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier, to_device
from casmap.models.decoder import Mapping
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.models.split import Learner, Tail, split
from casmap.training.algorithm import TrainingState, casm
from casmap.training.checkpoints import Checkpoints, Resumable, left_if_stopped
from casmap.training.distributed import ONE_PROCESS, Processes, batch_norms
from casmap.training.first_classifier import first_classifier
from casmap.training.held_out import SO_FAR, SUMMARY, judge_run, plain, so_far_if_stopped, write_summary
from casmap.training.lambda_r import LambdaR, paper_lambda_r
from casmap.training.recipes import Recipe
from casmap.training.run import Run
from casmap.training.samples import Samples, megabytes
from casmap.training.scores import SCORES
from casmap.training.second_stage import CHECKPOINT as SECOND_STAGE_CHECKPOINT
from casmap.training.second_stage import MASKS, starting_network, suffix_of, train_second_stage
from casmap.training.thinning import find_thinning

FINAL_BATCHES = 40  # batches for the final batch-norm statistics and the mean mask area
CHECKPOINT = "checkpoint"
TOLERANCE = 0.03  # difference between the masks' area and the requested area above which a warning is given


@dataclass(frozen=True)
class TrainingResult:
    """The result of a run.

    verdict: measured on held-out photos (`casmap.evaluation.verdict.judge`), and at best "doubtful" if the run gave any
    warning. If nothing was measured: "failed" if the masks mark nearly nothing or everything (a mean area below 0.02 or
    above 0.95). reasons: one sentence for each reason against the mapping. measured: the numbers of the verdict.
    """

    mapping: Path
    verdict: Verdict
    area: float  # mean mask area over training photos, with the saved weights
    warnings: tuple[str, ...]
    origin: str  # of f(0)
    steps: int
    seconds: float  # 0 if the run was already finished
    lambda_r: float
    accuracy: float  # of the classifier on clean training crops, over the last tenth of the steps
    masked_accuracy: float  # of f' on masked training crops, over the last tenth of the steps
    reasons: tuple[str, ...] = ()
    measured: dict[str, Any] = field(default_factory=dict)


def train_mapping(
    photos: PhotoSet, run: Run, classifier: str | None = None, kind: type[Mapping] = Mapping,
    held_out: PhotoSet | None = None,
) -> TrainingResult:  # fmt: skip
    """Train a mapping on photos with class labels; writes the mapping, logs and checkpoints to the run's folder.

    held_out: photos for the verdict. It is measured only if the recipe holds photos out; without them, on `photos`.
    """
    recipe, path = run.recipe, run.folder / "mapping.safetensors"
    start = time.monotonic()
    with run.started(photos), so_far_if_stopped(run, photos, held_out):
        finished = run.resumed and path.exists()
        if finished:
            run.message(f"This run is finished: {path}")
            training = read_training(path)
        else:
            if recipe.masks_from is not None and run.processes.ranks > 1:
                raise UserError(f"{option('masks_from')} needs one process: there is no Algorithm 1 to share.")
            first, origin = first_classifier(photos, run, classifier)
            run.message(f"Initial classifier: {origin}")
            casm_path = run.folder / "casm.safetensors" if recipe.second_stage_steps else path
            if recipe.masks_from is not None:
                training = {"origin": origin, "steps": 0, "lambda_r": 0.0}
            elif run.resumed and casm_path.exists():
                training = read_training(casm_path)
            else:
                training = run_algorithm1(photos, run, first, origin, casm_path, kind)
            if recipe.second_stage_steps and run.processes.first:  # takes minutes: one process is enough
                training = run_second_stage(photos, run, training, first, casm_path)
            run.processes.wait()
        warn_of_skipped(photos, run)
        judgement = judge_run(path, run, photos, held_out, training)
        (run.folder / SO_FAR).unlink(missing_ok=True)
        Checkpoints(run.folder, CHECKPOINT).remove()
        for number in range(1, recipe.second_stage_rounds + 1):
            Checkpoints(run.folder, SECOND_STAGE_CHECKPOINT + suffix_of(number)).remove()
            shutil.rmtree(run.folder / (MASKS + suffix_of(number)), ignore_errors=True)
        judgement = with_warnings(judgement, plain(run.warnings))
        seconds = 0.0 if finished else time.monotonic() - start
        if run.processes.first and not (finished and (run.folder / SUMMARY).exists()):
            write_summary(run, judgement, training, seconds)
    return TrainingResult(
        mapping=path, seconds=seconds, warnings=tuple(run.warnings), verdict=judgement.verdict,
        reasons=judgement.reasons, measured=judgement.numbers, **training,
    )  # fmt: skip


def run_second_stage(
    photos: PhotoSet, run: Run, training: dict[str, Any], first: Classifier, casm_path: Path
) -> dict[str, Any]:
    """Run the rounds of the second stage that are not finished, and save the mapping of each; returns the summary."""
    recipe = run.recipe
    if recipe.masks_from is None:
        network, about = load_mapping(casm_path)
        teacher = SaliencyMapper(to_device(network, run.device), about["size"])
        first = network.encoder
    else:
        given = SaliencyMapper.load(None if recipe.masks_from == "shipped" else recipe.masks_from)
        teacher = SaliencyMapper(given.network, recipe.size)  # run at the new mapping's size
    network = starting_network(first, list(photos.classes), recipe)
    for number in range(1, recipe.second_stage_rounds + 1):
        is_last = number == recipe.second_stage_rounds
        path = run.folder / ("mapping.safetensors" if is_last else f"round-{number}.safetensors")
        if not (run.resumed and path.exists()):
            trained, measured = train_second_stage(network, teacher, photos, run, number)
            training = measured | training | {"area": measured["area"]}
            save_mapping(path, trained, {"size": recipe.size, "recipe": recipe.published(), "training": training})
        teacher = SaliencyMapper.load(path, str(run.device))
    return training


def read_training(path: Path) -> dict[str, Any]:
    """The summary of the run that is saved with its mapping."""
    training: Any = load_mapping(path)[1].get("training")
    numbers = ("area", "steps", "lambda_r", "accuracy", "masked_accuracy")
    known = isinstance(training, dict) and training.keys() == {*numbers, "origin"}
    if not known or not all(type(training[key]) in (int, float) for key in numbers):
        raise UserError(f"The mapping {path} is damaged: it lacks the summary of its run.")
    return dict(training)


def warn_of_skipped(photos: PhotoSet, run: Run) -> None:
    """Warn of photos that any process could not read."""
    if isinstance(photos, Readable):
        own = json.dumps(list(photos.skipped.items())).encode()
        for rank in range(run.processes.ranks):
            photos.skipped |= dict(json.loads(run.processes.broadcast(own, rank)))
        if photos.skipped:
            run.warning(photos.skipped_summary())


def run_algorithm1(
    photos: PhotoSet, run: Run, first: Classifier, origin: str, path: Path, kind: type[Mapping] = Mapping,
    until: int | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Run Algorithm 1 from its last checkpoint to its end and save its mapping; returns the summary of the run.

    until: pause after this step instead, and keep a checkpoint from which the run can continue.
    """
    recipe = run.recipe
    state = set_up(to_device(first, run.device), recipe, kind, run.processes)
    memory = megabytes(state.classifier, state.samples.thinning, recipe.sample_limit)
    run.message(f"Earlier classifiers kept in memory (thinning {recipe.thinning}): up to {memory:.0f} MB.")
    batches = Batches(
        photos, recipe.algorithm_side, recipe.batch, first.mean, first.std, seed=recipe.seed, share=recipe.epoch_share,
        smallest_crop=recipe.smallest_crop, flip=recipe.flip, rank=run.processes.rank, ranks=run.processes.ranks,
    )  # fmt: skip
    steps = recipe.total_steps(len(photos))
    names = ("classifier", "mapping", "samples", "lambda_r", "classifier_optimizer", "mapping_optimizer")
    rates = f"{option('classifier_lr')} and {option('mapping_lr')}"
    stage = Resumable(run, CHECKPOINT, "log", until or steps, rates, **{name: getattr(state, name) for name in names})
    upcoming = batches.between(stage.start, stage.steps, run.device)
    measured = casm(state, _scheduled(state, upcoming, run, stage.start, steps))
    rows = ({name: float(value) for name, value in vars(measures).items()} for measures in measured)
    label = f"Algorithm 1, thinning {recipe.thinning}"
    note = "loss {loss:.3f}, area {area:.2f}, lambda_R {lambda_r:.3g}"
    predicts = recipe.encoder != "separate"  # a separate encoder is not trained to classify

    def network() -> SaliencyNetwork:
        return SaliencyNetwork(state.encoder, state.mapping.decoder, list(photos.classes), predicts)

    with left_if_stopped(stage, network, recipe.algorithm_side):
        logged = stage.run_steps(label, batches, rows, lambda row: note.format(**row), pause=until is not None)
    area = recompute_statistics(state, batches, run.device)
    if recipe.area is not None and abs(area - recipe.area) > TOLERANCE:
        run.warning(
            f"The masks cover {area:.1%} of a photo on average; the target is {recipe.area:.0%} "
            f"({option('area')}). Train for more steps ({option('steps')})."
        )
    last = logged[-max(1, len(logged) // 10) :]
    accuracies = {name: sum(row[name] for row in last) / len(last) for name in ("accuracy", "masked_accuracy")}
    training = {"origin": origin, "steps": stage.steps, "area": area, "lambda_r": state.lambda_r.value, **accuracies}
    save_mapping(path, network(), {"size": recipe.algorithm_side, "recipe": recipe.published(), "training": training})
    if until is None:
        stage.checkpoints.remove()
    return training


def set_up(
    first: Classifier, recipe: Recipe, kind: type[Mapping] = Mapping, processes: Processes = ONE_PROCESS
) -> TrainingState:
    """The state of Algorithm 1 at step 0, on the classifier's device.

    If features are erased, f is the tail of `first`, and the decoder reads the stages of `first` itself, which stays
    f(0): in memory once, and not in checkpoints.
    """
    device = next(first.parameters()).device
    first = processes.with_sync_batch_norms(first)
    thinning = find_thinning(recipe.thinning, recipe.period)
    torch.manual_seed(recipe.seed)
    erases_pixels = recipe.erase == "pixels"
    encoder = copy.deepcopy(first) if recipe.encoder != "shared" and erases_pixels else None
    mapping = kind(first.stage_channels, encoder, fixed=recipe.encoder == "first")
    mapping = processes.with_sync_batch_norms(to_device(mapping, device))
    for network in (first, mapping):
        processes.broadcast_weights(network)
    trunk, f = (None, first) if erases_pixels else split(first)
    if SCORES[recipe.score].takes == "activation":
        _check_activation(f, recipe)
    samples = Samples(f, thinning, recipe.sample_limit, recipe.seed, processes)
    start = paper_lambda_r(recipe.score, recipe.thinning, first.classes) if recipe.lambda_r is None else recipe.lambda_r
    return TrainingState(
        classifier=f, mapping=mapping, samples=samples,
        lambda_r=LambdaR(start, recipe.area),
        classifier_optimizer=torch.optim.SGD(
            f.parameters(), recipe.classifier_lr, recipe.momentum, weight_decay=recipe.classifier_decay,
        ) if thinning.keeps_last else None,
        mapping_optimizer=torch.optim.Adam(mapping.parameters(), recipe.mapping_lr, weight_decay=recipe.mapping_decay),
        recipe=recipe, processes=processes, trunk=trunk,
    )  # fmt: skip


def _check_activation(f: Learner, recipe: Recipe) -> None:
    """Raise UserError if f has no activation of a label, which the recipe's score takes."""
    if not isinstance(f, Tail):
        raise UserError(f"The score {recipe.score} needs {option('erase', 'features')}, not {recipe.erase}.")
    if f.head is None:
        raise UnsupportedBackbone(
            f"The score {recipe.score} needs a head of average pooling and a linear layer, unlike {recipe.backbone}: "
            f"choose another score, such as {option('score', 'doubt')}."
        )


def _scheduled(state: TrainingState, batches: Any, run: Run, start: int, steps: int) -> Any:
    """Set the seed and the learning rates before each batch is used; both depend only on the step."""
    recipe = run.recipe
    for step, batch in enumerate(batches, start):
        run.seed(step)
        drop = 0.1 ** int(step / steps / recipe.drop_every)
        rates = {state.classifier_optimizer: recipe.classifier_lr, state.mapping_optimizer: recipe.mapping_lr}
        for optimizer, rate in rates.items():
            for group in optimizer.param_groups if optimizer else ():
                group["lr"] = rate * drop
        yield batch


@torch.no_grad()
def recompute_statistics(state: TrainingState, batches: Batches, device: torch.device) -> float:
    """Recompute the classifier's batch-norm statistics on clean images; returns the mean mask area in eval mode.

    In training, batch norms normalise each clean batch with its own statistics, while their running statistics mix
    clean and masked images. A saved mapping sees only clean images, so the statistics are computed again on clean
    batches. An encoder of the mapping's own never sees masked images, and frozen statistics need no correction.
    """
    f, m = state.classifier, state.mapping
    if state.encoder is f and state.classifier_optimizer is not None and not state.recipe.freeze_batch_norm:
        for norm in batch_norms(f):
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all following batches
        f.train()
        for images, _ in batches.between(0, FINAL_BATCHES, device):
            f(images)
        state.processes.average_statistics(f)
    f.eval()
    m.eval()
    e = state.encoder.eval()
    areas = [m(images, e.forward_stages(images)[1]).mean() for images, _ in batches.between(0, FINAL_BATCHES, device)]
    return float(state.processes.mean(torch.stack(areas).mean()))
