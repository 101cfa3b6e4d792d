"""The command `casmap`. Each command imports what it needs when it runs, so that --help is fast."""

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

PANELS = {
    "Use": (extract, annotate, check, correct, serve, evaluate),
    "Train": (train, classifier, export),
    "Data": (scenes,),
    "Research": (demo,),
    "Help": (doctor,),
}
app = typer.Typer(no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
for panel, commands in PANELS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)
app.add_typer(data, name="data", rich_help_panel="Data")
app.add_typer(study, name="study", rich_help_panel="Research")

# The extras that a command needs, for the error when one of their modules is missing.
NEEDED = {
    "serve": ("serve",), "train": ("train", "offline"), "classifier": ("train", "offline"), "export": ("train",),
    "check": ("train",), "correct": ("train",), "demo": ("train", "demo"), "study": ("studies",),
    "study table1": ("peers",), "data shard": ("scale",), "extract --ray": ("scale",),
}  # fmt: skip
# The extra that installs a module; studies, peers and scale include train.
MODULES = {
    "train": ("torch", "timm", "torchvision", "yaml", "jinja2", "tensorboard", "onnx"),
    "studies": ("matplotlib", "scipy"),
    "serve": ("fastapi", "uvicorn", "starlette", "pydantic", "anyio", "multipart"),
    "peers": ("captum", "zennit", "torchcam", "skimage"),
    "scale": ("ray", "pyarrow", "webdataset"),
}
WITH_TRAIN = {"train", "studies", "peers", "scale"}
INTERRUPTED = 130  # the exit code that typer gives to a KeyboardInterrupt
# The message after an interrupt, by command.
STOPPED = {
    "": "Stopped. To continue a training run from its last checkpoint, add --resume; to continue a study, run the same "
    "command again.",
    "serve": "Stopped.",
}


def main() -> None:
    """Run the command line. An error of the user is one line on stderr and exit code 2."""
    reuse_memory()
    try:
        app()
    except UserError as error:
        complain(str(error))
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            complaints.print(STOPPED.get("".join(sys.argv[1:2]), STOPPED[""]))
        raise
    except OSError as error:  # of a file or folder that was given: its name is too long, it cannot be read
        complain(f"{error.filename}: {error.strerror}." if error.filename else f"{error}.")
        sys.exit(2)
    except ModuleNotFoundError as error:
        sentence = missing_extra(sys.argv[1:], (error.name or "").partition(".")[0])
        if sentence is None:
            raise
        complain(sentence)
        sys.exit(2)


def missing_extra(arguments: list[str], module: str) -> str | None:
    """The error for a module that is not installed; None if no extra installs it.

    >>> missing_extra(["serve", "--port", "0"], "uvicorn").partition(": ")[0]
    "casmap serve needs the extra 'serve' (uvicorn is not installed)"
    >>> missing_extra(["extract", "photos", "--mapping", "mapping.safetensors"], "torch").partition(": ")[0]
    "casmap extract with a .safetensors mapping needs the extra 'train' (torch is not installed)"
    """
    extra = next((extra for extra, modules in MODULES.items() if module in modules), None)
    if extra is None:
        return None
    command = " ".join(arguments[: 2 if {"data", "study"} & {*arguments[:1]} else 1])
    command += " --ray" if "--ray" in arguments else ""
    extras = NEEDED.get(command, NEEDED.get(command.partition(" ")[0], ()))
    if extra == "train" and not WITH_TRAIN & {*extras}:  # the command itself runs without torch
        command += " with a .safetensors mapping" if module != "yaml" else ""
        extras += ("train",)
    elif extra not in (*extras, "train"):
        extras += (extra,)
    named = " and ".join(repr(one) for one in extras)
    plural = "s" if len(extras) > 1 else ""
    return f"casmap {command} needs the extra{plural} {named} ({module} is not installed): {install_hint(*extras)}."


def _version(wanted: bool) -> None:
    if wanted:
        console.print(f"casmap {__version__}")
        raise typer.Exit


@app.callback()
def casmap(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Masks and boxes for photos, learned from class labels alone."""
