"""Names of files: safe ones, and one for each photo."""

import os
import re
from collections import Counter
from itertools import count
from pathlib import Path


def file_name(name: str) -> str:
    """Make a name safe for a file: one like ../x must not leave its folder.

    >>> file_name("../12:30")
    '..-12-30'
    """
    return re.sub(r"[\\/:]", "-", name)


def unique_names(paths: list[Path], earlier: dict[str, str] | None = None) -> dict[Path, str]:
    """A name for each photo's files: its own; its folder's before it, then a number, where photos share one.

    Photos of `earlier`, by their absolute paths, have their names already.

    >>> paths = [Path("a/cat.jpg"), Path("b/cat.jpg"), Path("b/cat.png"), Path("b/dog.jpg")]
    >>> list(unique_names(paths).values())
    ['a-cat', 'b-cat', 'b-cat-2', 'dog']
    """
    earlier = earlier or {}
    whole = {path: os.path.abspath(path) for path in paths}
    stems = Counter(file_name(path.stem) for path in paths)
    taken = set(earlier.values())
    alone = {stem for stem, uses in stems.items() if uses == 1} - taken
    taken |= alone
    names = {}
    for path in paths:
        stem = file_name(path.stem)
        if whole[path] in earlier:
            names[path] = earlier[whole[path]]
        elif stem in alone:
            names[path] = stem
        else:
            wanted = f"{file_name(Path(whole[path]).parent.name)}-{stem}"
            names[path] = next(name for n in count(1) if (name := wanted if n == 1 else f"{wanted}-{n}") not in taken)
            taken.add(names[path])
    return names
