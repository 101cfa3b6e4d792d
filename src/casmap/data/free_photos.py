"""Find freely licensed photos, which scikit-image contains."""

import importlib.util
from pathlib import Path

from casmap.errors import UserError
from casmap.install_hint import install_hint

NAMES = ("chelsea.png", "coffee.png", "rocket.jpg", "motorcycle_left.png", "astronaut.png", "camera.png")


def free_photos() -> list[Path]:
    """Return the files of a cat, a cup of coffee, a rocket, a motorcycle, an astronaut and a cameraman.

    >>> [path.stem for path in free_photos()]
    ['chelsea', 'coffee', 'rocket', 'motorcycle_left', 'astronaut', 'camera']
    """
    found = importlib.util.find_spec("skimage")  # locate its files without importing it
    folders = (found.submodule_search_locations if found else None) or []
    paths = [Path(folder) / "data" / name for folder in folders for name in NAMES]
    if not paths or not all(path.is_file() for path in paths):
        raise UserError(f"The free photos need scikit-image: {install_hint('demo')}.")
    return paths
