"""The folder of a study: a second run resumes, and options that differ from the first run are refused."""

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from casmap.errors import option
from casmap.io.atomic import own_folder, write_whole
from casmap.io.kept_options import keep_options, read_options

DAMAGED = "delete it to repeat that part of the study"


class Study:
    """Options that are saved, and parts that are computed once: each is a file, written when it is complete.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> Study(folder, {"seed": 0}).part("a", lambda: {"LE": 0.3})
    {'LE': 0.3}
    >>> Study(folder, {"seed": 0}).part("a", lambda: {"LE": 0.5})  # not computed again
    {'LE': 0.3}
    >>> Study(folder, {"seed": 1})
    Traceback (most recent call last):
    casmap.errors.UserError: ... was started with seed = 0, not 1: use the same options, or choose another folder (out).
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder, kept = folder, folder / "options.json"
        if kept.exists():
            read_options(kept, DAMAGED)
        keep_options(kept, options, f"use the same options, or choose another folder ({option('out')})")

    def part(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The result of `make`, from now or from an earlier run."""
        readable, exact = re.sub(r"[^A-Za-z0-9.-]+", "-", name), hashlib.sha256(os.fsencode(name)).hexdigest()[:8]
        path = own_folder(self.folder / "parts") / f"{readable[:60]}-{exact}.json"
        if not path.exists():
            write_whole(path, json.dumps(make()) + "\n")
        return read_options(path, DAMAGED)
