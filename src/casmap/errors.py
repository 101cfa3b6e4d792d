"""Errors whose message names the value that is wrong and says what to do."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager


class UserError(Exception):
    """An error in the user's input. The command line prints its message and exits with code 2."""


class UnsupportedBackbone(UserError):  # noqa: N818 (named like the errors below)
    """A method does not work with this backbone; another method or another backbone does."""


class UnreadableImage(UserError, OSError):  # noqa: N818 (part of the public API)
    """A photo cannot be opened. Functions that process a folder skip it and continue."""


class InvalidImage(UnreadableImage, ValueError):  # noqa: N818 (part of the public API)
    """An array, tensor or object is not a photo."""


class TooLarge(UnreadableImage):
    """A photo has more pixels, or a longer side, than allowed."""


class TooSlow(UnreadableImage):
    """Opening a photo takes longer than allowed."""


class Stopped(KeyboardInterrupt):
    """The user or the system stopped a command; the message says what is finished and how to continue."""


_dashes = False  # whether messages spell options as the command line does


@contextmanager
def _spelling(dashes: bool) -> Iterator[None]:
    global _dashes
    before, _dashes = _dashes, dashes
    try:
        yield
    finally:
        _dashes = before


def command_line() -> AbstractContextManager[None]:
    """Inside the block, messages spell options as the command line does, in all threads.

    >>> with command_line():
    ...     option("first_steps", 480), option("pretrained", False), option("resume", True), option("out")
    ('--first-steps 480', '--no-pretrained', '--resume', '--out')
    """
    return _spelling(True)


def keywords() -> AbstractContextManager[None]:
    """Inside the block, messages spell options as keywords again: those that a server started by a command sends.

    >>> with command_line(), keywords():
    ...     option("threshold")
    'threshold'
    """
    return _spelling(False)


def option(name: str, value: object = None) -> str:
    """Spell an option for a message: as a keyword in Python, with dashes inside `command_line`.

    >>> option("first_steps", 480), option("weights", "FILE"), option("resume", True), option("out")
    ('first_steps=480', "weights='FILE'", 'resume=True', 'out')
    """
    flag = name.replace("_", "-")
    if not _dashes:
        return name if value is None else f"{name}={value!r}"
    if isinstance(value, bool):
        return f"--{'' if value else 'no-'}{flag}"
    return f"--{flag}" if value is None else f"--{flag} {value}"
