"""What people call a class: ImageNet's photos lie in folders with names such as n02123045, a tabby."""

from collections import Counter

from timm.data.imagenet_info import ImageNetInfo


def titles_of(classes: list[str]) -> list[str]:
    """A title for each class: the first of WordNet's words, with the class where two share it; else the class itself.

    >>> titles_of(["n02123045", "n02012849", "n03126707", "my cat"])
    ['tabby', 'crane n02012849', 'crane n03126707', 'my cat']
    """
    info = ImageNetInfo("imagenet-1k")
    names: list[str] = info.label_names()  # type: ignore[no-untyped-call]
    known = {name: info.label_name_to_description(name).partition(",")[0] for name in names}
    shared = Counter(known.values())
    return [
        name if name not in known else known[name] if shared[known[name]] == 1 else f"{known[name]} {name}"
        for name in classes
    ]
