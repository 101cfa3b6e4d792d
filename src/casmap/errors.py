"""Errors whose message names the value that is wrong and says what to do."""


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


def option(name: str, value: object = None) -> str:
    """Write an option the way both Python and the command line spell it, for use in messages.

    >>> option("first_steps", 480), option("weights", "FILE")
    ('first_steps = 480 (--first-steps 480)', 'weights = FILE (--weights FILE)')
    >>> option("pretrained", False), option("resume", True), option("out")
    ('pretrained = False (--no-pretrained)', 'resume = True (--resume)', 'out (--out)')
    """
    flag = name.replace("_", "-")
    if value is None:
        return f"{name} (--{flag})"
    if isinstance(value, bool):
        return f"{name} = {value} (--{'' if value else 'no-'}{flag})"
    return f"{name} = {value} (--{flag} {value})"
