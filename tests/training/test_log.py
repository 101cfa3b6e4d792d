"""The log: every step once, also where a run was stopped and went on."""

import csv

from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from casmap.training.checkpoints import Log, read_log


def test_rows_appear_on_disk_with_flush_and_not_before(tmp_path) -> None:
    log = Log(tmp_path, "log")
    log.add(1, loss=0.5, area=0.123456789)
    assert not (tmp_path / "log.csv").exists()
    log.flush()
    assert (tmp_path / "log.csv").read_text() == "step,loss,area\n1,0.5,0.123456789\n"
    log.add(2, loss=0.25, area=1.0)
    log.close()
    assert (tmp_path / "log.csv").read_text() == "step,loss,area\n1,0.5,0.123456789\n2,0.25,1.0\n"


def test_a_log_without_rows_has_a_header_all_the_same(tmp_path) -> None:
    Log(tmp_path, "log").close()
    assert (tmp_path / "log.csv").read_text() == "step\n"
    assert read_log(tmp_path / "log.csv") == []


def test_no_file_is_no_rows(tmp_path) -> None:
    assert read_log(tmp_path / "log.csv") == []


def _stopped_and_resumed(folder, stop: int, start: int, end: int) -> None:
    log = Log(folder, "log")
    for step in range(1, stop + 1):
        log.add(step, loss=step / 3)
    log.close()
    log = Log(folder, "log", start)
    for step in range(start + 1, end + 1):
        log.add(step, loss=step / 3)
    log.close()


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 6), st.integers(0, 4))
def test_a_resumed_log_is_that_of_a_run_never_stopped(tmp_path_factory, start, lost) -> None:
    resumed, whole = (tmp_path_factory.mktemp(name) for name in ("resumed", "whole"))
    _stopped_and_resumed(resumed, start + lost, start, start + 6)
    _stopped_and_resumed(whole, 0, 0, start + 6)
    assert (resumed / "log.csv").read_text() == (whole / "log.csv").read_text()


def test_tensorboard_shows_each_step_once(tmp_path) -> None:
    _stopped_and_resumed(tmp_path, stop=5, start=3, end=6)
    events = EventAccumulator(str(tmp_path / "tensorboard" / "log"))
    events.Reload()
    assert [(event.step, round(event.value, 4)) for event in events.Scalars("loss")] == [
        (step, round(step / 3, 4)) for step in range(1, 7)
    ]


def test_two_logs_of_a_run_do_not_mix(tmp_path) -> None:
    one, other = Log(tmp_path, "classifier-log"), Log(tmp_path, "log")
    one.add(1, loss=1.0)
    other.add(1, area=0.5)
    one.close()
    other.close()
    assert read_log(tmp_path / "classifier-log.csv") == [{"step": 1, "loss": 1.0}]
    assert read_log(tmp_path / "log.csv") == [{"step": 1, "area": 0.5}]


def test_any_csv_reader_reads_it(tmp_path) -> None:
    _stopped_and_resumed(tmp_path, 2, 0, 3)
    with open(tmp_path / "log.csv", newline="") as file:
        assert [row["step"] for row in csv.DictReader(file)] == ["1", "2", "3"]
