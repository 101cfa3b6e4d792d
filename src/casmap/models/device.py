"""Where networks live."""

from typing import TypeVar

import torch

from casmap.errors import UserError

Module = TypeVar("Module", bound=torch.nn.Module)


def find_device(name: str) -> torch.device:
    """The device of this name; auto is the fastest there is."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise UserError(f"There is no device {name!r} here.") from error
    return device


def place(module: Module, device: torch.device) -> Module:
    """Move a network to its device, channels last: the faster layout for convolutions on CPUs and GPUs alike."""
    return module.to(device).to(memory_format=torch.channels_last)
