"""Errors in arguments and options, as one sentence instead of typer's panel and pydantic's words."""

from typing import Any, cast

import typer
from typer.core import TyperGroup

from casmap.errors import UserError

UsageError = cast("type[Exception]", typer.BadParameter.__base__)  # click's, which typer contains or imports
QUOTE = "'"
# What a value must be, by pydantic's name of the problem.
REQUIRED = {
    "less_than_equal": "at most {le:g}",
    "greater_than_equal": "at least {ge:g}",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
}


class Commands(TyperGroup):
    """A group of commands that raises UserError for wrong arguments and options."""

    def make_context(self, *arguments: Any, **more: Any) -> Any:
        """Parse the options before the command."""
        try:
            return super().make_context(*arguments, **more)
        except UsageError as error:
            raise _user_error(error) from error

    def invoke(self, ctx: Any) -> Any:
        """Parse the arguments of the command, and run it."""
        try:
            return super().invoke(ctx)
        except UsageError as error:
            raise _user_error(error) from error


def _user_error(error: Exception) -> Exception:
    """The error to raise: help, which is printed where a command is missing, is none of the user's errors."""
    return error if type(error).__name__ == "NoArgsIsHelpError" else UserError(sentence(error))


def sentence(error: Any) -> str:
    """What is wrong with an argument or option, with its value, and what to do.

    >>> sentence(typer.BadParameter("'x' is not a file", param_hint="--out"))
    "Invalid value for --out: 'x' is not a file."
    """
    parameter, cause = getattr(error, "param", None), error.__cause__
    if parameter is not None and hasattr(cause, "errors"):
        problem = cause.errors()[0]
        name, given = parameter.opts[0], problem["input"]
        if problem["type"] in REQUIRED:
            return f"{name} must be {REQUIRED[problem['type']].format(**problem.get('ctx', {}))}, not {given}."
        _, is_choice, choices = str(problem["msg"]).rpartition(" is not one of ")
        if is_choice:
            return f"{name} must be one of {choices.rstrip('.').replace(QUOTE, '')}, not {given}."
    said = " ".join(error.format_message().split())
    said += "" if said.endswith((".", "?")) else "."
    context = getattr(error, "ctx", None)
    return said if context is None else f"{said} See {context.command_path} --help."
