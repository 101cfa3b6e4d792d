"""The journal of an extraction: a killed run loses no finished map, leaves none half replaced, and can be continued.

The files of a map are complete under temporary names before its entry is written, and are renamed after that. So the
entry of a map whose temporary files still exist says how to finish it.
"""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from casmap.errors import UserError
from casmap.io.atomic import append, sync_files, write_whole
from casmap.io.names import file_name, read_name, written
from casmap.io.reading import MAX_ANNOTATIONS, read_bytes, reading

JOURNAL = ".boxes.jsonl.part"
# How the names of a map's files end, after the name in its line.
MAP_ENDINGS = (
    "mask.png", "mask.dcm", "overlay.jpg", "masked-in.png", "masked-out.png", "inpainted.png", "cutout.png",
)  # fmt: skip
_TEMPORARY = re.compile(r"\.[^/]*~[0-9a-f]{8}\.(png|jpg|dcm)")
_NAMES = ("photo", "folder", "name")  # the fields of a line that are names


@dataclass(frozen=True)
class Entry:
    """A finished map.

    line: of boxes.jsonl. key: all that the map depends on; "" if unknown. files: for each temporary name the final one.
    stale: files of an earlier map of the photo that this map does not have.
    """

    line: dict[str, Any]
    key: str = ""
    files: dict[str, str] | None = None
    stale: Sequence[str] = ()

    @property
    def photo(self) -> str:
        """The absolute path of the photo."""
        return photo_of(self.line)


def photo_of(line: dict[str, Any]) -> str:
    """The absolute path of a line's photo. The lines of casmap 0.1.0 have an absolute `photo` and no `folder`.

    >>> photo_of({"photo": "cat/1.jpg", "folder": "/trip"})
    '/trip/cat/1.jpg'
    """
    return os.path.abspath(os.path.join(str(line.get("folder", "")), str(line["photo"])))


def to_json(line: dict[str, Any]) -> str:
    """A line as JSON, with its names as text.

    >>> to_json({"photo": "a.jpg", "area": 0.5})
    '{"photo": "a.jpg", "area": 0.5}'
    """
    return json.dumps({key: written(value) if key in _NAMES else value for key, value in line.items()})


def from_json(text: str | bytes) -> dict[str, Any]:
    """Read a line; raise ValueError, TypeError, KeyError or AttributeError if casmap did not write it.

    >>> from_json('{"photo": "a.jpg", "name": "a"}')
    {'photo': 'a.jpg', 'name': 'a'}
    """
    line = json.loads(text)
    line |= {key: read_name(line[key]) for key in ("photo", "folder") if key in line} | {"name": str(line["name"])}
    photo_of(line)
    return dict(line)


def map_names(name: str) -> list[str]:
    """The names of all files that the map of this name can have.

    >>> map_names("cat")[:2]
    ['cat-mask.png', 'cat-mask.dcm']
    """
    return [f"{file_name(name)}-{ending}" for ending in MAP_ENDINGS]


def record(folder: Path, entries: Sequence[Entry]) -> None:
    """Sync the temporary files of maps, write their entries to the journal, and then rename the files."""
    if entries:
        sync_files(folder / temporary for entry in entries for temporary in entry.files or {})
        append(folder / JOURNAL, "".join(map(_entry_to_json, entries)), sync=True)
    for entry in entries:
        _finish(folder, entry)


def read_journal(folder: Path) -> list[Entry]:
    """The entries in the journal of a folder; a line that was not written completely is none.

    >>> read_journal(Path("missing"))
    []
    """
    path = folder / JOURNAL
    if path.is_symlink() or not path.is_file():
        return []
    found = []
    with reading(path):
        lines = read_bytes(path, MAX_ANNOTATIONS).splitlines()
    for text in lines:
        with suppress(Exception):  # a line that another program wrote can raise anything
            content = json.loads(text)
            line = from_json(json.dumps(content["line"]))
            files, stale = dict(content["files"]), [str(name) for name in content["stale"]]
            ours = map_names(line["name"])  # entries rename and remove files: only those of their own map
            if {*files.values(), *stale} <= {*ours} and all(map(_TEMPORARY.fullmatch, files)):
                found.append(Entry(line, str(content["key"]), files, stale))
    return found


def recover(folder: Path) -> list[Entry]:
    """Finish the maps in the journal, and return the newest entry of each photo whose files exist."""
    found = {}
    for entry in read_journal(folder):
        _finish(folder, entry)
        found[entry.photo] = entry
    names = {path.name for path in os.scandir(folder)} if found else set()
    return [entry for entry in found.values() if {*(entry.files or {}).values()} <= names]


def restart(folder: Path, entries: Sequence[Entry]) -> None:
    """Replace the journal by one with these entries, or remove it if there are none."""
    if entries:
        write_whole(folder / JOURNAL, "".join(map(_entry_to_json, entries)))
    else:
        (folder / JOURNAL).unlink(missing_ok=True)


def _finish(folder: Path, entry: Entry) -> None:
    """Rename the files of a map; do nothing if that has been done."""
    left = {temporary: final for temporary, final in (entry.files or {}).items() if os.path.lexists(folder / temporary)}
    try:
        if left:  # the last step, so that an interrupted one is repeated
            for name in entry.stale:
                (folder / name).unlink(missing_ok=True)
        for temporary, final in left.items():
            os.replace(folder / temporary, folder / final)
    except OSError as error:
        raise UserError(f"Cannot write to {folder}: {error.strerror or error}.") from error


def _entry_to_json(entry: Entry) -> str:
    about = json.dumps({"key": entry.key, "files": entry.files or {}, "stale": [*entry.stale]})
    return f'{about[:-1]}, "line": {to_json(entry.line)}}}\n'
