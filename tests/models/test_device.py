import pytest
import torch

from casmap.errors import UserError
from casmap.models.classifier import find_device, to_device


@pytest.mark.parametrize("name", ["tpu9000", "cuda:99"])
def test_a_device_that_is_not_here_is_one_sentence(name) -> None:
    with pytest.raises(UserError, match=f"The device '{name}' is not available"):
        find_device(name)


def test_every_machine_has_a_cpu_and_auto_finds_something() -> None:
    assert find_device("cpu").type == "cpu"
    assert (
        find_device("auto").type == "cuda" if torch.cuda.is_available() else find_device("auto").type in ("mps", "cpu")
    )


def test_a_network_is_placed_channels_last_and_keeps_its_weights() -> None:
    network = torch.nn.Conv2d(3, 4, 3)
    before = network.weight.detach().clone()
    placed = to_device(network, torch.device("cpu"))
    assert placed.weight.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(placed.weight, before)
