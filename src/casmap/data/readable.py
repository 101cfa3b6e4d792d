"""Photos of which a few cannot be read: another of the same class stands in for each, and all of them are named."""

from itertools import islice
from threading import Lock

import numpy as np
import numpy.typing as npt

from casmap.data.photos import Annotation, PhotoSet
from casmap.errors import UnreadableImage, UserError


class Readable:
    """A set in which every photo can be read, as long as those that cannot are at most the share `limit`.

    Which one stands in depends on the photos alone, so that a run that is resumed sees the same.

    skipped: a sentence for each photo that could not be read, by its number.
    """

    def __init__(self, photos: PhotoSet, limit: float = 0.01) -> None:
        self.photos, self.limit = photos, limit
        self.classes, self.names, self.labels = photos.classes, photos.names, photos.labels
        self.shards = getattr(photos, "shards", None)
        self.skipped: dict[int, str] = {}
        self._stand_in: dict[int, int] = {}
        self._lock = Lock()  # photos are read in threads

    def __len__(self) -> int:
        return len(self.photos)

    def image(self, index: int, least: int | None = None) -> npt.NDArray[np.uint8]:
        """Photo number `index`, or the next of its class that can be read: (H, W, 3) RGB."""
        try:
            return self.photos.image(self._stand_in.get(index, index), least)
        except UnreadableImage as error:
            self._skip(index, error)
        for other in self._others(index):
            try:
                picture = self.photos.image(other, least)
            except UnreadableImage as error:
                self._skip(other, error)
            else:
                self._stand_in[index] = other
                return picture
        raise UserError(f"No photo of the class {self.classes[self.labels[index]]!r} can be read.")

    def annotation(self, index: int) -> Annotation | None:
        """What is known of photo number `index`, or None."""
        return self.photos.annotation(index)

    def told(self) -> str:
        """A sentence about those that were skipped; empty where none was."""
        if not self.skipped:
            return ""
        first = list(islice((self.names[index] for index in sorted(self.skipped)), 5))
        more = f" and {len(self.skipped) - len(first)} more" if len(self.skipped) > len(first) else ""
        return (
            f"{len(self.skipped)} of {len(self)} photos could not be read and are left out: {', '.join(first)}{more}."
        )

    def _others(self, index: int) -> list[int]:
        """The photos of its class, beginning after it."""
        same = np.flatnonzero(self.labels == self.labels[index])
        return [int(other) for other in np.roll(same, -int(np.searchsorted(same, index)) - 1)[:-1]]

    def _skip(self, index: int, error: UnreadableImage) -> None:
        with self._lock:
            self.skipped[index] = str(error)
            count = len(self.skipped)
        if count > self.limit * len(self):
            raise UserError(
                f"{count} of {len(self)} photos cannot be read, more than {self.limit:.3g} of them; the last: {error}"
            ) from error
