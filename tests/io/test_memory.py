"""Freed memory is reused: page faults are counted in a separate process."""

import platform
import subprocess
import sys

import pytest

COUNT = """
import resource, sys
import torch
from casmap.io.memory import reuse_memory

if sys.argv[1] == "kept":
    assert reuse_memory()
faults = []
for _ in range(40):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    torch.ones(16 << 20)  # 64 MB, touched and freed
    faults.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
print(max(faults[-5:]))  # once the heap is as large as it gets
"""


def faults(way: str) -> int:
    done = subprocess.run([sys.executable, "-c", COUNT, way], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")
def test_freed_memory_is_reused() -> None:
    assert faults("kept") < 100
    assert faults("given back") > faults("kept")
