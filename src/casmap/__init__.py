"""casmap: all the evidence in a photo."""

from casmap.mapper import SaliencyMapper
from casmap.saliency_map import SaliencyMap

__all__ = ["SaliencyMap", "SaliencyMapper"]
__version__ = "0.1.0"
