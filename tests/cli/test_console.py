"""The output of the command line if it is not a terminal: plain lines of progress."""

import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from casmap.cli.main import app
from casmap.training import start

PROGRAM = """
import sys
from casmap.cli.console import RichReporter
reporter = RichReporter(interval=float(sys.argv[1]))
with reporter.progress("Algorithm 1", 5, start=2, lasting=sys.argv[2] == "lasting") as advance:
    for step in (3, 4, 5):
        advance(note=f"loss {step / 10}, area 0.38")
"""


def output(tmp_path, environment, *arguments: str) -> list[str]:
    """The lines that a process writes to a file."""
    with open(tmp_path / "out.txt", "w") as file:
        subprocess.run([sys.executable, "-c", PROGRAM, *arguments], stdout=file, env=environment, check=True)
    return (tmp_path / "out.txt").read_text().splitlines()


@pytest.mark.parametrize("kind", ["lasting", "transient"])
def test_progress_is_a_line_with_step_total_time_left_and_note(tmp_path, environment, kind) -> None:
    lines = output(tmp_path, environment, "0", kind)
    patterns = (
        r"Algorithm 1: 3 of 5, \d:\d\d:\d\d left, loss 0.3, area 0.38",
        r"Algorithm 1: 4 of 5, \d:\d\d:\d\d left, loss 0.4, area 0.38",
        r"Algorithm 1: 5 of 5, took \d:\d\d:\d\d, loss 0.5, area 0.38",
    )
    for line, pattern in zip(lines, patterns, strict=True):
        assert re.fullmatch(pattern, line)


def test_no_line_comes_before_its_interval_but_lasting_progress_has_one_at_its_end(tmp_path, environment) -> None:
    (line,) = output(tmp_path, environment, "1e9", "lasting")
    assert line.startswith("Algorithm 1: 5 of 5, took ")
    assert output(tmp_path, environment, "1e9", "transient") == []


@pytest.mark.parametrize("command", ["train", "classifier"])
@pytest.mark.parametrize("option", ["--labels", "--boxes"])
def test_labels_are_passed_on_and_the_old_name_is_accepted(monkeypatch, command, option) -> None:
    class PassedError(Exception):
        pass

    def function(data, **arguments):
        assert str(arguments["labels"]) == "labels.json"
        assert "boxes" not in arguments
        raise PassedError

    monkeypatch.setattr(start, "train" if command == "train" else "train_classifier", function)
    assert isinstance(CliRunner().invoke(app, [command, "photos", option, "labels.json"]).exception, PassedError)


@pytest.mark.parametrize("command", ["train", "classifier"])
def test_the_help_shows_labels_only(command) -> None:
    text = CliRunner().invoke(app, [command, "--help"], terminal_width=200).output
    assert "--labels" in text
    assert "--boxes" not in text
