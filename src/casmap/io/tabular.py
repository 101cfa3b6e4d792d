"""Format records as CSV."""

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any


def to_csv(records: Sequence[Mapping[str, Any]]) -> str:
    """Return CSV text with one line per record and one column per key that any record has.

    >>> to_csv([{"a": 1}, {"a": 2, "b": 3}])
    'a,b\\n1,\\n2,3\\n'
    """
    text = io.StringIO()
    keys = list(dict.fromkeys(key for record in records for key in record))
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()
