"""What a study would take."""

import pytest

from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.paper.plan import Planned, activations, disk, memory
from casmap.training.recipes import PAPER, QUICK


@pytest.fixture
def sizes():
    f = Classifier("test_resnet", 40)
    count = [sum(tensor.numel() for tensor in part.state_dict().values()) for part in (f, Decoder(f.stage_channels))]
    return count[0], count[1]


def test_steps_are_counted_for_all_runs() -> None:
    one = Planned("x", QUICK, photos=2000, classes=40, runs=3, first=True)
    assert (one.first_steps, one.steps) == (3 * 600, 3 * 450)
    assert Planned("x", PAPER, 1_281_167, 1000).steps == 140_070
    assert Planned("x", PAPER, 1_281_167, 1000).first_steps == 0


def test_disk_by_hand(sizes) -> None:
    f, m = sizes
    one = Planned("x", QUICK.replace(thinning="L"), 2000, 40, runs=2)
    # each run leaves f(0) and encoder with decoder; two checkpoints of weights, momentum, Adam's two, and one sample
    assert disk(one) == 4 * (2 * (2 * f + m) + 2 * (3 * f + 3 * m + f))


def test_memory_grows_with_the_sample_set_the_batch_and_an_encoder_of_its_own(sizes) -> None:
    f, _ = sizes
    plain = memory(Planned("x", QUICK.replace(thinning="L"), 2000, 40))
    assert memory(Planned("x", QUICK, 2000, 40)) - plain == pytest.approx(4 * (QUICK.sample_limit - 1) * f)
    assert memory(Planned("x", QUICK.replace(thinning="L", encoder="separate"), 2000, 40)) > plain + 4 * 4 * f
    twice = memory(Planned("x", QUICK.replace(thinning="L", batch=64), 2000, 40))
    assert twice - plain == pytest.approx(4 * 32 * 2 * activations("test_resnet", 96))
