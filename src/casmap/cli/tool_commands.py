"""`casmap serve`, `casmap export`, `casmap doctor` and `casmap demo`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from casmap.cli.console import console, reporter
from casmap.cli.options import Boxes, Mappings, Masks, Out, Split
from casmap.cli.tables import print_rows


def serve(
    mapping: Mappings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any that is free")] = 8765,
    host: Annotated[str, typer.Option(help="where to listen: this machine only, unless you say so")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    megabytes: Annotated[int, typer.Option(min=1, help="of a request, at most")] = 32,
    megapixels: Annotated[int, typer.Option(min=1, help="of a photo, at most")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, help="for a photo, at most")] = 30.0,
) -> None:
    """Show a page on this machine: drop photos, move the threshold, take boxes with you; and answer programs."""
    from casmap.web.limits import Limits
    from casmap.web.serve import serve as run_server

    limits = Limits(bytes=megabytes * 2**20, pixels=megapixels * 10**6, seconds=seconds)
    run_server(mapping, host=host, port=port, limits=limits, browser=browser, reporter=reporter)


def export(
    mapping: Annotated[Path, typer.Argument(help="a mapping that casmap train wrote")],
    out: Annotated[Path | None, typer.Option(help="the ONNX file (default: beside the mapping)")] = None,
    to: Annotated[
        Literal["onnx", "onnx-half"],
        typer.Option(help="onnx: as it is; onnx-half: 16-bit weights, a file of half the size"),
    ] = "onnx",
    measure: Annotated[str | None, typer.Option(metavar="DATA", help="photos on which to say what it loses")] = None,
    boxes: Boxes = None, masks: Masks = None, split: Split = None,
) -> None:  # fmt: skip
    """Write a mapping as an ONNX file, which needs no torch to run."""
    from casmap.tools.export import export as run_export

    half = to == "onnx-half"
    run_export(mapping, out=out, half=half, data=measure, boxes=boxes, masks=masks, split=split, reporter=reporter)


def doctor(json: Annotated[bool, typer.Option("--json", help="for programs")] = False) -> None:
    """Say what is installed, on what machine, what is missing, and what to do about it."""
    from json import dumps

    from rich.table import Table

    from casmap.tools.doctor import examine, to_dict

    findings = examine()
    if json:
        typer.echo(dumps(to_dict(findings), indent=2))
        return
    table = Table(box=None, show_header=False, padding=(0, 1))
    for one in findings:
        table.add_row("ok" if one.well else "--", one.what, one.found + (f"\n{one.advice}" if one.advice else ""))
    console.print(table)


def demo(out: Out = Path("demo"), seed: Annotated[int, typer.Option(min=0, help="of scenes and training")] = 0) -> None:
    """Do the whole walk on embedded data: train CASM and Baseline, extract, evaluate, write one page."""
    from casmap.tools.demo import run_demo

    found = run_demo(out=out, seed=seed, reporter=reporter)
    print_rows(found.results)
    console.print(f"\nTable:  {found.table}\nReport: {found.page}\nMaps:   {found.maps}")
