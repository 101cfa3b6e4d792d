"""Score `casmap annotate --format coco` with COCO's own evaluation: boxes and outlines against true masks.

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
    """Both sides take the class from the folder, and have one object per photo."""
    photos, masks = Path(sys.argv[1]), Path(sys.argv[2])
    mapping = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory() as folder:
        done = annotate(photos, format="coco", mapping=mapping, out=Path(folder) / "annotations", rle=True)
        assert not done.skipped
        found = json.loads(done.path.read_text())
        truth = Path(folder) / "truth.json"
        truth.write_text(json.dumps(truth_of(PhotoFolder(photos, masks=masks), found)))
        coco = COCO(str(truth))
        results = coco.loadRes([one for one in found["annotations"] if one["image_id"] in coco.imgs])
        for kind in ("bbox", "segm"):
            scorer = COCOeval(coco, results, kind)
            scorer.evaluate()
            scorer.accumulate()
            scorer.summarize()
            line = ", ".join(f"{name} {100 * value:.1f}" for name, value in zip(MEASURES, scorer.stats, strict=False))
            print(f"{kind}: {line}, {len(coco.imgs)} photos")


def truth_of(photos: PhotoFolder, found: dict) -> dict:
    """The true masks as a COCO file, with the photo and class ids of the other file."""
    images = {image["file_name"]: image for image in found["images"]}
    classes = {category["name"]: category["id"] for category in found["categories"]}
    kept, annotations = [], []
    for index, name in enumerate(photos.names):
        annotation = photos.annotation(index)
        if annotation is None or annotation.mask is None:
            continue
        rle = run_lengths.encode(np.asfortranarray((annotation.mask == 255).astype(np.uint8)))
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
