"""The training loop: a run that is killed and resumed ends like one that was not."""

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import timm
import torch
from safetensors.torch import load_file, save_file

from casmap.cli.main import main
from casmap.cli.train_commands import FAILED
from casmap.data.batches import Batches
from casmap.data.scenes import Scenes
from casmap.models.classifier import Classifier
from casmap.models.files import load_mapping, read_tree
from casmap.training import loop as trainer
from casmap.training import pseudo_masks
from casmap.training.checkpoints import read_log
from casmap.training.loop import recompute_statistics, set_up
from casmap.training.recipes import PAPER, QUICK
from casmap.training.run import Run

SCENES = "scenes:classes=4,photos=32,size=32"
OPTIONS = {
    "backbone": "test_resnet", "size": 32, "batch": 8, "epoch-share": 1, "first-steps": 6, "steps": 8, "area": 0.3,
    "thinning": "L100", "period": 2, "sample-limit": 4, "checkpoint-every": 2, "threads": 1, "device": "cpu",
    "taught-steps": 20, "teacher-size": 64, "held-out": 0,
}  # fmt: skip
WEIGHTS = "weights.safetensors"  # so that the head of f(0) is fitted before all of it is trained
TRAIN = ["train", SCENES, f"--weights={WEIGHTS}", *(f"--{name}={value}" for name, value in OPTIONS.items())]
FEATURES = [*TRAIN, "--erase=features", "--score=activation", "--masked-in=0.5", "--sharpness=0.3", "--taught-steps=2"]

# Where the runs are killed. All are forked from one process that has imported everything, and each is the command line
# itself; SIGKILL comes at an exact place instead of at some moment.
DEATHS = {
    "the head of f(0), half fitted": ("line-search", None),
    "f(0), before a checkpoint": ("add classifier-log 1", None),
    "f(0), after a checkpoint": ("add classifier-log 5", "classifier-checkpoint.safetensors"),
    "Algorithm 1, before a checkpoint": ("add log 1", None),
    "Algorithm 1, after a checkpoint": ("add log 5", "checkpoint.safetensors"),
    "in the middle of writing a checkpoint": ("write checkpoint 3", "checkpoint.safetensors"),
    "after the last step": ("recompute_statistics", "checkpoint.safetensors"),
    "before the first pseudo-masks": ("agreement 2", None),
    "after the first pseudo-masks": ("agreement 5", None),
    "the second stage, before a checkpoint": ("add taught-log 1", None),
    "the second stage, after a checkpoint": ("add taught-log 19", "taught-checkpoint.safetensors"),
}
KILLER = """
import json, os, signal, sys
import casmap.models.files as files
import casmap.training.head as head
import casmap.training.checkpoints as log
import casmap.training.loop as trainer
import casmap.training.pseudo_masks as pseudo_masks
from casmap.cli.main import main

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def run(where, arguments):
    what, *rest = where.split()
    add, save, written = log.Log.add, files.save_file, [0]

    def killing_add(self, step, **numbers):
        add(self, step, **numbers)
        if [self.path.stem, str(step)] == rest:
            die()

    def killing_save(tensors, path, metadata):
        save(tensors, path, metadata)
        if os.path.basename(path).startswith("." + rest[0] + "-"):
            written[0] += 1
            if written[0] == int(rest[1]):
                os.truncate(path, os.path.getsize(path) // 2)
                die()

    if what == "add":
        log.Log.add = killing_add
    elif what == "write":
        files.save_file = killing_save
    elif what == "recompute_statistics":
        trainer.recompute_statistics = lambda *_: die()
    elif what == "line-search":
        head.cross_entropy = lambda *_: die()
    else:
        agreement, calls = pseudo_masks.agreement, []
        dies = lambda: calls.append(0) or len(calls) == int(rest[0])
        pseudo_masks.agreement = lambda *maps: die() if dies() else agreement(*maps)
    pseudo_masks.FILE = 8
    sys.argv = ["casmap", *arguments]
    main()

for where, arguments in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        run(where, arguments)
    _, status = os.waitpid(child, 0)
    print("died of", os.WTERMSIG(status) if os.WIFSIGNALED(status) else "old age", flush=True)
"""


def _casmap(*arguments: object) -> int:
    """The command line in this process; returns its exit code."""
    threads = torch.get_num_threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["casmap", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
    torch.set_num_threads(threads)
    return int(ended.value.code or 0)


def _trains(*arguments: object) -> None:
    """Train to the end: the exit code is 3 exactly if the verdict is failed."""
    code, folder = _casmap(*arguments), Path(str(arguments[arguments.index("--out") + 1]))
    failed = json.loads((folder / "summary.json").read_text())["verdict"] == "failed"
    assert code == (FAILED if failed else 0)


@pytest.fixture(scope="module", autouse=True)
def _weights_here_and_masks_in_four_files(tmp_path_factory):
    torch.manual_seed(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("here"))
        patch.setattr(pseudo_masks, "FILE", 8)
        save_file(timm.create_model("test_resnet", num_classes=4).state_dict(), WEIGHTS)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """The folder of a run that was never stopped."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    _trains(*TRAIN, "--out", folder)
    return folder


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> dict[str, Path]:
    """The folders of runs that were killed, by where."""
    root = tmp_path_factory.mktemp("killed")
    folders = {death: root / str(number) for number, death in enumerate(DEATHS)}
    _kill([(DEATHS[death][0], [*TRAIN, "--out", str(folder)]) for death, folder in folders.items()])
    return folders


def _kill(orders: list[tuple[str, list[str]]]) -> None:
    """Run commands, each of which is killed at a place."""
    done = subprocess.run(
        [sys.executable, "-c", KILLER, json.dumps(orders)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    deaths = [line for line in done.stdout.splitlines() if line.startswith("died of")]
    assert deaths == ["died of 9"] * len(orders), done.stderr


def _same_tensors(one: Path, other: Path) -> bool:
    mine, yours = load_file(one), load_file(other)
    return mine.keys() == yours.keys() and all(
        mine[name].dtype == yours[name].dtype and mine[name].numpy().tobytes() == yours[name].numpy().tobytes()
        for name in mine
    )


@pytest.mark.parametrize("death", DEATHS)
def test_a_killed_run_continues_and_ends_bit_for_bit_like_one_that_was_not(whole, killed, tmp_path, death) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed[death], folder)
    assert not (folder / "mapping.safetensors").exists()
    checkpoints = {path.name for path in folder.glob("*checkpoint.safetensors") if not path.name.startswith(".")}
    assert checkpoints == ({DEATHS[death][1]} if DEATHS[death][1] else set())
    _trains(*TRAIN, "--out", folder, "--resume")
    assert _same_tensors(folder / "mapping.safetensors", whole / "mapping.safetensors")
    assert _same_tensors(folder / "classifier.safetensors", whole / "classifier.safetensors")
    assert _same_tensors(folder / "casm.safetensors", whole / "casm.safetensors")
    for name in ("log.csv", "classifier-log.csv", "taught-log.csv", "recipe.json"):
        assert (folder / name).read_text() == (whole / name).read_text(), name
    about, wanted = (load_mapping(path / "mapping.safetensors")[1] for path in (folder, whole))
    assert about == wanted
    assert not list(folder.glob("[!.]*checkpoint*"))
    assert not (folder / "teacher-masks").exists()
    assert ("it starts again at step 1" in (folder / "run.log").read_text()) == ("before a checkpoint" in death)


def test_a_killed_run_that_erases_features_continues_bit_for_bit_too(tmp_path) -> None:
    whole = tmp_path / "whole"
    _trains(*FEATURES, "--out", whole)
    places = ("add log 1", "add log 5", "recompute_statistics", "add taught-log 1")
    folders = {place: tmp_path / str(number) for number, place in enumerate(places)}
    _kill([(place, [*FEATURES, "--out", str(folder)]) for place, folder in folders.items()])
    checkpoint = read_tree(folders["add log 5"] / "checkpoint.safetensors")
    tails = [checkpoint["classifier"], *checkpoint["samples"]["kept"]]
    assert len(tails) == 4  # f and three copies: f(0), f(2) and f(4)
    assert not any("layer3" in name for tail in tails for name in tail)  # the trunk is f(0), in its own file
    assert not any("encoder" in name for name in checkpoint["mapping"])
    for place, folder in folders.items():
        _trains("train", SCENES, "--out", folder, "--resume")
        for name in ("casm.safetensors", "mapping.safetensors"):
            assert _same_tensors(folder / name, whole / name), place
        assert (folder / "log.csv").read_text() == (whole / "log.csv").read_text(), place


def test_it_continues_from_its_checkpoint_and_not_from_the_start(killed, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed["Algorithm 1, after a checkpoint"], folder)
    assert read_tree(folder / "checkpoint.safetensors")["step"] == 4
    starts: list[int] = []
    real = Batches.between

    def between(self, start, stop, device="cpu"):
        starts.append(start)
        return real(self, start, stop, device)

    monkeypatch.setattr(Batches, "between", between)
    assert _casmap("train", SCENES, "--out", folder, "--resume") == 0  # without options: the saved ones are used
    assert starts[0] == 4


def test_pseudo_masks_that_exist_are_not_made_again(killed, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed["after the first pseudo-masks"], folder)
    assert [path.name for path in sorted((folder / "teacher-masks").glob("*.npy"))] == ["000000.npy", "000001.npy"]
    batches, agreement = [], pseudo_masks.agreement
    monkeypatch.setattr(pseudo_masks, "agreement", lambda *maps: batches.append(len(maps[0])) or agreement(*maps))
    _trains("train", SCENES, "--out", folder, "--resume")
    assert batches == [16, 16, 8, 8]  # all 32 photos for the cut, then the two files that were not there


def test_the_interval_of_checkpoints_may_change_and_changes_nothing(whole, killed, tmp_path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed["Algorithm 1, after a checkpoint"], folder)
    _trains(*TRAIN, "--out", folder, "--resume", "--checkpoint-every", 1)
    assert _same_tensors(folder / "mapping.safetensors", whole / "mapping.safetensors")


@pytest.mark.parametrize(
    ("option", "difference"),
    [
        (("--steps", "9"), "steps = 8, not 9"),
        (("--area", "0.4"), "area = 0.3, not 0.4"),
        (("--thinning", "F"), "thinning = 'L100', not 'F'"),
        (("--flip",), None),  # as it was: no difference
        (("--no-flip",), "flip = True, not False"),
        (("--recipe", "paper", "--no-pretrained"), "resume it with the same options"),
    ],
)
def test_resuming_with_another_option_names_the_difference(killed, tmp_path, capsys, option, difference) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed["Algorithm 1, after a checkpoint"], folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    arguments = ("train", SCENES, "--out", folder, "--resume", *option)
    if difference is None:
        return _trains(*arguments)
    assert _casmap(*arguments) == 2
    complaint = capsys.readouterr().err
    assert difference in complaint
    assert "resume it with the same options" in complaint
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_second_start_in_a_folder_is_refused_and_touches_nothing(whole, capsys) -> None:
    before = {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()}
    assert _casmap(*TRAIN, "--out", whole) == 2
    assert "already holds a run" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in whole.rglob("*") if path.is_file()} == before


def test_a_run_writes_a_mapping_a_log_and_its_options(whole) -> None:
    rows = read_log(whole / "log.csv")
    assert [row["step"] for row in rows] == list(range(1, 9))
    # f(0) and the newest; copies at steps 2 and 4 make four, which is the limit: then each copy replaces another.
    assert [row["samples"] for row in rows] == [2, 3, 3, 4, 4, 4, 4, 4]
    network, about = load_mapping(whole / "mapping.safetensors")
    assert about["size"] == 32
    assert about["classes"] == ["class-00", "class-01", "class-02", "class-03"]
    assert network.predicts
    assert network.decoder.with_cam
    assert not load_mapping(whole / "casm.safetensors")[0].decoder.with_cam
    assert [row["step"] for row in read_log(whole / "taught-log.csv")] == list(range(1, 21))
    assert about["recipe"] == json.loads((whole / "recipe.json").read_text())
    assert about["training"]["steps"] == 8
    assert about["training"]["origin"] in (whole / "run.log").read_text()
    # A row has the lambda_R of its step; the file has the lambda_R after the last step.
    assert about["training"]["lambda_r"] != pytest.approx(rows[-1]["lambda_r"])
    assert 0.5 < about["training"]["lambda_r"] / rows[-1]["lambda_r"] < 2


RECIPE = QUICK.replace(size=32, batch=8, epoch_share=1.0, device="cpu")


def _state(**changes):
    torch.manual_seed(0)
    return set_up(Classifier("test_resnet", 4), RECIPE.replace(**changes))


@pytest.fixture(scope="module")
def batches() -> Batches:
    return Batches(Scenes(classes=4, photos=16, size=32), 32, 8, (0.5,) * 3, (0.2,) * 3)


def test_saved_batch_norm_statistics_are_of_clean_photos_only(batches, monkeypatch) -> None:
    monkeypatch.setattr(trainer, "FINAL_BATCHES", 3)
    state = _state()
    state.classifier.train()(torch.randn(8, 3, 32, 32) * 9)  # other statistics before
    stem = state.classifier.network.conv1
    with torch.no_grad():
        clean = [stem(images).mean(dim=(0, 2, 3)) for images, _ in batches.between(0, 3)]
    area = recompute_statistics(state, batches, torch.device("cpu"))
    found = state.classifier.network.bn1.running_mean
    torch.testing.assert_close(found, torch.stack(clean).mean(0), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        masks = [state.mapping(x, state.classifier.forward_stages(x)[1]).mean() for x, _ in batches.between(0, 3)]
    assert area == pytest.approx(float(torch.stack(masks).mean()), rel=1e-5)
    assert not state.classifier.training
    assert not state.mapping.training


@pytest.mark.parametrize("changes", [{"thinning": "F"}, {"freeze_batch_norm": True}])
def test_frozen_batch_norms_do_not_change(batches, monkeypatch, changes) -> None:
    monkeypatch.setattr(trainer, "FINAL_BATCHES", 2)
    state = _state(**changes)
    before = copy.deepcopy(state.classifier.state_dict())
    recompute_statistics(state, batches, torch.device("cpu"))
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.classifier.state_dict().items())


def test_both_learning_rates_fall_to_a_tenth_every_20_of_70_epochs(tmp_path) -> None:
    state = _state(classifier_lr=0.001, mapping_lr=0.002, drop_every=PAPER.drop_every)
    recipe = RECIPE.replace(classifier_lr=0.001, mapping_lr=0.002, drop_every=PAPER.drop_every)
    steps, found = 70 * 3, []
    run = Run(tmp_path / "run", recipe)
    for step, batch in enumerate(trainer._scheduled(state, range(steps), run, 0, steps)):
        assert batch == step
        found.append([o.param_groups[0]["lr"] for o in (state.classifier_optimizer, state.mapping_optimizer)])
    tenths = [0] * 60 + [1] * 60 + [2] * 60 + [3] * 30
    for (classifier_rate, mapping_rate), tenth in zip(found, tenths, strict=True):
        assert classifier_rate == pytest.approx(0.001 * 0.1**tenth)
        assert mapping_rate == pytest.approx(0.002 * 0.1**tenth)


def test_the_optimisers_are_the_papers() -> None:
    state = set_up(Classifier("test_resnet", 4), PAPER.replace(backbone="test_resnet", device="cpu"))
    sgd, adam = state.classifier_optimizer, state.mapping_optimizer
    assert isinstance(sgd, torch.optim.SGD)
    assert isinstance(adam, torch.optim.Adam)
    group = sgd.param_groups[0]
    assert [group[name] for name in ("lr", "momentum", "weight_decay", "nesterov")] == [0.001, 0.9, 1e-4, False]
    group = adam.param_groups[0]
    assert [group[name] for name in ("lr", "weight_decay", "betas", "eps")] == [0.001, 1e-4, (0.9, 0.999), 1e-8]
    assert state.lambda_r.target is None
    assert state.lambda_r.value == pytest.approx(10.0 * torch.log(torch.tensor(4.0)).item() / 6.907755)
    assert state.recipe.clip == 10.0


def test_lambda_is_a_number_or_found_for_an_area() -> None:
    assert _state(area=0.4).lambda_r.target == 0.4
    fixed = _state(lambda_r=3.0).lambda_r
    assert fixed.target is None
    assert fixed.value == 3.0


def test_a_mapping_with_an_encoder_of_its_own_ends_in_a_file_that_predicts_no_class(tmp_path) -> None:
    folder = tmp_path / "run"
    fast = [
        "--encoder",
        "separate",
        "--second-stage-steps",
        "0",
        "--first-steps",
        "1",
        "--steps",
        "2",
        "--thinning",
        "F",
    ]
    _trains(*TRAIN, *fast, "--out", folder)
    network, _ = load_mapping(folder / "mapping.safetensors")
    assert not network.predicts
    classifier = load_file(folder / "classifier.safetensors")
    assert any(
        not torch.equal(tensor, classifier[f"/classifier/{name}"])
        for name, tensor in network.encoder.state_dict().items()
        if name.endswith("conv1.weight")
    )


def test_resuming_a_finished_run_trains_nothing_anew(whole, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "run"
    shutil.copytree(whole, folder)
    trained: list[int] = []
    real = trainer.casm
    monkeypatch.setattr(trainer, "casm", lambda *state: (trained.append(1) or row for row in real(*state)))
    assert _casmap(*TRAIN, "--out", folder, "--resume") in (0, 2)
    assert not trained


@pytest.mark.parametrize("photos", ["scenes:classes=6,photos=32,size=32", f"{SCENES},seed=3"])
def test_resuming_on_other_photos_is_refused(killed, tmp_path, photos) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed["Algorithm 1, after a checkpoint"], folder)
    assert _casmap("train", photos, "--out", folder, "--resume") == 2


def test_a_handful_of_photos_is_trained_on_or_refused_in_a_sentence(tmp_path) -> None:
    arguments = [f"--{name}={value}" for name, value in OPTIONS.items() if name != "epoch-share"]
    data = "scenes:classes=4,photos=8,size=32"
    assert _casmap("train", data, "--no-pretrained", *arguments, "--out", tmp_path / "run") in (0, 2, 3)


def test_nothing_of_an_unfinished_checkpoint_is_left_in_the_end(killed, tmp_path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(killed["in the middle of writing a checkpoint"], folder)
    _trains(*TRAIN, "--out", folder, "--resume")
    assert not list(folder.glob(".*checkpoint*"))
