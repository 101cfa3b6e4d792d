"""The folder of a study: it goes on where it was stopped, and refuses other options than those it was begun with."""

import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from casmap.errors import UserError
from casmap.io.atomic import write_whole


class Study:
    """Options that are kept, and parts that are done once: each is a file, written whole when it is done.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> Study(folder, {"seed": 0}).part("a", lambda: {"LE": 0.3})
    {'LE': 0.3}
    >>> Study(folder, {"seed": 0}).part("a", lambda: {"LE": 0.5})  # not made again
    {'LE': 0.3}
    >>> Study(folder, {"seed": 1})
    Traceback (most recent call last):
        ...
    casmap.errors.UserError: ... was begun with seed = 0, not 1: go on with the same options, or choose another --out.
    """

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self.folder = folder
        kept = folder / "options.json"
        options = json.loads(json.dumps(options))  # as they will be read
        if kept.exists():
            self._compare(_read(kept), options)
        else:
            write_whole(kept, json.dumps(options, indent=2) + "\n")

    def part(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """What `make` gave when the part was done, now or before."""
        readable, exact = re.sub(r"[^A-Za-z0-9.-]+", "-", name), hashlib.sha256(name.encode()).hexdigest()[:8]
        path = self.folder / "parts" / f"{readable[:60]}-{exact}.json"
        if not path.exists():
            write_whole(path, json.dumps(make()) + "\n")
        return _read(path)

    def _compare(self, before: dict[str, Any], now: dict[str, Any]) -> None:
        for key in dict.fromkeys([*now, *before]):
            if before.get(key) != now.get(key):
                raise UserError(
                    f"{self.folder} was begun with {key} = {before.get(key)!r}, not {now.get(key)!r}: "
                    "go on with the same options, or choose another --out."
                )


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path} is damaged: delete it, and that part of the study is done again.") from error
    if not isinstance(content, dict):
        raise UserError(f"{path} is damaged: delete it, and that part of the study is done again.")
    return content
