"""Whether the shipped mapping fits these photos: its masks are measured on a few of them before a run starts from it.

The shipped mapping was trained on photos of objects. On other images, such as ultrasound scans, its masks may hold
little more evidence than masks that know nothing, and a run that starts from them ends there.
"""

from dataclasses import dataclass

import numpy as np

from casmap.data.photos import PhotoSet, Subset, few_of_each, of_classes
from casmap.evaluation.control_masks import EXCHANGED
from casmap.evaluation.numbers import Number, signed
from casmap.evaluation.trust import measure
from casmap.evaluation.verdict import CENTRED
from casmap.inference.mapper import SHIPPED, SaliencyMapper
from casmap.models.classifier import Classifier, find_device
from casmap.models.network import SaliencyNetwork
from casmap.models.onnx_decoder import load_start
from casmap.reporting import SILENT, Reporter, counted
from casmap.training.first_classifier import load_shipped_encoder
from casmap.training.head import head_inputs

CLASSES, PHOTOS = 12, 300  # at most that many are used; a head is fitted to four fifths, the last fifth is measured
FEWEST = 15  # photos that are measured; fewer tell nothing


@dataclass(frozen=True)
class Fit:
    """The gains of the shipped mapping's masks over control masks, and on how many photos they were measured."""

    gains: dict[str, Number]
    photos: int

    @property
    def fits(self) -> bool:
        """Whether the masks are certainly better than random masks and than other photos' masks.

        Centred boxes do not count: good masks of centred objects need not beat them.
        """
        return all(gain.low > 0 for name, gain in self.gains.items() if name != CENTRED)

    def __str__(self) -> str:
        """One sentence for the user.

        >>> print(Fit({"random": Number(0.6, -0.2, 1.4), EXCHANGED: Number(0.3, -0.2, 0.9)}, 56))
        gain over random masks +0.60 [-0.20, +1.40], over other photos' masks +0.30 [-0.20, +0.90] on 56 photos
        """
        names = {EXCHANGED: "other photos' masks", "random": "random masks"}
        gains = (f"over {names[name]} {signed(gain)}" for name, gain in self.gains.items() if name in names)
        return f"gain {', '.join(gains)} on {counted(self.photos, 'photo')}"


def measure_fit(photos: PhotoSet, seed: int = 0, device: str = "auto", reporter: Reporter = SILENT) -> Fit | None:
    """Measure the shipped mapping on a fifth of at most 300 photos of at most 12 classes; None if these are too few.

    A head that is fitted to the other four fifths judges the masks.
    """
    start, where = load_start(SHIPPED), find_device(device)
    spread = np.unique(np.linspace(0, len(photos.classes) - 1, CLASSES).round().astype(np.int64))
    of_each = -(-PHOTOS // len(spread))
    sample = few_of_each(of_classes(photos, [photos.classes[label] for label in spread]), of_each, seed)
    encoder = Classifier(start.backbone, len(sample.classes))
    load_shipped_encoder(encoder, sample)
    inputs = head_inputs(encoder, sample, start.size, where, reporter, "Trying the shipped mapping on photos")
    if inputs.held_out.sum() < FEWEST:
        return None
    inputs.fit(encoder, everything=False)
    network = SaliencyNetwork(encoder, start.decoder, sample.classes, True, start.cam_head).to(where)
    aside = Subset(sample, inputs.photos[inputs.held_out])
    measured = measure(SaliencyMapper(network, start.size), aside, reporter=reporter)
    return Fit(measured.gains, len(measured.masks))
