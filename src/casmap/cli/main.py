"""The command `casmap`. Each command imports what it needs when it runs, so that --help is fast."""

import errno
import os
import signal
import sys
from io import TextIOWrapper
from types import FrameType
from typing import Annotated

import typer

from casmap.cli.console import complain, complaints, console
from casmap.cli.data_commands import data, scenes
from casmap.cli.evaluate_commands import check, correct, evaluate
from casmap.cli.extract_commands import annotate, extract
from casmap.cli.study_commands import study
from casmap.cli.tool_commands import demo, doctor, export, page, serve
from casmap.cli.train_commands import classifier, train
from casmap.cli.usage import Commands
from casmap.errors import Stopped, UserError, command_line
from casmap.install_hint import install_hint
from casmap.io.memory import reuse_memory
from casmap.version import __version__

PANELS = {
    "Use": (extract, annotate, check, correct, serve, page, evaluate),
    "Train": (train, classifier, export),
    "Data": (scenes,),
    "Research": (demo,),
    "Help": (doctor,),
}
app = typer.Typer(cls=Commands, no_args_is_help=True, add_completion=True, pretty_exceptions_enable=False)
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
INTERRUPTED, TERMINATED = 130, 143  # exit codes; typer gives the first to a KeyboardInterrupt
# What the libraries say when they get no memory: torch, ONNX Runtime, OpenCV.
NO_MEMORY = ("can't allocate memory", "out of memory", "Failed to allocate memory", "bad_alloc", "Insufficient memory")
LOWER = "There is not enough memory: lower --batch or --size, or close other programs."


def main() -> None:
    """Run the command line. An error of the user is one line on stderr and exit code 2."""
    reuse_memory()
    for stream in (sys.stdout, sys.stderr):  # a name that the terminal's encoding cannot show must not end a command
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    terminated = _end_like_ctrl_c()
    try:
        with command_line():
            app()
    except UserError as error:
        complain(LOWER if lacks_memory(error.__cause__) else str(error))
        sys.exit(2)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            complaints.print(stop_sentence(end), soft_wrap=True)
            sys.exit(TERMINATED if terminated else INTERRUPTED)
        raise
    except ModuleNotFoundError as error:
        sentence = missing_extra(sys.argv[1:], (error.name or "").partition(".")[0])
        if sentence is None:
            raise
        complain(sentence)
        sys.exit(2)
    except Exception as error:
        if lacks_memory(error):
            complain(LOWER)
        elif isinstance(error, OSError):  # of a file or folder that was given: its name is too long, it cannot be read
            complain(f"{os.fsdecode(error.filename)}: {error.strerror}." if error.filename else f"{error}.")
        else:
            raise
        sys.exit(2)


def _end_like_ctrl_c() -> list[int]:
    """Make SIGTERM stop the command as Ctrl-C does; the list returned gets the signal."""
    received: list[int] = []
    process = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != process:  # a worker, which inherited this function
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        raise KeyboardInterrupt

    if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, stop)
    return received


def stop_sentence(end: BaseException) -> str:
    """What a stopped command says: the sentence of the command, which is among the causes of its exit.

    >>> stop_sentence(SystemExit(130))
    'Stopped.'
    """
    cause: BaseException | None = end
    while cause is not None and not isinstance(cause, Stopped):
        cause = cause.__cause__ or cause.__context__
    return str(cause or "Stopped.")


def lacks_memory(error: BaseException | None) -> bool:
    """Whether an error, or its cause, is that there is not enough memory.

    >>> lacks_memory(MemoryError()), lacks_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    (True, True)
    >>> lacks_memory(RuntimeError("shapes differ"))
    False
    """
    while error is not None:
        if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
            return True
        if not isinstance(error, UserError) and any(words in str(error) for words in NO_MEMORY):
            return True
        error = error.__cause__
    return False


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
