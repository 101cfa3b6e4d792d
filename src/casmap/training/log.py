"""The training log: one CSV file and TensorBoard, both of which a resumed run continues without a seam."""

import csv
import io
from pathlib import Path
from typing import Any

from torch.utils.tensorboard import SummaryWriter

from casmap.io.atomic import write_whole


class Log:
    """Rows of numbers, one for each logged step. Rows after `start` are of a run that was stopped: they are dropped."""

    def __init__(self, folder: Path, name: str, start: int = 0) -> None:
        self.path = folder / f"{name}.csv"
        self.rows = [row for row in read_log(self.path) if row["step"] <= start] if start else []
        self._tensorboard = SummaryWriter(str(folder / "tensorboard" / name), purge_step=start + 1)

    def add(self, step: int, **numbers: float) -> None:
        """Note the numbers of a step; the file on disk follows with `flush`."""
        self.rows.append({"step": step, **numbers})
        for key, number in numbers.items():
            self._tensorboard.add_scalar(key, number, step)

    def flush(self) -> None:
        """Write the CSV file, whole, and numbers with all their digits: a resumed run goes on from them."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.rows[0] if self.rows else ["step"], lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: repr(v) if isinstance(v, float) else v for k, v in row.items()} for row in self.rows)
        write_whole(self.path, text.getvalue())
        self._tensorboard.flush()

    def close(self) -> None:
        """Write all that is left."""
        self.flush()
        self._tensorboard.close()


def read_log(path: Path) -> list[dict[str, Any]]:
    """The rows of a log file; none where there is no file."""
    if not path.exists():
        return []
    with open(path, newline="") as file:
        return [{k: int(v) if k == "step" else float(v) for k, v in row.items()} for row in csv.DictReader(file)]
