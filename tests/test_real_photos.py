"""The data room, the mapper and the evaluation on real photos, where they lie beside the repository."""

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from casmap.data.batches import Batches
from casmap.data.folders import PhotoFolder
from casmap.evaluation.evaluate import center_system, map_photos, measure_masks, whole_system
from casmap.evaluation.localization import iou
from casmap.evaluation.trust import measure
from casmap.inference.mapper import SaliencyMapper
from casmap.models.classifier import Classifier
from casmap.models.decoder import Decoder
from casmap.models.network import SaliencyNetwork
from casmap.training.first_classifier import load_backbone

DATA = Path(__file__).parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason="the real photos are not here")


@pytest.fixture(scope="module")
def imagenet():
    return PhotoFolder(DATA / "imagenet-small" / "dev", boxes=DATA / "imagenet-small" / "dev_boxes.csv")


class First:
    """The first photos of a set."""

    def __init__(self, photos, count):
        self._photos, self.classes = photos, photos.classes
        self.names, self.labels = photos.names[:count], photos.labels[:count]
        self.image, self.annotation = photos.image, photos.annotation

    def __len__(self):
        return len(self.names)


def test_every_photo_has_its_boxes_and_they_touch_it(imagenet):
    assert (len(imagenet), len(imagenet.classes)) == (1000, 1000)
    for index in range(0, 1000, 50):
        height, width = imagenet.image(index).shape[:2]
        assert min(height, width) == 256
        boxes = imagenet.annotation(index).boxes
        assert len(boxes) >= 1
        assert (iou(np.array([0, 0, width, height]), boxes) > 0).all()


def test_a_pets_box_is_that_of_its_mask():
    pets = PhotoFolder(DATA / "pets" / "dev", masks=DATA / "pets" / "dev_masks")
    for index in range(0, len(pets), 100):
        known = pets.annotation(index)
        assert known.mask.shape == pets.image(index).shape[:2]
        x0, y0, x1, y1 = known.boxes[0].astype(int)
        inside = np.zeros_like(known.mask, dtype=bool)
        inside[y0:y1, x0:x1] = True
        assert not (known.mask == 255)[~inside].any()
        assert (known.mask == 255)[y0].any()
        assert (known.mask == 255)[:, x1 - 1].any()


def test_a_large_box_is_found_by_the_whole_picture_and_a_small_one_is_not(imagenet):
    photos = First(imagenet, 100)
    whole = measure_masks("whole", map_photos(whole_system, photos, 224, "squash"))
    centre = measure_masks("centre", map_photos(center_system, photos, 224, "squash"))
    covers = [
        max((b[2] - b[0]) * (b[3] - b[1]) for b in photos.annotation(i).boxes) / np.prod(photos.image(i).shape[:2])
        for i in range(100)
    ]
    assert whole.values["LE"].tolist() == [float(share <= 0.5) for share in covers]
    assert 0 < centre.numbers["LE"].value < 1


def test_masks_come_back_in_the_photos_own_size(imagenet):
    encoder = Classifier("test_resnet", 3)
    mapper = SaliencyMapper(SaliencyNetwork(encoder, Decoder(encoder.stage_channels), ["a", "b", "c"], True), 96)
    for index in (0, 333, 666):
        photo = imagenet.image(index)
        assert mapper(photo).mask.shape == photo.shape[:2]


@pytest.mark.parametrize(
    ("backbone", "photos", "least"), [("lite0", 200, 0.68), ("lite1", 200, 0.68), ("lite2", 200, 0.68)]
)
def test_weights_from_wheels_recognise_real_photos(imagenet, backbone, photos, least):
    classifier = Classifier(backbone, 1000, pretrained=True).eval()
    assert _accuracy(classifier, imagenet, photos) >= least


def test_torchvisions_weights_from_a_local_file_recognise_real_photos(imagenet):
    weights = DATA.parent / "weights" / "torchvision_mobilenet_v2.safetensors"
    classifier = Classifier("torchvision/mobilenet_v2", 1000).eval()
    assert load_backbone(classifier, str(weights)) == []
    assert _accuracy(classifier, imagenet, 200) >= 0.55


def _accuracy(classifier: Classifier, photos: PhotoFolder, count: int) -> float:
    """Top-1 on photos spread over the classes: the central square is shown."""
    right = []
    for indices in np.array_split(np.arange(0, len(photos), len(photos) // count), count // 50):
        images = np.stack([_center(photos.image(index)) for index in indices])
        batches = Batches(photos, 224, 50, classifier.mean, classifier.std)
        with torch.inference_mode():
            guesses = classifier(batches.normalise(images)).argmax(dim=1).numpy()
        right.append(guesses == photos.labels[indices])
    assert sum(map(len, right)) == count
    return float(np.concatenate(right).mean())


def _center(image: np.ndarray) -> np.ndarray:
    """The central square at 224 pixels, bicubic, as these networks were tested."""
    side = min(image.shape[:2])
    top, left = (image.shape[0] - side) // 2, (image.shape[1] - side) // 2
    square = image[top : top + side, left : left + side]
    return cv2.resize(square, (224, 224), interpolation=cv2.INTER_CUBIC)


def test_the_shipped_mapping_gets_the_best_verdict_on_pets():
    found = measure(SaliencyMapper.load(), PhotoFolder(DATA / "pets" / "dev"), most=100).judge()
    assert found.verdict == "good", found
