"""Registries: a new baseline, score, thinning, annotation format or backbone source is one file.

Names are known before their modules are imported, so that `--help` lists them without loading torch.
"""

import importlib
import pkgutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from casmap.errors import UserError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")


class Registry(Generic[T]):
    """Entries of one kind by name.

    package: each of its modules registers one entry, named like the module but with hyphens (grad_cam.py: "grad-cam").
    plugins: the entry point group in which other installed packages register theirs. of: the type of every entry.

    >>> animals: Registry[str] = Registry("animal", plugins="casmap.animals")
    >>> animals.register("cat")("a small one")
    'a small one'
    >>> animals.names, animals["cat"]
    (['cat'], 'a small one')
    >>> animals["dog"]
    Traceback (most recent call last):
    casmap.errors.UserError: There is no animal 'dog': choose from cat.
    """

    def __init__(self, kind: str, plugins: str, package: str | None = None, of: Any = object) -> None:
        self.kind, self.plugins, self.package, self.of = kind, plugins, package, of
        self._registered: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Register an entry under a name; usable as a decorator."""

        def add(entry: T) -> T:
            self._registered[name] = entry
            return entry

        return add

    @property
    def names(self) -> list[str]:
        """All names: the package's modules in alphabetical order, then entries registered by hand, then plugins."""
        return list(dict.fromkeys([*self._modules, *self._registered, *self._entry_points]))

    def __getitem__(self, name: str) -> T:
        if name not in self._registered:
            if name in self._modules:
                importlib.import_module(self._modules[name])
            elif name in self._entry_points:
                target = self._entry_points[name].value
                try:
                    plugin = self._entry_points[name].load()
                except Exception as error:  # a plugin may raise anything
                    raise UserError(f"Cannot load the {self.kind} {name!r} from {target}: {error}.") from error
                if not isinstance(plugin, self.of):
                    found = type(plugin).__name__
                    raise UserError(f"The {self.kind} {name!r} of {target} has the wrong type: {found}.")
                self._registered[name] = plugin
            else:
                raise UserError(f"There is no {self.kind} {name!r}: choose from {', '.join(self.names)}.")
        return self._registered[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def values(self) -> list[T]:
        """All entries; imports every module. Plugins that cannot be loaded are skipped; looking them up raises."""
        found = []
        for name in self.names:
            with suppress(UserError):
                found.append(self[name])
        return found

    @cached_property
    def _modules(self) -> dict[str, str]:
        """The full name of each module of the package, without subpackages and modules that begin with `_`."""
        if self.package is None:
            return {}
        found = pkgutil.iter_modules(importlib.import_module(self.package).__path__)
        modules = [module.name for module in found if not module.ispkg and not module.name.startswith("_")]
        return {name.replace("_", "-"): f"{self.package}.{name}" for name in modules}

    @cached_property
    def _entry_points(self) -> dict[str, "EntryPoint"]:
        installed = _installed()
        return {point.name: point for point in installed.select(group=self.plugins)} if installed else {}


@cache
def _installed() -> Any:
    """The entry points of all installed packages, read once for all registries; None if no package has a plugin.

    Searching the files first takes 5 ms; importing importlib.metadata and reading all entry points takes 40 ms.
    """
    for file in (file for folder in sys.path for file in Path(folder).glob("*-info/entry_points.txt")):
        with suppress(OSError):  # a file that cannot be read names no plugin
            if b"[casmap." in file.read_bytes():
                from importlib.metadata import entry_points

                return entry_points()
    return None
