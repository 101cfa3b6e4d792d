"""Save the options that a folder was made with, and require the same options when work on it continues."""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from casmap.errors import UserError, option
from casmap.io.atomic import write_whole
from casmap.io.reading import SHOWN, read_text, reading, shown


def keep_options(path: Path, options: dict[str, Any], advice: str = "") -> None:
    """Write a folder's options to `path`; raise UserError if the file exists with other options.

    advice: what to do then (default: choose another folder).

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "options.json"
    >>> keep_options(path, {"seed": 0})
    >>> keep_options(path, {"seed": 1})
    Traceback (most recent call last):
    casmap.errors.UserError: ... was started with seed = 0, not 1: choose another folder (out).
    """
    options = json.loads(json.dumps(options))  # as they will be read
    if path.exists():
        compare_options(path.parent, read_options(path), options, advice or _elsewhere())
    else:
        write_whole(path, json.dumps(options, indent=2) + "\n")


def _elsewhere() -> str:
    return f"choose another folder ({option('out')})"


def compare_options(
    folder: Path | str, before: dict[str, Any], now: dict[str, Any], advice: str, ignored: Collection[str] = ()
) -> None:
    """Raise UserError for the first option that differs."""
    for key in dict.fromkeys([*now, *before]):
        if key not in ignored and before.get(key) != now.get(key):
            was, is_now = shown(before.get(key)), shown(now.get(key))
            raise UserError(f"{folder} was started with {key:.{SHOWN}} = {was}, not {is_now}: {advice}.")


def read_options(path: Path, advice: str = "") -> dict[str, Any]:
    """Read a folder's options; raise UserError if the file is damaged."""
    damaged = f"{path} is damaged: {advice or _elsewhere()}."
    with reading(path, damaged):
        content = json.loads(read_text(path))
    if not isinstance(content, dict):
        raise UserError(damaged)
    return content
