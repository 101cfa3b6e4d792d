"""What `casmap data check` prints."""

import statistics
from collections import Counter

from rich.console import Console

from casmap.data.validate import Report

SHOWN = 10  # names of each kind that are printed
FEWEST = 3  # small classes that are named


def print_report(report: Report, console: Console) -> None:
    """Say what was found, in lines for a person."""
    each = sorted(report.classes.values())
    lines = [
        f"Understood: {report.understood}",
        f"Photos:     {report.photos}",
        f"Classes:    {len(each)}, of {each[0]} to {each[-1]} photos, median {statistics.median(each):g}",
    ]
    if each[0] < each[-1]:
        few = Counter(report.classes).most_common()[: -FEWEST - 1 : -1]
        lines.append(f"            fewest in {', '.join(f'{name} ({count})' for name, count in few)}")
    if report.sizes:
        sizes = (f"{name} {width} x {height}" for name, (width, height) in report.sizes.items())
        lines.append(f"Sizes:      {', '.join(sizes)}")
    share = "" if report.box_share is None else f"; they cover {report.box_share:.1%} of the picture on average"
    lines.append(f"Boxes:      {report.with_boxes} photos{share}")
    lines.append(f"Masks:      {report.with_masks} photos")
    if report.with_parts:
        lines.append(f"Parts:      {report.with_parts} photos")
    for line in lines:
        console.print(line, soft_wrap=True)
    for title, groups in (("Worth knowing", report.notes), ("Wrong", report.problems)):
        for kind, names in groups.items():
            console.print(f"{title}: {len(names)} {kind}", style="bold", soft_wrap=True)
            for name in names[:SHOWN]:
                console.print(f"  {name}", soft_wrap=True)
            if len(names) > SHOWN:
                console.print(f"  and {len(names) - SHOWN} more")
    if report.fine:
        console.print("Nothing is wrong.")
