"""The small network is read as the large one is, from a file of its own."""

from casmap.baselines import find_baseline


def test_it_differs_from_u2net_in_its_file_only() -> None:
    small, large = find_baseline("u2netp"), find_baseline("u2net")
    assert (small.name, small.file) == ("u2netp", "u2netp.onnx")
    assert (large.name, large.file) == ("u2net", "u2net.onnx")
    assert (small.uses, small.masks, small.paper) == (large.uses, large.masks, large.paper)
    assert small.learn.func is large.learn.func
