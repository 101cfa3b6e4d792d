"""Report what is installed, what is missing, and how to fix it."""

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

LITTLE = 5.0  # GB of free disk; a training run with its checkpoints needs some


@dataclass(frozen=True)
class Finding:
    """One finding: what was examined, what was found, whether it is in order, and otherwise what to do."""

    what: str
    found: str
    well: bool = True
    advice: str = ""


def examine(folder: Path = Path()) -> list[Finding]:
    """Examine versions, threads, devices, disk, the shipped mapping and the extras."""
    import onnxruntime

    free = shutil.disk_usage(folder).free / 1e9
    enough = free > LITTLE
    return [
        Finding("casmap", __version__),
        Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        _threads(),
        Finding("disk", f"{free:.0f} GB free", enough, "" if enough else "free some disk space before training"),
        Finding("ONNX Runtime", f"{onnxruntime.__version__}: {', '.join(onnxruntime.get_available_providers())}"),
        _shipped(),
        *(_extra(extra, wanted) for extra, wanted in extras().items()),
        *_devices(),
    ]


def extras() -> dict[str, list[Requirement]]:
    """The requirements of each extra, from the package's metadata."""
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
    problems = [f"missing: {', '.join(missing)}"] * bool(missing) + old
    return Finding(f"casmap[{name}]", "; ".join(problems), False, install_hint(name))


def _threads() -> Finding:
    free = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    limit = os.environ.get("OMP_NUM_THREADS")
    found = f"{free} cores" + (f", OMP_NUM_THREADS={limit}" if limit else "")
    if limit and limit.isdecimal() and int(limit) > free:
        return Finding("threads", found, False, "unset OMP_NUM_THREADS: it asks for more threads than there are cores")
    return Finding("threads", found)


def _shipped() -> Finding:
    try:
        mapper = SaliencyMapper.load()
    except Exception as error:  # report it, whatever it is
        return Finding("mapping", str(error), False, "reinstall casmap")
    return Finding("mapping", f"{SHIPPED.name}, {SHIPPED.stat().st_size / 1e6:.1f} MB, input {mapper.size} px")


def _devices() -> list[Finding]:
    try:
        import torch
    except ModuleNotFoundError:
        return []

    devices = [f"cuda: {torch.cuda.get_device_name(number)}" for number in range(torch.cuda.device_count())]
    devices += ["mps"] * torch.backends.mps.is_available()
    return [Finding("torch", f"{torch.__version__}, {torch.get_num_threads()} threads; {', '.join([*devices, 'cpu'])}")]


def to_dict(findings: list[Finding]) -> dict[str, Any]:
    """All findings, ready for JSON."""
    return {"executable": sys.executable, "findings": [asdict(finding) for finding in findings]}
