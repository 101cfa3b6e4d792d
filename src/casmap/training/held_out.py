"""The verdict of a run: photos that are held out, and what a mapping that did not see them makes of them."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from casmap.data.photos import PhotoSet, Subset
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.errors import Stopped, option
from casmap.evaluation.trust import Classify, measure
from casmap.evaluation.verdict import Judgement, Verdict, with_warnings
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.models.files import load_classifier, load_mapping, save_mapping
from casmap.reporting import counted
from casmap.training.checkpoints import StoppedStage
from casmap.training.run import WARNING, Run
from casmap.version import __version__

SHARE = 0.1  # of the photos, if the user names no other share
FEWEST = 10  # photos; fewer are not held out, because they tell nothing
SCENES = 40  # that are measured at least
WIDE = 50  # measured photos; with fewer, an interval that includes 0 may be too wide to tell
SETTLED = 150  # steps of Algorithm 1 below which masks have not settled
MIN_AREA, MAX_AREA = 0.02, 0.95  # mean mask areas outside of which a mapping is useless
SUMMARY, SO_FAR = "summary.json", "mapping-so-far.safetensors"
NOT_FINISHED = "The run was stopped before its end."

Indices = npt.NDArray[np.int64]


def hold_out(photos: PhotoSet, data: str, share: float, seed: int) -> tuple[PhotoSet, PhotoSet | None]:
    """The photos of `data` to train on, and those held out; None if they would be fewer than ten.

    Of scenes none are held out: there are others.
    """
    if isinstance(photos, Scenes) and share:
        others = open_photos(data, held_out=True)
        return photos, Subset(others, np.arange(min(len(others), max(SCENES, round(share * len(photos))))))
    chosen = held_out_indices(photos.labels, share, seed)
    if len(chosen) < FEWEST:
        return photos, None
    kept = np.setdiff1d(np.arange(len(photos)), chosen)
    return Subset(photos, kept), Subset(photos, chosen)


def held_out_indices(labels: Indices, share: float, seed: int) -> Indices:
    """Draw this share of the photos, from each class alike: labels (N,) -> indices, ascending.

    The photos are ordered by class, and at random in each class; every (1 / share)th is drawn. At least one photo of
    each class is left. The result depends only on the labels, the share and the seed.

    >>> labels = np.repeat([0, 1], [40, 20])
    >>> np.bincount(labels[held_out_indices(labels, 0.1, seed=0)]).tolist()
    [4, 2]
    """
    rng = np.random.default_rng((seed, 3))
    order = np.lexsort((rng.random(len(labels)), labels))
    first_of_class = np.flatnonzero(np.diff(labels[order], prepend=-1))
    order = np.delete(order, first_of_class)  # these stay
    total = min(round(share * len(labels)), len(order))
    places = ((np.arange(total) + 0.5) * len(order) / max(1, total)).astype(np.int64)
    return np.sort(order[places])


def judge_run(path: Path, run: Run, photos: PhotoSet, held_out: PhotoSet | None, training: dict[str, Any]) -> Judgement:
    """The judgement on the mapping of a run, measured by the first process if the recipe holds photos out.

    Else the masks' area alone decides. If there are too few photos to hold some out, the training photos are measured.
    """
    if not run.recipe.held_out:
        unsettled = [] if run.recipe.held_out is None else _unsettled(training["steps"])  # None: in a study
        return Judgement(verdict_on(training["area"], unsettled), tuple(unsettled))
    own = b""
    if run.processes.first:
        own = json.dumps(judge_file(path, run, photos, held_out, training).to_json()).encode()
    judgement = read_verdict({"verdict": json.loads(run.processes.broadcast(own))})
    assert judgement is not None
    return judgement


def judge_file(
    path: Path, run: Run, photos: PhotoSet, held_out: PhotoSet | None, training: dict[str, Any],
    doubts: Sequence[str] = (),
) -> Judgement:  # fmt: skip
    """The judgement on a mapping file, to whose metadata it is added; one that is there already is not repeated."""
    network, about = load_mapping(path)
    judgement = read_verdict(about)
    if judgement is None:
        run.message(f"Measuring the masks of {'training' if held_out is None else 'held-out'} photos.")
        mapper = SaliencyMapper(network.to(run.device), about["size"])
        classify = None if network.predicts else _first(run)
        shipped = SaliencyMapper.load(threads=run.recipe.threads) if SHIPPED.exists() else None
        measured = measure(
            mapper, photos if held_out is None else held_out, classify=classify, shipped=shipped, reporter=run.reporter
        )
        if measured.agreement is not None:
            run.message(measured.agreement.sentence)
        warnings = [*doubts, *_too_few(len(photos)), *_unsettled(training["steps"]), *plain(run.warnings)]
        judgement = with_warnings(measured.judge(), warnings)
        judgement.numbers["held out"] = held_out is not None
        save_mapping(path, network.cpu(), about | {"verdict": judgement.to_json()})
    return judgement


def verdict_on(area: float, warnings: Iterable[str]) -> Verdict:
    """The verdict of a run that measured nothing; `TrainingResult` states the rule.

    >>> verdict_on(0.4, []), verdict_on(0.4, ["f(0) is weak."]), verdict_on(0.97, [])
    ('good', 'doubtful', 'failed')
    """
    if not MIN_AREA <= area <= MAX_AREA:  # also true for NaN
        return "failed"
    return "doubtful" if list(warnings) else "good"


def advice(verdict: Verdict, measured: Mapping[str, Any]) -> str | None:
    """What to do about a verdict that is not good where few photos were measured and an interval includes 0.

    measured: the numbers of a `Judgement`.

    >>> advice("doubtful", {"gain": {"centred": [0.4, -0.1, 1.0]}, "gain on photos": 200}) is None
    True
    """
    photos, gains = measured.get("gain on photos", 0), measured.get("gain", {}).values()
    if verdict == "good" or not 0 < photos < WIDE or not any(low <= 0 < high for _, low, high in gains):
        return None
    return (
        f"Only {counted(photos, 'photo')} {'was' if photos == 1 else 'were'} measured, so the intervals are wide: run "
        f"casmap check on other photos, or hold more out ({option('held_out', 0.3)})."
    )


@contextmanager
def so_far_if_stopped(run: Run, photos: PhotoSet, held_out: PhotoSet | None) -> Iterator[None]:
    """If a stage is stopped, write what it has learned so far as a mapping, with a verdict, and say so.

    The file has a name of its own: `--resume` continues from the last checkpoint, and ends with the same weights as a
    run that was never stopped.
    """
    try:
        yield
    except StoppedStage as stop:
        if run.processes.ranks > 1:
            raise
        path = run.folder / SO_FAR
        about = {"size": stop.size, "recipe": run.recipe.published(), "stopped": stop.steps}
        save_mapping(path, stop.network.cpu().eval(), about)
        run.message(f"Stopped: what was learned so far is in {path}. Measuring it; Ctrl-C again skips this.")
        verdict = "not measured"
        if run.recipe.held_out:
            with suppress(KeyboardInterrupt):
                verdict = judge_file(path, run, photos, held_out, {"steps": 0}, [NOT_FINISHED]).verdict
        resume = option("resume", True)
        advice = f"There is no checkpoint yet: with {resume} this stage starts again at step 1."
        if stop.resumable:
            advice = f"To continue from the last checkpoint, run the same command with {resume}."
        raise Stopped(f"Stopped. The mapping so far is {path} (verdict: {verdict}). {advice}") from stop


def read_verdict(about: dict[str, Any]) -> Judgement | None:
    """The judgement in the metadata of a mapping; None if there is none, as in files of earlier versions."""
    saved = about.get("verdict")
    if not isinstance(saved, dict) or saved.get("verdict") not in ("good", "doubtful", "failed"):
        return None
    numbers = {name: value for name, value in saved.items() if name not in ("verdict", "reasons")}
    return Judgement(saved["verdict"], tuple(map(str, saved.get("reasons", ()))), numbers)


def write_summary(run: Run, judgement: Judgement, training: dict[str, Any], seconds: float) -> None:
    """Write summary.json: the verdict with all its numbers, the run's options, its result and its warnings."""
    content = {
        "casmap": __version__, "mapping": "mapping.safetensors", **judgement.to_json(), "training": training,
        "seconds": round(seconds, 1), "estimated seconds": run.estimate and round(run.estimate, 1),
        "warnings": run.warnings, "recipe": run.recipe.options(),
    }  # fmt: skip
    write_whole(run.folder / SUMMARY, json.dumps(content, indent=2) + "\n")


def _too_few(photos: int) -> list[str]:
    """The doubt about a run with so few training photos that their masks tell nothing.

    >>> _too_few(2), _too_few(10)
    (['2 photos are too few to judge the masks: add some.'], [])
    """
    return [f"{photos} photos are too few to judge the masks: add some."] if photos < FEWEST else []


def _unsettled(steps: int) -> list[str]:
    """The doubt about a run of Algorithm 1 with few steps; 0 steps: there was no Algorithm 1."""
    if 0 < steps < SETTLED:
        return [f"Algorithm 1 took only {counted(steps, 'step')}: masks have not settled before about {SETTLED}."]
    return []


def _first(run: Run) -> Classify:
    """f(0), which judges the masks of a mapping that predicts no classes."""
    classifier = load_classifier(run.folder / "classifier.safetensors")[0].to(run.device).eval()

    def classify(images: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            return np.asarray(classifier(torch.from_numpy(images).to(run.device)).cpu().numpy())

    return classify


def plain(warnings: list[str]) -> list[str]:
    """Warnings without the word that marks them in a log.

    >>> plain(["Warning: f(0) is weak."])
    ['f(0) is weak.']
    """
    return [text.removeprefix(WARNING) for text in warnings]
