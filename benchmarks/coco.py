"""What `casmap annotate --format coco` is worth to COCO's own evaluation: boxes and outlines against true masks.

python benchmarks/coco.py PHOTOS MASKS [MAPPING]
"""

import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from pycocotools import mask as run_lengths
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from casmap.data.folders import PhotoFolder
from casmap.tools.annotate import annotate

MEASURES = ("AP", "AP at 0.5", "AP at 0.75")


def main() -> None:
    """The class is that of the folder, on both sides; one object in a photo."""
    photos, masks = Path(sys.argv[1]), Path(sys.argv[2])
    mapping = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as folder:
        done = annotate(photos, format="coco", mapping=mapping, out=Path(folder) / "said", rle=True)
        assert not done.skipped
        found = json.loads(done.path.read_text())
        truth = Path(folder) / "truth.json"
        truth.write_text(json.dumps(truth_of(PhotoFolder(photos, masks=masks), found)))
        coco = COCO(str(truth))
        answers = coco.loadRes([one for one in found["annotations"] if one["image_id"] in coco.imgs])
        for kind in ("bbox", "segm"):
            judge = COCOeval(coco, answers, kind)
            judge.evaluate()
            judge.accumulate()
            judge.summarize()
            told = ", ".join(f"{name} {100 * value:.1f}" for name, value in zip(MEASURES, judge.stats, strict=False))
            print(f"{kind}: {told}, {len(coco.imgs)} photos")


def truth_of(photos: PhotoFolder, found: dict) -> dict:
    """The true masks as a COCO file, with the numbers that the other file gives to photos and classes."""
    images = {image["file_name"]: image for image in found["images"]}
    classes = {category["name"]: category["id"] for category in found["categories"]}
    kept, annotations = [], []
    for index, name in enumerate(photos.names):
        known = photos.annotation(index)
        if known is None or known.mask is None:
            continue
        rle = run_lengths.encode(np.asfortranarray((known.mask == 255).astype(np.uint8)))
        kept.append(images[name])
        annotations.append(
            {
                "id": index + 1, "image_id": images[name]["id"], "iscrowd": 0,
                "category_id": classes[photos.classes[photos.labels[index]]],
                "bbox": list(run_lengths.toBbox(rle)), "area": float(run_lengths.area(rle)),
                "segmentation": {"size": rle["size"], "counts": rle["counts"].decode()},
            }
        )  # fmt: skip
    return {"info": {}, "images": kept, "annotations": annotations, "categories": found["categories"]}


if __name__ == "__main__":
    main()
