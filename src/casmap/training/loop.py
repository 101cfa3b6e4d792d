"""Around Algorithm 1: two networks, optimisers, schedules, logs, checkpoints, and the file at the end."""

import copy
import shutil
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from casmap.data.batches import Batches
from casmap.data.photos import PhotoSet
from casmap.models.classifier import Classifier
from casmap.models.decoder import Mapping
from casmap.models.device import place
from casmap.models.files import load_mapping, save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.training.algorithm import Measures, Players, batch_norms, casm
from casmap.training.checkpoints import Checkpoints, check_finite
from casmap.training.distributed import ONE_PROCESS, Processes
from casmap.training.first_classifier import first_classifier
from casmap.training.lambda_r import AreaController, FixedLambdaR, LambdaR, paper_lambda_r
from casmap.training.log import Log
from casmap.training.recipes import Recipe
from casmap.training.run import Run, undamaged
from casmap.training.samples import Samples, megabytes
from casmap.training.second_stage import teach
from casmap.training.thinning import Thinning

SETTLE = 40  # batches over which batch-norm statistics and the mask's area are taken at the end


@dataclass(frozen=True)
class Trained:
    """What a run ended with."""

    mapping: Path
    origin: str  # of f(0)
    steps: int
    seconds: float
    area: float  # mean mask area over training photos, with the weights of the file
    lambda_r: float
    accuracy: float  # of the classifier on clean training crops, over the last tenth of the steps
    masked_accuracy: float  # of f' on masked ones


def train(
    photos: PhotoSet, recipe: Recipe, run: Run, classifier: str | None = None, kind: type[Mapping] = Mapping
) -> Trained:
    """Train a mapping on photos with class labels; the run's folder gets mapping, logs and checkpoints."""
    with run.begun(photos):
        done = run.folder / "mapping.safetensors"
        if run.resumed and done.exists():
            run.say(f"This run is finished: {done}")
            trained = Trained(mapping=done, seconds=0.0, **load_mapping(done)[1]["training"])
        else:
            trained = _train(photos, recipe, run, classifier, kind)
        for name in ("checkpoint", "taught-checkpoint"):
            Checkpoints(run.folder, name).remove()
        shutil.rmtree(run.folder / "teacher-masks", ignore_errors=True)
        return trained


def _train(photos: PhotoSet, recipe: Recipe, run: Run, classifier: str | None, kind: type[Mapping]) -> Trained:
    began = time.monotonic()
    path = run.folder / "mapping.safetensors"
    first, origin = first_classifier(photos, recipe, run, classifier)
    run.say(origin)
    if recipe.taught_steps:
        casm_path = run.folder / "casm.safetensors"
        if not (run.resumed and casm_path.exists()):
            algorithm1(photos, recipe, run, first, origin, casm_path, kind)
        network, about = load_mapping(casm_path)
        training = about["training"]
        if run.processes.first:  # minutes, after hours of Algorithm 1
            network, area = teach(network, photos, recipe, run)
            training |= {"area": area}
            save_mapping(path, network, {"size": recipe.size, "recipe": asdict(recipe), "training": training})
        run.processes.wait()
    else:
        training = algorithm1(photos, recipe, run, first, origin, path, kind)
    return Trained(mapping=path, seconds=time.monotonic() - began, **training)


def algorithm1(
    photos: PhotoSet, recipe: Recipe, run: Run, first: Classifier, origin: str, path: Path, kind: type[Mapping]
) -> dict[str, Any]:
    """Run Algorithm 1 from the last checkpoint to its end, and write its mapping; returns what is told of the run."""
    players = set_up(place(first, run.device), recipe, kind, run.processes)
    memory = megabytes(first, players.samples.thinning, recipe.sample_limit)
    run.say(f"Thinning {recipe.thinning}: the sample set takes at most {memory:.0f} MB beside the classifier.")
    batches = Batches(
        photos, recipe.early_size, recipe.batch, first.mean, first.std, seed=recipe.seed, share=recipe.epoch_share,
        smallest_crop=recipe.smallest_crop, flip=recipe.flip, rank=run.processes.rank, ranks=run.processes.ranks,
    )  # fmt: skip
    log = iterate(players, batches, recipe, run, recipe.total_steps(len(photos)))
    area = settle(players, batches, run.device)
    if recipe.area is not None and abs(area - recipe.area) > 0.03:
        run.say(
            f"Warning: the masks cover {area:.3f} of the photos, not {recipe.area}: more --steps or another "
            "--seed may bring them nearer."
        )
    encoder = players.mapping.encoder or players.classifier
    predicts = recipe.encoder != "separate"  # which was never trained to tell classes
    network = SaliencyNetwork(encoder, players.mapping.decoder, list(photos.classes), predicts)
    last = log.rows[-max(1, len(log.rows) // 10) :]
    training = {
        "origin": origin,
        "steps": recipe.total_steps(len(photos)),
        "area": area,
        "lambda_r": players.lambda_r.value,
        "accuracy": sum(row["accuracy"] for row in last) / len(last),
        "masked_accuracy": sum(row["masked_accuracy"] for row in last) / len(last),
    }
    save_mapping(path, network, {"size": recipe.early_size, "recipe": asdict(recipe), "training": training})
    Checkpoints(run.folder, "checkpoint").remove()
    return training


def set_up(
    first: Classifier, recipe: Recipe, kind: type[Mapping] = Mapping, processes: Processes = ONE_PROCESS
) -> Players:
    """The players of Algorithm 1 at step 0, on the classifier's device."""
    device = next(first.parameters()).device
    first = processes.synchronised(first)
    thinning = Thinning.named(recipe.thinning, recipe.period)
    torch.manual_seed(recipe.seed)
    encoder = None if recipe.encoder == "shared" else copy.deepcopy(first)
    mapping = processes.synchronised(
        place(kind(first.stage_channels, encoder, fixed=recipe.encoder == "first"), device)
    )
    for network in (first, mapping):
        processes.agree(network)
    classifier_optimizer = torch.optim.SGD(
        first.parameters(), recipe.classifier_lr, recipe.momentum, weight_decay=recipe.classifier_decay
    )
    samples = Samples(first, thinning, recipe.sample_limit, recipe.seed, processes)
    if recipe.compile:
        for classifier in (first, samples.drawn):
            classifier.compile_look()
    return Players(
        classifier=first,
        mapping=mapping,
        samples=samples,
        lambda_r=_lambda_r(recipe, first.classes),
        classifier_optimizer=classifier_optimizer if thinning.keeps_last else None,
        mapping_optimizer=torch.optim.Adam(mapping.parameters(), recipe.mapping_lr, weight_decay=recipe.mapping_decay),
        score=recipe.score,
        loss=recipe.loss,
        masked_in=recipe.masked_in,
        clip=recipe.clip,
        freeze_batch_norm=recipe.freeze_batch_norm,
        reuse_masked=recipe.reuse_masked,
        bfloat16=recipe.precision == "bfloat16",
        processes=processes,
    )


def iterate(players: Players, batches: Batches, recipe: Recipe, run: Run, steps: int) -> Log:
    """Run Algorithm 1 from the last checkpoint to the end, keeping log and checkpoints."""
    checkpoints = Checkpoints(run.folder, "checkpoint")
    start = restore(players, checkpoints, run) if run.resumed else 0
    log = Log(run.folder, "log", start)
    with run.progress(f"Algorithm 1, thinning {recipe.thinning}", start, steps) as advance:
        upcoming = _scheduled(players, batches.between(start, steps, run.device), recipe, run, start, steps)
        for step, measures in enumerate(casm(players, upcoming), start + 1):
            row = _row(measures)
            check_finite(row["loss"] + row["score"], step, batches, checkpoints)
            log.add(step, **row)
            advance(f"area {row['area']:.2f}, lambda_R {row['lambda_r']:.3g}")
            if step % recipe.checkpoint_every == 0 and step < steps and run.processes.first:
                log.flush()
                checkpoints.write(state(players, step))
    log.close()
    return log


def _scheduled(players: Players, batches: Any, recipe: Recipe, run: Run, start: int, steps: int) -> Any:
    """Set seed and learning rates before each batch is used: both follow from the step alone."""
    for step, batch in enumerate(batches, start):
        run.seed(recipe.seed, step)
        drop = 0.1 ** int(step / steps / recipe.drop_every)
        for optimizer, rate in (
            (players.classifier_optimizer, recipe.classifier_lr),
            (players.mapping_optimizer, recipe.mapping_lr),
        ):
            for group in optimizer.param_groups if optimizer else ():
                group["lr"] = rate * drop
        yield batch


@torch.no_grad()
def settle(players: Players, batches: Batches, device: torch.device) -> float:
    """Make the file's masks those of training: returns their mean area.

    In training the classifier's batch norms use each clean batch's own statistics, but the running ones mix clean and
    masked images. A mapping only ever sees clean images, so the statistics are taken anew over clean batches. An
    encoder of the mapping's own has never seen a masked image, and one that was not trained has nothing to mend.
    """
    f, m = players.classifier, players.mapping
    if m.encoder is None and players.classifier_optimizer is not None and not players.freeze_batch_norm:
        for norm in batch_norms(f):
            norm.reset_running_stats()
            norm.momentum = None  # a plain mean over all batches to come
        f.train()
        for images, _ in batches.between(0, SETTLE, device):
            f(images)
        players.processes.average_statistics(f)
    f.eval()
    m.eval()
    areas: list[Tensor] = []
    for images, _ in batches.between(0, SETTLE, device):
        _, stages = f.look(images)
        areas.append(m(images, stages).mean())
    return float(players.processes.mean(torch.stack(areas).mean()))


def state(players: Players, step: int) -> dict[str, Any]:
    """All that the rest of a run depends on, after `step` steps."""
    optimizer = players.classifier_optimizer
    return {
        "step": step,
        "classifier": players.classifier.state_dict(),
        "mapping": players.mapping.state_dict(),
        "samples": players.samples.state(),
        "lambda_r": players.lambda_r.state(),
        "classifier_optimizer": optimizer.state_dict() if optimizer else None,
        "mapping_optimizer": players.mapping_optimizer.state_dict(),
    }


def restore(players: Players, checkpoints: Checkpoints, run: Run) -> int:
    """Put the players back to where a checkpoint was written; returns its step, 0 where there is none."""
    kept = checkpoints.read(run.say)
    if kept is None:
        return 0
    with undamaged(checkpoints.newest):
        players.classifier.load_state_dict(kept["classifier"])
        players.mapping.load_state_dict(kept["mapping"])
        players.samples.restore(kept["samples"])
        players.lambda_r.restore(kept["lambda_r"])
        if players.classifier_optimizer:
            players.classifier_optimizer.load_state_dict(kept["classifier_optimizer"])
        players.mapping_optimizer.load_state_dict(kept["mapping_optimizer"])
        return int(kept["step"])


def _lambda_r(recipe: Recipe, classes: int) -> LambdaR:
    if recipe.lambda_r is not None:
        return FixedLambdaR(recipe.lambda_r)
    start = paper_lambda_r(recipe.score, recipe.thinning, classes)
    return FixedLambdaR(start) if recipe.area is None else AreaController(recipe.area, start)


def _row(measures: Measures) -> dict[str, float]:
    return {name: float(value) for name, value in vars(measures).items()}
