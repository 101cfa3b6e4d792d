"""timm's backbones: whether pretrained weights are available; no test contacts the network."""

import socket

import pytest
import timm

from casmap.errors import UserError
from casmap.models.backbones import source_of, weights_reachable
from casmap.models.backbones import timm as ours

PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY")


@pytest.fixture(autouse=True)
def _alone(monkeypatch) -> None:
    """An empty cache, no proxy, a hub that does not answer."""

    def refused(*_, **__) -> None:
        raise ConnectionRefusedError

    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ours, "try_to_load_from_cache", lambda *_: None)
    monkeypatch.setattr(socket, "create_connection", refused)


def test_without_a_hub_weights_are_out_of_reach_and_the_sentence_says_what_to_do() -> None:
    assert not weights_reachable("resnet18")
    sentence = source_of("resnet18").missing_weights("resnet18")
    assert sentence.startswith("The pretrained weights of resnet18 cannot be downloaded: ")
    assert "weights='FILE'" in sentence
    assert "pretrained=False" in sentence


def test_an_unknown_name_is_not_taken_for_weights_that_cannot_be_downloaded() -> None:
    with pytest.raises(UserError, match=r"^There is no backbone 'resnet19': choose another, such as .*resnet18"):
        source_of("resnet19").missing_weights("resnet19")


def test_a_hub_that_answers_will_do(monkeypatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: socket.socket())
    assert weights_reachable("resnet18")
    assert not weights_reachable("seresnext26d_32x4d_of_mine")  # of which the hub has nothing


def test_so_will_weights_fetched_before(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(ours, "try_to_load_from_cache", lambda repository, file: str(tmp_path / file))
    assert weights_reachable("resnet18")


@pytest.mark.parametrize("name", PROXIES)
def test_and_a_proxy_may(monkeypatch, name) -> None:
    monkeypatch.setenv(name, "http://proxy:8080")
    assert weights_reachable("resnet18")


def test_an_architecture_without_weights_has_none(monkeypatch) -> None:
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: pytest.fail("the hub was contacted"))
    name = next(name for name in timm.list_models() if not timm.get_pretrained_cfg(name).has_weights)
    assert not weights_reachable(name)


def test_a_tag_that_timm_does_not_have_is_one_sentence() -> None:
    with pytest.raises(UserError, match=r"^timm has no backbone 'resnet18\.foo': Invalid pretrained tag"):
        weights_reachable("resnet18.foo")


def test_the_classes_of_the_weights_are_told() -> None:
    source = source_of("resnet18")
    assert source.pretrained_classes("resnet18") == 1000
    assert source.pretrained_classes("resnetv2_50x1_bit.goog_in21k") == 21843
