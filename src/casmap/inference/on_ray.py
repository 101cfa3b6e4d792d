"""Extract from millions of photos: parts of a thousand on Ray Data, each part one Parquet file, written once.

A part's file has a name of its own and appears whole or not at all. So a worker that dies loses its part only, which
another makes again under the same name; and a second start makes only what is missing.
"""

import hashlib
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from casmap.data.resizing import resize
from casmap.errors import UnreadableImage, UserError
from casmap.inference.folder import to_map
from casmap.inference.mapper import SHIPPED, SaliencyMapper, fit
from casmap.inference.objects import objects_of
from casmap.inference.pipeline import cores
from casmap.io.atomic import remove_asides, whole_file, write_whole
from casmap.io.images import Image, open_image

PART = 1000  # photos of a file
BATCH = 8  # that a worker maps at a time
RETRIES = 10  # of a part, and of a worker: a photo that ends its worker each time ends the command at last
SETTING = "parts.json"


@dataclass(frozen=True)
class Many:
    """What became of all photos: how many maps there are, and a sentence for each photo without one."""

    maps: int
    skipped: list[str]


def extract_many(
    sources: list[str],
    mapping: Path | None,
    out: Path,
    alpha: float = 1.0,
    address: str | None = None,
    workers: int | None = None,
    part: int = PART,
    console: Console | None = None,
) -> Many:
    """Write a row for each photo into out/part-000000.parquet and so on.

    address: of a Ray cluster whose hosts see the same folders; None: this machine. workers: each with the mapping in
    its memory; as many as there are cores where nothing is said.
    """
    import ray

    paths, foreign = to_map(sources)
    mapping = (mapping or SHIPPED).resolve()
    SaliencyMapper.load(mapping)  # a file that is none is said here, once
    parts = [[str(path.resolve()) for path in paths[at : at + part]] for at in range(0, len(paths), part)]
    same_setting(out, paths, mapping, alpha, part)
    missing = [number for number in range(len(parts)) if not part_file(out, number).exists()]
    if missing:
        ray.init(
            address=address, num_cpus=None if address else cores(), include_dashboard=False, log_to_driver=False,
            logging_level=logging.ERROR, ignore_reinit_error=True,
        )  # fmt: skip
        try:
            rows = [{"number": number, "paths": parts[number]} for number in missing]
            _work(rows, mapping, out.resolve(), alpha, min(workers or cores(), len(missing)), console)
        finally:
            ray.shutdown()
    remove_asides(out)  # of workers that died
    unread = [row["error"] for row in read_rows(out, len(parts), ["error"]) if row["error"] is not None]
    return Many(len(paths) - len(unread), foreign + unread)


def _work(rows: list[dict[str, Any]], mapping: Path, out: Path, alpha: float, workers: int, console: Any) -> None:
    """Let the workers make the parts of `rows`."""
    import ray

    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    made = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
        PartMaker,  # type: ignore[arg-type]
        fn_constructor_args=(mapping, out, alpha),
        compute=ray.data.ActorPoolStrategy(size=workers),
        num_cpus=1,
        max_restarts=RETRIES,
        max_task_retries=RETRIES,
    )
    with Progress(console=console or Console(quiet=True), transient=True) as bar:
        task = bar.add_task("extracting", total=sum(len(row["paths"]) for row in rows))
        for row in made.iter_rows():
            bar.advance(task, row["photos"])


class PartMaker:
    """A worker: it loads the mapping once, and then makes one part after the other."""

    def __init__(self, mapping: Path, out: Path, alpha: float) -> None:
        self.mapper, self.out, self.alpha = SaliencyMapper.load(mapping, threads=1), out, alpha

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """Make the file of a part."""
        import pyarrow as arrow
        from pyarrow import parquet

        rows = [one for batch in _batches(list(row["paths"])) for one in self.rows_of(batch)]
        with whole_file(part_file(self.out, row["number"])) as aside:
            parquet.write_table(arrow.Table.from_pylist(rows, schema()), aside)
        return {"number": row["number"], "photos": len(rows)}

    def rows_of(self, paths: list[str]) -> list[dict[str, Any]]:
        """A row for each photo, also for those that cannot be read."""
        photos: dict[str, Image] = {}
        rows: dict[str, dict[str, Any]] = {}
        for path in paths:
            try:
                photos[path] = open_image(path)
            except UnreadableImage as error:
                rows[path] = {"path": readable(path), "error": readable(str(error))}
        if photos:
            squares = np.stack([resize(photo, self.mapper.size, "squash") for photo in photos.values()])
            masks, logits = self.mapper.masks(squares)
            for (path, photo), mask, row in zip(photos.items(), masks, logits, strict=True):
                height, width = photo.shape[:2]
                label = self.mapper.titles[int(row.argmax())] if self.mapper.network.predicts else None
                found = objects_of(fit(mask, width, height), label or "", "largest", 0.0, self.alpha)
                rows[path] = {"path": readable(path), "width": width, "height": height, "label": label}
                for one in found:
                    rows[path] |= {"box": list(one.box), "rle": one.rle["counts"], "score": one.score}
        return [rows[path] for path in paths]


def readable(text: str) -> str:
    """A text without the half characters that stand for bytes of file names that are no text; Parquet has none.

    >>> readable("cat-" + bytes([233]).decode("utf-8", "surrogateescape"))
    'cat-\\\\xe9'
    """
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def schema() -> Any:
    """Of a part's file. rle: the largest object as COCO's counts for height x width; error: why there is no map."""
    import pyarrow as arrow

    return arrow.schema(
        [
            ("path", arrow.string()),
            ("width", arrow.int32()),
            ("height", arrow.int32()),
            ("box", arrow.list_(arrow.int32(), 4)),
            ("rle", arrow.string()),
            ("score", arrow.float32()),
            ("label", arrow.string()),
            ("error", arrow.string()),
        ]
    )


def part_file(out: Path, number: int) -> Path:
    """Where a part is written.

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
            raise UserError(f"{path} is damaged: delete it, and that part is made again.") from error


def same_setting(out: Path, paths: list[Path], mapping: Path, alpha: float, part: int) -> None:
    """A folder holds the parts of one set of photos, made in one way: refuse others."""
    names = hashlib.sha256("\n".join(str(path.resolve()) for path in paths).encode("utf-8", "surrogateescape"))
    setting = {
        "photos": f"{len(paths)}, {names.hexdigest()[:16]}",
        "mapping": hashlib.sha256(mapping.read_bytes()).hexdigest()[:16],
        "alpha": alpha,
        "photos of a part": part,
    }
    kept = out / SETTING
    if kept.exists():
        try:
            before = json.loads(kept.read_text())
            differs = [key for key in setting if before.get(key) != setting[key]]
        except (ValueError, AttributeError) as error:
            raise UserError(f"{kept} is damaged: choose another --out.") from error
        if differs:
            raise UserError(f"{out} was begun with another {differs[0]}: choose another --out.")
    else:
        write_whole(kept, json.dumps(setting, indent=2) + "\n")


def _batches(paths: list[str]) -> Iterator[list[str]]:
    for at in range(0, len(paths), BATCH):
        yield paths[at : at + BATCH]
