"""The maps in an output folder: of earlier runs, of a stopped run that this run continues, and of this run."""

import os
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from casmap.io.atomic import remove_temporary_files, whole_file
from casmap.io.journal import MAP_ENDINGS, Entry, read_journal, record, recover, restart, to_json
from casmap.io.names import file_name, unique_names
from casmap.io.outputs import BOXES, read_boxes


class MapFolder:
    """Knows which maps a folder has, which are left to make, and writes boxes.jsonl.

    earlier: the lines of all maps that were in the folder before, by the absolute path of their photo. Then, as `plan`
    sets them: names of the maps, base folder of their photos, the lines of this run's maps, and keys, which say for
    each photo what its map depends on, for a run that continues this one; "" if unknown.
    """

    def __init__(self, out: Path) -> None:
        self.out = out
        self._recovered = recover(out)  # from a run that was killed or stopped
        self._journal = {file_name(entry.line["name"]) for entry in read_journal(out)}
        remove_temporary_files(out)
        self.earlier = read_boxes(out / BOXES) | {entry.photo: entry.line for entry in self._recovered}
        self.names: dict[Path, str] = {}
        self.base = Path()
        self.lines: dict[str, dict[str, Any]] = {}
        self.keys: dict[str, str] = {}

    def plan(self, paths: list[Path], base: Path, batch: int, options: str) -> list[Path]:
        """Name the maps of photos, and return the photos that are left to map.

        options: a text for all that maps depend on besides their photos; "" if it is unknown: nothing is continued.
        """
        self.base = base
        self.keys = {os.path.abspath(path): _key(options, path) for path in paths}
        finished = {
            entry.photo: entry for entry in self._recovered if entry.key and entry.key == self.keys.get(entry.photo)
        }
        if self._recovered:
            self._write_boxes(self.earlier.values())
        restart(self.out, list(finished.values()))  # also without entries: the last line may be incomplete
        # Batches are repeated as a whole: the rounding of a mask depends on the photos beside it.
        batches = [paths[at : at + batch] for at in range(0, len(paths), batch)]
        left = [path for one in batches if not {*map(os.path.abspath, one)} <= finished.keys() for path in one]
        again = {os.path.abspath(path) for path in left}
        self.lines = {photo: entry.line for photo, entry in finished.items() if photo not in again}
        earlier = {photo: line["name"] for photo, line in self.earlier.items()}
        self.names = unique_names(paths, earlier, self._names_of_others())
        return left

    def keep(self, entries: Sequence[Entry]) -> None:
        """Put finished maps in their places."""
        record(self.out, entries)
        self.lines.update((entry.photo, entry.line) for entry in entries)

    def close(self, stopped: bool) -> None:
        """Write boxes.jsonl; the journal of a stopped run stays, so that another run can continue it."""
        if stopped:  # perhaps in the middle of `keep`: the journal knows
            self.lines = {entry.photo: entry.line for entry in recover(self.out)}
            remove_temporary_files(self.out)
        others = (line for photo, line in self.earlier.items() if photo not in self.keys)
        mapped = (self.lines[photo] for photo in self.keys if photo in self.lines)
        unread = (line for photo, line in self.earlier.items() if photo in self.keys and photo not in self.lines)
        self._write_boxes(chain(others, mapped, unread))
        if not stopped:
            restart(self.out, [])

    def _names_of_others(self) -> set[str]:
        """The names that no map may get, because files that are not its own have the names of its files.

        Links do not count: they are replaced.
        """
        files = [file.name for file in os.scandir(self.out) if not file.is_symlink()]
        ends = [f"-{ending}" for ending in MAP_ENDINGS]
        like_maps = {file.removesuffix(end) for file in files for end in ends if file.endswith(end)}
        return like_maps - self._journal - {file_name(line["name"]) for line in self.earlier.values()}

    def _write_boxes(self, lines: Iterable[dict[str, Any]]) -> None:
        with whole_file(self.out / BOXES) as temporary, open(temporary, "w") as file:
            file.writelines(f"{to_json(line)}\n" for line in lines)


def describe_options(mapping: Path, *options: object) -> str:
    """A text that changes with a mapping file, as far as its size and times tell, and with options.

    >>> describe_options(Path(os.devnull), 1.0) == describe_options(Path(os.devnull), 2.0)
    False
    """
    return f"{_state(mapping)} {options!r}"


def _key(options: str, path: Path) -> str:
    try:
        return f"{options} {_state(path)}" if options else ""
    except OSError:
        return ""


def _state(file: Path) -> str:
    """Which file it is, and whether its content may have changed; reading it would take longer than its map."""
    about = file.stat()
    return f"{about.st_ino} {about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"
