"""What went wrong, said in one sentence that names the value and what to do."""


class UserError(Exception):
    """A mistake in what the user gave: the command line prints the sentence and exits with code 2."""


class Unsuited(UserError):  # noqa: N818 (it is what it says)
    """A method that cannot work with a backbone: another method can, and so can this one with another backbone."""


class UnreadableImage(UserError, OSError):  # noqa: N818 (it is what it says)
    """A photo that cannot be opened: a folder's other photos go on without it."""


class InvalidImage(UnreadableImage, ValueError):  # noqa: N818 (it is what it says)
    """An array, tensor or object that is no photo."""
