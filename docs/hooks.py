"""What the documentation's builder adds: the help of a command, as the command itself says it."""

import ast
import re
from pathlib import Path
from typing import Any

from typer.main import get_command

from casmap.cli.main import app

ASKED = re.compile(r"<!-- help: (.+?) -->")
SOURCES = Path(__file__).parents[1] / "src" / "casmap"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put tables of options in the place of `<!-- help: NAME -->`, and all modules in that of `<!-- modules -->`."""
    return ASKED.sub(lambda found: options(found[1]), markdown).replace("<!-- modules -->", modules())


def modules() -> str:
    """Every module with the first sentence of its docstring."""
    rows = ["| module | what it is |", "|---|---|"]
    for path in sorted(SOURCES.rglob("*.py")):
        told = ast.get_docstring(ast.parse(path.read_text())) or ""
        rows.append(f"| `{path.relative_to(SOURCES).as_posix()}` | {_cell(told)} |")
    return "\n".join(rows)


def options(name: str) -> str:
    """A command's arguments and options as a table; a group's commands, each with its sentence."""
    command: Any = get_command(app)
    for word in name.split():
        command = command.commands[word]
    if hasattr(command, "commands"):
        rows = [f"| `casmap {name} {key}` | {_cell(one.help)} |" for key, one in command.commands.items()]
        return "\n".join(["| command | |", "|---|---|", *rows])
    rows = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        said = " ".join(parameter.opts) if parameter.opts[0].startswith("-") else parameter.name.upper()
        default = parameter.default
        told = "" if default in (None, False, ()) or callable(default) else f" (default: {default})"
        rows.append(f"| `{said}` | {_cell(getattr(parameter, 'help', ''))}{told} |")
    return "\n".join(["| | |", "|---|---|", *rows])


def _cell(text: str | None) -> str:
    return (text or "").split("\n")[0].replace("|", "\\|")
