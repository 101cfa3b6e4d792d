"""Write CSV that spreadsheets do not execute, and read its texts back."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

# A spreadsheet takes a cell that begins so for a formula, which can start programs and send data; the last four are
# the wide forms of East Asian keyboards. An apostrophe before it makes it a text (OWASP, "CSV Injection").
_FORMULA = re.compile("'*[=+\\-@\t\r\n＝＋－＠]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def csv_text(rows: Iterable[Sequence[object]]) -> str:
    r"""Return rows as CSV; a text that a spreadsheet would execute gets an apostrophe, numbers stay numbers.

    >>> csv_text([["=1+1", "cat", -3.5, "-3.5"]])
    "'=1+1,cat,-3.5,-3.5\n"
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([_harmless(cell) for cell in row] for row in rows)
    return text.getvalue()


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV text with one line per record and one column per key that any record has.

    >>> to_csv([{"a": 1}, {"a": 2, "b": 3}])
    'a,b\\n1,\\n2,3\\n'
    """
    keys = list(dict.fromkeys(key for record in records for key in record))
    return csv_text([keys, *([record.get(key, "") for key in keys] for record in records)])


def plain(cell: str) -> str:
    """Return the text that `csv_text` wrote as `cell`.

    >>> plain("'=1+1"), plain("''=1+1"), plain("'tis"), plain("-3.5")
    ('=1+1', "'=1+1", "'tis", '-3.5')
    """
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def _harmless(cell: object) -> object:
    executes = isinstance(cell, str) and _FORMULA.match(cell) and not _NUMBER.fullmatch(cell)
    return f"'{cell}" if executes else cell
