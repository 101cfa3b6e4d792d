"""Folders of photos and their annotations, with everything that can be wrong with them."""

import json

import numpy as np
import PIL.ExifTags
import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casmap.annotations.types import Kind
from casmap.data.folders import PhotoFolder
from casmap.errors import UnreadableImage, UserError
from casmap.io.outputs import WRITTEN

# Boxes in a photo of 16 x 12, in any fractions of a pixel.
BOXES = st.lists(
    st.tuples(st.floats(0, 7), st.floats(0, 5), st.floats(8, 16), st.floats(6, 12)), min_size=1, max_size=4
)


def photo(path, height=12, width=16, shade=100):
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", (width, height), (shade, shade, shade)).save(path)
    return path


def mask(path, array):
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(np.asarray(array, np.uint8)).save(path)
    return path


def refusal(*arguments, **options):
    """Return the one-sentence error for a folder."""
    with pytest.raises(UserError) as caught:
        PhotoFolder(*arguments, **options)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


@pytest.fixture
def pets(tmp_path):
    root = tmp_path / "pets"
    photo(root / "dog" / "rex.png", shade=30)
    photo(root / "cat" / "b.jpg", 20, 10)
    photo(root / "cat" / "a.png", shade=10)
    return root


# ---------------------------------------------------------------------------------------------- the tree


def test_each_folder_is_a_class_and_all_is_sorted(pets):
    photos = PhotoFolder(pets)
    assert photos.classes == ["cat", "dog"]
    assert photos.names == ["cat/a.png", "cat/b.jpg", "dog/rex.png"]
    assert photos.labels.tolist() == [0, 0, 1]
    assert photos.labels.dtype == np.int64
    assert len(photos) == 3


def test_images_keep_their_size(pets):
    photos = PhotoFolder(str(pets))
    assert photos.image(1).shape == (20, 10, 3)
    assert (photos.image(2) == 30).all()


def test_photos_are_found_at_any_depth_below_their_class(pets):
    photo(pets / "cat" / "2024" / "summer" / "c.png")
    photos = PhotoFolder(pets)
    assert photos.classes == ["cat", "dog"]
    assert "cat/2024/summer/c.png" in photos.names
    assert photos.labels.tolist() == [0, 0, 0, 1]


def test_hidden_files_hidden_classes_and_other_files_are_no_photos(pets):
    before = PhotoFolder(pets).names
    photo(pets / "cat" / ".a.png")
    photo(pets / ".thumbnails" / "a.png")
    photo(pets / "loose.png")
    (pets / "cat" / "notes.txt").write_text("a.png is my favourite")
    (pets / "cat" / "folder.png").mkdir()
    assert PhotoFolder(pets).names == before
    assert PhotoFolder(pets).classes == ["cat", "dog"]


def test_hidden_folders_inside_a_class_are_ignored(pets):
    before = PhotoFolder(pets).names
    photo(pets / "cat" / ".thumbnails" / "a.png")
    assert PhotoFolder(pets).names == before


def test_suffixes_are_case_insensitive(pets):
    photo(pets / "dog" / "LOUD.PNG")
    assert "dog/LOUD.PNG" in PhotoFolder(pets).names


def test_empty_class_folders_are_ignored(pets):
    (pets / "bird").mkdir()
    (pets / "fish" / "deep").mkdir(parents=True)
    photos = PhotoFolder(pets)
    assert photos.classes == ["cat", "dog"]
    assert photos.labels.tolist() == [0, 0, 1]


def test_a_missing_folder_is_refused(tmp_path):
    assert "nowhere" in refusal(tmp_path / "nowhere")


def test_a_file_is_no_folder(pets):
    assert "rex.png" in refusal(pets / "dog" / "rex.png")


def test_a_folder_without_photos_is_refused(tmp_path):
    (tmp_path / "cat").mkdir()
    (tmp_path / "cat" / "notes.txt").touch()
    assert "no photos" in refusal(tmp_path)


def test_photos_outside_class_folders_are_not_enough(tmp_path):
    photo(tmp_path / "a.png")
    said = refusal(tmp_path)
    assert said.startswith(f"{tmp_path} has no class folders, only 1 photo, the first a.png: put the photos of each")
    assert f"such as {tmp_path / 'cat'} and {tmp_path / 'dog'}" in said
    assert said.endswith(f"use the shipped mapping: casmap extract {tmp_path}.")


def test_loose_photos_beside_class_folders_are_left_out_and_named(pets):
    photo(pets / "loose.png")
    photos = PhotoFolder(pets)
    assert photos.names == ["cat/a.png", "cat/b.jpg", "dog/rex.png"]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [(Kind.NO_CLASS, "loose.png")]


def test_annotations_give_loose_photos_beside_class_folders_their_class(pets):
    photo(pets / "loose.png")
    table = pets / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax,class\nloose.png,1,2,3,4,dog\n")
    photos = PhotoFolder(pets, boxes=table)
    assert photos.classes == ["cat", "dog"]
    assert dict(zip(photos.names, photos.labels.tolist(), strict=True))["loose.png"] == 1
    assert photos.problems == []


def test_maps_and_runs_that_casmap_wrote_are_no_classes(pets):
    before = PhotoFolder(pets).names
    line = {"photo": "cat/a.png", "folder": str(pets), "name": "a", "width": 16, "height": 12, "box": None, "area": 0}
    for folder in (pets / "maps", pets / "cat"):  # casmap extract --out maps, and --out cat
        photo(folder / "a-mask.png")
        photo(folder / "a-overlay.jpg")
        (folder / "boxes.jsonl").write_text(json.dumps(line) + "\n")
    photo(pets / "runs" / "casm" / "figure.png")  # casmap train --out runs/casm
    (pets / "runs" / "casm" / "recipe.json").write_text(json.dumps({"backbone": "lite0", "steps": 9}))
    photo(pets / "annotations" / "images" / "a.png")  # casmap annotate --format yolo
    (pets / "annotations" / "data.yaml").write_bytes(b"train: images\n" + WRITTEN)
    assert PhotoFolder(pets).names == before
    assert PhotoFolder(pets).classes == ["cat", "dog"]
    assert PhotoFolder(pets).problems == []


def test_a_file_of_another_program_hides_no_photos(pets):
    photo(pets / "cat" / "images" / "b.png")
    (pets / "cat" / "labels").mkdir()
    before = PhotoFolder(pets).names
    (pets / "cat" / "data.yaml").write_text("train: images\n")  # a YOLO data set of another tool
    (pets / "cat" / "boxes.jsonl").write_text('{"image": "a.png"}\n')
    (pets / "dog" / "recipe.json").write_text('{"flour": 500}')
    assert PhotoFolder(pets).names == before


def test_the_error_of_an_unreadable_photo_names_it(pets):
    (pets / "cat" / "a.png").write_bytes(b"not an image")
    with pytest.raises(UnreadableImage, match=r"a\.png"):
        PhotoFolder(pets).image(0)


# ---------------------------------------------------------------------------------------------- boxes


def test_without_boxes_and_masks_there_is_no_annotation(pets):
    assert PhotoFolder(pets).annotation(0) is None


ROWS = "file,xmin,ymin,xmax,ymax\n{0}cat/a.png,1,2,3.5,4\n{0}dog/rex.png,0,0,9,9\n"


@pytest.mark.parametrize("prefix", ["", "../pets/", "./", "pets/../"])
def test_files_may_be_relative_to_the_folder_of_photos(pets, tmp_path, prefix):
    table = tmp_path / "tables" / "boxes.csv"
    table.parent.mkdir()
    table.write_text(ROWS.format(prefix))
    photos = PhotoFolder(pets, boxes=table)
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3.5, 4]]
    assert photos.annotation(2).boxes.tolist() == [[0, 0, 9, 9]]
    assert photos.problems == []


def test_files_may_be_relative_to_the_working_directory(pets, tmp_path, monkeypatch):
    table = tmp_path / "tables" / "boxes.csv"
    table.parent.mkdir()
    table.write_text(ROWS.format("pets/"))
    monkeypatch.chdir(tmp_path)
    photos = PhotoFolder("pets", boxes="tables/boxes.csv")
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3.5, 4]]
    assert photos.annotation(2).boxes.tolist() == [[0, 0, 9, 9]]


def test_a_table_without_a_matching_row_names_its_first_file_and_the_folder(pets, tmp_path):
    table = tmp_path / "boxes.csv"
    table.write_text(ROWS.format("birds/"))
    sentence = refusal(pets, boxes=table)
    assert sentence.startswith(
        f"No row of {table} matches a photo: there is no 'birds/cat/a.png' among the photos in {pets}. "
    )


def test_a_row_of_another_folder_is_not_matched_by_its_file_name(pets, tmp_path):
    """others/cat/a.png exists and is not pets/cat/a.png, wherever the table is."""
    photo(tmp_path / "others" / "cat" / "a.png")
    table = tmp_path / "others" / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\ncat/a.png,1,2,3,4\n")
    assert "matches a photo" in refusal(pets, boxes=table)


def test_boxes_are_found_relative_to_their_file(pets, tmp_path):
    table = tmp_path / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\npets/cat/a.png,1,2,3.5,4\npets/dog/rex.png,0,0,9,9\n")
    photos = PhotoFolder(pets, boxes=table)
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3.5, 4]]
    assert photos.annotation(0).boxes.dtype == np.float64
    assert photos.annotation(0).mask is None
    assert photos.annotation(1) is None
    assert photos.annotation(2).boxes.tolist() == [[0, 0, 9, 9]]


def test_a_photo_may_have_several_boxes_and_columns_any_order(pets):
    table = pets / "boxes.csv"
    table.write_text("ymax,xmax,ymin,xmin,width,file\n4,3,2,1,16,cat/a.png\n8,7,6,5,16,./cat/../cat/a.png\n")
    assert PhotoFolder(pets, boxes=table).annotation(0).boxes.tolist() == [[1, 2, 3, 4], [5, 6, 7, 8]]


def test_the_root_may_be_a_relative_path(pets, monkeypatch):
    table = pets / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\ncat/a.png,1,2,3,4\n")
    monkeypatch.chdir(pets.parent)
    assert PhotoFolder("./pets/../pets", boxes="pets/boxes.csv").annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


@pytest.mark.parametrize("text", ["name,x,y\ncat/a.png,1,2\n", "", "file,xmin,ymin,xmax\ncat/a.png,1,2,3\n"])
def test_a_table_of_other_columns_is_refused(pets, text):
    table = pets / "boxes.csv"
    table.write_text(text)
    sentence = refusal(pets, boxes=table)
    assert "boxes.csv" in sentence
    assert "xmin" in sentence


@pytest.mark.parametrize(
    "row",
    ["one,2,3,4", "1,2", "1,2,3,", "nan,2,3,4", "1,2,inf,4", "5,2,3,4", "1,4,3,4", "16,2,20,4", "-9,2,0,4"],
    ids=["word", "short", "empty", "nan", "endless", "inverted", "flat", "right of the photo", "left of it"],
)
def test_a_bad_box_is_left_out_and_named(pets, row):
    table = pets / "boxes.csv"
    table.write_text(f"file,xmin,ymin,xmax,ymax\ncat/a.png,{row}\ncat/a.png,1,2,3,4\ndog/rex.png,{row}\n")
    photos = PhotoFolder(pets, boxes=table)
    known, problems = photos.read_annotation(0)
    assert known.boxes.tolist() == [[1, 2, 3, 4]]
    assert [problem.kind for problem in problems] == [Kind.BOX_SKIPPED]
    assert problems[0].what.startswith("cat/a.png: ")
    assert photos.annotation(2) is None


def test_a_box_that_reaches_outside_stays_as_it_is_and_is_named(pets):
    table = pets / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\ncat/a.png,-5,2,30,4\ncat/a.png,-0.5,0,16.5,12\n")
    known, problems = PhotoFolder(pets, boxes=table).read_annotation(0)
    assert known.boxes.tolist() == [[-5, 2, 30, 4], [-0.5, 0, 16.5, 12]]
    assert [problem.kind for problem in problems] == [Kind.BOX_OUTSIDE]  # half a pixel is rounding


def test_rows_without_a_photo_are_named_unless_they_are_of_another_folder(pets, tmp_path):
    photo(tmp_path / "others" / "cat" / "z.png")
    table = tmp_path / "boxes.csv"
    rows = ["pets/cat/none.png", "nowhere/a.png", "others/cat/z.png", "", "pets/cat/a.png"]
    table.write_text("file,xmin,ymin,xmax,ymax\n" + "".join(f"{row},1,2,3,4\n" for row in rows))
    photos = PhotoFolder(pets, boxes=table)
    assert [(p.kind, p.what.partition(":")[0]) for p in photos.problems] == [
        (Kind.NO_PHOTO, "pets/cat/none.png"),
        (Kind.NO_PHOTO, "nowhere/a.png"),
        (Kind.MALFORMED, "boxes.csv, row 5"),
    ]
    assert photos.annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


def test_a_table_may_reach_the_photos_through_a_link(pets, tmp_path):
    (tmp_path / "linked").symlink_to(pets)
    table = tmp_path / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\nlinked/cat/a.png,1,2,3,4\n")
    assert PhotoFolder(pets, boxes=table).annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


def test_a_table_saved_by_a_spreadsheet_is_read(pets):
    table = pets / "boxes.csv"
    table.write_bytes("\ufefffile,xmin,ymin,xmax,ymax\r\ncat/a.png,1,2,3,4\r\n".encode())
    assert PhotoFolder(pets, boxes=table).annotation(0).boxes.tolist() == [[1, 2, 3, 4]]


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BOXES)
def test_boxes_are_read_from_a_table_as_they_were_written(pets, boxes):
    table = pets / "boxes.csv"
    rows = [f"cat/a.png,{','.join(map(repr, box))}\n" for box in boxes]
    table.write_text("file,xmin,ymin,xmax,ymax\n" + "".join(rows))
    assert PhotoFolder(pets, boxes=table).annotation(0).boxes.tolist() == [list(box) for box in boxes]


def test_a_rotated_photo_is_measured_upright(pets):
    """Its EXIF data rotate the photo of 16 x 12 to 12 x 16, which this box overlaps."""
    exif = PIL.Image.Exif()
    exif[PIL.ExifTags.Base.Orientation] = 6
    PIL.Image.new("RGB", (16, 12)).save(pets / "cat" / "a.png", exif=exif)
    table = pets / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\ncat/a.png,0,13,12,16\ncat/a.png,13,0,16,12\n")
    photos = PhotoFolder(pets, boxes=table)
    assert photos.image(0).shape == (16, 12, 3)
    assert photos.annotation(0).boxes.tolist() == [[0, 13, 12, 16]]


def test_boxes_that_are_no_text_are_refused(pets):
    table = photo(pets / "boxes.png").rename(pets / "boxes.csv")
    assert "boxes.csv" in refusal(pets, boxes=table)


def test_a_huge_cell_is_refused(pets):
    table = pets / "boxes.csv"
    table.write_text('file,xmin,ymin,xmax,ymax\n"' + "x" * 200_000)
    assert "boxes.csv" in refusal(pets, boxes=table)


def test_missing_boxes_are_refused(pets):
    assert "no.csv" in refusal(pets, boxes=pets / "no.csv")


def test_a_folder_is_no_table_of_boxes(pets):
    assert "cat" in refusal(pets, boxes=pets / "cat")


# ---------------------------------------------------------------------------------------------- masks


def test_masks_are_found_by_the_photos_names_and_give_the_box(pets, tmp_path):
    truth = np.zeros((12, 16), np.uint8)
    truth[3:7, 5:11] = 255
    truth[0, 0] = 128  # not counted, so not in the box either
    mask(tmp_path / "masks" / "cat" / "a.png", truth)
    photos = PhotoFolder(pets, masks=tmp_path / "masks")
    known = photos.annotation(0)
    np.testing.assert_array_equal(known.mask, truth)
    assert known.boxes.tolist() == [[5, 3, 11, 7]]
    assert known.parts is None
    assert photos.annotation(1) is None


def test_a_jpeg_has_a_png_mask(pets, tmp_path):
    mask(tmp_path / "masks" / "cat" / "b.png", np.full((20, 10), 255))
    assert PhotoFolder(pets, masks=tmp_path / "masks").annotation(1).boxes.tolist() == [[0, 0, 10, 20]]


def test_boxes_of_the_table_take_precedence_over_the_mask(pets, tmp_path):
    mask(tmp_path / "masks" / "cat" / "a.png", np.full((12, 16), 255))
    table = pets / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\ncat/a.png,1,2,3,4\n")
    known = PhotoFolder(pets, boxes=table, masks=tmp_path / "masks").annotation(0)
    assert known.boxes.tolist() == [[1, 2, 3, 4]]
    assert (known.mask == 255).all()


def test_an_empty_mask_gives_no_annotation(pets, tmp_path):
    mask(tmp_path / "masks" / "cat" / "a.png", np.zeros((12, 16)))
    assert PhotoFolder(pets, masks=tmp_path / "masks").annotation(0) is None


def test_a_missing_folder_of_masks_is_refused(pets):
    assert "masks" in refusal(pets, masks=pets / "no-masks")


def test_an_unreadable_mask_is_left_out_and_named(pets, tmp_path):
    path = mask(tmp_path / "masks" / "cat" / "a.png", np.zeros((12, 16)))
    path.write_bytes(b"not an image")
    known, problems = PhotoFolder(pets, masks=tmp_path / "masks").read_annotation(0)
    assert known is None
    assert [problem.kind for problem in problems] == [Kind.MASK_SKIPPED]
    assert "masks/cat/a.png" in problems[0].what


@pytest.mark.parametrize(("shape", "kind"), [((12, 17), Kind.MASK_SIZE), ((12, 16), Kind.MASK_EMPTY)])
def test_a_bad_mask_is_left_out_and_the_boxes_stay(pets, tmp_path, shape, kind):
    mask(tmp_path / "masks" / "cat" / "a.png", np.full(shape, 255 if kind is Kind.MASK_SIZE else 128))
    table = pets / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\ncat/a.png,1,2,3,4\n")
    known, problems = PhotoFolder(pets, boxes=table, masks=tmp_path / "masks").read_annotation(0)
    assert known.boxes.tolist() == [[1, 2, 3, 4]]
    assert known.mask is None
    assert [problem.kind for problem in problems] == [kind]


def test_parts_of_another_size_are_left_out_and_named(pets, tmp_path):
    mask(tmp_path / "masks" / "cat" / "a.png", np.full((12, 16), 255))
    mask(tmp_path / "parts" / "cat" / "a.0.png", np.full((12, 16), 255))
    assert PhotoFolder(pets, masks=tmp_path / "masks", parts=tmp_path / "parts").annotation(0).parts.all()
    mask(tmp_path / "parts" / "cat" / "a.1.png", np.full((10, 16), 255))
    known, problems = PhotoFolder(pets, masks=tmp_path / "masks", parts=tmp_path / "parts").read_annotation(0)
    assert known.parts is None
    assert [problem.kind for problem in problems] == [Kind.PART_SKIPPED]


def test_a_large_jpeg_is_decoded_smaller_but_no_smaller_than_requested(tmp_path) -> None:
    (tmp_path / "cat").mkdir()
    ramp = np.linspace(0, 255, 1200, dtype=np.uint8)[None, :, None].repeat(900, 0).repeat(3, 2)
    PIL.Image.fromarray(ramp).save(tmp_path / "cat" / "1.jpg")
    photos = PhotoFolder(tmp_path)
    assert photos.image(0).shape == (900, 1200, 3)
    for least, shape in ((900, (900, 1200, 3)), (450, (450, 600, 3)), (300, (450, 600, 3)), (100, (113, 150, 3))):
        small = photos.image(0, least)
        assert small.shape == shape
        assert np.abs(small[0, [0, -1], 0].astype(int) - [0, 255]).max() < 4  # the whole photo
