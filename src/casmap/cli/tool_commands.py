"""`casmap serve`, `casmap page`, `casmap export`, `casmap doctor` and `casmap demo`."""

import os
from pathlib import Path
from typing import Annotated, Literal

import typer

from casmap.cli.console import console, end_process, reporter
from casmap.cli.options import Boxes, Mappings, Masks, Out, Split
from casmap.cli.tables import print_rows


def serve(
    mapping: Mappings = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="port to bind to; 0: any free port")] = 8765,
    host: Annotated[str, typer.Option(help="address to bind to; 0.0.0.0: reachable from other machines")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="open the page in the browser")] = True,
    megabytes: Annotated[int, typer.Option(min=1, help="largest request, in MB")] = 32,
    megapixels: Annotated[int, typer.Option(min=1, help="largest photo, in million pixels")] = 64,
    seconds: Annotated[float, typer.Option(min=0.1, help="time limit per photo, in seconds")] = 30.0,
    allowed_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="name that clients may call the server by; repeatable")
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="CASMAP_TOKEN", metavar="TEXT",
            help="secret that clients must send (default: none for 127.0.0.1, a random one for other hosts)",
        ),
    ] = None,
    label_studio: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="predict for this Label Studio server; its token is in the variable LABEL_STUDIO_API_KEY",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Start a web page and an HTTP API on this machine.

    On the page: drop photos, move the threshold, download annotations.
    """
    try:
        from casmap.web.label_studio_photos import TOKEN, LabelStudio
        from casmap.web.limits import Limits
        from casmap.web.serve import serve as run_server

        limits = Limits(bytes=megabytes * 2**20, pixels=megapixels * 10**6, seconds=seconds)
        run_server(
            mapping, host=host, port=port, limits=limits, browser=browser, reporter=reporter,
            allowed_hosts=allowed_host or (), token=token,
            label_studio=None if label_studio is None else LabelStudio(label_studio, os.environ.get(TOKEN)),
        )  # fmt: skip
    except KeyboardInterrupt:  # while it starts
        reporter.message("Stopped.")
    from casmap.web.annotation_files import remove_private_folders

    end_process(remove_private_folders)


def page(
    out: Out = Path("site"),
    mapping: Mappings = None,
    runtime: Annotated[
        Path | None,
        typer.Option(help="npm package onnxruntime-web, .tgz or unpacked (default: download it from npm's registry)"),
    ] = None,
    webgpu: Annotated[
        bool, typer.Option("--webgpu", help="run on the GPU in browsers that can, otherwise by WebAssembly; 17 MB more")
    ] = False,
) -> None:
    """Write the web page as static files that run the mapping in the browser, without a server.

    No photo leaves the browser. Put the folder on any web host, or look at it with python -m http.server.
    """
    from casmap.web.site import write_site

    made = write_site(out, mappings=mapping, runtime=runtime, webgpu=webgpu, reporter=reporter)
    reporter.message(f"{made.files} files, {made.bytes / 1e6:.1f} MB, in {made.path}")
    reporter.message(f"To open it here: python -m http.server --directory {made.path}")


def export(
    mapping: Annotated[
        Path, typer.Argument(metavar="MAPPING", help="mapping file written by casmap train (.safetensors)")
    ],
    out: Annotated[Path | None, typer.Option(help="ONNX file to write (default: next to the mapping)")] = None,
    to: Annotated[
        Literal["onnx", "onnx-half"],
        typer.Option(help="onnx: 32-bit weights; onnx-half: 16-bit weights, half the file size"),
    ] = "onnx",
    measure: Annotated[str | None, typer.Option(metavar="DATA", help="compare LE of both files on photos")] = None,
    boxes: Boxes = None, masks: Masks = None, split: Split = None,
) -> None:  # fmt: skip
    """Convert a mapping to an ONNX file, which runs without torch."""
    from casmap.tools.export import export as run_export

    half = to == "onnx-half"
    run_export(mapping, out=out, half=half, data=measure, boxes=boxes, masks=masks, split=split, reporter=reporter)


def doctor(json: Annotated[bool, typer.Option("--json", help="print JSON")] = False) -> None:
    """Show what is installed, what is missing and how to install it."""
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


def demo(out: Out = Path("demo"), seed: Annotated[int, typer.Option(min=0, help="random seed")] = 0) -> None:
    """Train CASM and Baseline on generated scenes, extract, evaluate, and write a report."""
    from casmap.tools.demo import run_demo

    found = run_demo(out=out, seed=seed, reporter=reporter)
    print_rows(found.results)
    console.print(f"\nTable:  {found.table}\nReport: {found.page}\nMaps:   {found.maps}")
