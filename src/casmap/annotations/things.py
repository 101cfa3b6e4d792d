"""Objects from what sources say of them, and which of a photo's objects count."""

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from casmap.annotations.types import Box, Kind, LeftOut, Problem, Thing


def four_numbers(values: Any) -> Box:
    """Four finite numbers, or texts that say numbers; all else raises LeftOut."""
    try:
        one, two, three, four = (float(value) for value in values)
        if all(map(math.isfinite, (one, two, three, four))):
            return one, two, three, four
    except (TypeError, ValueError, OverflowError):
        pass
    raise LeftOut(Kind.BOX_LEFT_OUT, "the box is not four numbers")


def edges(values: Iterable[Any]) -> Box:
    """Four numbers, or texts that say numbers, as the edges of a box; what is no box raises LeftOut.

    >>> edges(["1", "2.5", 3, 4])
    (1.0, 2.5, 3.0, 4.0)
    """
    x0, y0, x1, y1 = four_numbers(values)
    if x1 <= x0 or y1 <= y0:
        raise LeftOut(Kind.BOX_LEFT_OUT, f"the box {x0:g}, {y0:g}, {x1:g}, {y1:g} ends before it begins")
    return x0, y0, x1, y1


def boxed(name: str, values: Iterable[Any], **more: Any) -> Thing:
    """An object that is no larger than its box.

    >>> boxed("cat", ["1", "2", "4", "6"])
    Thing(name='cat', box=(1.0, 2.0, 4.0, 6.0), area=12.0, doubtful=False, outline=None)
    """
    x0, y0, x1, y1 = edges(values)
    return Thing(name, (x0, y0, x1, y1), (x1 - x0) * (y1 - y0), **more)


def gather(where: str, makers: Iterable[Callable[[], Thing]]) -> tuple[list[Thing], list[Problem]]:
    """The objects that can be made, and a problem of the photo or file `where` for each that cannot.

    >>> gather("a.xml", [lambda: boxed("cat", [1, 2, 3, 4]), lambda: boxed("cat", "x")])[1]
    [Problem(kind=<Kind.BOX_LEFT_OUT: 'boxes left out'>, what='a.xml: the box is not four numbers')]
    """
    things: list[Thing] = []
    problems: list[Problem] = []
    for make in makers:
        try:
            things.append(make())
        except LeftOut as bad:
            problems.append(bad.problem(where))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError):
            problems.append(Problem(Kind.MALFORMED, f"{where}: a region that cannot be read"))
    return things, problems


def main_class(things: Sequence[Thing]) -> str | None:
    """The class of the largest object, which is the photo's where no folder says it; None where there is none.

    >>> main_class([Thing("cat", (0, 0, 2, 2), 4), Thing("dog", (0, 0, 3, 3), 9)])
    'dog'
    """
    named = [thing for thing in things if thing.name]
    sure = [thing for thing in named if not thing.doubtful] or named
    return max(sure, key=lambda thing: thing.area).name if sure else None


def of_class(things: Sequence[Thing], label: str, classes: Collection[str]) -> list[Thing]:
    """The objects of the photo's class.

    Where none has its name, those whose names are no class at all: people label photos in the folder n02123045 "tabby".

    >>> things = [Thing("cat", (0, 0, 2, 2), 4), Thing("dog", (0, 0, 3, 3), 9)]
    >>> [thing.name for thing in of_class(things, "cat", {"cat", "dog"})]
    ['cat']
    """
    same = [thing for thing in things if thing.name == label] or [t for t in things if t.name not in classes]
    return [thing for thing in same if not thing.doubtful] or same
