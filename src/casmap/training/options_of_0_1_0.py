"""What became of the options of 0.1.0: runs, studies and commands of that version are still understood."""

from typing import Any

# Renamed options of 0.1.0; the old names are still accepted.
RENAMED = {
    "taught_steps": "second_stage_steps", "taught_lr": "second_stage_lr", "teacher_size": "cam_size",
    "casm_size": "algorithm_size",
}  # fmt: skip
# Removed options of 0.1.0: the only value that is still accepted, and the reason.
REMOVED: dict[str, tuple[Any, str]] = {
    "precision": ("float32", "bfloat16 made a step 15 times slower on CPUs"),
    "compile": (False, "torch.compile made a step no faster"),
}

# Options that 0.1.0 did not have: the value without effect.
ADDED: dict[str, Any] = {
    "erase": "pixels", "sharpness": 0.0, "pseudo_masks": "cam", "cam_gate": 0.1, "masks_from": None, "cam_scales": 1,
    "second_stage_rounds": 1, "held_out": None, "from_scratch": True,
    "encoder_lr": 0.0, "start_share": 0.0, "first_if_better": False,
}  # fmt: skip


def current_names(options: dict[str, Any]) -> dict[str, Any]:
    """The options with current names instead of those of 0.1.0; if both are given, the current name wins.

    >>> current_names({"taught_steps": 600, "seed": 1})
    {'second_stage_steps': 600, 'seed': 1}
    """
    renamed = {RENAMED[name]: value for name, value in options.items() if name in RENAMED}
    return renamed | {name: value for name, value in options.items() if name not in RENAMED}


def names_of_0_1_0(options: dict[str, Any]) -> dict[str, Any]:
    """The options with the names of 0.1.0, from which studies derive the names of their folders.

    Options that 0.1.0 did not have are left out as long as they have no effect.

    >>> names_of_0_1_0({"second_stage_steps": 600, "seed": 1, "erase": "pixels"})
    {'taught_steps': 600, 'seed': 1}
    """
    old = {current: name for name, current in RENAMED.items()}
    return {old.get(name, name): value for name, value in options.items() if ADDED.get(name, ...) != value}
