"""The table of an evaluation, and the same numbers as JSON."""

import io
import json
import re

import numpy as np
import PIL.Image
import pytest
import torch
from rich.console import Console

from casmap.cli.tables import print_rows
from casmap.data.folders import PhotoFolder
from casmap.data.scenes import Scenes
from casmap.data.sources import open_photos
from casmap.data.write import write_photos
from casmap.errors import UserError
from casmap.evaluation.blind import BLIND, SHORTER, with_centre_squares
from casmap.evaluation.box_fit import BINARY_RULES, EXTRACTED_RULES, by_rule
from casmap.evaluation.evaluate import (
    Number,
    map_photos,
    measure_masks,
)
from casmap.evaluation.evaluation_json import to_json
from casmap.evaluation.field_protocol import measure_field_protocol
from casmap.evaluation.localization import continuous_f1, iou, mask_iou
from casmap.evaluation.table import (
    COLUMNS,
    FIT_MEASURES,
    compare,
    evaluate,
    system_of,
    text_of,
)
from casmap.evaluation.wsol_metrics import is_tuning
from casmap.evaluation.wsol_protocol import WSOL_MEASURES, measure_wsol
from casmap.inference.components import Threshold
from casmap.inference.mapper import SaliencyMapper, names_of
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.files import save_mapping
from casmap.models.network import SaliencyNetwork
from casmap.reporting import Reporter

SIZE = 48
CLASSES = ["class-00", "class-01", "class-02", "class-03"]


def mapper_of(classes, predicts=True, seed=0):
    """A mapper with random weights."""
    torch.manual_seed(seed)
    encoder = Classifier("test_resnet", len(classes))
    network = SaliencyNetwork(encoder, Decoder(encoder.stage_channels), list(classes), predicts)
    torch.nn.init.normal_(network.decoder.mask.weight)
    return SaliencyMapper(network, SIZE)


@pytest.fixture(scope="module")
def mapper():
    return mapper_of(CLASSES)


@pytest.fixture(scope="module")
def scenes():
    """Some that choose thresholds and some that are scored, which their names decide."""
    sets = (Scenes(classes=4, photos=12, size=SIZE, seed=seed) for seed in range(100))
    return next(found for found in sets if 0 < sum(is_tuning(name, 0.5) for name in found.names) < 12)


@pytest.fixture(scope="module")
def results(mapper, scenes):
    return compare(scenes, {"mine": mapper}, area=0.2)


@pytest.fixture
def mapping(mapper, tmp_path):
    path = tmp_path / "casm" / "mapping.safetensors"
    save_mapping(path, mapper.network, {"size": SIZE})
    return path


def printed(results, width=160, everything=True):
    text = io.StringIO()
    print_rows(results, everything, Console(file=text, width=width))
    return text.getvalue()


# ---------------------------------------------------------------------------------------------- rows


def test_mappings_stand_beside_the_centre_box_and_the_whole_picture(results):
    for rows in (results.rows, results.central_crop, results.field_protocol, results.wsol_protocol):
        assert [row.name for row in rows] == ["mine", "centre box", "whole photo", "centre square", "centre Gaussian"]


def test_rows_are_of_whole_photos_and_central_crop_is_the_papers_protocol(results, mapper, scenes):
    for rows, policy, edges, threshold in (
        (results.rows, "squash", "sharp", Threshold(fixed=0.5)),
        (results.central_crop, "crop", None, Threshold(alpha=1)),
    ):
        for row, system in zip(rows, (system_of(mapper, scenes, edges), *BLIND.values()), strict=True):
            predictions = map_photos(system, scenes, SIZE, policy, threshold=threshold)
            if row.name == "centre square":
                predictions = with_centre_squares(predictions)
            assert row.numbers == measure_masks(row.name, predictions, area=0.2).numbers


def test_every_number_has_a_line_in_a_table(results):
    fits = {by_rule(key, rule) for key in FIT_MEASURES for rule in BINARY_RULES}
    for row in results.rows:
        assert set(row.numbers) <= set(COLUMNS) | fits


def test_the_field_protocol_is_measured_on_squashed_and_cropped_photos(results, mapper, scenes):
    for row, system in zip(results.field_protocol, (system_of(mapper, scenes), *BLIND.values()), strict=True):
        predictions = map_photos(system, scenes, SIZE, "squash and crop")
        if row.name == "centre square":
            predictions = with_centre_squares(predictions)
        assert row.numbers == measure_field_protocol(row.name, predictions).numbers
        assert set(row.numbers) == {"GT-known", "GT-known, threshold 0.5"}


def test_wsolevaluation_measures_the_decoders_masks_of_squashed_photos(results, mapper, scenes):
    row = results.wsol_protocol[0]
    expected = measure_wsol("mine", map_photos(system_of(mapper, scenes), scenes, SIZE, "squash"))
    assert row.numbers == expected.numbers
    assert set(row.numbers) == set(WSOL_MEASURES)


def test_only_the_last_table_has_the_centre_square_and_the_gaussian(results):
    before, title, last = printed(results, width=120).partition("Choe et al.'s protocol")
    assert title
    for row, crop in zip(results.wsol_protocol, results.central_crop, strict=True):
        line = next(line for line in last.splitlines() if line.strip().startswith(row.name))
        numbers = [*(row.numbers[key] for key in WSOL_MEASURES), crop.numbers["LE"]]
        assert re.split(r"\s{2,}", line.strip())[1:] == [f"{100 * number.value:.1f}" for number in numbers]
        assert (row.name in before) == (row.name not in ("centre square", "centre Gaussian"))


def test_fixed_boxes_have_the_same_numbers_under_both_protocols_if_photos_are_square(results):
    for whole, crop in zip(results.rows[1:3], results.central_crop[1:3], strict=True):
        assert whole.numbers == {key: crop.numbers[key] for key in whole.numbers}


class Square:
    """Stands for a network that marks a rectangle of the square that it is given."""

    mean, std = (0.5,) * 3, (0.5,) * 3
    classes, predicts, concurrent = ["a", "b"], True, False

    def run(self, images):
        masks = np.zeros((len(images), *images.shape[-2:]), np.float32)
        masks[:, 8:40, 4:20] = 1
        return masks, np.zeros((len(images), 2), np.float32)


@pytest.fixture
def wide(tmp_path):
    """Photos of 96 x 48 pixels; the object is at the left, outside the central square."""
    for name in ("photos/a/1.png", "photos/b/2.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        photo = PIL.Image.new("RGB", (96, 48))
        photo.paste((250, 200, 150), (8, 8, 40, 40))
        photo.save(tmp_path / name)
    rows = [f"photos/{name},8,8,40,40" for name in ("a/1.png", "b/2.png")]
    (tmp_path / "boxes.csv").write_text("\n".join(["file,xmin,ymin,xmax,ymax", *rows]))
    return PhotoFolder(tmp_path / "photos", tmp_path / "boxes.csv")


def test_the_headline_is_what_extract_gives_and_the_central_crop_comes_second(wide):
    """The box that the mapper gives for the whole photo is the true one; the central crop does not contain it."""
    mapper = SaliencyMapper(Square(), 48)
    box = mapper(wide.image(0)).box()
    assert iou(box, wide.annotation(0).boxes)[0] > 0.9
    found = compare(wide, {"mine": mapper})
    assert found["mine"].numbers["LE"].value == 0
    assert found["mine"].numbers["F1"].value == pytest.approx(1, abs=0.1)  # the filter blurs
    assert found.central_crop[0].numbers["LE"].value == 1
    text = " ".join(printed(found).split())
    whole, crop = text.index("Whole photo resized to a square, as casmap extract does"), text.index("central crop")
    assert whole < crop
    assert "The paper's protocol: the central square of each photo (central crop)" in text
    assert cells(printed(found), "LE ↓")[0][0] == "0.0"
    content = json.loads(to_json(found))["mine"]
    assert {name: numbers["LE"]["value"] for name, numbers in content.items() if "LE" in numbers} == {
        "as extracted": 0,
        "paper protocol": 1,
    }


def test_rows_measure_the_mask_and_the_box_that_the_mapper_gives(mapper, scenes):
    """At the mapper's own size, extraction and evaluation have the same pixels."""
    row = compare(scenes, {"mine": mapper})["mine"]
    for index in range(len(scenes)):
        found, truth = mapper(scenes.image(index)), scenes.annotation(index)
        box = found.box()
        assert row.values["LE"][index] == (box is None or not (iou(box, truth.boxes) > 0.5).any())
        assert row.values["mask IoU"][index] == mask_iou(found.binary(), truth.mask)
        assert row.values["area"][index] == pytest.approx(found.area, abs=1e-5)


def test_the_table_explains_the_f1_of_the_whole_photo(results, wide):
    text = " ".join(printed(results).split())
    assert "if the box covers the share a of the photo, the whole photo gets 2a / (1 + a)" in text
    share = (32 * 32) / (96 * 48)
    found = compare(wide, {"mine": SaliencyMapper(Square(), 48)})
    assert found["whole photo"].numbers["F1"].value == pytest.approx(2 * share / (1 + share))
    half = np.zeros((48, 96))
    half[8:40, 8:24] = 1  # k = 1/2 of the box
    assert continuous_f1(half, wide.annotation(0).boxes) == pytest.approx(2 * 0.5 / 1.5)


# ---------------------------------------------------------------------------------------------- classes


def test_a_mapping_of_the_same_classes_tells_them(mapper, scenes):
    pictures = np.stack([scenes.image(i) for i in range(5)])
    masks, classes = system_of(mapper, scenes)(pictures)
    expected_masks, logits = mapper.masks(pictures)
    np.testing.assert_array_equal(masks, expected_masks)
    np.testing.assert_array_equal(classes, logits.argmax(axis=1))


def test_classes_are_matched_by_name_where_the_photos_show_some_of_them():
    mapper = mapper_of(["class-02", "bird", "class-01", "class-00", "fish"], seed=3)
    photos = Scenes(classes=3, photos=12, size=SIZE)
    pictures = np.stack([photos.image(i) for i in range(12)])
    _, classes = system_of(mapper, photos)(pictures)
    _, logits = mapper.masks(pictures)
    for told, best in zip(classes, logits.argmax(axis=1), strict=True):
        name = mapper.classes[best]
        assert told == (photos.classes.index(name) if name in photos.classes else -1)


@pytest.mark.parametrize("classes", [["bird", "fish"], ["bird", "fish", "ant", "bee", "cat"]])
def test_a_mapping_of_other_classes_tells_none(classes, scenes):
    _, told = system_of(mapper_of(classes), scenes)(np.zeros((2, SIZE, SIZE, 3), np.uint8))
    assert told is None


def test_a_mapping_of_as_many_other_classes_tells_none(scenes):
    _, told = system_of(mapper_of(["bird", "fish", "ant", "bee"]), scenes)(np.zeros((2, SIZE, SIZE, 3), np.uint8))
    assert told is None


def test_classes_are_matched_by_name_where_their_order_differs(scenes):
    mapper = mapper_of(CLASSES[::-1])
    pictures = np.stack([scenes.image(i) for i in range(12)])
    _, told = system_of(mapper, scenes)(pictures)
    best = mapper.masks(pictures)[1].argmax(axis=1)
    assert [scenes.classes[i] for i in told] == [mapper.classes[i] for i in best]


def test_a_separate_encoder_tells_no_class(scenes):
    mute = mapper_of(CLASSES, predicts=False)
    _, told = system_of(mute, scenes)(np.zeros((2, SIZE, SIZE, 3), np.uint8))
    assert told is None
    assert "OM" not in compare(scenes, {"mute": mute}).rows[0].numbers


# ---------------------------------------------------------------------------------------------- printing


def cells(text, title):
    """The numbers of one line of the table, and the intervals below them."""
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if title in line)
    return [[cell.strip() for cell in line.split("│")[2:-1]] for line in lines[at : at + 2]]


@pytest.mark.parametrize("key", COLUMNS)
def test_the_table_says_every_number_and_below_it_its_interval(results, key):
    title, scale = COLUMNS[key]
    values, intervals = cells(printed(results), f"│ {title}")
    for row, value, interval in zip(results.rows[:3], values, intervals, strict=True):
        assert f"{value}\n{interval}".strip() == text_of(row.numbers.get(key), scale)


def test_the_table_says_how_many_photos_and_which_systems(results):
    lines = printed(results).splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("┃"))
    assert "12 photos" in " ".join(lines[:at])
    assert [cell.strip() for cell in lines[at].split("┃")[2:-1]] == [row.name for row in results.rows[:3]]


def further(text, title):
    """The lines of a further table from its title on: a rule, and below it each line's name and cells."""
    found, rule = {}, None
    for line in text[text.index(title) :].splitlines()[4:]:
        name, *cells = re.split(r"\s{3,}", line.strip())
        if not name:
            return found
        if cells:
            found[rule][name] = cells
        else:
            rule, found[name] = name, {}
    return found


def share(number):
    interval = f"  {100 * number.low:.1f}–{100 * number.high:.1f}" if number.low < number.high else ""
    return f"{100 * number.value:.1f}{interval}"


def test_a_further_table_says_how_well_boxes_fit_as_extracted(results):
    found = further(printed(results), "how well boxes and masks fit")
    assert list(found) == ["threshold 0.5"]
    for lines in found.values():
        assert list(lines) == list(FIT_MEASURES.values())
        for key, title in FIT_MEASURES.items():
            assert lines[title] == [share(row.numbers[key]) for row in results.rows[:3]]


def test_further_tables_say_le_by_size_with_the_number_of_photos(results):
    sizes = results["mine"].by_size
    assert sum(group.photos for size, group in sizes.items() if size != "0.1-0.33") == 12
    for title, rows, rules in (
        ("Whole photo: LE ↓ by", results.rows, EXTRACTED_RULES),
        ("Central crop: LE ↓ by", results.central_crop, BINARY_RULES),
    ):
        found = further(printed(results), title)
        assert list(found) == list(rules)
        for rule, lines in found.items():
            assert list(lines) == [f"{size} ({group.photos})" for size, group in sizes.items()]
            for size, cells_found in zip(sizes, lines.values(), strict=True):
                key = by_rule("LE", rule, rules)
                assert cells_found == [share(row.by_size[size].numbers[key]) for row in rows[:3]]


def test_further_tables_say_gt_known_of_the_field_protocol(results):
    found = further(printed(results), "The field's protocol")
    for rule, lines in found.items():
        assert lines == {
            "GT-known ↑": [share(row.numbers[by_rule("GT-known", rule)]) for row in results.field_protocol[:3]]
        }


def test_the_short_table_says_what_extract_gives_and_le_by_the_papers_protocol(results):
    text = printed(results, width=100, everything=False)
    lines = [re.split(r"\s{3,}", line.strip()) for line in text.splitlines() if line.startswith("  ")]
    shown = [(name, cells) for name, *cells in lines if cells]
    extracted = {"LE ↓": "LE", "mask IoU ↑": "mask IoU", "F1 ↑": "F1", "box IoU > 0.75 ↑": "boxes above IoU 0.75"}
    rows, crop = ([row for row in of if row.name not in SHORTER] for of in (results.rows, results.central_crop))
    assert [row.name for row in rows] == ["mine", "whole photo", "centre square"]
    for name, key in extracted.items():
        assert (name, [share(row.numbers[key]) for row in rows]) in shown
    for size, group in results["mine"].by_size.items():
        cells = [share(row.by_size[size].numbers["LE"]) for row in rows]
        assert ((f"{size} ({group.photos})", cells) in shown) == (size != "0.1-0.33")
    assert shown[-1] == ("LE ↓", [share(row.numbers["LE"]) for row in crop])
    assert text.startswith("12 photos; percent with 95 % intervals")
    assert len(printed(results, width=80, everything=False).splitlines()) < 30 < len(printed(results).splitlines())


def test_om_is_a_dash_where_no_class_is_told(results):
    assert cells(printed(results), "OM ↓")[0][1:] == ["-", "-"]


def test_measures_that_nobody_has_take_no_line(mapper, scenes):
    assert "equal area" not in printed(compare(scenes, {"mine": mapper}))


@pytest.mark.parametrize("everything", [False, True])
def test_the_table_fits_a_terminal_of_80_columns(results, everything):
    text = printed(results, 80, everything)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_a_number_is_written_as_a_reader_expects_it():
    assert text_of(None, 100) == "-"
    assert text_of(Number(0.3614, 0.3, 0.4256), 100) == "36.1\n30.0 – 42.6"
    assert text_of(Number(0.25, 0.2, 0.3), 1) == "0.250\n0.200 – 0.300"
    assert text_of(Number(181.02, 180.0, 182.0), 1) == "181.0\n180.0 – 182.0"


def test_json_holds_all_numbers(results):
    content = json.loads(to_json(results))
    assert list(content) == [row.name for row in results.rows]
    tables = (results.rows, results.central_crop, results.field_protocol, results.wsol_protocol)
    for row, crop, field, wsol in zip(*tables, strict=True):
        found = content[row.name]
        assert list(found) == ["as extracted", "paper protocol", "field protocol", "wsol protocol"]
        assert found["field protocol"] == {key: vars(number) for key, number in field.numbers.items()}
        assert found["wsol protocol"] == {key: vars(number) for key, number in wsol.numbers.items()}
        for numbers, of in ((found["as extracted"], row), (found["paper protocol"], crop)):
            by_size = numbers.pop("by size")
            assert numbers == {key: vars(number) for key, number in of.numbers.items()}
            assert {size: group.pop("photos") for size, group in by_size.items()} == {
                size: group.photos for size, group in of.by_size.items()
            }
            assert by_size == {
                size: {key: vars(number) for key, number in group.numbers.items()} for size, group in of.by_size.items()
            }


# ---------------------------------------------------------------------------------------------- files


def test_a_mapping_is_called_by_its_folder(tmp_path):
    paths = [tmp_path / "casm" / "mapping.safetensors", tmp_path / "baseline" / "mapping.safetensors"]
    paths.append(tmp_path / "best.safetensors")
    for path in paths:
        path.parent.mkdir(exist_ok=True)
        path.touch()
    assert names_of(paths) == ["casm", "baseline", "best"]


def test_equal_names_become_paths(tmp_path):
    paths = [tmp_path / place / "casm" / "mapping.safetensors" for place in ("here", "there")]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.touch()
    assert names_of(paths) == [str(path) for path in paths]


def test_a_missing_mapping_is_refused(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        names_of([tmp_path / "nowhere"])


def test_generated_scenes_and_written_ones_give_the_same_numbers(mapping, tmp_path):
    spec = f"scenes:classes=4,photos=12,size={SIZE},seed=2"
    out = tmp_path / "scenes"
    write_photos(open_photos(spec, held_out=True), out)
    generated = evaluate(spec, mapping=mapping)
    files = evaluate(out / "photos", mapping=mapping, boxes=out / "boxes.csv", masks=out / "masks")
    assert [row.numbers["LE"] for row in files] == [row.numbers["LE"] for row in generated]
    for one, other in zip(generated.rows, files.rows, strict=True):
        assert one.name == other.name
        assert set(one.numbers) - set(other.numbers) == {"evidence recall", "evidence precision", "binary area"}
        for key, number in other.numbers.items():
            assert number.value == pytest.approx(one.numbers[key].value, abs=1e-6), key


def test_masks_alone_give_the_boxes_too(mapping, tmp_path):
    write_photos(Scenes(classes=4, photos=6, size=SIZE), tmp_path / "scenes")
    photos, boxes, masks = (tmp_path / "scenes" / name for name in ("photos", "boxes.csv", "masks"))
    with_boxes = evaluate(photos, mapping=mapping, boxes=boxes)
    with_masks = evaluate(photos, mapping=mapping, masks=masks)
    for one, other in zip(with_boxes.wsol_protocol, with_masks.wsol_protocol, strict=True):
        assert one.numbers["MaxBoxAccV2"] == other.numbers["MaxBoxAccV2"]
    for one, other in zip(with_boxes.rows, with_masks.rows, strict=True):
        assert one.numbers["LE"] == other.numbers["LE"]
        assert "mask IoU" not in one.numbers
        assert "mask IoU" in other.numbers
    assert "PxAP" not in with_boxes.wsol_protocol[0].numbers
    assert "PxAP" in with_masks.wsol_protocol[0].numbers


def test_missing_boxes_are_named_before_unknown_classes(tmp_path, mapper) -> None:
    write_photos(Scenes(classes=4, photos=6, size=SIZE, first_class=20), tmp_path / "scenes")
    with pytest.raises(UserError, match="None of these photos has a box or a mask"):
        evaluate(tmp_path / "scenes" / "photos", mapping=mapper)


def test_photos_without_a_mask_are_left_out_with_a_warning(tmp_path, mapper):
    write_photos(Scenes(classes=4, photos=8, size=SIZE), tmp_path)
    for gone in sorted((tmp_path / "masks").rglob("*.png"))[2:5]:
        gone.unlink()
    warnings, reporter = [], Reporter()
    reporter.warning = warnings.append
    measured = evaluate(tmp_path / "photos", masks=tmp_path / "masks", mapping=mapper, reporter=reporter)
    left_out = sorted((tmp_path / "photos").rglob("*.*"))[2].relative_to(tmp_path / "photos")
    assert warnings == [f"Photos without a box or mask, left out: 3 of 8, the first {left_out.as_posix()}."]
    assert len(measured.rows[0].values["LE"]) == 5


def test_a_brief_evaluation_has_the_same_numbers_and_two_protocols(mapper, scenes, results):
    brief = compare(scenes, {"mine": mapper}, area=0.2, brief=True)
    assert [row.numbers for row in brief.rows] == [row.numbers for row in results.rows]
    assert [row.numbers for row in brief.central_crop] == [row.numbers for row in results.central_crop]
    assert (brief.field_protocol, brief.wsol_protocol) == ([], [])
    assert printed(brief, 80, False) == printed(results, 80, False)


def expected_rows(system, scenes, size):
    """LE and F1 of whole photos and of the central crop, with photos of this size."""
    whole, crop = (
        measure_masks("", map_photos(of, scenes, size, policy, threshold=threshold)).numbers
        for of, policy, threshold in zip(system, ("squash", "crop"), (Threshold(), Threshold(alpha=1)), strict=True)
    )
    return [(numbers["LE"], numbers["F1"]) for numbers in (whole, crop)]


def found_rows(results, name):
    rows = (next(row for row in of if row.name == name) for of in (results.rows, results.central_crop))
    return [(row.numbers["LE"], row.numbers["F1"]) for row in rows]


def test_photos_are_resized_to_the_size_that_is_given(mapper, scenes, casmap, mapping, tmp_path):
    given, own = (compare(scenes, {"mine": mapper}, size=size, brief=True) for size in (32, None))
    both = system_of(mapper, scenes, mapper.edges), system_of(mapper, scenes)
    assert found_rows(given, "mine") == expected_rows(both, scenes, 32)
    assert found_rows(own, "mine") == expected_rows(both, scenes, SIZE) != found_rows(given, "mine")
    assert found_rows(given, "centre box") == expected_rows((BLIND["centre box"],) * 2, scenes, 32)
    spec = "scenes:classes=4,photos=6,size=48,seed=2"
    results = evaluate(spec, mapping=mapping, size=32)
    done = casmap("evaluate", spec, "--mapping", mapping, "--size", 32, "--json", "32.json")
    assert done.code == 0
    written = json.loads((tmp_path / "32.json").read_text())["casm"]["as extracted"]["F1"]["value"]
    assert written == results["casm"].numbers["F1"].value


def test_mappings_of_different_sizes_are_each_measured_at_their_own(mapper, scenes):
    small = SaliencyMapper(mapper.network, 32)
    for mappers in ({"small": small, "mine": mapper}, {"mine": mapper, "small": small}):
        results = compare(scenes, mappers, brief=True)
        for name, one in mappers.items():
            system = system_of(one, scenes, one.edges), system_of(one, scenes)
            assert found_rows(results, name) == expected_rows(system, scenes, one.size)
        first = next(iter(mappers.values())).size
        assert found_rows(results, "centre box") == expected_rows((BLIND["centre box"],) * 2, scenes, first)
