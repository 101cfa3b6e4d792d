"""casmap: all the evidence in a photo.

>>> import casmap
>>> mapper = casmap.load()  # the mapping that comes along
>>> mapper.size
224
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from casmap.version import __version__

if TYPE_CHECKING:
    from casmap.annotations.labelled import Object as Object
    from casmap.errors import InvalidImage as InvalidImage
    from casmap.errors import UnreadableImage as UnreadableImage
    from casmap.errors import UserError as UserError
    from casmap.evaluation.table import Evaluation as Evaluation
    from casmap.evaluation.table import evaluate as evaluate
    from casmap.inference.folder import Extraction as Extraction
    from casmap.inference.folder import extract as extract
    from casmap.inference.mapper import SaliencyMapper as SaliencyMapper
    from casmap.inference.mapper import load as load
    from casmap.inference.saliency_map import SaliencyMap as SaliencyMap
    from casmap.reporting import Reporter as Reporter
    from casmap.tools.annotate import AnnotationResult as AnnotationResult
    from casmap.tools.annotate import annotate as annotate
    from casmap.training.loop import TrainingResult as TrainingResult
    from casmap.training.start import train as train

# Where each name lives. It is imported when it is first asked for: `import casmap` loads neither torch nor OpenCV.
_HOMES = {
    "AnnotationResult": "casmap.tools.annotate",
    "Evaluation": "casmap.evaluation.table",
    "Extraction": "casmap.inference.folder",
    "InvalidImage": "casmap.errors",
    "Object": "casmap.annotations.labelled",
    "Reporter": "casmap.reporting",
    "SaliencyMap": "casmap.inference.saliency_map",
    "SaliencyMapper": "casmap.inference.mapper",
    "TrainingResult": "casmap.training.loop",
    "UnreadableImage": "casmap.errors",
    "UserError": "casmap.errors",
    "annotate": "casmap.tools.annotate",
    "evaluate": "casmap.evaluation.table",
    "extract": "casmap.inference.folder",
    "load": "casmap.inference.mapper",
    "train": "casmap.training.start",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
