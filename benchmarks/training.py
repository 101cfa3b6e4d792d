"""A step of Algorithm 1 against a bare training step of its classifier, and against a straightforward implementation.

python benchmarks/training.py

Counting a forward pass as 1 and a backward pass as 2, a bare step is 3; Algorithm 1's is 8: clean and masked pass and
their gradients (6), the masked pass of f' and the gradient with respect to its input (2). 8 / 3 is 2.67; where f' is f
and its masked pass is reused (`--reuse-masked`), 7 / 3 is 2.33.
"""

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from bench import Ratio, in_turns, ratio, tell
from extraction import make_photos
from torch import Tensor
from torch.nn.functional import conv2d, cross_entropy, interpolate, log_softmax

from casmap.data.batches import Batches
from casmap.data.folders import PhotoFolder
from casmap.io.memory import reuse_memory
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.training.algorithm import casm
from casmap.training.loop import set_up
from casmap.training.recipes import PAPER

BACKBONE, SIDE, BATCH, CLASSES = "resnet50", 96, 16, 1000
ROUNDS = 9
RECIPE = PAPER.replace(backbone=BACKBONE, pretrained=False, size=SIDE, batch=BATCH)


def main() -> None:
    """All of them train copies of one classifier on one batch."""
    reuse_memory()
    torch.manual_seed(0)
    first = Classifier(BACKBONE, CLASSES).to(memory_format=torch.channels_last)
    images = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
    batch = images, torch.randint(CLASSES, (BATCH,))
    ways = {"bare": bare(copy.deepcopy(first), batch), "straightforward": straightforward(copy.deepcopy(first), batch)}
    for thinning in ("L", "L100"):
        for reuse in (False, True):
            ways[f"{thinning}{', reused' if reuse else ''}"] = ours(
                copy.deepcopy(first), batch, thinning, reuse_masked=reuse
            )
    seconds = in_turns(ways, ROUNDS)
    found = []
    for thinning in ("L", "L100"):
        reused = f"{thinning}, reused"
        found += [
            ratio(
                f"step / bare step, {thinning}, exactly Algorithm 1",
                seconds[thinning],
                seconds["bare"],
                "<= 2.9",
                BATCH,
            ),
            ratio(f"step / bare step, {reused}", seconds[reused], seconds["bare"], "", BATCH),
        ]
    plain = seconds["straightforward"]
    found += [
        ratio("straightforward step / ours, L", plain, seconds["L"], ">= 1.1", BATCH),
        ratio("straightforward step / ours, L, reused", plain, seconds["L, reused"], ">= 1.25", BATCH),
    ]
    found += [planes(first, batch), loading(first)]
    tell(found)


def planes(first: Classifier, batch: tuple[Tensor, Tensor]) -> Ratio:
    """Colours as planes, as torch has them, against channels last."""
    ways = {
        "as it is": ours(copy.deepcopy(first), batch, "L"),
        "planes": ours(
            copy.deepcopy(first).to(memory_format=torch.contiguous_format), (batch[0].contiguous(), batch[1]), "L"
        ),
    }
    seconds = in_turns(ways, 3)
    return ratio("step with colours as planes / step as it is", seconds["planes"], seconds["as it is"], "", BATCH)


def loading(first: Classifier) -> Ratio:
    """Reading JPEG files of 512 x 384 pixels as batches, against the step that they are for."""
    with tempfile.TemporaryDirectory() as folder:
        make_photos(Path(folder) / "class", 2 * BATCH)
        photos = PhotoFolder(Path(folder))
        batches = Batches(photos, SIDE, BATCH, first.mean, first.std)
        labels = torch.zeros(BATCH, dtype=torch.int64)
        images = torch.rand(BATCH, 3, SIDE, SIDE).contiguous(memory_format=torch.channels_last)
        step = ours(copy.deepcopy(first), (images, labels), "L")
        seconds = in_turns({"loading": lambda: list(batches.between(0, 1)), "step": step}, 5)
    return ratio("loading a batch / the step that it is for", seconds["loading"], seconds["step"], "", BATCH)


def bare(f: Classifier, batch: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """Forward, backward and SGD on the clean batch."""
    optimizer = torch.optim.SGD(f.parameters(), 0.001, momentum=0.9, weight_decay=1e-4)
    images, labels = batch
    f.train()

    def step() -> None:
        optimizer.zero_grad()
        cross_entropy(f(images), labels).backward()
        optimizer.step()

    return step


def ours(f: Classifier, batch: tuple[Tensor, Tensor], thinning: str, **changes: object) -> Callable[[], object]:
    """One iteration of `casm`."""
    state = set_up(f, RECIPE.replace(thinning=thinning, **changes))
    return lambda: next(casm(state, [batch]))


def straightforward(f: Classifier, batch: tuple[Tensor, Tensor]) -> Callable[[], object]:
    """Algorithm 1, thinning L, as one writes it down from the paper: every expectation is a pass of its own.

    theta_f <- theta_f - eta grad (l(f(x), y) + l(f((1 - m) x), y)) / 2
    theta_m <- theta_m + eta grad (H(f((1 - m) x)) - lambda R(m)), the masks made anew
    """
    m = ByTheBook(f.stage_channels)
    to_f = torch.optim.SGD(f.parameters(), 0.001, momentum=0.9, weight_decay=1e-4)
    to_m = torch.optim.Adam(m.parameters(), 0.001, weight_decay=1e-4)
    images, labels = batch
    f.train()
    m.train()

    def masks() -> Tensor:
        with torch.no_grad():
            _, stages = f.look(images)
        return m(stages, (SIDE, SIDE))

    def step() -> None:
        with torch.no_grad():
            mask = masks()
        loss = 0.5 * cross_entropy(f(images), labels) + 0.5 * cross_entropy(f((1 - mask) * images), labels)
        to_f.zero_grad()
        loss.backward()
        to_f.step()
        mask = masks()
        likely = log_softmax(f((1 - mask) * images), dim=1)
        score = -(likely.exp() * likely).sum(dim=1).mean() - 10 * mask.mean()
        to_m.zero_grad()
        (-score).backward()
        torch.nn.utils.clip_grad_norm_(m.parameters(), 10.0)
        to_m.step()

    return step


class ByTheBook(Decoder):
    """The decoder's supplement word for word: rescale 64 channels of each stage, concatenate, convolve."""

    def forward(self, stages: list[Tensor], size: tuple[int, int]) -> Tensor:
        """Masks (N, 1, H, W)."""
        quarter = [side // 4 for side in size]
        hidden = [
            interpolate(lateral(stage), quarter, mode="bilinear", align_corners=False)
            for lateral, stage in zip(self.lateral, stages, strict=True)
        ]
        logits = conv2d(torch.cat(hidden, dim=1), self.mask.weight, self.mask.bias, padding=1)
        return interpolate(torch.sigmoid(logits), list(size), mode="nearest")


if __name__ == "__main__":
    main()
