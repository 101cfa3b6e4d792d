"""casmap: all the evidence in a photo."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from casmap.mapper import SaliencyMapper
    from casmap.saliency_map import SaliencyMap

__all__ = ["SaliencyMap", "SaliencyMapper"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what is asked for, and only then: the command line's --help needs neither NumPy nor OpenCV."""
    if name == "SaliencyMapper":
        from casmap.mapper import SaliencyMapper

        return SaliencyMapper
    if name == "SaliencyMap":
        from casmap.saliency_map import SaliencyMap

        return SaliencyMap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
