"""Extract millions of photos with Ray Data: one Parquet file for each part of 1,000 photos.

The file of a part is written atomically under a fixed name. If a worker dies, only its part is repeated; a second start
makes only the missing parts.
"""

import hashlib
import logging
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from casmap.errors import UnreadableImage, UserError
from casmap.inference.components import Threshold
from casmap.inference.edges import Edges
from casmap.inference.folder import Extraction, to_map
from casmap.inference.mapper import SHIPPED, Mapped, SaliencyMapper
from casmap.inference.objects import objects_of
from casmap.inference.pipeline import BATCH, cores
from casmap.io.atomic import remove_temporary_files, whole_file
from casmap.io.kept_options import keep_options
from casmap.io.lock import locked
from casmap.io.names import escaped, written
from casmap.io.opener import Opener
from casmap.reporting import SILENT, Reporter

PART = 1000  # photos in a file
RETRIES = 10  # of a part and of a worker
OPTIONS = "parts.json"


def extract_on_ray(
    photos: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *,
    mapping: str | os.PathLike[str] | None = None, out: str | os.PathLike[str] = "maps", alpha: float | None = None,
    threshold: float | None = None, edges: Edges = "sharp", address: str | None = None, workers: int | None = None,
    part: int = PART, reporter: Reporter = SILENT,
) -> Extraction:  # fmt: skip
    """Write one row for each photo to out/part-000000.parquet and so on.

    threshold, alpha: as in `casmap.SaliencyMap`. edges: as in `casmap.load`. address: of a Ray cluster whose hosts
    share the folders; None: this machine. workers: each loads the mapping (default: one per core of this machine).
    """
    import ray

    out, cut = Path(out), Threshold(alpha, threshold)
    with locked(out, reporter):
        paths, foreign = to_map(photos)
        file = Path(mapping or SHIPPED).resolve()
        mapper = SaliencyMapper.load(file, edges=edges)  # a wrong file raises here, once
        if mapper.caution:
            reporter.warning(mapper.caution)
        parts = [[str(path.resolve()) for path in paths[at : at + part]] for at in range(0, len(paths), part)]
        keep_options(out / OPTIONS, options_of(paths, file, cut, edges, part))
        missing = [number for number in range(len(parts)) if not part_file(out, number).exists()]
        if missing:
            ray.init(
                address=address, num_cpus=None if address else cores(), include_dashboard=False, log_to_driver=False,
                logging_level=logging.ERROR, ignore_reinit_error=True,
            )  # fmt: skip
            try:
                ray.data.DataContext.get_current().enable_progress_bars = False
                items = [{"number": number, "paths": parts[number]} for number in missing]
                worker: Any = PartMaker  # Ray accepts a class here; its type hints do not
                made = ray.data.from_items(items, override_num_blocks=len(items)).map(
                    worker, fn_constructor_args=(file, out.resolve(), cut, edges), num_cpus=1, max_restarts=RETRIES,
                    max_task_retries=RETRIES,
                    compute=ray.data.ActorPoolStrategy(size=min(workers or cores(), len(items))),
                )  # fmt: skip
                with reporter.progress("Extracting photos", sum(len(parts[number]) for number in missing)) as advance:
                    for row in made.iter_rows():
                        advance(row["photos"])
            finally:
                ray.shutdown()
        remove_temporary_files(out)  # of workers that died
        rows = list(read_rows(out, len(parts), ["box", "error"]))
        unread = [row["error"] for row in rows if row["error"] is not None]
        empty = sum(row["error"] is None and row["box"] is None for row in rows)
        return Extraction(out, len(paths) - len(unread), empty, foreign + unread)


class PartMaker:
    """A worker that loads the mapping once and then makes one part after another."""

    def __init__(self, mapping: Path, out: Path, cut: Threshold, edges: Edges) -> None:
        self.mapper, self.out, self.cut = SaliencyMapper.load(mapping, threads=1, edges=edges), out, cut
        self.opener = Opener(workers=1)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Write the file of a part."""
        import pyarrow as arrow
        from pyarrow import parquet

        rows, paths = [], list(row["paths"])
        for at in range(0, len(paths), BATCH):
            batch = paths[at : at + BATCH]
            mapped = self.mapper.map(batch, opener=self.opener)
            rows += [self.row_of(*each) for each in zip(batch, mapped, strict=True)]
        with whole_file(part_file(self.out, row["number"])) as aside:
            parquet.write_table(arrow.Table.from_pylist(rows, schema()), aside)
        return {"number": row["number"], "photos": len(rows)}

    def row_of(self, path: str, one: Mapped | UnreadableImage) -> dict[str, Any]:
        """The row of a photo; an unreadable photo has only a path and an error."""
        if not isinstance(one, Mapped):
            return {"path": written(path), "error": escaped(str(one))}
        row = {"path": written(path), "width": one.width, "height": one.height, "label": one.label}
        for found in objects_of(one.full_mask(), one.label or "", "largest", 0.0, self.cut):
            row |= {"box": list(found.box), "rle": found.rle["counts"], "score": found.score}
        return row


def schema() -> Any:
    """The schema of a part. rle: COCO counts of the largest object (height x width). error: why there is no map."""
    import pyarrow as arrow

    text, number = arrow.string(), arrow.int32()
    return arrow.schema({
        "path": text, "width": number, "height": number, "box": arrow.list_(number, 4), "rle": text,
        "score": arrow.float32(), "label": text, "error": text,
    })  # fmt: skip


def part_file(out: Path, number: int) -> Path:
    """The path of a part.

    >>> part_file(Path("maps"), 12).as_posix()
    'maps/part-000012.parquet'
    """
    return out / f"part-{number:06}.parquet"


def read_rows(out: Path, parts: int, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of all parts, in the order of the photos."""
    from pyarrow import ArrowInvalid, parquet

    for number in range(parts):
        path = part_file(out, number)
        try:
            yield from parquet.read_table(path, columns=columns).to_pylist()
        except (OSError, ArrowInvalid) as error:
            raise UserError(f"{path} is damaged: delete it and run the command again.") from error


def options_of(paths: list[Path], mapping: Path, cut: Threshold, edges: Edges, part: int) -> dict[str, Any]:
    """The options that all parts of a folder share."""
    names = hashlib.sha256("\n".join(str(path.resolve()) for path in paths).encode("utf-8", "surrogateescape"))
    return {
        "photos": f"{len(paths)}, {names.hexdigest()[:16]}",
        "mapping": hashlib.sha256(mapping.read_bytes()).hexdigest()[:16],
        "alpha": cut.alpha,
        "threshold": cut.fixed,
        "edges": edges,
        "photos of a part": part,
    }
