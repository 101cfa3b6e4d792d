"""casmap: saliency maps of photos that do not depend on a single classifier.

>>> import casmap
>>> mapper = casmap.load()  # the shipped mapping
>>> mapper.size
288
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from casmap.version import __version__

if TYPE_CHECKING:
    from casmap.annotations.labelled import Object
    from casmap.errors import InvalidImage, UnreadableImage, UserError
    from casmap.evaluation.table import Evaluation, evaluate
    from casmap.inference.folder import Extraction, extract
    from casmap.inference.mapper import SaliencyMapper, load
    from casmap.inference.saliency_map import SaliencyMap
    from casmap.reporting import Reporter
    from casmap.tools.annotate import AnnotationResult, annotate
    from casmap.tools.correct import CorrectionResult, correct
    from casmap.training.loop import TrainingResult
    from casmap.training.start import train

__all__ = [
    "AnnotationResult", "CorrectionResult", "Evaluation", "Extraction", "InvalidImage", "Object", "Reporter",
    "SaliencyMap", "SaliencyMapper", "TrainingResult", "UnreadableImage", "UserError", "__version__", "annotate",
    "correct", "evaluate", "extract", "load", "train",
]  # fmt: skip
# The module of each public name, imported on first use: `import casmap` loads neither torch nor OpenCV.
_MODULES = {
    "annotations.labelled": ["Object"], "errors": ["InvalidImage", "UnreadableImage", "UserError"],
    "evaluation.table": ["Evaluation", "evaluate"], "inference.folder": ["Extraction", "extract"],
    "inference.mapper": ["SaliencyMapper", "load"], "inference.saliency_map": ["SaliencyMap"],
    "reporting": ["Reporter"], "tools.annotate": ["AnnotationResult", "annotate"],
    "tools.correct": ["CorrectionResult", "correct"], "training.loop": ["TrainingResult"], "training.start": ["train"],
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f"casmap.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
