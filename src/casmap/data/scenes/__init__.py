"""`scenes`: generated pictures in which all the evidence is known."""

from casmap.data.scenes.generator import MAX_CLASSES, Half, Scene, Scenes, Variant

__all__ = ["MAX_CLASSES", "Half", "Scene", "Scenes", "Variant"]
