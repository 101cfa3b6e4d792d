"""A mapping in an ONNX file, run by ONNX Runtime without torch."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime

from casmap.errors import UserError
from casmap.io.reading import reading
from casmap.models.metadata import check_mapping

KEY = "casmap"  # the metadata key of the network's description
PROVIDERS = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}

Floats = npt.NDArray[np.float32]


class OnnxNetwork:
    """Computes masks and logits of normalised images, like `SaliencyNetwork`."""

    def __init__(
        self, session: onnxruntime.InferenceSession, about: dict[str, Any], concurrent: bool, path: str | Path = ""
    ) -> None:
        self.path = path
        self.session, self.about, self.concurrent = session, about, concurrent
        self.classes: list[str] = about["classes"]
        self.predicts: bool = about["predicts"]
        self.mean, self.std = tuple(about["mean"]), tuple(about["std"])

    def run(self, images: Floats) -> tuple[Floats, Floats]:
        """Masks (N, H, W) and logits (N, classes) of images (N, 3, H, W)."""
        with reading(self.path, f"The mapping {self.path} is damaged: ONNX Runtime cannot run it."):
            masks, logits = self.session.run(["masks", "logits"], {"images": images})
            n, _, *size = images.shape
            if masks.shape != (n, 1, *size) or logits.shape != (n, len(self.classes)):
                raise ValueError("other outputs than the metadata say")
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
        raise UserError(f"{path} is not a readable ONNX file: give a mapping that casmap export wrote.") from error
    with reading(path, f"{path} is an ONNX file, but not a mapping that casmap wrote."):
        about = json.loads(session.get_modelmeta().custom_metadata_map[KEY])
        names = [item.name for item in (*session.get_inputs(), *session.get_outputs())]
        if names != ["images", "masks", "logits"]:
            raise ValueError("not written by casmap")
        try:
            check_mapping(about)
        except ValueError as error:
            raise UserError(f"{path} is an ONNX file, but not a mapping that casmap wrote: {error}.") from error
    return OnnxNetwork(session, about, threads == 1 and device == "cpu", path)
