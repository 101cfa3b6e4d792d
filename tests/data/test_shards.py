"""Shards contain the photos of the folder, local or remote, for one process or several."""

import io
import tarfile
from collections import Counter

import fsspec
import numpy as np
import PIL.Image
import pytest
import webdataset
from typer.testing import CliRunner

from casmap.cli.main import app
from casmap.data.batches import Batches
from casmap.data.folders import PhotoFolder
from casmap.data.photos import Readable
from casmap.data.shards import INDEX, KEPT, Shards, shard_name, shard_order, write_shards
from casmap.data.sources import open_photos
from casmap.data.validate import check
from casmap.errors import UnreadableImage, UserError
from casmap.io.images import encode_jpeg

KILOBYTES = 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Forty photos of three classes, JPEG and PNG, each of its own grey."""
    root = tmp_path_factory.mktemp("photos")
    for number in range(40):
        path = root / "abc"[number % 3] / (f"{number:02}.jpg" if number % 2 else f"{number:02}.PNG")
        path.parent.mkdir(exist_ok=True)
        noise = np.random.default_rng(number).integers(0, 255, (24, 32, 3), np.uint8)
        if number % 2:
            path.write_bytes(encode_jpeg(noise))
        else:
            PIL.Image.fromarray(noise).save(path, "PNG")
    return root


@pytest.fixture(scope="module")
def packed(folder, tmp_path_factory):
    """The same in shards of a few photos."""
    out = tmp_path_factory.mktemp("packed") / "shards"
    assert write_shards(PhotoFolder(folder), out, megabytes=KILOBYTES / 1000).shards > KEPT
    return out


def test_all_photos_are_there_as_they_were(folder, packed) -> None:
    photos, shards = PhotoFolder(folder), open_photos(str(packed))
    assert isinstance(shards, Shards)
    assert (shards.names, shards.classes) == (photos.names, photos.classes)
    assert shards.labels.tolist() == photos.labels.tolist()
    for index in range(len(photos)):
        assert np.array_equal(shards.image(index), photos.image(index))
        assert shards.annotation(index) is None


def test_webdataset_reads_them(folder, packed) -> None:
    photos = PhotoFolder(folder)
    files = sorted(str(path) for path in packed.glob("*.tar"))
    seen = Counter()
    for sample in webdataset.WebDataset(files, shardshuffle=False).decode("rgb8"):
        index = int(sample["__key__"])
        (image,) = (sample[kind] for kind in ("jpg", "png") if kind in sample)
        assert sample["cls"] == photos.labels[index]
        assert np.array_equal(image, photos.image(index))
        seen[index] += 1
    assert seen == Counter(range(40))


def test_remote_shards_are_downloaded_and_only_a_few_are_kept(folder, packed) -> None:
    far = fsspec.filesystem("memory")
    for path in packed.iterdir():
        far.pipe_file(f"/bucket/{path.name}", path.read_bytes())
    photos, shards = PhotoFolder(folder), open_photos("memory://bucket")
    for index in (0, 39, 7, 0, *range(40)):
        assert np.array_equal(shards.image(index), photos.image(index))
    assert len(list(next(iter(shards._downloaded.values())).parent.glob("*.tar"))) == KEPT


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_an_epoch_is_split_among_processes_without_overlap_or_loss(packed, ranks) -> None:
    shards = Shards(str(packed))
    for epoch in range(3):
        seen: Counter[int] = Counter()
        for rank in range(ranks):
            source = Batches(shards, 16, 8, (0.0,) * 3, (1.0,) * 3, rank=rank, ranks=ranks)
            for step in range(epoch * 5, epoch * 5 + 5):
                seen.update(source.indices(step)[source.places].tolist())
        assert seen == Counter(range(40))


def test_epochs_differ_and_a_resumed_one_is_the_same(packed) -> None:
    def order(start: int) -> list[int]:
        source = Batches(Readable(Shards(str(packed))), 16, 8, (0.0,) * 3, (1.0,) * 3, seed=3)
        return [index for step in range(start, 10) for index in source.indices(step).tolist()]

    assert order(0)[:40] != order(0)[40:]
    assert order(3) == order(0)[24:]


def test_at_any_time_only_a_few_shards_are_open() -> None:
    shards = np.repeat(np.arange(20), 50)
    order = shard_order(shards, np.random.default_rng(1), group=4)
    assert sorted(order.tolist()) == list(range(1000))
    for start in range(0, 1000, 200):  # four shards of fifty
        assert len(set(shards[order[start : start + 200]])) == 4
    assert np.abs(np.diff(order)).mean() > 50  # and among them photos are well mixed


def test_an_inconsistent_index_gives_a_one_sentence_error(packed, tmp_path) -> None:
    def damaged(change) -> None:
        with np.load(packed / INDEX) as kept:
            parts = dict(kept)
        change(parts)
        content = io.BytesIO()
        np.savez(content, **parts)
        (tmp_path / INDEX).write_bytes(content.getvalue())
        with pytest.raises(UserError, match=r"The index of the shards at .* is damaged") as caught:
            Shards(str(tmp_path))
        assert "\n" not in str(caught.value)

    damaged(lambda parts: parts.pop("labels"))
    damaged(lambda parts: parts.update(labels=parts["labels"] + 7))
    damaged(lambda parts: parts.update(offsets=parts["offsets"][:-1]))
    damaged(lambda parts: parts.update(offsets=-parts["offsets"] - 1))
    damaged(lambda parts: parts.update(names=np.array(["a"], object)))
    for content in (b"", b"no index", (packed / INDEX).read_bytes()[:-30]):
        (tmp_path / INDEX).write_bytes(content)
        with pytest.raises(UserError, match="is damaged"):
            Shards(str(tmp_path))


def test_a_truncated_or_missing_shard_is_an_error(packed, tmp_path) -> None:
    for path in packed.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    last = tmp_path / shard_name(1)
    last.write_bytes(last.read_bytes()[:600])
    shards = Shards(str(tmp_path))
    inside = np.flatnonzero(shards.shards == 1)
    with pytest.raises(UnreadableImage, match=r"shard-000001\.tar is damaged"):
        shards.image(int(inside[-1]))
    last.unlink()
    with pytest.raises(UserError, match=r"shard-000001\.tar: No such file"):
        shards.image(int(inside[0]))


def test_missing_shards_give_a_one_sentence_error(tmp_path) -> None:
    for address in ("memory://nothing", "nosuch://bucket"):
        with pytest.raises(UserError, match=f"Cannot read shards from {address}"):
            open_photos(address)


def test_data_check_accepts_shards(packed) -> None:
    report = check(open_photos(str(packed)))
    assert report.understood == Shards.understood
    assert (report.fine, report.photos, len(report.classes)) == (True, 40, 3)


def test_shards_are_never_overwritten_and_have_no_boxes(folder, packed) -> None:
    with pytest.raises(UserError, match="already contains shards"):
        write_shards(PhotoFolder(folder), packed)
    with pytest.raises(UserError, match="Shards are for training only"):
        open_photos(str(packed), boxes="boxes.csv")


def test_the_command_writes_shards_and_training_reads_them(folder, tmp_path) -> None:
    done = CliRunner().invoke(app, ["data", "shard", str(folder), str(tmp_path / "shards")])
    assert done.exit_code == 0, done.output
    assert "40 photos of 3 classes in 1 shard" in done.output.replace("\n", "")
    with tarfile.open(tmp_path / "shards" / shard_name(0)) as archive:
        assert len(archive.getnames()) == 80
    options = {"recipe": "quick", "size": 32, "batch": 4, "steps": 2, "first-steps": 2, "threads": 1}
    arguments = [f"--{name}={value}" for name, value in options.items()]
    done = CliRunner().invoke(
        app,
        ["train", str(tmp_path / "shards"), *arguments, "--held-out", "0", "--out", str(tmp_path / "run")],
        catch_exceptions=False,
    )
    assert done.exit_code == 0, done.output
