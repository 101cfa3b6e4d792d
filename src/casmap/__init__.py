"""casmap: all the evidence in a photo."""

from typing import TYPE_CHECKING, Any

from casmap.version import __version__

if TYPE_CHECKING:
    from casmap.inference.mapper import SaliencyMapper
    from casmap.inference.saliency_map import SaliencyMap

__all__ = ["SaliencyMap", "SaliencyMapper", "__version__"]


def __getattr__(name: str) -> Any:
    """Import what is asked for, and only then: the command line's --help needs neither NumPy nor OpenCV."""
    if name == "SaliencyMapper":
        from casmap.inference.mapper import SaliencyMapper

        return SaliencyMapper
    if name == "SaliencyMap":
        from casmap.inference.saliency_map import SaliencyMap

        return SaliencyMap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
