"""The words of `casmap annotate`."""

from typing import Literal

Format = Literal["coco", "yolo", "yolo-seg", "voc", "label-studio", "cvat"]
Classes = Literal["folder", "predicted", "none"]
Which = Literal["largest", "all"]
Weights = Literal["onnx", "onnx-half"]
