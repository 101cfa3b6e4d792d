"""GeoJSON: what QuPath exports is read, and what is written has QuPath's properties."""

import json
import uuid

import numpy as np
import pytest

from casmap.annotations.format import FORMATS, WriteOptions
from casmap.annotations.labelled import Labelled, Object
from casmap.annotations.types import Kind, Names
from casmap.data.folders import PhotoFolder
from casmap.errors import UserError
from casmap.inference.objects import objects_of


def feature(kind, coordinates, label="cat"):
    return {
        "type": "Feature", "id": str(uuid.uuid4()), "geometry": {"type": kind, "coordinates": coordinates},
        "properties": {"objectType": "annotation", "classification": {"name": label, "color": [200, 0, 0]}},
    }  # fmt: skip


def ring(x0, y0, x1, y1):
    return [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]


def collection(*features):
    return {"type": "FeatureCollection", "features": list(features)}


def annotation(photos, folder, name="cat/1.jpg"):
    data = PhotoFolder(photos, folder)
    return data.annotation(data.names.index(name)), data.problems


def test_holes_and_several_polygons_are_read(photos, tmp_path) -> None:
    folder = tmp_path / "exported"
    (folder / "cat").mkdir(parents=True)
    parts = feature("MultiPolygon", [[ring(10, 10, 40, 40), ring(20, 20, 30, 30)], [ring(50, 5, 60, 15)]])
    (folder / "cat/1.geojson").write_text(json.dumps(collection(parts)))
    found, problems = annotation(photos, folder)
    wanted = np.zeros((60, 80), np.uint8)
    wanted[10:40, 10:40] = 255
    wanted[20:30, 20:30] = 0
    wanted[5:15, 50:60] = 255
    np.testing.assert_array_equal(found.mask, wanted)
    assert found.boxes.tolist() == [[10.0, 5.0, 60.0, 40.0]]
    assert problems == []


@pytest.mark.parametrize("shape", ["list", "one", "collection"])
def test_each_form_of_qupaths_export_is_read(photos, tmp_path, shape) -> None:
    one = feature("Polygon", [ring(8, 12, 48, 42)])
    content = {"list": [one], "one": one, "collection": collection(one)}[shape]
    (tmp_path / "1.geojson").write_text(json.dumps(content))
    found, _ = annotation(photos, tmp_path / "1.geojson")
    assert found.boxes.tolist() == [[8.0, 12.0, 48.0, 42.0]]


def test_bad_features_are_skipped_and_points_ignored(photos, tmp_path) -> None:
    (tmp_path / "out/cat").mkdir(parents=True)
    features = [
        feature("Polygon", [ring(8, 12, 48, 42)]), feature("Point", [3, 4]), {"type": "Feature", "geometry": None},
        feature("Polygon", [[["x", 1]]]), feature("Polygon", []), feature("Polygon", [ring(9, 9, 9, 9)]),
    ]  # fmt: skip
    (tmp_path / "out/cat/1.geojson").write_text(json.dumps(collection(*features)))
    (tmp_path / "out/cat/2.geojson").write_text("[1, 2")
    (tmp_path / "out/missing.geojson").write_text("{}")
    read = FORMATS["geojson"].read(tmp_path / "out", photos, Names(["cat/1.jpg", "cat/2.jpg"]))
    known = read.of("cat/1.jpg")
    assert [one.box for one in known.objects] == [(8.0, 12.0, 48.0, 42.0)]
    assert [problem.kind for problem in known.problems] == [Kind.MALFORMED, Kind.MALFORMED, Kind.BOX_SKIPPED]
    assert [problem.what for problem in read.of("cat/2.jpg").problems] == ["2.geojson: not a GeoJSON file"]
    assert [problem.what for problem in read.problems] == ["missing.geojson"]


@pytest.mark.parametrize("content", ["", "[[[", "3", '"x"', '{"features": 3}', '{"features": [3]}', "[" * 100_000])
def test_a_file_that_is_no_geojson_is_a_problem_not_an_error(photos, tmp_path, content) -> None:
    (tmp_path / "1.geojson").write_text(content)
    read = FORMATS["geojson"].read(tmp_path / "1.geojson", photos, Names(["cat/1.jpg"]))
    assert len(read.of("cat/1.jpg").problems) == 1


def test_what_is_written_has_the_properties_that_qupath_reads(tmp_path) -> None:
    mask = np.zeros((60, 80), np.float32)
    mask[10:30, 20:60] = 0.8
    one = objects_of(mask, "tumour", min_area=0)[0]
    photos = [Labelled(tmp_path / name, name, 80, 60, (one,)) for name in ("a/1.jpg", "a/1.png", "b.tif")]
    assert FORMATS["geojson"].write(photos, ["other", "tumour"], tmp_path / "out", WriteOptions()) == tmp_path / "out"
    files = sorted(path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*.geojson"))
    assert files == ["a/1.jpg.geojson", "a/1.png.geojson", "b.geojson"]
    written = [json.loads((tmp_path / "out" / file).read_text()) for file in files]
    assert len({each["features"][0]["id"] for each in written}) == 3
    (found,) = written[2]["features"]
    uuid.UUID(found["id"])  # QuPath refuses other ids
    assert found["properties"]["objectType"] == "annotation"
    assert found["properties"]["classification"]["name"] == "tumour"
    assert all(0 <= level <= 255 for level in found["properties"]["classification"]["color"])
    assert found["properties"]["measurements"] == {"score": 0.8}
    (outline,) = found["geometry"]["coordinates"]
    assert outline[0] == outline[-1]
    assert np.min(outline, axis=0).tolist() == [20.25, 10.25]


def test_a_photo_named_like_anothers_file_keeps_its_own(tmp_path) -> None:
    def at(x):
        return Object("cat", (x, 0, x + 1, 1), [(x, 0.0), (x + 1, 0.0), (x + 1, 1.0)], {}, 1, 1.0)

    photos = [Labelled(tmp_path / name, name, 9, 9, (at(x),)) for x, name in enumerate(("1.png", "1.png.png"))]
    out = FORMATS["geojson"].write(photos, ["cat"], tmp_path / "out", WriteOptions())
    read = FORMATS["geojson"].read(out, tmp_path, Names(["1.png", "1.png.png"]))
    assert [read.of(photo.name).objects[0].box[0] for photo in photos] == [0.0, 1.0]


def test_long_names_that_are_not_unique_are_refused(tmp_path) -> None:
    photos = [Labelled(tmp_path / name, name, 9, 9, ()) for name in (f"{one}/{'x' * 250}.png" for one in "ab")]
    with pytest.raises(UserError, match="is too long and not unique"):
        FORMATS["geojson"].write(photos, [], tmp_path / "out", WriteOptions())
