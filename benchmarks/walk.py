"""Trace the functions of casmap that a command calls, in order: for one photo, or for a folder.

python benchmarks/walk.py extract photo.jpg --out maps
python benchmarks/walk.py train scenes:photos=8,classes=2,size=32 --recipe quick --steps 2 --first-steps 2 --out run

Each function is listed at its first call, indented by the depth of calls between casmap's own functions. Calls during
imports and methods with two underscores are left out.
"""

import sys
import threading
from pathlib import Path
from types import FrameType

import casmap

ROOT = str(Path(casmap.__file__).parent)
entered: dict[str, int] = {}


def record(frame: FrameType, event: str, _argument: object) -> None:
    """Record the first call of each function."""
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(ROOT) or "<" in code.co_qualname.replace("<locals>", ""):
        return
    if code.co_name.startswith("__") or code.co_qualname.count("<locals>") > 1 or is_import(frame):
        return
    module = Path(code.co_filename).relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    entered.setdefault(f"{module}.{code.co_qualname.replace('<locals>.', '')}", depth(frame))


def is_import(frame: FrameType) -> bool:
    """Whether this call happens during the import of a module."""
    above: FrameType | None = frame.f_back
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(ROOT):
            return True
        above = above.f_back
    return False


def depth(frame: FrameType) -> int:
    """The number of casmap's functions up the stack, without the command line's own."""
    found, above = 0, frame.f_back
    while above is not None:
        name = above.f_code.co_filename
        found += name.startswith(ROOT) and "cli" not in name[len(ROOT) :]
        above = above.f_back
    return found


def main() -> None:
    """Run the command, and print the functions that it called."""
    if "walk.py" in sys.argv[0]:
        from casmap import cli

        run = getattr(cli, "main", None)
        if not callable(run):
            from casmap.cli.main import main as run
    threading.setprofile(record)
    sys.setprofile(record)
    try:
        run()
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    for place, (name, level) in enumerate(entered.items(), 1):
        print(f"{place:3} {'  ' * level}{name}", file=sys.stderr)


if __name__ == "__main__":
    main()
