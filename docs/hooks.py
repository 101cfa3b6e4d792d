"""What the site's build adds: tables of commands, modules and recipe options, pages of other files, the page to try."""

import ast
import dataclasses
import os
import re
from functools import cache
from pathlib import Path
from typing import Any

from griffe import Extension
from mkdocs.structure.files import File
from typer.main import get_command

from casmap.cli.main import app
from casmap.errors import UserError
from casmap.training.recipes import CHOICES, GROUPS, RECIPES, Recipe
from casmap.web import ort_web
from casmap.web.site import site_files

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "casmap"
HELP = re.compile(r"<!-- help: (.+?) -->")
LINK = re.compile(r"\[([^\]]+)\]\(([^)#:]+)(#[^)]*)?\)")
DOCTEST = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.M | re.S)
ARGUMENT = re.compile(r"(?<=[.)])\s+(?=[a-z_]+(?:, [a-z_]+)*: )")  # "data: a folder. out: the run's folder."
# What must not break across lines: an option, and in a table an interval or a date. A hash may break anywhere.
OPTION = re.compile(r"<code>(-[^<]{1,30})</code>")
CODE = re.compile(r"<code>.*?</code>", re.S)
OPTION_NAME = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
HASH = re.compile(r"<code>([0-9a-f]{64})</code>")
CELL = re.compile(r"<td.*?</td>", re.S)
NUMBERS = re.compile(r"\[[−+\d.,-]+ [−+\d.,-]+\]|\d{4}-\d\d-\d\d")
TAG = re.compile(r"<[^>]+>")
LONG = 30  # characters of a cell that needs a wide column on a small screen
STYLE = re.compile(r"^## Style\n(.*?)(?=^## |\Z)", re.M | re.S)
# Files of the root folder that are pages of the site, too.
PAGES = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}
ROOT_FILE = re.compile(rf"\]\((?:\.\./)+({'|'.join(map(re.escape, PAGES))})")

PAGE = "page"  # the folder of the page without a server
WIDE = {"recipes.md", "glossary.md"}  # pages whose tables need the space of the table of contents


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages that are made of files in the root folder."""
    for source, page in PAGES.items():
        text = site_links((ROOT / source).read_text())
        if page == "contributing.md" and (style := STYLE.search(text)):
            files.append(File.generated(config, "style.md", content=f"# Style\n{style[1]}"))
            text = text.replace(style[0], "## Style\n\nSee [Style](style.md).\n\n")
        files.append(File.generated(config, page, content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace `<!-- help: NAME -->`, `<!-- modules -->`, `<!-- recipe -->` and `<!-- page -->` by what they name.

    Links to files of the root folder, which work in a clone, become links to their pages.
    """
    if page.file.src_uri in WIDE:
        page.meta["hide"] = ["toc"]
    base = "../" * page.file.src_uri.count("/")
    markdown = ROOT_FILE.sub(lambda found: f"]({base}{PAGES[found[1]]}", markdown)
    markdown = HELP.sub(lambda found: options(found[1]), markdown)
    for name, table in (("modules", modules), ("recipe", recipe), ("page", frame)):
        marker = f"<!-- {name} -->"
        if marker in markdown:
            markdown = markdown.replace(marker, table())
    return markdown


def on_post_build(*, config: Any) -> None:
    """Write the page without a server beside the pages of the site."""
    made = page_files()
    for name, content in {} if isinstance(made, str) else made.items():
        path = Path(config.site_dir, PAGE, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def on_page_content(html: str, **_: Any) -> str:
    """Keep options, intervals and dates on one line, break hashes, and mark the cells of tables that hold sentences."""
    html = HASH.sub(r'<code class="hash">\1</code>', html)
    html = OPTION.sub(r'<code class="unbroken">\1</code>', html)
    html = CODE.sub(lambda code: OPTION_NAME.sub(r'<span class="unbroken">\g<0></span>', code[0]), html)
    return CELL.sub(lambda found: _table_cell(found[0]), html)


def _table_cell(html: str) -> str:
    """A cell whose numbers do not break, with the class `long` if it holds a sentence."""
    if len(TAG.sub("", NUMBERS.sub("", html))) > LONG:
        html = html.replace("<td", '<td class="long"', 1)
    return NUMBERS.sub(r'<span class="unbroken">\g<0></span>', html)


def site_links(text: str) -> str:
    """Links of a file in the root folder as links of a page; what is no page of the site becomes code."""

    def link(found: re.Match[str]) -> str:
        title, target, anchor = found[1], found[2], found[3] or ""
        if target.startswith("docs/"):
            return f"[{title}]({target.removeprefix('docs/')}{anchor})"
        if target in PAGES:
            return f"[{title}]({PAGES[target]}{anchor})"
        return title if "`" in title else f"`{title}`"

    return LINK.sub(link, text)


@cache
def page_files() -> dict[str, bytes] | str:
    """The files of the page without a server; a sentence if npm's package cannot be had."""
    kept = Path(os.environ.get("CASMAP_ORT_WEB", ROOT / ".venv" / f"{ort_web.PACKAGE}-{ort_web.VERSION}.tgz"))
    try:
        return site_files(runtime=kept if kept.is_file() else None)
    except UserError as error:
        return str(error)


def frame() -> str:
    """The page without a server in a frame, or how to get it."""
    made = page_files()
    if isinstance(made, str):
        return (
            '!!! note "This site was built without the page"\n\n'
            f"    It runs on ONNX Runtime for browsers, which comes from npm. {made}\n"
            "    Build the site again with this file in `.venv`, or with its path in the variable `CASMAP_ORT_WEB`.\n"
            "    On your machine, `casmap page --out site` writes the page."
        )
    megabytes = round(sum(map(len, made.values())) / 1e6)
    return (
        f'<iframe class="page" src="../{PAGE}/" title="casmap in the browser"></iframe>\n\n'
        f"*Photos stay in your browser. The page loads {megabytes} MB once, and then also works offline.* "
        f'<a href="../{PAGE}/">Open it alone</a>.'
    )


def modules() -> str:
    """Every module with the first sentence of its docstring."""
    rows = ["| module | purpose |", "|---|---|"]
    for path in sorted(SOURCES.rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        rows.append(f"| `{path.relative_to(SOURCES).as_posix()}` | {_cell(text)} |")
    return "\n".join(rows)


def options(name: str) -> str:
    """A command's arguments and options as a table; for a group, its commands."""
    command: Any = get_command(app)
    for word in name.split():
        command = command.commands[word]
    if hasattr(command, "commands"):
        rows = [f"| `casmap {name} {key}` | {_cell(one.help)} |" for key, one in command.commands.items()]
        return "\n".join(["| command | purpose |", "|---|---|", *rows])
    rows = []
    for parameter in command.params:
        if parameter.name == "help" or getattr(parameter, "hidden", False):
            continue
        names = [*parameter.opts, *parameter.secondary_opts]
        shown = "`, `".join(names) if names[0].startswith("-") else parameter.name.upper()
        default = parameter.default
        suffix = "" if default in (None, False, ()) or callable(default) else f" (default: {_value(default)})"
        rows.append(f"| `{shown}` | {_cell(getattr(parameter, 'help', ''))}{suffix} |")
    return "\n".join(["| option | meaning |", "|---|---|", *rows])


def recipe() -> str:
    """Every option of a recipe, in the groups of its class, with the values of all recipes."""
    lines = []
    head = ["option", *RECIPES, "range or values", "meaning"]
    for entry in dataclasses.fields(Recipe):
        if group := GROUPS.get(entry.name):
            lines += ["", f"## {group}", "", f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
        default, *others = (getattr(one, entry.name) for one in RECIPES.values())
        cells = [
            f"`--{entry.name.replace('_', '-')}`", _value(default),
            *("" if value == default else _value(value) for value in others),
            _allowed(entry.name, entry.metadata["between"]), _cell(entry.metadata["help"]),
        ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _allowed(name: str, bounds: tuple[float, ...]) -> str:
    """The range of a number, or all values of a choice."""
    if bounds:
        return " to ".join(f"{one:,}" if one == int(one) else f"{one:g}" for one in bounds)
    return ", ".join(f"`{one}`" for one in CHOICES.get(name, ()))


def _value(value: Any) -> str:
    """A value as one would type it."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:.4g}" if isinstance(value, float) else f"{value}"


def _cell(text: str | None) -> str:
    return (text or "").split("\n")[0].replace("|", "\\|").replace("<", "&lt;")


class Docstrings(Extension):
    """Writes docstrings for mkdocstrings: doctests as code blocks, arguments as a list."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Fence each block of lines from `>>>` to the next empty line; begin an item at each `name: `."""
        if not obj.is_alias and obj.docstring:
            text, *arguments = ARGUMENT.split(obj.docstring.value)
            for names, _, meaning in (one.partition(":") for one in arguments):
                text += f"\n\n- `{names}`:{meaning}"
            obj.docstring.value = DOCTEST.sub(lambda found: f"```pycon\n{found[0]}\n```", text)
