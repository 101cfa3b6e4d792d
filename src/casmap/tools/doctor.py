"""Doctor: what is here, what is missing, and what to do about it."""

import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.install_hint import install_hint
from casmap.version import __version__

LITTLE = 5.0  # GB of disk: a training with its checkpoints takes some


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: what, what was found, whether it is well, and else what to do."""

    what: str
    found: str
    well: bool = True
    advice: str = ""


def examine(folder: Path = Path()) -> list[Finding]:
    """Look at versions, threads, devices, disk, the mapping that comes along and the extras."""
    import onnxruntime

    free = shutil.disk_usage(folder).free / 1e9
    enough = free > LITTLE
    return [
        Finding("casmap", __version__),
        Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        _threads(),
        Finding("disk", f"{free:.0f} GB free here", enough, "" if enough else "make room for trainings"),
        Finding("ONNX Runtime", f"{onnxruntime.__version__}: {', '.join(onnxruntime.get_available_providers())}"),
        _shipped(),
        *(_extra(extra, wanted) for extra, wanted in extras().items()),
        *_devices(),
    ]


def extras() -> dict[str, list[Requirement]]:
    """What each extra asks for, as the package itself says."""
    found: dict[str, list[Requirement]] = {}
    for text in requires("casmap") or []:
        wanted = Requirement(text)
        marker = str(wanted.marker or "")
        if "extra ==" in marker and wanted.name != "casmap":
            found.setdefault(marker.rpartition("==")[2].strip(" \"'"), []).append(wanted)
    return {name: found[name] for name in sorted(found) if name != "test"}


def _extra(name: str, wanted: list[Requirement]) -> Finding:
    missing, old = [], []
    for one in wanted:
        try:
            if not one.specifier.contains(version(one.name), prereleases=True):
                old.append(f"{one.name} {version(one.name)}, not {one.specifier}")
        except PackageNotFoundError:
            missing.append(one.name)
    if not missing and not old:
        return Finding(f"casmap[{name}]", ", ".join(f"{one.name} {version(one.name)}" for one in wanted))
    said = [f"without {', '.join(missing)}"] * bool(missing) + old
    return Finding(f"casmap[{name}]", "; ".join(said), False, install_hint(name))


def _threads() -> Finding:
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    said = os.environ.get("OMP_NUM_THREADS")
    told = f"{free} cores" + (f", OMP_NUM_THREADS={said}" if said else "")
    if said and said.isdecimal() and int(said) > free:
        return Finding("threads", told, False, "more threads than cores wait for each other: unset OMP_NUM_THREADS")
    return Finding("threads", told)


def _shipped() -> Finding:
    try:
        mapper = SaliencyMapper.load()
    except Exception as error:  # whatever is wrong with it, it is to be told
        return Finding("mapping", str(error), False, "install casmap again")
    return Finding("mapping", f"{SHIPPED.name}, {SHIPPED.stat().st_size / 1e6:.1f} MB, pictures of {mapper.size} px")


def _devices() -> list[Finding]:
    try:
        import torch
    except ModuleNotFoundError:
        return []

    told = [f"cuda: {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count())]
    told += ["mps"] * torch.backends.mps.is_available()
    return [Finding("torch", f"{torch.__version__}, {torch.get_num_threads()} threads; {', '.join([*told, 'cpu'])}")]


def to_dict(findings: list[Finding]) -> dict[str, Any]:
    """All of it, ready for JSON."""
    return {"executable": sys.executable, "findings": [asdict(finding) for finding in findings]}
