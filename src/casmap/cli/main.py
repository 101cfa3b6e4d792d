"""The command line: parse, call, print. Whatever a command needs is imported when it runs, so that --help is quick."""

import sys
from typing import Annotated

import typer

from casmap.cli.console import complain, complaints, console
from casmap.cli.data_commands import data, scenes
from casmap.cli.evaluate_commands import check, correct, evaluate
from casmap.cli.extract_commands import annotate, extract
from casmap.cli.study_commands import study
from casmap.cli.tool_commands import demo, doctor, export, serve
from casmap.cli.train_commands import classifier, train
from casmap.errors import UserError
from casmap.install_hint import install_hint
from casmap.io.memory import reuse_memory
from casmap.version import __version__

app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
for command in (train, classifier, extract, annotate, check, correct, serve, export, evaluate, scenes, doctor, demo):
    app.command()(command)
app.add_typer(study, name="study")
app.add_typer(data, name="data")

EXTRAS = {
    "train": ("torch", "timm", "torchvision", "yaml", "jinja2", "tensorboard", "onnx"),
    "studies": ("matplotlib", "scipy"),
    "serve": ("fastapi", "uvicorn", "starlette", "pydantic", "anyio", "multipart"),
    "peers": ("captum", "zennit", "torchcam", "skimage"),
    "scale": ("ray", "pyarrow", "webdataset"),
}
INTERRUPTED = 130  # the exit code that typer gives to a KeyboardInterrupt


def main() -> None:
    """Run the command line; a user's mistake is one sentence and exit code 2."""
    reuse_memory()
    try:
        app()
    except UserError as error:
        complain(str(error))
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            complaints.print("Stopped. A training run goes on from its last checkpoint with --resume, a study without.")
        raise
    except OSError as error:  # of a file or folder that was named: too long a name, a folder nobody may read
        complain(f"{error.filename}: {error.strerror}." if error.filename else f"{error}.")
        sys.exit(2)
    except ModuleNotFoundError as error:
        extra = next((extra for extra, modules in EXTRAS.items() if error.name in modules), None)
        if extra is None:
            raise
        complain(f"This command needs {error.name}: {install_hint(extra)}.")
        sys.exit(2)


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"casmap {__version__}")
        raise typer.Exit


@app.callback()
def casmap(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="say it and exit")
    ] = False,
) -> None:
    """All the evidence in a photo: saliency maps that depend on no single classifier."""
