"""Whether the maps of images are those of the rows that have their number as text: two directories
were sorted in different ways."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Sequence

import torch

from .. import rows, seeds, views
from ..inputs import image_of
from ..targets import Source, as_batch, size
from . import place_pairs, row_pairs

NOTHING = 0.02
"""What places of images explain at most of maps of other images. Our own number."""
MOST_ROWS = 1_000_000


def of_split(places: Optional[place_pairs.Places], source: Source) -> List[Dict[str, Any]]:
    """Where places of an image tell nothing of its own map, and tell that of another row."""
    if places is None or "" not in places.targets or places.redrawn:
        return []
    dataset = rows.dataset_of(source)
    total, count = size(dataset) or 0, len(places.targets[""])
    own = place_pairs.fit(places, places.targets[""])
    if own.explained > NOTHING or not count < total <= MOST_ROWS:
        return []
    by_text = torch.tensor(sorted(range(total), key=str))
    for order in (by_text, by_text.argsort()):
        target = targets_of(source, order[:count].tolist())
        found = None if target is None else place_pairs.fit(places, target)
        if found is not None and place_pairs.better(own, found):
            numbers = own.explained, found.explained
            return [row_pairs.displaced(source.name, row_pairs.BY_TEXT, *numbers, count)]
    return []


def targets_of(source: Source, numbers: Sequence[int]) -> Optional[torch.Tensor]:
    """Images x parts x places of the maps of these rows; None where one has none."""
    dataset = rows.dataset_of(source)
    maps = []
    with seeds.kept():
        for number in numbers:
            batch = views.of(as_batch(dataset[number]))
            image = image_of(batch)
            found = place_pairs.map_of(batch, image[0]) if image is not None else None
            if found is None:
                return None
            maps.append(found)
    return place_pairs.apart(place_pairs.parts_of(maps))
