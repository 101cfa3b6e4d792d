"""f(0): its origin, the sentence that describes it, and errors."""

import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import timm
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from timm.data.imagenet_info import ImageNetInfo

from casmap.data.photos import PhotoSet
from casmap.data.scenes import Scenes
from casmap.errors import UserError
from casmap.models.classifier import Classifier
from casmap.models.files import load_classifier, save_classifier
from casmap.models.split import last_layers
from casmap.training import first_classifier as first
from casmap.training.checkpoints import read_log
from casmap.training.first_classifier import WARM_UP, first_classifier, load_backbone, one_cycle, train_first
from casmap.training.head import accuracy_on, held_out_fifth
from casmap.training.recipes import QUICK, Recipe
from casmap.training.run import Run

RECIPE = QUICK.replace(size=32, batch=8, first_steps=3, threads=1, device="cpu")
HEAD = {"fc.weight", "fc.bias"}


@pytest.fixture(scope="module")
def photos() -> Scenes:
    return Scenes(classes=4, photos=20, size=32)


def _first(photos, folder: Path, recipe: Recipe = RECIPE, given: str | None = None, resume: bool = False):
    run = Run(folder, recipe, resume=resume)
    with run.started(photos):
        return first_classifier(photos, run, given)


def _equal(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    mine, yours = one.state_dict(), other.state_dict()
    return mine.keys() == yours.keys() and all(torch.equal(mine[name], yours[name]) for name in mine)


def test_from_nothing_it_is_trained_and_says_so(tmp_path, photos) -> None:
    classifier, origin = _first(photos, tmp_path / "run")
    rows = read_log(tmp_path / "run" / "classifier-log.csv")
    assert [row["step"] for row in rows] == [1, 2, 3]
    accuracy = rows[-1]["accuracy"]  # the last tenth of three steps is one step
    assert origin == (
        "f(0) is test_resnet with random weights, trained on the photos for 3 steps "
        f"to {accuracy:.0%} training accuracy."
    )
    kept, about = load_classifier(tmp_path / "run" / "classifier.safetensors")
    assert _equal(kept, classifier)
    assert (about["classes"], about["origin"]) == (photos.classes, origin)
    assert not (tmp_path / "run" / "classifier-checkpoint.safetensors").exists()


def test_it_follows_from_the_seed(tmp_path, photos) -> None:
    one, other, third = (
        _first(photos, tmp_path / name, RECIPE.replace(seed=seed))[0]
        for name, seed in (("one", 1), ("other", 1), ("third", 2))
    )
    assert _equal(one, other)
    assert not _equal(one, third)


def test_it_learns(tmp_path, photos) -> None:
    _first(photos, tmp_path / "run", RECIPE.replace(first_steps=40, smallest_crop=1.0, flip=False))
    losses = [row["loss"] for row in read_log(tmp_path / "run" / "classifier-log.csv")]
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.3


def _save(path: Path, classes: list[str], seed: int = 7) -> Classifier:
    torch.manual_seed(seed)
    classifier = Classifier("test_resnet", len(classes))
    save_classifier(path, classifier, classes, {"origin": "elsewhere"})
    return classifier


def test_a_classifier_that_is_given_is_taken_as_it_is(tmp_path, photos) -> None:
    mine = _save(tmp_path / "mine.safetensors", photos.classes)
    classifier, origin = _first(photos, tmp_path / "run", given=str(tmp_path / "mine.safetensors"))
    assert origin == "f(0) is the classifier given, mine.safetensors."
    assert _equal(classifier, mine)
    assert _equal(load_classifier(tmp_path / "run" / "classifier.safetensors")[0], mine)
    assert not (tmp_path / "run" / "classifier-log.csv").exists()


@pytest.mark.parametrize(
    "classes", [["a", "b"], ["a", "b", "c", "d"], ["class-01", "class-00", "class-02", "class-03"]]
)
def test_a_classifier_of_other_classes_is_refused(tmp_path, photos, classes) -> None:
    _save(tmp_path / "mine.safetensors", classes)
    with pytest.raises(
        UserError,
        match=rf"The {len(classes)} classes of the classifier .*mine\.safetensors are not the 4 classes of the photos",
    ):
        _first(photos, tmp_path / "run", given=str(tmp_path / "mine.safetensors"))
    assert not (tmp_path / "run").exists()


def test_a_resumed_run_takes_the_classifier_it_had(tmp_path, photos) -> None:
    before, origin = _first(photos, tmp_path / "run")
    after, same = _first(photos, tmp_path / "run", resume=True)
    assert same == origin
    assert _equal(before, after)


def _backbone(path: Path, classes: int, name: str = "test_resnet") -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    weights = timm.create_model(name, num_classes=classes).state_dict()
    weights = {key: tensor + 0.01 if tensor.is_floating_point() else tensor + 5 for key, tensor in weights.items()}
    save_file(weights, path)
    return weights


def test_plain_weights_of_the_backbone_may_be_the_classifier_where_the_head_fits(tmp_path, photos) -> None:
    weights = _backbone(tmp_path / "w.safetensors", classes=4)
    classifier, origin = _first(photos, tmp_path / "run", given=str(tmp_path / "w.safetensors"))
    assert origin == "f(0) is the classifier given, w.safetensors."
    assert all(torch.equal(tensor, weights[name]) for name, tensor in classifier.network.state_dict().items())


def test_plain_weights_of_another_number_of_classes_are_no_classifier(tmp_path, photos) -> None:
    _backbone(tmp_path / "w.safetensors", classes=1000)
    with pytest.raises(
        UserError,
        match=r"not a test_resnet for the 4 classes of the photos.*new head, use weights='FILE'",
    ):
        _first(photos, tmp_path / "run", given=str(tmp_path / "w.safetensors"))


def test_weights_without_the_counts_of_batches_are_whole_all_the_same(tmp_path) -> None:
    weights = _backbone(tmp_path / "w.safetensors", classes=4)
    trimmed = {name: tensor for name, tensor in weights.items() if not name.endswith("num_batches_tracked")}
    save_file(trimmed, tmp_path / "w.safetensors")
    assert load_backbone(Classifier("test_resnet", 4), str(tmp_path / "w.safetensors")) == []


def test_weights_of_a_file_go_into_the_backbone_but_for_the_head(tmp_path) -> None:
    weights = _backbone(tmp_path / "w.safetensors", classes=1000)
    torch.manual_seed(0)
    classifier, untouched = Classifier("test_resnet", 4), Classifier("test_resnet", 4)
    untouched.load_state_dict(classifier.state_dict())
    assert set(load_backbone(classifier, str(tmp_path / "w.safetensors"))) == HEAD
    for name, tensor in classifier.network.state_dict().items():
        wanted = untouched.network.state_dict() if name in HEAD else weights
        assert torch.equal(tensor, wanted[name]), name


def test_where_the_classes_are_as_many_the_head_comes_too(tmp_path) -> None:
    weights = _backbone(tmp_path / "w.safetensors", classes=4)
    classifier = Classifier("test_resnet", 4)
    assert load_backbone(classifier, str(tmp_path / "w.safetensors")) == []
    assert all(torch.equal(tensor, weights[name]) for name, tensor in classifier.network.state_dict().items())


def test_training_begins_from_the_weights_and_says_so(tmp_path, photos) -> None:
    weights = _backbone(tmp_path / "w.safetensors", classes=1000)
    recipe = RECIPE.replace(weights=str(tmp_path / "w.safetensors"), first_steps=1, first_lr=1e-9, first_decay=0.0)
    classifier, origin = _first(photos, tmp_path / "run", recipe)
    assert re.fullmatch(
        r"f\(0\) is test_resnet with the weights of w\.safetensors and a new head, its head fitted to the photos "
        r"\(\d+% accuracy on a held-out fifth\) and trained on the photos for 1 step to \d+% training "
        r"accuracy\.",
        origin,
    )
    for name, parameter in classifier.network.named_parameters():
        if name not in HEAD:  # with such a rate a step changes next to nothing
            torch.testing.assert_close(parameter.detach(), weights[name], rtol=0, atol=1e-7, check_stride=False)


def test_with_no_steps_only_the_head_is_fitted(tmp_path, photos) -> None:
    weights = _backbone(tmp_path / "w.safetensors", classes=1000)
    recipe = RECIPE.replace(weights=str(tmp_path / "w.safetensors"), first_steps=0)
    classifier, origin = _first(photos, tmp_path / "run", recipe)
    assert origin.endswith("accuracy on a held-out fifth).")
    for name, tensor in classifier.network.state_dict().items():
        if name not in HEAD:
            torch.testing.assert_close(tensor, weights[name], rtol=0, atol=0, check_stride=False)
    assert not (tmp_path / "run" / "classifier-log.csv").exists()


class Specks(PhotoSet):
    """Grey noise with a small speck. pattern: bright above dark, or dark above bright; else bright, or dark."""

    def __init__(self, pattern: bool, count: int = 120) -> None:
        self.pattern, self.classes = pattern, ["one", "other"]
        self.names, self.labels = [f"{number}.png" for number in range(count)], np.arange(count) % 2

    def image(self, index: int, least=None) -> np.ndarray:
        rng, label = np.random.default_rng(index), self.labels[index]
        image = rng.normal(110, 30 if self.pattern else 20, (32, 32))
        row, column = rng.integers(2, 22, 2)
        if self.pattern:
            image[row : row + 6, column : column + 5] += (140 * label - 70) * np.repeat([1, -1], 3)[:, None]
        else:
            image[row : row + 8, column : column + 8] += 220 * label - 110
        return np.repeat(image.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


@pytest.fixture(scope="module")
def blind(tmp_path_factory) -> Path:
    """Weights of a backbone whose trunk knows the pattern of the specks, and whose later filters are all alike."""
    folder = tmp_path_factory.mktemp("blind")
    torch.manual_seed(3)
    classifier = Classifier("test_resnet", 2)
    recipe = RECIPE.replace(batch=16, first_lr=3e-3, smallest_crop=0.8)
    assert train_first(classifier, Specks(True), Run(folder / "run", recipe), 120) > 0.9
    with torch.no_grad():
        for weights in last_layers(classifier):
            if weights.ndim > 1:
                weights.fill_(1 / weights[0].numel())
    save_file(
        {name: one.contiguous() for name, one in classifier.network.state_dict().items()}, folder / "w.safetensors"
    )
    return folder / "w.safetensors"


def _if_better(folder: Path, weights: Path, pattern: bool = True, rate: float = 3e-3):
    recipe = RECIPE.replace(
        weights=str(weights), batch=16, first_steps=80, first_lr=rate, smallest_crop=0.8, first_if_better=True
    )
    found = _first(Specks(pattern), folder / "run", recipe)
    return *found, (folder / "run" / "run.log").read_text().splitlines()[1]


def test_where_a_head_fails_and_training_succeeds_the_trained_one_is_kept(tmp_path, blind) -> None:
    classifier, origin, line = _if_better(tmp_path, blind)
    found = re.fullmatch(
        r"Accuracy of f\(0\) on a held-out fifth: head alone (\d+)%, last layers trained (\d+)%; "
        r"the trained one is kept\.",
        line,
    )
    head, trained = map(int, found.groups())
    assert head < 75 < trained
    assert origin.endswith(
        f"its head fitted to the photos ({head}% accuracy on a held-out fifth) and trained on the photos for 80 steps "
        f"({trained}% accuracy on the fifth)."
    )
    photos = Specks(True)
    aside = held_out_fifth(photos.labels)
    assert accuracy_on(classifier, photos, aside, RECIPE.size, torch.device("cpu")) == pytest.approx(
        trained / 100, abs=0.01
    )


def test_only_the_last_layers_are_trained_and_all_can_learn_later(tmp_path, blind) -> None:
    classifier, _, _ = _if_better(tmp_path, blind)
    before, last = load_file(blind), {id(weights) for weights in last_layers(classifier)}
    changed = {name for name, one in classifier.network.state_dict().items() if not torch.equal(one, before[name])}
    assert changed == {name for name, one in classifier.network.named_parameters() if id(one) in last}
    assert all(weights.requires_grad for weights in classifier.parameters())


def test_what_training_does_not_improve_keeps_the_head_alone(tmp_path, blind) -> None:
    classifier, origin, line = _if_better(tmp_path, blind, rate=1e-9)
    assert line.endswith("; the head alone is kept.")
    assert origin.endswith("accuracy on a held-out fifth).")
    before = load_file(blind)
    changed = {name for name, one in classifier.network.state_dict().items() if not torch.equal(one, before[name])}
    assert changed == HEAD


def test_where_the_head_is_good_nothing_is_trained(tmp_path, blind) -> None:
    _, origin, line = _if_better(tmp_path, blind, pattern=False)
    assert re.fullmatch(
        r"Only the head of f\(0\) is fitted: it has \d+% accuracy on a held-out fifth, a guess 50%\.", line
    )
    assert origin.endswith("accuracy on a held-out fifth).")
    assert not (tmp_path / "run" / "classifier-log.csv").exists()


def test_a_stopped_choice_resumes_with_the_same_result(tmp_path, blind) -> None:
    """The run is stopped after the last layers were trained, before they are compared with the head."""
    whole, origin, _ = _if_better(tmp_path, blind)
    recipe = Recipe().replace(**json.loads((tmp_path / "run" / "recipe.json").read_text()))

    def stop(*_):
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(first, "accuracy_on", stop)
        with pytest.raises(KeyboardInterrupt):
            _first(Specks(True), tmp_path / "stopped", recipe)
    resumed, same = _first(Specks(True), tmp_path / "stopped", recipe, resume=True)
    assert same == origin
    assert _equal(resumed, whole)


def test_random_weights_must_be_trained(tmp_path, photos) -> None:
    with pytest.raises(UserError, match=r"must be trained: set first_steps=480"):
        _first(photos, tmp_path / "run", RECIPE.replace(first_steps=0))
    assert not (tmp_path / "run").exists()


def _bad_weights(folder: Path, kind: str) -> Path:
    path = folder / "w.safetensors"
    match kind:
        case "other backbone":
            _backbone(path, 4, "resnet10t")
        case "garbage":
            path.write_bytes(b"garbage" * 100)
        case "empty":
            path.write_bytes(b"")
        case "pickle":
            path.write_bytes(pickle.dumps({"weight": 1}))
    return path


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("other backbone", "are not those of test_resnet"),
        ("garbage", "is not a readable safetensors file"),
        ("empty", "is not a readable safetensors file"),
        ("pickle", "is not a readable safetensors file"),
        ("missing", "There is no file"),
    ],
)
def test_weights_that_do_not_fit_are_one_sentence_and_change_nothing(tmp_path, kind, message) -> None:
    path = _bad_weights(tmp_path, kind)
    classifier = Classifier("test_resnet", 4)
    before = {name: tensor.clone() for name, tensor in classifier.state_dict().items()}
    with pytest.raises(UserError, match=message) as caught:
        load_backbone(classifier, str(path))
    assert str(path) in str(caught.value)
    assert all(torch.equal(tensor, before[name]) for name, tensor in classifier.state_dict().items())


def test_pretrained_weights_out_of_reach_are_one_sentence(tmp_path, photos, monkeypatch) -> None:
    monkeypatch.setattr(first, "weights_reachable", lambda backbone: False)  # no network in tests
    with pytest.raises(
        UserError, match=r"weights of test_resnet cannot be downloaded.*weights='FILE'.*pretrained=False"
    ):
        _first(photos, tmp_path / "run", RECIPE.replace(pretrained=True))
    assert not (tmp_path / "run").exists()


class OfImageNet:
    """Two photos of ImageNet's thousand classes."""

    names = ("a.jpg", "b.jpg")
    labels = np.array([0, 999])

    def __init__(self, classes: list[str]) -> None:
        self.classes = classes

    def __len__(self) -> int:
        return 2

    def image(self, index: int, least=None) -> np.ndarray:
        return np.full((32, 32, 3), 100 * index, np.uint8)


@pytest.mark.parametrize("renamed", [False, True])
def test_pretrained_weights_are_taken_as_they_are_on_imagenet_alone(tmp_path, monkeypatch, renamed) -> None:
    real = timm.create_model
    monkeypatch.setattr(first, "weights_reachable", lambda backbone: True)
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained, **more: real(name, **more))  # no network
    names = ImageNetInfo("imagenet-1k").label_names()
    photos = OfImageNet(names[::-1] if renamed else names)
    _, origin = _first(photos, tmp_path / "run", RECIPE.replace(pretrained=True, first_steps=1))
    beginning = "f(0) is test_resnet with timm's pretrained weights, "
    assert origin.startswith(beginning + ("its head fitted to the photos" if renamed else "used as it is"))


def test_weights_of_a_wheel_are_ready_for_imagenet_and_nothing_else() -> None:
    names = ImageNetInfo("imagenet-1k").label_names()
    wheel = RECIPE.replace(backbone="lite0", pretrained=True)
    assert first.is_pretrained_for(OfImageNet(names), wheel)
    assert not first.is_pretrained_for(OfImageNet(names[:999]), wheel)
    assert not first.is_pretrained_for(OfImageNet(names), wheel.replace(pretrained=False))
    assert not first.is_pretrained_for(OfImageNet(names), wheel.replace(weights="mine.safetensors"))
    assert not first.is_pretrained_for(
        OfImageNet(names), wheel.replace(backbone="resnetv2_50x1_bit.goog_in21k")
    )  # 21,843 classes


@given(st.floats(0, 1))
def test_the_learning_rate_goes_up_a_line_and_down_a_cosine(share) -> None:
    rate, later = one_cycle(share), one_cycle(min(1, share + 0.01))
    assert 0 <= rate <= 1
    assert later >= rate if share + 0.01 <= WARM_UP else share < WARM_UP or later <= rate
    assert one_cycle(0) > 0  # no step is wasted
    assert one_cycle(WARM_UP) == 1


def test_the_weights_of_a_larger_network_are_not_those_of_a_smaller(tmp_path) -> None:
    """Every tensor of resnet18 has a namesake of the same shape in resnet34."""
    save_file(timm.create_model("resnet34", num_classes=4).state_dict(), tmp_path / "w.safetensors")
    with pytest.raises(UserError, match="not those of resnet18"):
        load_backbone(Classifier("resnet18", 4), str(tmp_path / "w.safetensors"))
