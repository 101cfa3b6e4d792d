"""CSV: a table with a row for each box."""

import csv
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import collect_objects, object_from_box
from casmap.annotations.types import NO_RECORD, Annotations, Kind, Names, ObjectParser, Problem
from casmap.errors import UserError
from casmap.io.atomic import write_whole
from casmap.io.names import read_name, written
from casmap.io.reading import MAX_ANNOTATIONS, limit_bytes, reading, shown
from casmap.io.tabular import csv_text, plain

FILE = "boxes.csv"
COLUMNS = ("xmin", "ymin", "xmax", "ymax")


def read(path: Path, root: Path, names: Names) -> Annotations:
    """Read the columns file, xmin, ymin, xmax, ymax (edges in the photo's pixels) and, if there is one, class.

    `file` is relative to the CSV file's folder, to the folder of photos, or to the working directory; the first of
    them that contains the file is used. Raises UserError if no row matches a photo.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "boxes.csv").write_text("file,xmin,ymin,xmax,ymax\\nphotos/cat/a.jpg,1,2,30,40\\n")
    >>> read(folder / "boxes.csv", folder / "photos", Names(["cat/a.jpg"])).of("cat/a.jpg").objects[0].box
    (1.0, 2.0, 30.0, 40.0)
    """
    parsers: dict[str, list[ObjectParser]] = defaultdict(list)
    problems: list[Problem] = []
    first = ""  # file of the first row that matches no photo
    find = _Finder(path, root, names)
    for number, row in enumerate(read_rows(path, ("file", *COLUMNS)), 2):
        if not row["file"] or "\0" in row["file"]:
            problems.append(Problem(Kind.MALFORMED, f"{path.name}, row {number}: no file name"))
            continue
        file = plain(row["file"])  # or the name itself begins with an apostrophe
        name = next((name for text in dict.fromkeys((file, row["file"])) if (name := find.photo(text))), None)
        if name is None:
            first = first or file
            # A table may also have rows for photos in other folders: these are not reported.
            if not find.in_another_folder(file):
                problems.append(Problem(Kind.NO_PHOTO, f"{file}: {path.name}, row {number}"))
            continue
        box = [row[column] for column in COLUMNS]
        parsers[name].append(partial(object_from_box, plain(row.get("class") or ""), box))
    if first and not parsers:
        raise UserError(
            f"No row of {path} matches a photo: there is no {shown(first)} among the photos in {root}. File names must "
            f"be relative to that folder, to the CSV file's folder or to the working directory."
        )
    known = {name: collect_objects(name, found) for name, found in parsers.items()}
    return Annotations("boxes from a CSV file", lambda name: known.get(name, NO_RECORD), problems=problems)


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file by column; raise UserError for another file. A short row has None at its end."""
    invalid = f"{path} must be a CSV file with the columns {', '.join(columns)}."
    with reading(path, invalid):
        limit_bytes(path, MAX_ANNOTATIONS)
        with open(path, encoding="utf-8-sig", newline="") as file:
            rows = csv.DictReader(file)
            if not set(columns) <= set(rows.fieldnames or ()):
                raise UserError(invalid)
            yield from rows


class _Finder:
    """Finds the photos that a table names, by their real paths: a link may lead to the folder of photos."""

    def __init__(self, table: Path, root: Path, names: Names) -> None:
        self.names = names
        self.real = cache(os.path.realpath)  # once for each folder: 50,000 photos are in few folders
        self.start = os.path.join(self.real(root), "")
        self.table_folder = os.path.dirname(os.path.abspath(table))
        self.others = (os.path.abspath(root), os.getcwd())

    def photo(self, file: str) -> str | None:
        """Return the name of the photo, or None."""
        if (meant := read_name(file)) != file and (name := self.photo(meant)) is not None:
            return name
        path = self._real_path(self.table_folder, file)
        if path.startswith(self.start):
            if (name := self.names.find(os.path.relpath(path, self.start))) is not None:
                return name
        elif os.path.exists(path):
            return None
        for folder in self.others:
            path = self._real_path(folder, file.replace("\\", "/"))
            name = os.path.relpath(path, self.start).replace(os.sep, "/")
            if path.startswith(self.start) and name in self.names:
                return name
        return None

    def in_another_folder(self, file: str) -> bool:
        """Return whether the file exists outside the folder of photos."""
        path = self._real_path(self.table_folder, file)
        return not path.startswith(self.start) and os.path.exists(path)

    def _real_path(self, folder: str, file: str) -> str:
        parent, last = os.path.split(os.path.normpath(os.path.join(folder, file)))
        return os.path.join(self.real(parent), last)


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write boxes.csv; its file names are relative to its folder."""
    rows: list[Sequence[object]] = [["file", *COLUMNS, "class"]]
    for photo in photos:
        file = written(Path(os.path.relpath(photo.file, out)).as_posix())
        rows += [[file, *one.box, one.label] for one in photo.objects]
    write_whole(out / FILE, csv_text(rows))
    return out / FILE


FORMATS.register("csv")(Format(lambda path: path.suffix.lower() == ".csv" and path.is_file(), read, write))
