"""Boxes in a CSV file: a line for each box."""

import csv
import os
from collections import defaultdict
from functools import cache
from pathlib import Path

from casmap.annotations.types import NOTHING, Annotations, Kind, Known, LeftOut, Names, Problem, Thing, area, edges
from casmap.errors import UserError

COLUMNS = ("xmin", "ymin", "xmax", "ymax")


def read_csv(path: Path, root: Path, names: Names) -> Annotations:
    """The columns file, xmin, ymin, xmax, ymax, as edges in the photo's pixels; `file` is relative to the CSV file.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "boxes.csv").write_text("file,xmin,ymin,xmax,ymax\\nphotos/cat/a.jpg,1,2,30,40\\n")
    >>> read_csv(folder / "boxes.csv", folder / "photos", Names(["cat/a.jpg"])).of("cat/a.jpg").things[0].box
    (1.0, 2.0, 30.0, 40.0)
    """
    refusal = f"{path} must be a CSV file with the columns file, {', '.join(COLUMNS)}."
    things: dict[str, list[Thing]] = defaultdict(list)
    wrong: dict[str, list[Problem]] = defaultdict(list)
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
                try:
                    box = edges(row[column] for column in COLUMNS)
                except LeftOut as bad:
                    wrong[name].append(bad.problem(name))
                else:
                    things[name].append(Thing("", box, area(box)))
    except (ValueError, OSError, csv.Error) as error:
        raise UserError(refusal) from error
    known = {name: Known(things.get(name, ()), problems=wrong.get(name, ())) for name in {*things, *wrong}}
    return Annotations("boxes from a CSV file", lambda name: known.get(name, NOTHING), problems=problems)
