"""Binary masks computed by hand, properties of binary masks, and the views."""

import io
import json

import cv2
import numpy as np
import PIL.Image
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import ndimage

from casmap.errors import UserError
from casmap.inference.components import _box_by_outlines, binary_mask, largest_box, largest_component, tight_box
from casmap.inference.saliency_map import STRIP_GAP, STRIP_HEIGHT, SaliencyMap
from casmap.inference.views import INPAINT_SIDE, MASKED

sides = hnp.array_shapes(min_dims=2, max_dims=2, max_side=9)
binaries = hnp.arrays(np.bool_, sides)
masks = hnp.arrays(np.float32, sides, elements=st.floats(0, 1, width=32))
alphas = st.floats(0.125, 4)

# The sum is 6.4, so the mean is 0.4: the binary mask is the pixels of at least 0.4 (alpha 1) or 0.8 (alpha 2).
MASK = np.array(
    [
        [0.9, 0.0, 0.0, 0.5],
        [0.0, 0.0, 0.8, 0.7],
        [0.0, 0.9, 0.3, 0.0],
        [1.0, 0.0, 0.3, 1.0],
    ],
    np.float32,
)
BINARY = np.array([[1, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 1]], bool)
# The corners 0.9 and 1.0 touch no other pixel; the other five hang together by their corners.
CONNECTED = np.array([[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 0, 0], [1, 0, 0, 0]], bool)


def noise(height=4, width=4):
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def disc(height, width, radius):
    """A mask that is 1 within a radius of the centre."""
    y, x = np.mgrid[:height, :width]
    return (np.hypot(y - height / 2, x - width / 2) < radius).astype(np.float32)


@pytest.fixture
def found():
    return SaliencyMap(noise(), MASK, name="cat")


# ---------------------------------------------------------------------------------------------- by hand


def test_hand_worked_mask(found):
    np.testing.assert_array_equal(found.binary(), BINARY)
    np.testing.assert_array_equal(found.connected(), CONNECTED)
    assert found.box() == (0, 0, 4, 4)
    assert found.area == pytest.approx(0.4)


def test_hand_worked_mask_at_alpha_2(found):
    expected = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 1]], bool)
    np.testing.assert_array_equal(found.binary(2), expected)
    assert found.box(2) == (0, 1, 3, 4)


def test_nothing_is_left_above_the_largest_value(found):
    assert not found.binary(3).any()  # 3 * 0.4 > 1
    assert not found.connected(3).any()
    assert found.box(3) is None


def test_views_by_hand(found):
    photo, grey = found.photo, np.full((4, 4, 3), MASKED)
    masked_in, masked_out = found.masked_in(), found.masked_out()
    np.testing.assert_array_equal(masked_in[BINARY], photo[BINARY])
    np.testing.assert_array_equal(masked_in[~BINARY], grey[~BINARY])
    np.testing.assert_array_equal(masked_out[BINARY], grey[BINARY])
    np.testing.assert_array_equal(masked_out[~BINARY], photo[~BINARY])


def test_of_two_equal_components_the_first_in_reading_order_stays():
    equal = np.zeros((4, 6), bool)
    equal[0, 3] = equal[1, 0] = True  # OpenCV numbers the second one first
    assert np.argwhere(largest_component(equal)).tolist() == [[0, 3]]


def test_each_mask_of_a_batch_has_its_own_mean():
    batch = np.stack([MASK, MASK / 8])[:, None]
    np.testing.assert_array_equal(binary_mask(batch), np.stack([BINARY, BINARY])[:, None])


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_constant_mask_is_wholly_binary(value, dtype):
    assert binary_mask(np.full((97, 131), value, dtype)).all()


# ---------------------------------------------------------------------------------------------- properties


@given(masks, alphas)
def test_binary_mask_is_the_papers_formula(mask, alpha):
    slow = np.array([[float(m) >= alpha * np.mean(mask, dtype=np.float64) for m in row] for row in mask])
    np.testing.assert_array_equal(binary_mask(mask, alpha), slow)


@given(masks, alphas)
def test_the_binary_mask_covers_at_most_one_alphath(mask, alpha):
    assume(mask.max() > 0)
    assert binary_mask(mask, alpha).mean() <= 1 / alpha + 1e-6  # Markov's inequality
    assert binary_mask(mask, min(alpha, 1)).any()  # some pixel reaches the mean


@given(masks, alphas, alphas)
def test_a_larger_alpha_only_removes_pixels(mask, one, other):
    low, high = sorted([one, other])
    assert not (binary_mask(mask, high) & ~binary_mask(mask, low)).any()


@given(binaries)
def test_largest_component_agrees_with_scipy(binary):
    labels, count = ndimage.label(binary, structure=np.ones((3, 3)))
    kept = largest_component(binary)
    if count == 0:
        assert not kept.any()
        return
    areas = np.bincount(labels[binary])  # areas[0] is 0: no true pixel is background
    (label,) = np.unique(labels[kept])  # one component, ...
    np.testing.assert_array_equal(kept, labels == label)  # ... all of it, ...
    assert areas[label] == areas.max()  # ... and none is larger


@given(binaries)
def test_the_largest_box_is_the_tight_box_of_the_largest_component(binary):
    expected = tight_box(largest_component(binary))
    assert largest_box(binary) == expected
    assert _box_by_outlines(binary) in (expected, None)


def test_outlines_decide_if_no_other_component_is_larger_than_the_first_without_its_holes():
    binary = np.zeros((400, 400), bool)
    binary[10:50, 10:30], binary[100:300, 50:390] = True, True
    assert _box_by_outlines(binary) == largest_box(binary) == (50, 100, 390, 300)
    binary[110:290, 60:380] = False  # 200 x 340 - 180 x 320 pixels are left, more than 40 x 20
    assert _box_by_outlines(binary) == largest_box(binary) == (50, 100, 390, 300)
    binary[120:280, 70:370] = True  # more than those around it
    assert _box_by_outlines(binary) is None
    assert largest_box(binary) == (70, 120, 370, 280)


@given(binaries)
def test_the_box_holds_every_true_pixel_and_each_edge_touches_one(binary):
    box = tight_box(binary)
    if box is None:
        assert not binary.any()
        return
    x0, y0, x1, y1 = box
    inside = binary[y0:y1, x0:x1]
    assert inside.sum() == binary.sum()
    assert all(edge.any() for edge in (inside[0], inside[-1], inside[:, 0], inside[:, -1]))


@given(masks, alphas)
def test_masked_in_and_masked_out_divide_the_photo(mask, alpha):
    photo = np.random.default_rng(1).integers(129, 256, (*mask.shape, 3), dtype=np.uint8)  # nowhere MASKED
    found = SaliencyMap(photo, mask)
    shown_in, shown_out = found.masked_in(alpha) != MASKED, found.masked_out(alpha) != MASKED
    assert (shown_in ^ shown_out).all()
    np.testing.assert_array_equal(np.where(shown_in, found.masked_in(alpha), found.masked_out(alpha)), photo)


# ---------------------------------------------------------------------------------------------- inpainting


@pytest.mark.parametrize("scale", [0.1, 1.7], ids=["in full", "by a small copy"])
def test_inpainting_removes_the_object_and_keeps_the_rest(scale):
    side = int(INPAINT_SIDE * scale)
    mask = disc(side, side + 11, side // 5)
    photo = np.where(mask[..., None] > 0, np.uint8([255, 0, 0]), np.uint8([0, 0, 200]))
    inpainted = SaliencyMap(photo, mask).inpainted()
    np.testing.assert_array_equal(inpainted[mask == 0], photo[mask == 0])
    assert inpainted[..., 0].max() <= 20  # no trace of the red disc, not even of its rim
    assert inpainted[mask > 0][:, 2].min() >= 180


def test_inpainting_everything_gives_grey():
    np.testing.assert_array_equal(SaliencyMap(noise(), np.ones((4, 4))).inpainted(), np.full((4, 4, 3), MASKED))


# ---------------------------------------------------------------------------------------------- overlay and strip


def test_overlay_heats_the_evidence_draws_the_box_and_leaves_the_rest():
    photo = np.full((100, 120, 3), 60, np.uint8)
    mask = np.zeros((100, 120), np.float32)
    mask[30:70, 40:90] = 1
    overlay = SaliencyMap(photo, mask).overlay()
    np.testing.assert_array_equal(overlay[:28], photo[:28])
    assert (overlay[50, 60] > photo[50, 60]).all()
    assert overlay[50, 60, 0] > overlay[50, 60, 2] + 30  # the heat is yellow, not blue
    corners = [overlay[y, x].tolist() for y in (30, 69) for x in (40, 89)]
    assert corners == [[255, 255, 255]] * 4


def test_the_box_line_grows_with_the_photo():
    def line(side):
        overlay = SaliencyMap(np.zeros((side, side, 3), np.uint8), disc(side, side, side // 4)).overlay()
        return int((overlay[side // 2, : side // 2] == 255).all(axis=-1).sum())

    assert line(60) == 1
    assert 5 <= line(900) <= 7


def test_the_overlay_mixes_photo_and_heat_by_the_mask():
    photo, mask = noise(30, 40), np.random.default_rng(0).random((30, 40)).astype(np.float32)
    colours = cv2.applyColorMap(np.rint(mask * 255).astype(np.uint8), cv2.COLORMAP_INFERNO)[..., ::-1]
    mixed = (1 - 0.6 * mask[..., None]) * photo + 0.6 * mask[..., None] * colours
    overlay = SaliencyMap(photo, mask).overlay(alpha=100)  # no pixel is in the box
    assert np.abs(overlay - mixed).max() <= 2  # of rounding


def test_overlay_does_not_change_the_photo(found):
    found.overlay()
    np.testing.assert_array_equal(found.photo, noise())


def test_views_take_read_only_and_flipped_photos():
    photo = noise(20, 30)
    photo.flags.writeable = False
    flipped = SaliencyMap(photo[:, ::-1, ::-1], disc(20, 30, 6))
    copied = SaliencyMap(photo[:, ::-1, ::-1].copy(), disc(20, 30, 6))
    np.testing.assert_array_equal(flipped.strip(), copied.strip())


def test_strip_of_a_small_photo_is_its_five_views(found):
    strip = found.strip()
    views = [found.photo, found.overlay(), found.masked_in(), found.masked_out(), found.inpainted()]
    assert strip.shape == (4, 5 * 4 + 4 * STRIP_GAP, 3)
    for place, view in enumerate(views):
        left = place * (4 + STRIP_GAP)
        np.testing.assert_array_equal(strip[:, left : left + 4], view)


@pytest.mark.parametrize(("height", "width"), [(700, 500), (3000, 2)])
def test_strip_of_a_large_photo_is_limited_in_height(height, width):
    strip = SaliencyMap(noise(height, width), disc(height, width, 99)).strip()
    assert strip.shape == (STRIP_HEIGHT, 5 * max(1, round(width * STRIP_HEIGHT / height)) + 4 * STRIP_GAP, 3)


def test_a_notebook_shows_the_strip(found):
    with PIL.Image.open(io.BytesIO(found._repr_png_())) as shown:
        assert shown.format == "PNG"
        np.testing.assert_array_equal(np.asarray(shown), found.strip())


# ---------------------------------------------------------------------------------------------- saving


def test_save_writes_mask_and_overlay(found, tmp_path):
    paths = found.save(tmp_path / "new")
    assert paths == [tmp_path / "new" / "cat-mask.png", tmp_path / "new" / "cat-overlay.jpg"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == ["cat-mask.png", "cat-overlay.jpg"]
    with PIL.Image.open(paths[0]) as mask, PIL.Image.open(paths[1]) as overlay:
        assert mask.mode == "L"
        np.testing.assert_allclose(np.asarray(mask) / 255, MASK, atol=0.5 / 255 + 1e-6)
        assert overlay.format == "JPEG"
        assert abs(np.asarray(overlay, float) - found.overlay()).mean() < 20  # noise suffers most


def test_the_saved_mask_is_rounded_to_the_nearest_grey(tmp_path):
    path, _ = SaliencyMap(noise(1, 2), np.array([[0.001, 0.999]])).save(tmp_path)  # 0.255 and 254.745 of 255
    with PIL.Image.open(path) as mask:
        assert np.asarray(mask).tolist() == [[0, 255]]


def test_save_everything_at_an_alpha(found, tmp_path):
    paths = found.save(tmp_path, everything=True, alpha=2)
    kinds = [path.stem.removeprefix("cat-") for path in paths]
    assert kinds == ["mask", "overlay", "masked-in", "masked-out", "inpainted", "cutout"]
    for path, expected in zip(paths[2:5], (found.masked_in(2), found.masked_out(2), found.inpainted(2)), strict=True):
        with PIL.Image.open(path) as image:
            np.testing.assert_array_equal(np.asarray(image), expected)


def test_a_name_cannot_leave_the_folder(tmp_path):
    paths = SaliencyMap(noise(), MASK, name="../../n01/cat").save(tmp_path / "a" / "b")
    assert {path.resolve().parent for path in paths} == {(tmp_path / "a" / "b").resolve()}
    assert all(path.exists() for path in paths)


def test_to_dict_is_ready_for_json(found):
    expected = {"name": "cat", "width": 4, "height": 4, "box": [0, 1, 3, 4], "area": 0.4}
    assert json.loads(json.dumps(found.to_dict(alpha=2))) == expected
    assert found.to_dict(alpha=3)["box"] is None


def test_width_and_height_are_not_swapped():
    found = SaliencyMap(noise(2, 7), np.linspace(0.5, 1, 14).reshape(2, 7)).to_dict(alpha=0)
    assert (found["width"], found["height"], found["box"]) == (7, 2, [0, 0, 7, 2])


# ---------------------------------------------------------------------------------------------- validation


@pytest.mark.parametrize(
    ("photo", "mask"),
    [
        (noise(4, 5), np.zeros((5, 4), np.float32)),
        (noise(4, 5), np.zeros((1, 4, 5), np.float32)),
        (noise(4, 5)[..., 0], np.zeros((4, 5), np.float32)),
        (noise(4, 5) / 255, np.zeros((4, 5), np.float32)),
        (noise(4, 5), np.full((4, 5), 1.1, np.float32)),
        (noise(4, 5), np.full((4, 5), -0.1, np.float32)),
        (noise(4, 5), np.full((4, 5), np.nan, np.float32)),
    ],
)
def test_photos_and_masks_that_do_not_fit_are_refused(photo, mask):
    with pytest.raises(ValueError, match=r"^(photo|mask) must "):
        SaliencyMap(photo, mask)


def test_a_rounding_error_of_interpolation_is_clipped():
    found = SaliencyMap(noise(1, 2), np.array([[-1e-7, 1 + 1e-6]]))
    assert found.mask.dtype == np.float32
    assert found.mask.tolist() == [[0, 1]]


# ---------------------------------------------------------------------------------------------- objects


@pytest.mark.parametrize("level", [0.0, 0.25, 1.0])
def test_a_flat_mask_has_no_object(level):
    rng = np.random.default_rng(0)
    for mask in (np.full((20, 30), level), np.clip(level + rng.uniform(-1e-3, 0, (20, 30)), 0, 1)):
        found = SaliencyMap(np.zeros((20, 30, 3), np.uint8), mask)
        assert found.box() is None
        assert found.objects(min_area=0) == []
        assert not found.connected().any()
        assert found.cutout() is None
        assert len(found.to_detections()) == 0
        assert found.to_dict()["box"] is None


def test_a_faint_object_on_a_constant_background_is_found():
    mask = np.full((20, 30), 0.5)
    mask[5:10, 5:15] += 0.01
    found = SaliencyMap(np.zeros((20, 30, 3), np.uint8), mask)
    assert found.box(alpha=1) == found.box(threshold=0.505) == (5, 5, 15, 10)


@given(masks, st.floats(0, 1))
def test_a_fixed_threshold_keeps_what_reaches_it(mask, threshold):
    found = SaliencyMap(np.zeros((*mask.shape, 3), np.uint8), mask)
    np.testing.assert_array_equal(found.binary(threshold=threshold), mask >= threshold)
    np.testing.assert_array_equal(found.binary(), mask >= 0.5)


def test_a_mask_below_the_threshold_everywhere_marks_no_object(tmp_path):
    found = SaliencyMap(noise(), 0.49 * MASK / MASK.max())
    assert found.box() is None
    assert found.cutout() is None
    assert found.objects(min_area=0) == []
    assert found.to_dict()["box"] is None
    assert not found.binary().any()
    assert not found.connected().any()
    assert (found.masked_in() == MASKED).all()
    for view in (found.masked_out(), found.inpainted()):
        np.testing.assert_array_equal(view, found.photo)
    assert found.box(alpha=1) is not None


def test_threshold_and_alpha_exclude_each_other(found):
    for wrong, words in (
        (
            lambda: found.box(alpha=1, threshold=0.5),
            "exclude each other: give only one of them",
        ),
        (lambda: found.objects(threshold=1.5), r"threshold must be in 0\.\.1, not 1\.5\."),
        (lambda: found.view("overlay", threshold=float("nan")), "must be in 0..1, not nan"),
    ):
        with pytest.raises(UserError, match=words):
            wrong()


@given(masks, alphas)
def test_the_first_object_is_the_one_of_box(mask, alpha):
    found = SaliencyMap(np.zeros((*mask.shape, 3), np.uint8), mask)
    objects = found.objects(min_area=0, alpha=alpha)
    if found.box(alpha) is None:
        assert objects == []
        return
    assert objects[0].box == found.box(alpha)
    np.testing.assert_array_equal(objects[0].mask(), found.connected(alpha))
    np.testing.assert_array_equal(np.sum([one.mask() for one in objects], axis=0), found.binary(alpha))


def test_a_cutout_is_the_object_on_a_transparent_background():
    photo = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    mask = np.zeros((20, 30))
    mask[5:15, 10:25] = 1
    mask[5, 10] = 0
    cut = SaliencyMap(photo, mask).cutout()
    assert cut.shape == (10, 15, 4)
    np.testing.assert_array_equal(cut[..., :3], photo[5:15, 10:25])
    assert cut[0, 0, 3] < 128
    assert (np.delete(cut[..., 3], 0) == 255).sum() > 140  # a step of the mask stays a step, except at its corners


@given(masks, alphas)
def test_the_object_of_a_cutout_is_what_the_threshold_selects(mask, alpha):
    found = SaliencyMap(np.zeros((*mask.shape, 3), np.uint8), mask)
    for options in ({}, {"alpha": alpha}):
        cut = found.cutout(**options)
        if cut is not None:
            x0, y0, x1, y1 = found.box(**options)
            np.testing.assert_array_equal(cut[..., 3] >= 128, found.connected(**options)[y0:y1, x0:x1])


def test_the_edge_of_a_cutout_has_no_steps():
    """The mask of a half-plane with a slanted edge: opacity is the distance to the edge, which is exact to 1/255."""
    x, y = np.meshgrid(np.arange(40), np.arange(40))
    distance = ((x - 20) + 0.1 * (y - 20)) / np.hypot(1, 0.1)
    for slope in (0.01, 0.1):  # of the mask
        mask = np.clip(0.5 + slope * distance, 0, 1).astype(np.float32)
        cut = SaliencyMap(np.zeros((40, 40, 3), np.uint8), mask).cutout()
        left = 40 - cut.shape[1]
        expected = np.clip(255 * (0.5 + distance[1:-1, left:-1] / 2), 0, 255)
        edge = np.abs(distance[1:-1, left:-1]) < 1
        assert edge.sum() > 60
        assert np.abs(cut[1:-1, :-1, 3] - expected)[edge].max() <= 1.01


def test_another_object_is_not_in_the_cutout():
    mask = np.zeros((20, 30), np.float32)
    mask[2:18, 2:14], mask[8:12, 16:20] = 0.9, 0.8
    cut = SaliencyMap(np.zeros((20, 30, 3), np.uint8), np.maximum(mask, 0.3)).cutout()
    assert cut.shape == (16, 12, 4)


def test_without_an_object_there_is_no_cutout_to_save(tmp_path):
    found = SaliencyMap(noise(), np.zeros((4, 4)), name="cat")
    assert "cat-cutout.png" not in [path.name for path in found.save(tmp_path, everything=True)]
    with pytest.raises(UserError, match="cat has no object to cut out: lower the threshold"):
        found.view("cutout")


def test_detections_can_be_drawn_by_supervision():
    supervision = pytest.importorskip("supervision")
    mask = np.zeros((20, 30))
    mask[2:8, 3:12], mask[12:18, 20:28] = 1.0, 0.75
    found = SaliencyMap(np.zeros((20, 30, 3), np.uint8), mask, label="cat").to_detections()
    assert isinstance(found, supervision.Detections)
    assert found.xyxy.tolist() == [[3, 2, 12, 8], [20, 12, 28, 18]]
    assert found.confidence.tolist() == [1.0, 0.75]
    assert found.data["class_name"].tolist() == ["cat", "cat"]
    np.testing.assert_array_equal(found.mask.any(axis=0), mask > 0)
    drawn = supervision.BoxAnnotator(thickness=1).annotate(np.zeros((20, 30, 3), np.uint8), found)
    assert drawn.any()
