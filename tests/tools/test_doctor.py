"""What is here and what is missing."""

import json
import os
from importlib.metadata import PackageNotFoundError

import pytest
from packaging.requirements import Requirement

from casmap import __version__
from casmap.install_hint import install_hint
from casmap.tools import doctor
from casmap.tools.doctor import examine, extras


def test_everything_is_looked_at(tmp_path) -> None:
    found = {finding.what: finding for finding in examine(tmp_path)}
    assert found["casmap"].found == __version__
    assert {"Python", "threads", "disk", "ONNX Runtime", "mapping", "torch", "casmap[train]", "casmap[offline]"} <= set(
        found
    )
    assert "288 px" in found["mapping"].found
    assert found["casmap[train]"].well


def test_a_missing_extra_has_a_remedy(monkeypatch, tmp_path) -> None:
    real = doctor.version

    def version(name):
        if name in ("captum", "zennit"):
            raise PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(doctor, "version", version)
    peers = next(finding for finding in examine(tmp_path) if finding.what == "casmap[peers]")
    assert not peers.well
    assert peers.found == "missing: captum, zennit"
    assert peers.advice == install_hint("peers")


def test_a_version_too_old_is_named(monkeypatch) -> None:
    monkeypatch.setattr(doctor, "version", lambda name: "0.1")
    finding = doctor._extra("train", [Requirement("timm>=1.0.12")])
    assert not finding.well
    assert "timm 0.1, not >=1.0.12" in finding.found


def test_extras_are_those_of_the_package() -> None:
    assert {"train", "offline", "peers", "demo"} <= set(extras())
    assert "test" not in extras()
    assert "torch" in {wanted.name for wanted in extras()["train"]}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
def test_more_threads_than_cores_are_told_of(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "512")
    threads = next(finding for finding in examine(tmp_path) if finding.what == "threads")
    assert not threads.well


def test_the_command_speaks_to_people_and_to_programs(casmap) -> None:
    said = casmap("doctor")
    assert said.code == 0
    assert "ONNX Runtime" in said.said
    told = json.loads(casmap("doctor", "--json").said)
    assert {"what", "found", "well", "advice"} == set(told["findings"][0])


def test_it_needs_no_torch(fresh) -> None:
    done = fresh("doctor", start="import sys; sys.modules['torch'] = None; from casmap.cli.main import main; main()")
    assert done.code == 0, done.complained
    assert "mapping" in done.said
