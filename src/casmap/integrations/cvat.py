"""An auto-annotation function for CVAT, which `cvat-cli` runs on the photos of a task.

cvat-cli task auto-annotate 42 --function-module casmap.integrations.cvat -p label=str:cat -p shape=str:mask
"""

from typing import Literal, get_args

from casmap.annotations.format import Which
from casmap.annotations.labelled import Object
from casmap.errors import UserError
from casmap.inference.components import Threshold
from casmap.inference.mapper import SaliencyMapper, as_mapper
from casmap.inference.objects import SMALLEST
from casmap.install_hint import install_hint

try:
    import cvat_sdk.auto_annotation as cvat
    from cvat_sdk.masks import encode_mask
    from cvat_sdk.models import LabeledShapeRequest
    from PIL.Image import Image
except ModuleNotFoundError as error:
    raise UserError(f"casmap.integrations.cvat needs cvat-sdk: {install_hint('cvat')}.") from error

Shape = Literal["rectangle", "polygon", "mask"]


class DetectionFunction:
    """The objects that a mapping finds in a photo, as CVAT's shapes. `create` makes one.

    spec: the labels. With one label, every object has it; with several, an object has the label that the mapping's
    classifier predicts for the photo.
    """

    def __init__(
        self, mapper: SaliencyMapper, labels: list[str], shape: Shape, objects: Which, min_area: float, cut: Threshold
    ) -> None:
        self.mapper, self.shape, self.objects, self.min_area, self.cut = mapper, shape, objects, min_area, cut
        self.ids = {label: number for number, label in enumerate(labels)}
        self.spec = cvat.DetectionFunctionSpec(
            labels=[cvat.label_spec(label, number, type=shape) for label, number in self.ids.items()]
        )

    def detect(self, context: cvat.DetectionFunctionContext, image: Image) -> list[LabeledShapeRequest]:
        """Find the objects in a photo; with a threshold of confidence, those whose score reaches it."""
        found = self.mapper(image)
        objects = found.objects(self.objects, self.min_area, self.cut.alpha, self.cut.fixed)
        label = 0 if len(self.ids) == 1 else self.ids[found.label or ""]
        shape: Shape = "polygon" if self.shape == "mask" and context.conv_mask_to_poly else self.shape
        return [_shape(one, label, shape) for one in objects if one.score >= (context.conf_threshold or 0)]


def create(
    mapping: str = "", label: str = "object", classes: str = "none", shape: str = "polygon", objects: str = "largest",
    min_area: float = SMALLEST, threshold: float | None = None, alpha: float | None = None, edges: str = "sharp",
) -> DetectionFunction:  # fmt: skip
    """Create the function; cvat-cli passes its options `-p NAME=TYPE:VALUE`.

    mapping: a file (default: the shipped mapping). classes: "none", all objects have the label `label`; "predicted",
    the class that the mapping's classifier predicts. shape: rectangle, polygon or mask. objects: largest or all.
    min_area, threshold, alpha, edges: as in `casmap.annotate`.

    >>> create(shape="mask").spec.labels[0].name
    'object'
    """
    choices = {"classes": ("none", "predicted"), "shape": get_args(Shape), "objects": get_args(Which)}
    for (name, allowed), value in zip(choices.items(), (classes, shape, objects), strict=True):
        if value not in allowed:
            raise UserError(f"{name} must be one of {', '.join(allowed)}, not {value!r}.")
    mapper = as_mapper(mapping or None, edges=edges)  # type: ignore[arg-type]
    if classes == "predicted" and not mapper.network.predicts:
        raise UserError("This mapping predicts no classes: leave out classes, and give a label.")
    labels = list(dict.fromkeys(mapper.titles)) if classes == "predicted" else [label]
    return DetectionFunction(mapper, labels, shape, objects, min_area, Threshold(alpha, threshold))  # type: ignore[arg-type]


def _shape(one: Object, label: int, shape: Shape) -> LabeledShapeRequest:
    """Return an object as CVAT's shape.

    >>> outline, runs = [(1.0, 0.0), (3.0, 0.0), (3.0, 1.0)], {"size": [1, 4], "counts": [1, 2, 1]}
    >>> one = Object("cat", (1, 0, 3, 1), outline, runs, 2, 1.0)
    >>> [_shape(one, 0, shape).points for shape in get_args(Shape)]
    [[1.0, 0.0, 3.0, 1.0], [1.0, 0.0, 3.0, 0.0, 3.0, 1.0], [0.0, 2.0, 1.0, 0.0, 2.0, 0.0]]
    """
    if shape == "rectangle":
        return cvat.rectangle(label, [float(edge) for edge in one.box])
    if shape == "polygon":
        return cvat.polygon(label, [number for point in one.polygon for number in point])
    return cvat.mask(label, encode_mask(one.mask(), one.box))
