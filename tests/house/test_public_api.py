"""The public API: the names of casmap.__all__ with their signatures, fields and methods."""

import dataclasses
import difflib
import enum
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_overloads

import casmap

SNAPSHOT = Path(__file__).with_name("public_api.txt")
UPDATE = "CASMAP_UPDATE_API=1 python -m pytest tests/house/test_public_api.py"


def snapshot() -> str:
    """The public API, one line per name."""
    return "".join(f"{line}\n" for name in sorted(casmap.__all__) for line in describe(name, getattr(casmap, name)))


def describe(name: str, thing: Any) -> Iterator[str]:
    """Describe a function by its signature, a class by its bases, fields and methods, and any other value by its type.

    >>> list(describe("answer", 42))
    ['answer: int']
    """
    if not isinstance(thing, type):
        if callable(thing):
            yield from (f"{name}{signature(one)}" for one in get_overloads(thing) or [thing])
        else:
            yield f"{name}: {type(thing).__name__}"
        return
    bases = [base.__name__ for base in thing.__bases__ if base is not object]
    yield f"class {name}({', '.join(bases)})" if bases else f"class {name}"
    if dataclasses.is_dataclass(thing):
        frozen = thing.__dataclass_params__.frozen
        yield f"  dataclass(frozen={frozen})"
        public = [field for field in dataclasses.fields(thing) if not field.name.startswith("_")]
        yield from (f"  {field.name}: {shown(field.type)}{default_of(field)}" for field in public)
    elif issubclass(thing, enum.Enum):
        yield from (f"  {member.name} = {member.value!r}" for member in thing)
    elif "__init__" in vars(thing):
        yield f"  __init__{signature(thing.__init__)}"
    for part in sorted(vars(thing)):
        if part.startswith("_") and part not in ("__call__", "__iter__", "__len__", "__getitem__"):
            continue
        value = inspect.getattr_static(thing, part)
        if isinstance(value, property):
            yield f"  {part} -> {shown(inspect.signature(value.fget).return_annotation)}"
        elif hasattr(value, "func") and not callable(value):  # a cached property
            yield f"  {part} -> {shown(inspect.signature(value.func).return_annotation)}"
        elif isinstance(value, staticmethod | classmethod):
            yield f"  {type(value).__name__} {part}{signature(value.__func__)}"
        elif inspect.isfunction(value):
            yield from (f"  {part}{signature(one)}" for one in get_overloads(value) or [value])


def signature(function: Any) -> str:
    """Parameters and return type, without parts that depend on the machine."""
    return shown(str(inspect.signature(function)))


def shown(annotation: Any) -> str:
    """An annotation without module names, addresses and paths.

    >>> shown("numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float32]] | pathlib.Path"), shown(int)
    ('ndarray[tuple[int, ...], dtype[float32]] | Path', 'int')
    """
    text = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    text = re.sub(r"<(\w+) ([\w.]+)( at 0x\w+)?[^<>]*>", r"<\2>", text)
    text = re.sub(r"PosixPath\('[^']*/([^/']*)'\)", r"Path('\1')", text)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=\w)", "", text)


def default_of(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return f" = {shown(repr(field.default))}"
    return " = ..." if field.default_factory is not dataclasses.MISSING else ""


def test_the_public_api_matches_the_snapshot() -> None:
    now = snapshot()
    if "CASMAP_UPDATE_API" in os.environ:
        SNAPSHOT.write_text(now)
    before = SNAPSHOT.read_text()
    difference = "\n".join(difflib.unified_diff(before.splitlines(), now.splitlines(), "before", "now", lineterm=""))
    assert not difference, (
        f"The public API has changed:\n{difference}\n"
        f"If this is intended, run {UPDATE}\nand describe the change in CHANGELOG.md."
    )


def test_dir_shows_the_public_api() -> None:
    start = "import casmap; print(*dir(casmap)); [getattr(casmap, name) for name in casmap.__all__]"
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(casmap.__all__) <= set(done.stdout.split())


def test_the_package_is_marked_as_typed() -> None:
    assert (Path(casmap.__file__).parent / "py.typed").exists()
