"""Small copies of the layouts of public data sets, opened as by the command line."""

import json

import numpy as np
import PIL.Image
import pytest

from casmap.annotations.types import Kind
from casmap.data.sources import open_photos
from casmap.errors import UserError


def photo(path, width=40, height=30):
    path.parent.mkdir(parents=True, exist_ok=True)
    PIL.Image.new("RGB", (width, height), (90, 120, 60)).save(path)


def xml(path, *objects, size=(40, 30)):
    """objects: name, x0, y0, x1, y1 and whether it is difficult."""
    things = "".join(
        f"<object><name>{name}</name><difficult>{int(bool(more))}</difficult><bndbox><xmin>{x0}</xmin>"
        f"<ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
        for name, x0, y0, x1, y1, *more in objects
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    width, height = size
    path.write_text(f"<annotation><size><width>{width}</width><height>{height}</height></size>{things}</annotation>")


def refusal(*arguments, **options):
    """Return the one-sentence error for a source."""
    with pytest.raises(UserError) as caught:
        open_photos(*arguments, **options)
    sentence = str(caught.value)
    assert sentence.endswith(".")
    assert "\n" not in sentence
    return sentence


def seen(photos):
    """Name, class and boxes of each photo."""
    known = [photos.annotation(index) for index in range(len(photos))]
    return [
        (name, photos.classes[label], None if one is None else one.boxes.tolist())
        for name, label, one in zip(photos.names, photos.labels, known, strict=True)
    ]


# ---------------------------------------------------------------------------------------------- ILSVRC


@pytest.fixture
def ilsvrc(tmp_path):
    root = tmp_path / "ILSVRC"
    data, annotations = root / "Data" / "CLS-LOC", root / "Annotations" / "CLS-LOC"
    photo(data / "train" / "n02" / "n02_1.JPEG")
    photo(data / "train" / "n02" / "n02_2.JPEG")
    photo(data / "train" / "n01" / "n01_7.JPEG")
    xml(annotations / "train" / "n02" / "n02_1.xml", ("n02", 0, 3, 40, 30), ("n01", 1, 1, 5, 5))
    for number, name in ((1, "n02"), (2, "n01"), (3, "n02")):
        photo(data / "val" / f"val_{number}.JPEG")
        xml(annotations / "val" / f"val_{number}.xml", (name, number, 0, 20, 10))
    photo(data / "test" / "test_1.JPEG")
    return root


def test_ilsvrc_train_has_class_folders(ilsvrc):
    photos = open_photos(str(ilsvrc), split="train")
    assert seen(photos) == [
        ("n01/n01_7.JPEG", "n01", None),
        ("n02/n02_1.JPEG", "n02", [[0, 3, 40, 30]]),
        ("n02/n02_2.JPEG", "n02", None),
    ]
    assert photos.problems == []
    assert "ILSVRC" in photos.understood


def test_ilsvrc_val_has_its_classes_in_xml(ilsvrc):
    assert seen(open_photos(str(ilsvrc), split="val")) == [
        ("val_1.JPEG", "n02", [[1, 0, 20, 10]]),
        ("val_2.JPEG", "n01", [[2, 0, 20, 10]]),
        ("val_3.JPEG", "n02", [[3, 0, 20, 10]]),
    ]


@pytest.mark.parametrize("beside", ["ILSVRC", "."])
def test_ilsvrc_val_has_its_classes_in_the_solutions(ilsvrc, tmp_path, beside):
    (ilsvrc / "Annotations" / "CLS-LOC" / "val" / "val_2.xml").unlink()
    table = tmp_path / beside / "LOC_val_solution.csv"
    table.write_text(
        "ImageId,PredictionString\nval_2,n01 1 2 3 4 \nval_1,n02 1 2 3 4 n02 5 6 7 8 \nval_3,n02 0 0 1 1\n"
    )
    assert seen(open_photos(str(tmp_path if beside == "." else ilsvrc), split="val")) == [
        ("val_1.JPEG", "n02", [[1, 0, 20, 10]]),
        ("val_2.JPEG", "n01", None),
        ("val_3.JPEG", "n02", [[3, 0, 20, 10]]),
    ]


def test_invalid_solutions_are_refused(ilsvrc):
    (ilsvrc / "LOC_val_solution.csv").write_text("a,b\n1,2\n")
    assert "LOC_val_solution.csv" in refusal(str(ilsvrc), split="val")


def test_a_val_photo_without_annotation_is_left_out_and_named(ilsvrc):
    (ilsvrc / "Annotations" / "CLS-LOC" / "val" / "val_2.xml").write_text("<annotation>")
    photos = open_photos(str(ilsvrc), split="val")
    assert photos.names == ["val_1.JPEG", "val_3.JPEG"]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [
        (Kind.NO_CLASS, "val_2.JPEG"),
        (Kind.MALFORMED, "val_2.xml: it is not well-formed XML"),
    ]


@pytest.mark.parametrize("flat", [True, False])
def test_photos_and_a_folder_of_xml(ilsvrc, tmp_path, flat):
    """ILSVRC's val, moved to class folders or not, with its XML files as boxes."""
    photos = tmp_path / "photos"
    for number, name in ((1, "n02"), (2, "n01"), (3, "n02")):
        photo(photos / ("" if flat else name) / f"val_{number}.JPEG")
    found = open_photos(str(photos), boxes=ilsvrc / "Annotations" / "CLS-LOC" / "val")
    assert sorted((name.rpartition("/")[2], label, boxes) for name, label, boxes in seen(found)) == [
        ("val_1.JPEG", "n02", [[1, 0, 20, 10]]),
        ("val_2.JPEG", "n01", [[2, 0, 20, 10]]),
        ("val_3.JPEG", "n02", [[3, 0, 20, 10]]),
    ]


def test_xml_with_words_for_classes_leaves_the_class_to_the_folder(tmp_path):
    photo(tmp_path / "photos" / "n02123045" / "a.jpg")
    photo(tmp_path / "photos" / "n02099601" / "b.jpg")
    xml(tmp_path / "xml" / "a.xml", ("tabby", 1, 2, 3, 4), ("tabby", 5, 6, 7, 8))
    photos = open_photos(str(tmp_path / "photos"), boxes=tmp_path / "xml")
    assert seen(photos) == [
        ("n02099601/b.jpg", "n02099601", None),
        ("n02123045/a.jpg", "n02123045", [[1, 2, 3, 4], [5, 6, 7, 8]]),
    ]


def test_annotations_for_another_size_are_named(tmp_path):
    photo(tmp_path / "photos" / "a.jpg", 20, 15)
    xml(tmp_path / "xml" / "a.xml", ("tabby", 1, 2, 3, 4))
    known, problems = open_photos(str(tmp_path / "photos"), boxes=tmp_path / "xml").read_annotation(0)
    assert known.boxes.tolist() == [[1, 2, 3, 4]]
    assert [problem.kind for problem in problems] == [Kind.OTHER_SIZE]


# ---------------------------------------------------------------------------------------------- Pascal VOC


@pytest.fixture
def voc(tmp_path):
    root = tmp_path / "VOC2012"
    for name in ("2007_1", "2007_2", "2007_3", "2007_4"):
        photo(root / "JPEGImages" / f"{name}.jpg")
    xml(root / "Annotations" / "2007_1.xml", ("dog", 1, 1, 40, 30), ("cat", 2, 2, 5, 5), ("dog", 3, 3, 4, 4))
    xml(root / "Annotations" / "2007_2.xml", ("dog", 1, 1, 40, 30, True), ("cat", 11, 12, 20, 22))
    xml(root / "Annotations" / "2007_3.xml", ("person", 5, 6, 10, 12, True))
    xml(root / "Annotations" / "2007_4.xml")
    return root


def split(root, **lists):
    for name, lines in lists.items():
        path = root / "ImageSets" / "Main" / f"{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n")


def test_voc_counts_the_class_of_the_largest_object_that_is_not_difficult(voc):
    photos = open_photos(str(voc))
    assert seen(photos) == [
        ("2007_1.jpg", "dog", [[0, 0, 40, 30], [2, 2, 4, 4]]),
        ("2007_2.jpg", "cat", [[10, 11, 20, 22]]),
        ("2007_3.jpg", "person", [[4, 5, 10, 12]]),
    ]
    assert photos.classes == ["cat", "dog", "person"]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [(Kind.NO_CLASS, "2007_4.jpg")]


def test_voc_splits_are_lists_of_photos(voc):
    split(voc, train=["2007_1"], val=["2007_2", "2007_3", "2007_9"], cat_train=["2007_1 -1"], cat_val=["2007_2  1"])
    photos = open_photos(str(voc), split="val")
    assert photos.names == ["2007_2.jpg", "2007_3.jpg"]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [(Kind.NO_PHOTO, "2007_9")]
    assert "the splits train, val: choose one with split" in refusal(str(voc))
    assert "no split test: it has train, val" in refusal(str(voc), split="test")


def test_a_single_split_is_taken(voc):
    split(voc, trainval=["2007_1 "])
    assert open_photos(str(voc)).names == ["2007_1.jpg"]
    assert open_photos(str(voc), split="trainval").names == ["2007_1.jpg"]


def palette_png(path, indices):
    """Save an image of class indices with an unrelated palette, as VOC does."""
    image = PIL.Image.fromarray(np.asarray(indices, np.uint8), mode="P")
    image.putpalette([value * 37 % 256 for value in range(768)])
    path.parent.mkdir(exist_ok=True)
    image.save(path)


def test_voc_masks_are_read_by_index_and_their_border_does_not_count(voc):
    indices = np.zeros((30, 40), np.uint8)
    indices[5:20, 5:30] = 12  # dog, the twelfth of the twenty
    indices[5, 5:30] = 255
    indices[22:, :] = 8  # cat
    palette_png(voc / "SegmentationClass" / "2007_1.png", indices)
    photos = open_photos(str(voc))
    expected = np.where(indices == 12, 255, 0)
    expected[5, 5:30] = 128
    np.testing.assert_array_equal(photos.annotation(0).mask, expected)
    assert photos.annotation(0).boxes.tolist() == [[0, 0, 40, 30], [2, 2, 4, 4]]
    assert photos.annotation(1).mask is None


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda path: palette_png(path, np.full((30, 41), 12)), Kind.MASK_SIZE),
        (lambda path: palette_png(path, np.full((30, 40), 8)), Kind.MASK_EMPTY),
        (lambda path: PIL.Image.new("RGB", (40, 30)).save(path), Kind.MASK_SKIPPED),
        (lambda path: path.write_bytes(b"not an image"), Kind.MASK_SKIPPED),
    ],
    ids=["another size", "another class", "colours", "not an image"],
)
def test_a_bad_voc_mask_is_left_out_and_named(voc, wrong, kind):
    (voc / "SegmentationClass").mkdir()
    wrong(voc / "SegmentationClass" / "2007_1.png")
    known, problems = open_photos(str(voc)).read_annotation(0)
    assert known.mask is None
    assert len(known.boxes) == 2
    assert [problem.kind for problem in problems] == [kind]


def test_a_class_that_is_none_of_vocs_has_no_mask(voc):
    xml(voc / "Annotations" / "2007_4.xml", ("zebra", 1, 1, 5, 5))
    palette_png(voc / "SegmentationClass" / "2007_4.png", np.full((30, 40), 12))
    known, problems = open_photos(str(voc)).read_annotation(3)
    assert known.boxes.tolist() == [[0, 0, 5, 5]]
    assert known.mask is None
    assert problems == []


# ---------------------------------------------------------------------------------------------- COCO


SQUARE = [[1, 1, 5, 1, 5, 4, 1, 4]]


@pytest.fixture
def instances():
    """Three photos: a dog that is larger than two cats, a dog that is hidden in a large box, and nothing."""
    objects = [
        (1, 1, [0, 0, 4, 4]),
        (1, 2, [1, 1, 4, 3]),
        (1, 1, [9, 9, 3, 3]),
        (2, 2, [0, 0, 9, 9]),
        (2, 1, [0, 0, 8, 8]),
    ]
    areas = [3, 11, 2, 5, 20]
    return {
        "images": [{"id": n, "file_name": f"{n}.jpg", "width": 40, "height": 30} for n in (1, 2, 3)],
        "annotations": [
            {"id": n, "image_id": image, "category_id": kind, "bbox": box, "area": areas[n], "segmentation": SQUARE}
            for n, (image, kind, box) in enumerate(objects)
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
    }


EXPECTED = [("1.jpg", "dog", [[1, 1, 5, 4]]), ("2.jpg", "cat", [[0, 0, 8, 8]])]


def test_photos_and_a_coco_file(tmp_path, instances):
    for number in (1, 2, 3):
        photo(tmp_path / "photos" / f"{number}.jpg")
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    photos = open_photos(str(tmp_path / "photos"), boxes=tmp_path / "instances.json")
    assert seen(photos) == EXPECTED
    assert [(problem.kind, problem.what) for problem in photos.problems] == [(Kind.NO_CLASS, "3.jpg")]
    expected = np.zeros((30, 40), np.uint8)
    expected[1:4, 1:5] = 255
    np.testing.assert_array_equal(photos.annotation(0).mask, expected)


@pytest.mark.parametrize("inside", ["", "images"])
def test_a_coco_folder(tmp_path, instances, inside):
    for name in ("train2017", "val2017"):
        for number in (1, 2, 3):
            photo(tmp_path / inside / name / f"{number}.jpg")
        path = tmp_path / "annotations" / f"instances_{name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(instances))
    (tmp_path / "annotations" / "instances_gone.json").write_text("{")
    assert seen(open_photos(str(tmp_path), split="val2017")) == EXPECTED
    assert "train2017, val2017: choose one" in refusal(str(tmp_path))
    own = tmp_path / "annotations" / "instances_val2017.json"
    assert "leave out boxes" in refusal(str(tmp_path), split="val2017", boxes=own)


def test_a_segmentation_that_is_wrong_leaves_the_boxes(tmp_path, instances):
    photo(tmp_path / "photos" / "1.jpg")
    instances["images"] = instances["images"][:1]
    instances["annotations"] = instances["annotations"][:3]
    instances["annotations"][1]["segmentation"] = {"size": [10**6, 10**6], "counts": [10**12]}
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    known, problems = open_photos(str(tmp_path / "photos"), boxes=tmp_path / "instances.json").read_annotation(0)
    assert known.boxes.tolist() == [[1, 1, 5, 4]]
    assert known.mask is None
    assert [problem.kind for problem in problems] == [Kind.MASK_SKIPPED]


def test_training_uses_classes_from_annotations_and_never_reads_boxes(tmp_path, instances, monkeypatch):
    from casmap.data.folders import PhotoFolder
    from casmap.reporting import Reporter
    from casmap.training.start import train

    for number in (1, 2, 3):
        photo(tmp_path / "photos" / f"{number}.jpg")
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    monkeypatch.setattr(PhotoFolder, "read_annotation", lambda self, index: pytest.fail("training read an annotation"))
    small = {"size": 32, "batch": 2, "steps": 2, "first_steps": 2, "epoch_share": 1.0, "threads": 1, "device": "cpu"}
    messages, reporter, boxes = [], Reporter(), tmp_path / "instances.json"
    reporter.message = messages.append
    options = {**small, "backbone": "test_resnet", "pretrained": False}
    trained = train(tmp_path / "photos", out=tmp_path / "run", labels=boxes, reporter=reporter, **options)
    assert trained.mapping.exists()
    assert "Found 2 photos of 2 classes." in messages
    assert any(f"--labels {boxes}" in line for line in messages)


def test_training_names_loose_photos_and_ignores_maps(tmp_path):
    from casmap.inference.folder import extract
    from casmap.reporting import Reporter
    from casmap.training.start import train

    for name in ("cat/1.jpg", "dog/2.jpg", "loose.jpg"):
        photo(tmp_path / "photos" / name)
    extract(tmp_path / "photos", out=tmp_path / "photos" / "maps")
    small = {"size": 32, "batch": 2, "steps": 2, "first_steps": 2, "epoch_share": 1.0, "threads": 1, "device": "cpu"}
    warnings, messages, reporter = [], [], Reporter()
    reporter.warning, reporter.message = warnings.append, messages.append
    options = {**small, "backbone": "test_resnet", "pretrained": False}
    train(tmp_path / "photos", out=tmp_path / "run", reporter=reporter, **options)
    assert any("loose.jpg" in warning for warning in warnings)
    assert any("2 photos of 2 classes" in message for message in messages)


def test_class_folders_take_precedence_over_a_coco_file(tmp_path, instances):
    photo(tmp_path / "photos" / "cat" / "1.jpg")
    photo(tmp_path / "photos" / "dog" / "2.jpg")
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    photos = open_photos(str(tmp_path / "photos"), boxes=tmp_path / "instances.json")
    assert seen(photos) == [
        ("cat/1.jpg", "cat", [[0, 0, 4, 4], [9, 9, 12, 12]]),
        ("dog/2.jpg", "dog", [[0, 0, 9, 9]]),
    ]


# ---------------------------------------------------------------------------------------------- Tiny ImageNet


@pytest.fixture
def tiny_imagenet(tmp_path):
    root = tmp_path / "tiny-imagenet"
    lines = {"n01": ["n01_0.JPEG\t0\t10\t39\t29", "n01_1.JPEG\t4\t5\t4\t6"], "n02": ["n02_0.JPEG\t1\t2\t3\t4"]}
    for wnid, rows in lines.items():
        for row in rows:
            photo(root / "train" / wnid / "images" / row.split("\t")[0])
        (root / "train" / wnid / f"{wnid}_boxes.txt").write_text("\n".join(rows) + "\n")
    for number in range(2):
        photo(root / "val" / "images" / f"val_{number}.JPEG")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn02\t0\t0\t9\t8\nval_1.JPEG\tn01\t5\t6\t7\t8\n")
    photo(root / "test" / "images" / "test_0.JPEG")
    (root / "wnids.txt").write_text("n01\nn02\n")
    (root / "words.txt").write_text("n01\tgoldfish\nn02\tbullfrog\n")
    return root


def test_tiny_imagenet_train_has_class_folders_and_a_file_of_boxes_in_each(tiny_imagenet):
    photos = open_photos(str(tiny_imagenet), split="train")
    assert seen(photos) == [
        ("n01/images/n01_0.JPEG", "n01", [[0, 10, 40, 30]]),  # the pixel 39, 29 belongs to the box
        ("n01/images/n01_1.JPEG", "n01", [[4, 5, 5, 7]]),
        ("n02/images/n02_0.JPEG", "n02", [[1, 2, 4, 5]]),
    ]
    assert photos.problems == []
    assert photos.understood == ("Tiny ImageNet, split train in class folders; boxes from Tiny ImageNet's text files")


def test_tiny_imagenet_val_has_classes_and_boxes_in_one_file(tiny_imagenet):
    assert seen(open_photos(str(tiny_imagenet), split="val")) == [
        ("val_0.JPEG", "n02", [[0, 0, 10, 9]]),
        ("val_1.JPEG", "n01", [[5, 6, 8, 9]]),
    ]
    assert "the splits train, val" in refusal(str(tiny_imagenet))
    assert "leave out boxes" in refusal(str(tiny_imagenet), boxes="boxes.csv", split="val")


@pytest.mark.parametrize("below", ["", "images"])
def test_tiny_imagenet_val_may_be_sorted_into_class_folders(tiny_imagenet, tmp_path, below):
    val = tiny_imagenet / "val"
    for name, wnid in (("val_0.JPEG", "n02"), ("val_1.JPEG", "n01")):
        (val / wnid / below).mkdir(parents=True)
        (val / "images" / name).rename(val / wnid / below / name)
    sorted_photos = seen(open_photos(str(tiny_imagenet), split="val"))
    assert [(name.rpartition("/")[2], *rest) for name, *rest in sorted_photos] == [
        ("val_1.JPEG", "n01", [[5, 6, 8, 9]]),
        ("val_0.JPEG", "n02", [[0, 0, 10, 9]]),
    ]
    table, boxes = val / "val_annotations.txt", tmp_path / "boxes.csv"
    table.unlink()
    assert "the splits train, val" in refusal(str(tiny_imagenet))
    assert [found[1:] for found in seen(open_photos(str(tiny_imagenet), split="val"))] == [("n01", None), ("n02", None)]
    boxes.write_text(f"file,xmin,ymin,xmax,ymax\n{sorted_photos[0][0]},1,2,3,4\n")
    found = seen(open_photos(str(tiny_imagenet), split="val", boxes=boxes))
    assert [one[1:] for one in found] == [("n01", [[1, 2, 3, 4]]), ("n02", None)]
    assert "leave out boxes" in refusal(str(tiny_imagenet), split="train", boxes=boxes)


def test_bad_lines_of_tiny_imagenet_are_named_and_the_others_used(tiny_imagenet):
    (tiny_imagenet / "val" / "val_annotations.txt").write_text(
        "val_0.JPEG\tn02\t0\t0\t9\nval_7.JPEG\tn01\t5\t6\t7\t8\nval_1.JPEG\tn01\t5\tx\t7\t8\n"
    )
    photos = open_photos(str(tiny_imagenet), split="val")
    assert seen(photos) == [("val_1.JPEG", "n01", None)]
    assert [(problem.kind, problem.what) for problem in photos.problems] == [
        (Kind.MALFORMED, "val_annotations.txt: a line does not have 6 fields"),
        (Kind.NO_PHOTO, "val_7.JPEG"),
        (Kind.NO_CLASS, "val_0.JPEG"),
    ]
    assert [problem.kind for problem in photos.read_annotation(0)[1]] == [Kind.BOX_SKIPPED]


def test_tiny_imagenet_in_class_folders_without_boxes_is_like_any_other_folder(tmp_path):
    for name in ("train/n01/a.jpg", "train/n02/b.jpg", "val/n01/c.jpg", "val/n02/d.jpg"):
        photo(tmp_path / name)
    (tmp_path / "wnids.txt").write_text("n01\nn02\n")
    (tmp_path / "boxes.csv").write_text("file,xmin,ymin,xmax,ymax\nn01/c.jpg,1,2,3,4\n")
    photos = open_photos(str(tmp_path), split="val", boxes=tmp_path / "boxes.csv")
    assert seen(photos) == [("n01/c.jpg", "n01", [[1, 2, 3, 4]]), ("n02/d.jpg", "n02", None)]
    assert "the splits train, val" in refusal(str(tmp_path))


def test_a_link_out_of_tiny_imagenet_is_refused(tiny_imagenet, tmp_path):
    table = tiny_imagenet / "val" / "val_annotations.txt"
    table.rename(tmp_path / "elsewhere.txt")
    table.symlink_to(tmp_path / "elsewhere.txt")
    assert "link" in refusal(str(tiny_imagenet), split="val")


# ---------------------------------------------------------------------------------------------- other layouts


def test_folders_of_splits_with_class_folders(tmp_path):
    for name in ("train/cat/a.jpg", "train/dog/b.jpg", "val/cat/c.jpg"):
        photo(tmp_path / name)
    assert "the splits train, val" in refusal(str(tmp_path))
    assert open_photos(str(tmp_path), split="train").names == ["cat/a.jpg", "dog/b.jpg"]


def test_classes_that_are_called_like_splits_stay_classes(tmp_path):
    for name in ("train/a.jpg", "bus/b.jpg"):
        photo(tmp_path / "traffic" / name)
    assert open_photos(str(tmp_path / "traffic")).classes == ["bus", "train"]


def test_a_split_that_is_not_there_is_refused(tmp_path):
    photo(tmp_path / "cat" / "a.jpg")
    assert "no split val" in refusal(str(tmp_path), split="val")
    assert "split" in refusal("scenes", split="val")


def test_a_folder_without_annotations_is_refused(tmp_path):
    photo(tmp_path / "cat" / "a.jpg")
    (tmp_path / "empty").mkdir()
    assert "empty" in refusal(str(tmp_path), boxes=tmp_path / "empty")


def test_loose_photos_without_a_class_are_refused(tmp_path):
    photo(tmp_path / "photos" / "a.jpg")
    table = tmp_path / "boxes.csv"
    table.write_text("file,xmin,ymin,xmax,ymax\nphotos/a.jpg,1,2,3,4\n")
    assert "class" in refusal(str(tmp_path / "photos"), boxes=table)
