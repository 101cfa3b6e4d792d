"""Registries: errors of plugins, and what they must not break."""

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from casmap import registry
from casmap.annotations.format import FORMATS
from casmap.baselines import BASELINES, find_baseline
from casmap.data.layouts import read_annotations
from casmap.errors import UserError
from casmap.models.backbones import BACKBONE_SOURCES, source_of
from casmap.registry import Registry
from casmap.training.thinning import find_thinning


@pytest.fixture
def broken(monkeypatch):
    """Plugins of every kind, one that cannot be imported and one that is something else."""
    groups = ("casmap.formats", "casmap.backbones", "casmap.baselines")
    points = [EntryPoint("absent", "no_such_package:thing", group) for group in groups]
    points += [EntryPoint("module", "posixpath", group) for group in groups]
    monkeypatch.setattr(registry, "_installed", lambda: EntryPoints(points))
    for one in (FORMATS, BACKBONE_SOURCES, BASELINES):
        monkeypatch.delitem(one.__dict__, "_entry_points", raising=False)
    yield
    for one in (FORMATS, BACKBONE_SOURCES, BASELINES):
        one.__dict__.pop("_entry_points", None)


def test_a_broken_plugin_raises_one_sentence_when_it_is_used(broken) -> None:
    for one in (FORMATS, BACKBONE_SOURCES, BASELINES):
        assert {"absent", "module"} <= set(one.names)
        with pytest.raises(UserError, match=r"Cannot load the .* 'absent' from no_such_package:thing: No module"):
            one["absent"]
        with pytest.raises(UserError, match="'module' of posixpath has the wrong type: module"):
            one["module"]


def test_a_broken_plugin_does_not_disturb_the_others(broken, tmp_path) -> None:
    (tmp_path / "boxes.csv").write_text("file,xmin,ymin,xmax,ymax\n")
    assert "CSV" in read_annotations(tmp_path / "boxes.csv", tmp_path, _NoPhotos()).kind
    assert source_of("resnet50") is BACKBONE_SOURCES["timm"]
    assert find_baseline("Grad-CAM").name == "Grad-CAM"


class _NoPhotos:
    def find(self, name: str) -> None:
        return None


def test_every_module_registers_what_it_is_called(tmp_path) -> None:
    for one in (FORMATS, BACKBONE_SOURCES):
        assert isinstance(one, Registry)
        for name in one.names:
            assert one[name] is not None


@pytest.mark.parametrize("name", ["L<period>", "M5", "", "L0", "F10"])
def test_a_thinning_that_is_none_is_named_as_it_was_given(name) -> None:
    with pytest.raises(UserError, match=f"There is no thinning '{name}': choose from F, L, FL"):
        find_thinning(name)
