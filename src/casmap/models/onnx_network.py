"""A mapping in an ONNX file, run by ONNX Runtime without torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from casmap.errors import UserError

KEY = "casmap"  # the metadata key of the network's description
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}
SMALLEST, LARGEST = 32, 2048  # image sides, in pixels

Floats = npt.NDArray[np.float32]


class OnnxNetwork:
    """Computes masks and logits of normalised images, like `SaliencyNetwork`."""

    def __init__(self, session: onnxruntime.InferenceSession, about: dict[str, Any], concurrent: bool) -> None:
        self.session, self.about, self.concurrent = session, about, concurrent
        self.classes: list[str] = about["classes"]
        self.predicts: bool = about["predicts"]
        self.mean, self.std = tuple(about["mean"]), tuple(about["std"])

    def run(self, images: Floats) -> tuple[Floats, Floats]:
        """Masks (N, H, W) and logits (N, classes) of images (N, 3, H, W)."""
        masks, logits = self.session.run(["masks", "logits"], {"images": images})
        return masks[:, 0], logits


def load_onnx(path: str | Path, device: str = "cpu", threads: int | None = None) -> OnnxNetwork:
    """Read a mapping that `casmap export` wrote. threads: for one call on a CPU (default: all cores)."""
    if not Path(path).is_file():
        raise UserError(f"There is no file {path}.")
    provider = PROVIDERS.get(device)
    if provider not in onnxruntime.get_available_providers():
        raise UserError(f"ONNX Runtime has no device {device!r} on this machine: use cpu.")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    options.intra_op_num_threads = threads or 0
    try:
        # A fallback prints messages and fails again.
        session = onnxruntime.InferenceSession(str(path), options, providers=[provider], enable_fallback=0)
    except Exception as error:  # a broken file can raise anything
        raise UserError(f"{path} is not a readable ONNX file.") from error
    try:
        about = json.loads(session.get_modelmeta().custom_metadata_map[KEY])
        names = [item.name for item in (*session.get_inputs(), *session.get_outputs())]
        if names != ["images", "masks", "logits"] or not _is_complete(about):
            raise ValueError("not written by casmap")
    except (KeyError, TypeError, ValueError) as error:
        raise UserError(f"{path} is an ONNX file, but not a mapping that casmap wrote.") from error
    return OnnxNetwork(session, about, concurrent=threads == 1 and device == "cpu")


def _is_complete(about: Any) -> bool:
    """Whether the metadata are complete."""
    numbers = [float(number) for key in ("mean", "std") for number in about[key]]
    classes, titles = about["classes"], about.get("titles", about["classes"])
    return (
        len(numbers) == 6 and all(map(np.isfinite, numbers)) and min(numbers[3:]) > 0
        and type(about["size"]) is int and SMALLEST <= about["size"] <= LARGEST
        and isinstance(classes, list) and all(isinstance(name, str) for name in classes)
        and isinstance(titles, list) and [type(title) for title in titles] == [str] * len(classes)
        and isinstance(about["predicts"], bool)
    )  # fmt: skip
