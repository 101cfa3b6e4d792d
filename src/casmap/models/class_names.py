"""Readable names of ImageNet's classes, whose folders are named like n02123045 (tabby)."""

from collections import Counter

from timm.data.imagenet_info import ImageNetInfo

from casmap.io.names import written


def titles_of(classes: list[str]) -> list[str]:
    """A title for each class: WordNet's first word, with the class if two share it; for other classes the class itself.

    >>> titles_of(["n02123045", "n02012849", "n03126707", "my cat"])
    ['tabby', 'crane n02012849', 'crane n03126707', 'my cat']
    """
    info = ImageNetInfo("imagenet-1k")
    names: list[str] = info.label_names()  # type: ignore[no-untyped-call]
    known = {name: info.label_name_to_description(name).partition(",")[0] for name in names}
    shared = Counter(known.values())
    return [
        written(name) if name not in known else known[name] if shared[known[name]] == 1 else f"{known[name]} {name}"
        for name in classes
    ]
