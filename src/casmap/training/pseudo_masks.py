"""Pseudo-masks: what the second stage trains a decoder on, made from a teacher's masks m(x) of whole photos.

"cam" combines m(x) with the class activation map (CAM) of the photo's label: t = sqrt(m(x) M_y(x)), where both factors
and then t are rescaled to 0..1. A soft threshold, the cut, turns t into the pseudo-mask; it is chosen so that
pseudo-masks have the same mean area as the teacher's masks.

"edges" fits m(x) to the photo with the guided filter of `casmap.inference.edges`, and steepens it around 0.5. A decoder
that learns these masks from many photos keeps what is common to them, outlines, and not the errors of each.

"seeds" grows m(x) from the pixels that it is sure of (`growing.py`): parts of the object that m(x) misses are added. It
removes what the CAM of the label excludes: grown * min(1, M_y / gate), with M_y rescaled to 0..1. The filter and the
steepening follow, as for "edges".

A large image shows the parts of a large object, a small one the whole: with cam_scales > 1, M_y is the mean over sizes.
"""

import io
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import interpolate, relu

from casmap.data.batches import normalised, whole_photos
from casmap.data.photos import PhotoSet
from casmap.inference.edges import fit_mask, guided
from casmap.inference.mapper import SaliencyMapper
from casmap.io.atomic import write_whole
from casmap.io.reading import reading
from casmap.models.class_activation import class_activation, linear_head, min_max
from casmap.models.classifier import Classifier
from casmap.training.growing import grow
from casmap.training.recipes import Recipe
from casmap.training.run import Run

Indices = npt.NDArray[np.int64]

GRIDS = {"cam": 64, "edges": 96, "seeds": 96}  # rows and columns of a pseudo-mask, whatever the photo's shape
BATCH = 16  # photos in a forward pass
FILE = 256  # masks in a file; a killed run loses at most this many
FLOOR = 0.05  # added to each factor, so that a factor of 0 does not hide the other
CUT_PHOTOS = 256  # photos on which the cut is chosen
SIZE_MULTIPLE = 32  # the sides of images for CAMs are multiples of the stride of the last features
STEEPNESS = 3.0  # of fitted masks around 0.5


class PseudoMasks:
    """The pseudo-masks (grid, grid) uint8 of some photos, in files that are memory-mapped.

    wanted: the indices of the photos (n,), ascending. Index with the index of a photo.
    """

    def __init__(self, folder: Path, wanted: Indices) -> None:
        self.folder, self.wanted = folder, wanted
        self._files: list[npt.NDArray[np.uint8]] = []

    def __getitem__(self, photo: int) -> npt.NDArray[np.uint8]:
        file, row = divmod(int(np.searchsorted(self.wanted, photo)), FILE)
        mask: npt.NDArray[np.uint8] = self._files[file][row]
        return mask

    def make(self, photos: PhotoSet, encoder: Classifier, teacher: SaliencyMapper, run: Run) -> "PseudoMasks":
        """Make the masks of whole photos; a resumed run makes only the files that are missing."""
        starts, grid = range(0, len(self.wanted), FILE), GRIDS[run.recipe.pseudo_masks]
        masks_of: Callable[[Indices], Tensor] | None = None
        with run.reporter.progress("Making pseudo-masks of photos", len(self.wanted), lasting=True) as advance:
            for start in starts:
                chosen, path = self.wanted[start : start + FILE], self.folder / f"{start // FILE:06}.npy"
                if not (run.resumed and path.exists()):
                    masks_of = masks_of or self._maker(photos, encoder, teacher, run)
                    content = io.BytesIO()
                    np.save(content, (255 * masks_of(chosen)).round().byte().cpu().numpy())
                    write_whole(path, content.getvalue())
                with reading(path, f"{path} is damaged: delete it, and its masks are made again."):
                    masks = np.load(path, mmap_mode="r")
                    if masks.dtype != np.uint8 or masks.shape != (len(chosen), grid, grid):
                        raise ValueError("other masks")
                self._files.append(masks)
                advance(len(chosen))
        return self

    def _maker(
        self, photos: PhotoSet, encoder: Classifier, teacher: SaliencyMapper, run: Run
    ) -> Callable[[Indices], Tensor]:
        """The function from indices of photos (n,) to their pseudo-masks (n, grid, grid)."""
        if run.recipe.pseudo_masks == "edges":
            return partial(_fitted_masks, photos=photos, teacher=teacher)
        if run.recipe.pseudo_masks == "seeds":
            return partial(_grown_masks, photos=photos, encoder=encoder, teacher=teacher, run=run)
        agreements_of = partial(_agreements, photos=photos, encoder=encoder, teacher=teacher, run=run)
        sample, areas = agreements_of(self.wanted[:: math.ceil(len(self.wanted) / CUT_PHOTOS)])
        cut = _cut_for_area(sample, float(areas.mean()))
        return lambda chosen: _apply_cut(agreements_of(chosen)[0], cut)


def _fitted_masks(chosen: Indices, photos: PhotoSet, teacher: SaliencyMapper) -> Tensor:
    """The teacher's masks of the chosen photos, fitted to the photos' edges and steepened: (n, 96, 96)."""
    fitted = []
    for _, (images,) in whole_photos(photos, chosen, (teacher.size,), BATCH):
        masks, _ = teacher.masks(images)
        fitted += [fit_mask(mask, image, image) for mask, image in zip(masks, images, strict=True)]
    return steepen(torch.from_numpy(_resized(fitted, GRIDS["edges"])))


@torch.no_grad()
def _grown_masks(chosen: Indices, photos: PhotoSet, encoder: Classifier, teacher: SaliencyMapper, run: Run) -> Tensor:
    """The teacher's masks, the mean over two sizes, grown from their seeds, fitted and steepened: (n, 96, 96)."""
    fitted, side = [], teacher.size
    for labels, (images, smaller) in whole_photos(photos, chosen, teacher_sizes(side), BATCH):
        masks = np.mean([_resized(teacher.masks(each)[0], side) for each in (images, smaller)], axis=0)
        inputs = normalised(images, encoder.mean, encoder.std).to(run.device)
        logits, stages, features = encoder.forward_features(inputs)
        grown = grow(torch.from_numpy(masks).to(run.device), stages, side)
        if run.recipe.cam_gate:
            weights = linear_head(encoder, features, logits).weight[labels.to(run.device)]
            grown = gated(grown, torch.einsum("nkhw,nk->nhw", features, weights), run.recipe.cam_gate)
        enlarged = _resized(grown.cpu().numpy(), side)
        fitted += [guided(mask, image, image) for mask, image in zip(enlarged, images, strict=True)]
    return steepen(torch.from_numpy(_resized(fitted, GRIDS["seeds"])))


def gated(masks: Tensor, cams: Tensor, gate: float) -> Tensor:
    """Masks (N, h, w) times min(1, M / gate), where M is the CAM (N, h', w') without negative values, rescaled to 0..1.

    >>> gated(torch.ones(1, 1, 3), torch.tensor([[[-2.0, 0.5, 10.0]]]), gate=0.1)
    tensor([[[0.0000, 0.5000, 1.0000]]])
    """
    enlarged = interpolate(min_max(relu(cams))[:, None], masks.shape[1:], mode="bilinear")[:, 0]
    return masks * (enlarged / gate).clamp(max=1)


def teacher_sizes(size: int) -> tuple[int, int]:
    """The sides of the images over which a teacher's masks are averaged: its own size, and about three quarters of it.

    >>> teacher_sizes(288)
    (288, 224)
    """
    return size, max(1, round(0.75 * size / SIZE_MULTIPLE)) * SIZE_MULTIPLE


def _resized(masks: Iterable[npt.NDArray[np.float32]], side: int) -> npt.NDArray[np.float32]:
    """Masks (h, w), reduced by averaging or enlarged by interpolation: (n, side, side)."""
    return np.stack(
        [
            cv2.resize(one, (side, side), interpolation=cv2.INTER_AREA if len(one) > side else cv2.INTER_LINEAR)
            for one in masks
        ]
    ).astype(np.float32)


def steepen(masks: Tensor) -> Tensor:
    """0 below 1/3, 0.5 at 0.5, 1 from 2/3 on, linear in between: a mask whose outline is at 0.5.

    >>> steepen(torch.tensor([0.2, 0.5, 0.6, 0.9]))
    tensor([0.0000, 0.5000, 0.8000, 1.0000])
    """
    return (STEEPNESS * (masks - 0.5) + 0.5).clamp(0, 1)


def _agreements(
    chosen: Indices, photos: PhotoSet, encoder: Classifier, teacher: SaliencyMapper, run: Run
) -> tuple[Tensor, Tensor]:
    """The agreements (n, 64, 64) of the chosen photos and the areas (n,) of the teacher's masks."""
    agreements, areas, sizes = [], [], (teacher.size, *cam_sizes(run.recipe))
    with torch.no_grad():
        for labels, (small, *others) in whole_photos(photos, chosen, sizes, BATCH):
            masks = torch.from_numpy(teacher.masks(small)[0])[:, None].to(run.device)
            images = (normalised(each, encoder.mean, encoder.std).to(run.device) for each in others)
            cams = [class_activation(encoder, each, labels.to(run.device))[:, None] for each in images]
            agreements.append(agreement(masks, cams))
            areas.append(masks.mean(dim=(1, 2, 3)))
    return torch.cat(agreements), torch.cat(areas)


def cam_sizes(recipe: Recipe) -> list[int]:
    """The sides of the images for the CAMs: cam_size, and each next one smaller by the square root of two.

    >>> cam_sizes(Recipe(cam_size=448, cam_scales=3))
    [448, 320, 224]
    """
    smaller = (recipe.cam_size / math.sqrt(2) ** number for number in range(1, recipe.cam_scales))
    return [recipe.cam_size, *(max(1, round(side / SIZE_MULTIPLE)) * SIZE_MULTIPLE for side in smaller)]


def agreement(mask: Tensor, cams: Sequence[Tensor]) -> Tensor:
    """Compute t = sqrt(m M): masks (N, 1, H, W) in 0..1, CAMs (N, 1, h_i, w_i) of several sizes -> t (N, 64, 64).

    M is the mean of the CAMs, each without its negative values and rescaled to 0..1.

    >>> half = torch.tensor([[[[0.0, 1.0]]]])
    >>> agreement(half, [3 * half])[0, 0, [0, -1]]
    tensor([0., 1.])
    """
    m = interpolate(mask, (GRIDS["cam"], GRIDS["cam"]), mode="bilinear", antialias=True)
    cam = torch.stack(
        [min_max(relu(interpolate(each, (GRIDS["cam"], GRIDS["cam"]), mode="bilinear"))) for each in cams]
    ).mean(dim=0)
    product = ((min_max(m) + FLOOR) * (cam + FLOOR)).sqrt()
    return min_max(product)[:, 0]


def _apply_cut(agreements: Tensor, cut: float) -> Tensor:
    """Pseudo-masks of the same shape: 0 below cut / 2, 0.5 at the cut, 1 from 1.5 * cut on, linear in between."""
    return (agreements / cut - 0.5).clamp(0, 1)


def _cut_for_area(agreements: Tensor, area: float) -> float:
    """The cut in 0.01..1 at which the mean area of the pseudo-masks is closest to `area`, by bisection."""
    low, high = 0.01, 1.0
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if float(_apply_cut(agreements, middle).mean()) > area else (low, middle)
    return (low + high) / 2
