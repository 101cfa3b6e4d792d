"""An evaluation as JSON."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from casmap.evaluation.evaluate import Row
from casmap.evaluation.table import Evaluation


def to_json(results: Evaluation, fidelity: Sequence[Row] = ()) -> str:
    """All numbers with their intervals, for each system under the names of the four protocols, and its fidelity."""
    content = {
        whole.name: {
            "as extracted": {**_numbers(whole), "by size": _by_size(whole)},
            "paper protocol": {**_numbers(crop), "by size": _by_size(crop)},
            "field protocol": _numbers(field),
            "wsol protocol": _numbers(wsol),
        }
        for whole, crop, field, wsol in zip(
            results.rows, results.central_crop, results.field_protocol, results.wsol_protocol, strict=True
        )
    }
    for row in fidelity:
        content.setdefault(row.name, {})["fidelity"] = _numbers(row)
    return json.dumps(content, indent=2) + "\n"


def _by_size(row: Row) -> dict[str, dict[str, Any]]:
    return {
        size: {"photos": group.photos} | {key: dataclasses.asdict(number) for key, number in group.numbers.items()}
        for size, group in row.by_size.items()
    }


def _numbers(row: Row) -> dict[str, dict[str, float]]:
    return {key: dataclasses.asdict(number) for key, number in row.numbers.items()}
