"""A classifier that only predicts, a thousand times for a photo: it can run in ONNX Runtime."""

import warnings
from collections.abc import Callable
from tempfile import TemporaryDirectory
from unittest.mock import patch

import onnxruntime
import torch
from torch import Tensor

from casmap.models.classifier import Classifier
from casmap.models.folding import CLOSE


def black_box(classifier: Classifier, images: Tensor) -> Callable[[Tensor], Tensor]:
    """A function from images of the size of `images` to logits, in ONNX Runtime with as many threads as torch.

    lite0 is 1.2 to 1.8 times as fast there. A backbone that cannot be exported, or that gives other logits there, is
    returned unchanged.

    >>> f, images = Classifier("test_resnet", classes=5).eval(), torch.rand(2, 3, 64, 64)
    >>> torch.allclose(black_box(f, images)(images), f(images), atol=1e-5)
    True
    """
    two, three = images[:1].expand(2, -1, -1, -1), images[:1].expand(3, -1, -1, -1)
    try:
        session = _session(classifier, two)

        def predict(images: Tensor) -> Tensor:
            return torch.from_numpy(session.run(None, {"images": images.contiguous().numpy()})[0])

        with torch.no_grad():
            expected = classifier(three)
        same = torch.allclose(predict(three), expected, rtol=0, atol=CLOSE * float(expected.abs().max()))
    except Exception:  # an unsupported operation: the exporter and the runtime raise many kinds of errors
        return classifier
    return predict if same else classifier


def _session(classifier: Classifier, images: Tensor) -> onnxruntime.InferenceSession:
    """The classifier in ONNX Runtime, for any batch size."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    with TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own deprecation warnings
        file = f"{folder}/classifier.onnx"
        torch._C._jit_set_onnx_log_enabled(False)
        with patch.object(torch._C, "_jit_set_onnx_log_enabled"):  # otherwise it prints what it cannot export
            torch.onnx.export(
                classifier, (images,), file, dynamo=False, input_names=["images"], opset_version=18,
                dynamic_axes={"images": {0: "batch"}},
            )  # fmt: skip
        return onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
