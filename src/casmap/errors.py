"""What a person did that cannot work, said in one sentence."""


class UserError(Exception):
    """A mistake in what the user gave: the command line prints the sentence and exits with code 2."""


class Unsuited(UserError):  # noqa: N818 (it is what it says)
    """A method that cannot work with a backbone: another method can, and so can this one with another backbone."""


class UnreadableImage(UserError):  # noqa: N818 (it is what it says)
    """One photo that cannot be opened: a folder's other photos go on without it."""
