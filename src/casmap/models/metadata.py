"""Check the metadata of a mapping or a classifier, which drive what is built, before anything is built."""

from typing import Any

SMALLEST, LARGEST = 32, 2048  # image sides, in pixels
MAX_CLASSES = 10**5  # ImageNet has 21,841


def check_classifier(about: Any) -> None:
    """Raise ValueError, with the reason, if the metadata of a classifier are incomplete or impossible.

    >>> check_classifier({"backbone": "lite0", "classes": ["cat"], "mean": [0, 0, 0], "std": [1, 1, 0]})
    Traceback (most recent call last):
    ValueError: its std is not three positive numbers
    """
    if not isinstance(about, dict):
        raise ValueError("it has no metadata")
    if not isinstance(about.get("backbone"), str):
        raise ValueError("its metadata lack the backbone")
    if not _texts(about.get("classes")) or not about["classes"]:
        raise ValueError("its metadata lack the classes")
    if len(about["classes"]) > MAX_CLASSES:
        raise ValueError(f"it has more than {MAX_CLASSES:,} classes")
    for key, least, kind in (("mean", -1e6, "three numbers"), ("std", 1e-6, "three positive numbers")):
        numbers: Any = about.get(key)
        three = isinstance(numbers, list | tuple) and len(numbers) == 3
        if not three or not all(type(n) in (int, float) and least <= n <= 1e6 for n in numbers):
            raise ValueError(f"its {key} is not {kind}")


def check_mapping(about: Any) -> None:
    """Raise ValueError, with the reason, if the metadata of a mapping are incomplete or impossible."""
    check_classifier(about)
    size = about.get("size")
    if type(size) is not int or not SMALLEST <= size <= LARGEST:
        raise ValueError(f"its size is not a number of pixels from {SMALLEST} to {LARGEST}")
    if not isinstance(about.get("predicts"), bool):
        raise ValueError("its metadata do not say whether it predicts classes")
    cam_classes = about.get("cam_classes", 1)
    if type(cam_classes) is not int or not 1 <= cam_classes <= MAX_CLASSES:
        raise ValueError("the number of classes of its class activation map is impossible")
    titles = about.get("titles", about["classes"])
    if not _texts(titles) or len(titles) != len(about["classes"]):
        raise ValueError("its titles are not one text for each class")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)
