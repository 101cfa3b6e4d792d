"""Every command and option of 0.1.0 is still accepted."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from casmap.cli.main import app

OPTIONS: dict[str, list[str]] = json.loads((Path(__file__).parents[1] / "files_of_0_1_0" / "options.json").read_text())


def found(command: str) -> set[str]:
    """The arguments and options of a command."""
    one: Any = get_command(app)
    for word in command.split():
        one = one.commands[word]
    return {name for parameter in one.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize("command", OPTIONS)
def test_no_option_was_removed(command) -> None:
    assert set(OPTIONS[command]) <= found(command)
