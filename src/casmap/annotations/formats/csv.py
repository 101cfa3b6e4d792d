"""Boxes in a CSV file: a line for each box."""

import csv
import io
import os
from collections import defaultdict
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from casmap.annotations.format import FORMATS, Format, WriteOptions
from casmap.annotations.labelled import Labelled
from casmap.annotations.regions import collect_objects, object_from_box
from casmap.annotations.types import NO_RECORD, Annotations, Kind, Names, ObjectParser, Problem
from casmap.errors import UserError
from casmap.io.atomic import write_whole

FILE = "boxes.csv"
COLUMNS = ("xmin", "ymin", "xmax", "ymax")


def read(path: Path, root: Path, names: Names) -> Annotations:
    """The columns file, xmin, ymin, xmax, ymax, as edges in the photo's pixels; `file` is relative to the CSV file.

    The column class is read where it is.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "boxes.csv").write_text("file,xmin,ymin,xmax,ymax\\nphotos/cat/a.jpg,1,2,30,40\\n")
    >>> read(folder / "boxes.csv", folder / "photos", Names(["cat/a.jpg"])).of("cat/a.jpg").objects[0].box
    (1.0, 2.0, 30.0, 40.0)
    """
    refusal = f"{path} must be a CSV file with the columns file, {', '.join(COLUMNS)}."
    parsers: dict[str, list[ObjectParser]] = defaultdict(list)
    problems: list[Problem] = []
    real = cache(os.path.realpath)  # once for each folder: 50,000 photos lie in few of them
    start, base = os.path.join(real(root), ""), os.path.dirname(os.path.abspath(path))
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            if not {"file", *COLUMNS} <= set(rows.fieldnames or ()):
                raise UserError(refusal)
            for number, row in enumerate(rows, 2):
                if not row["file"]:
                    problems.append(Problem(Kind.MALFORMED, f"{path.name}, row {number}: it names no photo"))
                    continue
                folder, last = os.path.split(os.path.normpath(os.path.join(base, row["file"])))
                where = os.path.join(real(folder), last)
                name = names.find(os.path.relpath(where, start)) if where.startswith(start) else None
                if name is None:
                    # One table may serve several folders of photos, so that rows for the others are no fault.
                    if where.startswith(start) or not os.path.exists(where):
                        problems.append(Problem(Kind.NO_PHOTO, f"{row['file']}: {path.name}, row {number}"))
                    continue
                box = [row[column] for column in COLUMNS]
                parsers[name].append(partial(object_from_box, row.get("class") or "", box))
    except (ValueError, OSError, csv.Error) as error:
        raise UserError(refusal) from error
    known = {name: collect_objects(name, found) for name, found in parsers.items()}
    return Annotations("boxes from a CSV file", lambda name: known.get(name, NO_RECORD), problems=problems)


def write(photos: Sequence[Labelled], labels: Sequence[str], out: Path, options: WriteOptions) -> Path:
    """Write boxes.csv, which names photos as they are found from its folder."""
    table = io.StringIO()
    rows = csv.writer(table, lineterminator="\n")
    rows.writerow(["file", *COLUMNS, "class"])
    for photo in photos:
        file = Path(os.path.relpath(photo.file, out)).as_posix()
        rows.writerows([file, *one.box, one.label] for one in photo.objects)
    write_whole(out / FILE, table.getvalue().encode(errors="replace"))  # not every file's name is Unicode
    return out / FILE


FORMATS.register("csv")(Format(lambda path: path.suffix.lower() == ".csv" and path.is_file(), read, write))
