"""The table of an evaluation on the terminal."""

from rich.console import Console
from rich.table import Table

from casmap.evaluation.table import COLUMNS, FORMULAS, Evaluation, text_of


def print_rows(results: Evaluation, console: Console) -> None:
    """Print the table (central crop), and what the other resizing policy changes, as the supplement does."""
    rows = results.rows
    shown = [key for key in COLUMNS if any(key in row.numbers for row in rows)]
    table = Table(
        title=f"{len(rows[0].values['LE'])} photos, central crop, alpha = 1; 95 % bootstrap intervals", show_lines=True
    )
    table.add_column("")
    for row in rows:
        table.add_column(row.name, justify="right")
    for key in shown:
        title, scale = COLUMNS[key]
        table.add_row(title, *(text_of(row.numbers.get(key), scale) for row in rows))
    console.print(table)
    console.print(FORMULAS)
    for row in rows:
        crop, squash = row.numbers["LE"].value * 100, results.squashed[row.name] * 100
        if crop != squash:  # square photos are the same either way
            console.print(
                f"{row.name}: LE {crop:.1f} with the central crop, {squash:.1f} squashed: {squash - crop:+.1f}",
                soft_wrap=True,
            )
