"""How much faster a torch mapping is on a CPU where the colours of a pixel lie side by side: benchmarks/layout.py.

Both layouts take turns in one run; printed are the medians in milliseconds for a photo and their ratio.
"""

import time

import numpy as np
import torch

from casmap.io.memory import reuse_memory
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork

PHOTOS, SIDE, ROUNDS = 8, 224, 9


def main() -> None:
    """Random weights take as long as trained ones."""
    reuse_memory()
    encoder = Classifier("tf_efficientnet_lite0", 1000)
    decoder = Decoder(encoder.stage_channels, with_cam=True)
    network = SaliencyNetwork(encoder, decoder, [str(i) for i in range(1000)], predicts=True).eval()
    planes = torch.rand(PHOTOS, 3, SIDE, SIDE)
    pictures = {"planes": planes, "channels last": planes.contiguous(memory_format=torch.channels_last)}
    times: dict[str, list[float]] = {name: [] for name in pictures}
    with torch.inference_mode():
        for _ in range(ROUNDS + 1):  # the first one warms up
            for name, images in pictures.items():
                began = time.perf_counter()
                network(images)
                times[name].append(1000 * (time.perf_counter() - began) / PHOTOS)
    medians = {name: float(np.median(turns[1:])) for name, turns in times.items()}
    for name, median in medians.items():
        print(f"{name}: {median:.1f} ms")
    print(f"channels last is {medians['planes'] / medians['channels last']:.2f} times as fast")


if __name__ == "__main__":
    main()
