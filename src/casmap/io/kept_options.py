"""The options that a folder was made with: whoever goes on with it must have the same."""

import json
from pathlib import Path
from typing import Any

from casmap.errors import UserError
from casmap.io.atomic import write_whole


def keep_options(path: Path, options: dict[str, Any], advice: str = "choose another --out") -> None:
    """Write the options of a folder to `path`, or raise UserError where others are kept there.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "options.json"
    >>> keep_options(path, {"seed": 0})
    >>> keep_options(path, {"seed": 1})
    Traceback (most recent call last):
    casmap.errors.UserError: ... was begun with seed = 0, not 1: choose another --out.
    """
    options = json.loads(json.dumps(options))  # as they will be read
    if not path.exists():
        return write_whole(path, json.dumps(options, indent=2) + "\n")
    try:
        before = json.loads(path.read_text())
        keys = dict.fromkeys([*options, *before.keys()])
    except (OSError, ValueError, AttributeError) as error:
        raise UserError(f"{path} is damaged: {advice}.") from error
    for key in keys:
        if before.get(key) != options.get(key):
            then, now = before.get(key), options.get(key)
            raise UserError(f"{path.parent} was begun with {key} = {then!r}, not {now!r}: {advice}.")
