"""Safe file names, and a unique name for the output files of each photo."""

import os
import re
from collections import Counter
from itertools import count
from pathlib import Path


def file_name(name: str) -> str:
    """Replace the characters that would make a name leave its folder, as in ../x.

    >>> file_name("../12:30")
    '..-12-30'
    """
    return re.sub(r"[\\/:]", "-", name)


def unique_names(paths: list[Path], earlier: dict[str, str] | None = None) -> dict[Path, str]:
    """Give each photo a name for its output files.

    The name is the photo's stem. Photos with the same stem get their folder's name in front and, if that is not enough,
    a number at the end. earlier: names given before, by absolute path; these photos keep them.

    >>> paths = [Path("a/cat.jpg"), Path("b/cat.jpg"), Path("b/cat.png"), Path("b/dog.jpg")]
    >>> list(unique_names(paths).values())
    ['a-cat', 'b-cat', 'b-cat-2', 'dog']
    """
    earlier = earlier or {}
    absolute = {path: os.path.abspath(path) for path in paths}
    stems = Counter(file_name(path.stem) for path in paths)
    taken = set(earlier.values())
    unique = {stem for stem, uses in stems.items() if uses == 1} - taken
    taken |= unique
    names = {}
    for path in paths:
        stem = file_name(path.stem)
        if absolute[path] in earlier:
            names[path] = earlier[absolute[path]]
        elif stem in unique:
            names[path] = stem
        else:
            base = f"{file_name(Path(absolute[path]).parent.name)}-{stem}"
            names[path] = next(name for n in count(1) if (name := base if n == 1 else f"{base}-{n}") not in taken)
            taken.add(names[path])
    return names
