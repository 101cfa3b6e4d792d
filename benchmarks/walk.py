"""Which functions of casmap a command enters, in order: the walk of a photo, or of a folder.

python benchmarks/walk.py extract photo.jpg --out maps
python benchmarks/walk.py train scenes:photos=8,classes=2,size=32 --recipe quick --steps 2 --first-steps 2 --out run

Each function is named once, where it is first entered; its depth is that of calls between casmap's own functions. What
is called while modules are imported, and what only answers (properties, methods with two underscores) is left out.
"""

import sys
import threading
from pathlib import Path
from types import FrameType

import casmap

ROOT = str(Path(casmap.__file__).parent)
entered: dict[str, int] = {}


def note(frame: FrameType, event: str, _argument: object) -> None:
    """Keep the first call of each function."""
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(ROOT) or "<" in code.co_qualname.replace("<locals>", ""):
        return
    if code.co_name.startswith("__") or code.co_qualname.count("<locals>") > 1 or is_import(frame):
        return
    module = Path(code.co_filename).relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    entered.setdefault(f"{module}.{code.co_qualname.replace('<locals>.', '')}", depth(frame))


def is_import(frame: FrameType) -> bool:
    """Whether a module is being imported further up."""
    above: FrameType | None = frame.f_back
    while above is not None:
        if above.f_code.co_name == "<module>" and above.f_code.co_filename.startswith(ROOT):
            return True
        above = above.f_back
    return False


def depth(frame: FrameType) -> int:
    """How many of casmap's functions are further up, the command line's own aside."""
    found, above = 0, frame.f_back
    while above is not None:
        name = above.f_code.co_filename
        found += name.startswith(ROOT) and "cli" not in name[len(ROOT) :]
        above = above.f_back
    return found


def main() -> None:
    """Run the command, and print what it entered."""
    if "walk.py" in sys.argv[0]:
        from casmap import cli

        run = getattr(cli, "main", None)
        if not callable(run):
            from casmap.cli.main import main as run
    threading.setprofile(note)
    sys.setprofile(note)
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
