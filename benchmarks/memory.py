"""The gain of `reuse_memory`: lite0 with and without it, in separate processes that take turns.

python benchmarks/memory.py
"""

import statistics
import subprocess
import sys

WORK = """
import resource, sys, time
import torch
from casmap.io.memory import reuse_memory
from casmap.models.classifier import Classifier, to_device

if sys.argv[1] == "kept":
    assert reuse_memory()
torch.manual_seed(0)
f = to_device(Classifier("lite0", 1000), torch.device("cpu"))
for side, learns in ((224, False), (416, False), (160, True)):
    f.train(learns)
    images = torch.randn(16, 3, side, side).contiguous(memory_format=torch.channels_last)
    seconds = []
    for _ in range(6):
        began = time.perf_counter()
        with torch.set_grad_enabled(learns):
            loss = f(images).square().mean()
        if learns:
            loss.backward()
        seconds.append(time.perf_counter() - began)
    print(sorted(seconds[1:])[2])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
WAYS = ("given back", "kept")
ROUNDS = 3


def run(way: str) -> list[float]:
    """Seconds of the three tasks, and the peak memory in MB."""
    done = subprocess.run([sys.executable, "-c", WORK, way], capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def main() -> None:
    """Print medians over rounds and their ratio."""
    found: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for _ in range(ROUNDS):
        for way in WAYS:
            found[way].append(run(way))
    columns = {way: [statistics.median(column) for column in zip(*rows, strict=True)] for way, rows in found.items()}
    names = ("forward, 224 px, s", "forward, 416 px, s", "forward and backward, 160 px, s", "largest memory, MB")
    for name, before, after in zip(names, *(columns[way] for way in WAYS), strict=True):
        print(f"{name:34} {before:8.2f} given back {after:8.2f} kept {before / after:6.2f} times")


if __name__ == "__main__":
    main()
