"""Few photos of each class."""

from dataclasses import replace

from casmap.data.scenes import Scenes
from casmap.data.write import write_photos
from casmap.models.files import load_mapping
from casmap.paper.fewshot import planned, run_fewshot


def test_each_count_is_trained_for_the_same_steps_with_either_f0(small, tmp_path) -> None:
    setting = replace(small, data="scenes:classes=4,photos=24,size=32", test="scenes:classes=4,photos=12,size=32")
    outcome = run_fewshot(setting, out=tmp_path)
    assert [str(row[0]) for row in outcome.rows] == ["1", "3", "all (6)"]  # six of each: ten and thirty are no fewer
    recipes = [load_mapping(path)[1]["recipe"] for path in tmp_path.glob("trainings/E-*/mapping.safetensors")]
    assert len(recipes) == 5  # with all photos, both f(0) are the same
    assert {recipe["steps"] for recipe in recipes} == {4}
    assert {recipe["thinning"] for recipe in recipes} == {"L100"}
    assert len(list(tmp_path.glob("trainings/classifier-*"))) == 3
    last = [str(cell) for cell in outcome.rows[-1][1:]]
    assert last[0] == last[1]
    assert {(record["photos per class"], record["f(0)"]) for record in outcome.records} == {
        (count, name) for count in ("1", "3", 6.0) for name in ("f(0) from all photos", "f(0) from the same few")
    }


def test_one_small_class_does_not_shorten_the_curve(small, tmp_path) -> None:
    write_photos(Scenes(classes=2, photos=12, size=32), tmp_path)
    folder = tmp_path / "photos" / "class-00"
    for path in sorted(folder.iterdir())[2:]:
        path.unlink()
    setting = replace(small, data=str(tmp_path / "photos"), test="scenes:classes=2,photos=8,size=32")
    outcome = run_fewshot(setting, out=tmp_path / "out")
    assert [str(row[0]) for row in outcome.rows] == ["1", "3", "all (4)"]


def test_a_second_start_trains_nothing(small, tmp_path) -> None:
    setting = replace(small, data="scenes:classes=2,photos=4,size=32", test="scenes:classes=2,photos=8,size=32")
    outcome = run_fewshot(setting, out=tmp_path)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("trainings/*/*.safetensors")}
    assert run_fewshot(setting, out=tmp_path) == outcome
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("trainings/*/*.safetensors")} == before


def test_a_tenth_of_the_photos_is_on_the_curve(small, tmp_path) -> None:
    setting = replace(small, data="scenes:classes=2,photos=40,size=32", test="scenes:classes=2,photos=8,size=32")
    outcome = run_fewshot(setting, out=tmp_path)
    assert [str(row[0]) for row in outcome.rows] == ["1", "2", "3", "10", "all (20)"]
    trained = len(list(tmp_path.glob("trainings/E-*")))
    assert trained == 9  # two for each of four counts, one for all
    assert sum(one.runs for one in planned(setting, photos=40, classes=2) if one.maps) == trained
