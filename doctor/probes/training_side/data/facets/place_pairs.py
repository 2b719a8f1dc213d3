"""Whether maps and boxes lie where their image has something: places of the image predict them
better where they are turned, moved, read in another form, or of another row."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

import torch
from torch.nn import functional

from ...foreign import Foreign, containers
from .. import boxes, label_maps, rows, seeds, views
from ..documents import host
from ..inputs import image_of
from ..relations import relation
from ..targets import Source, as_batch, size
from . import features
from .features import channels_first
from .image_turns import SIDE, turns
from .tables import SECONDS

MOST_IMAGES, LEAST_IMAGES = 96, 32
"""Images that are read. Our own numbers."""
MOST_CLASSES = 4
CLEAR, LEAST, HALF = 6.0, 0.08, 0.5
"""Errors by which a relation is better than the own places, the least share of the target that it
explains, and the share of it that the own ones do at most. Our own numbers."""
SIZES = 0.1
"""Share of the boxes that end before they begin. Our own number."""
NEARLY = 0.9
"""Of the images."""
DRAWN, MOSTLY = 0.35, 0.6
"""Shares of the targets that each image explains by a relation of its own, and of it that the own
places do at most. Our own numbers."""
SOME = 0.2
"""Of the images, where a change that is drawn is right, and where none is. Our own number."""
AGAIN, FEW_VALUES = 4, 16
"""Rows that are read twice, and values of an image that is a map itself. Our own numbers."""

FORMS: Dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "x1 y1 x2 y2": lambda b: b,
    "x y width height": lambda b: torch.cat([b[:, :2], b[:, :2] + b[:, 2:]], 1),
    "center width height": lambda b: torch.cat(
        [b[:, :2] - b[:, 2:] / 2, b[:, :2] + b[:, 2:] / 2], 1
    ),
    "y1 x1 y2 x2": lambda b: b[:, [1, 0, 3, 2]],
}


class Half(NamedTuple):
    """Every other image."""

    solved: torch.Tensor
    """What turns the targets of these images into weights."""
    asked: torch.Tensor
    """The other images: images x places x numbers."""


class Places(NamedTuple):
    """Places of some images, and images x parts x places of their targets by form, without what all
    images have there: a border of each image tells a place by itself."""

    halves: List[Half]
    targets: Dict[str, torch.Tensor]
    stated: str
    """The form that the boxes have by who states it, "" where nobody does."""
    series: bool = False
    """Each image resembles the next one."""
    inverted: bool = False
    """Many boxes end before they begin, as corners: they hold sizes."""
    redrawn: bool = False
    """Targets change with their image when they are read again; or images of many values do, under
    maps of classes."""


class Fit(NamedTuple):
    """How well places of images predict a target: of all images, and what they explain of each, in
    shares of a target's mean."""

    explained: float
    gained: torch.Tensor


def of_source(source: Source) -> Optional[Places]:
    """Of the first rows that have an image with a map, or with boxes; None where they are few."""
    images: List[torch.Tensor] = []
    maps: List[torch.Tensor] = []
    drawn: Dict[str, List[torch.Tensor]] = {form: [] for form in FORMS}
    stated = ""
    inverted: List[torch.Tensor] = []
    for row in first_rows(source):
        batch = views.of(as_batch(row))
        image = image_of(batch)
        one = map_of(batch, image[0]) if image is not None else None
        found = boxes.sample_of(row) if one is None else None
        if image is None or (one is None and found is None):
            break
        if one is not None:
            maps.append(one)
        elif found is not None and len(found[0]):
            stated = "x1 y1 x2 y2" if found[2] else ""
            inverted.append((found[0][:, 2:] < found[0][:, :2]).any(1).float())
            for form, read in FORMS.items():
                drawn[form].append(covered(read(found[0]) / found[1].repeat(2)))
        else:
            continue  # nothing is in it
        images.append(numbers_of(channels_first(host(image[1]).float())[0]))
    if len(images) < LEAST_IMAGES or 0 < len(maps) < len(images):
        return None
    each = {"": parts_of(maps)} if maps else {f: torch.stack(d)[:, None] for f, d in drawn.items()}
    each = {form: apart(target) for form, target in each.items()}
    targets = {form: target for form, target in each.items() if float(target.var()) > 1e-6}
    if not targets:
        return None
    made = design(torch.stack(images))
    series = features.of_series(made.flatten(1))
    halves = [half_of(made[n::2], made[1 - n :: 2]) for n in (0, 1)]
    sizes = bool(inverted) and float(torch.cat(inverted).mean()) > SIZES
    return Places(halves, targets, stated, series, sizes, is_redrawn(source))


def is_redrawn(source: Source) -> bool:
    """Whether images and targets are drawn when they are read. A target that stays may be the
    image's own in one pose, or the next frame; a map of classes over a picture is not."""
    dataset, numbers = rows.spread(source, AGAIN)
    found = []
    with seeds.kept():
        for number in numbers[:AGAIN]:
            one, two = (views.of(as_batch(dataset[number])) for _ in range(2))
            images = [image_of(each) for each in (one, two)]
            if images[0] is None or images[1] is None:
                return False
            name, image = images[0]
            targets = [
                [host(e) for n, e in containers.tensors(each).items() if n != name]
                for each in (one, two)
            ]
            moved = not all(map(torch.equal, *targets))
            drawn = not torch.equal(host(image), host(images[1][1]))
            classes = map_of(one, name) is not None and label_maps.map_of(one) is not None
            pictures = len(torch.unique(host(image))) > FEW_VALUES
            found.append(drawn and (moved or (classes and pictures)))
    return any(found)


def first_rows(source: Source) -> Iterator[Foreign]:
    dataset, numbers = rows.spread(source, 1)
    count = min(size(dataset) or 0, MOST_IMAGES) if numbers else 0
    end = time.monotonic() + SECONDS
    with seeds.kept():
        for number in range(count):
            if time.monotonic() > end:
                return
            yield dataset[number]


def half_of(learned: torch.Tensor, asked: torch.Tensor) -> Half:
    flat = learned.flatten(0, 1)
    ridge = 1e-3 * len(flat) * torch.eye(flat.shape[1])
    return Half(torch.linalg.solve(flat.T @ flat + ridge, flat.T), asked)


def map_of(batch: Foreign, image: str) -> Optional[torch.Tensor]:
    """Height x width of a map of classes or of numbers."""
    for find in (label_maps.map_of, label_maps.float_map_of):
        found = find(batch)
        if found is not None and len(found) == 1:
            return found[0].float()
    named = containers.tensors(batch)
    last = list(named)[-1]
    value = named[last]
    plain = last != image and value.dim() == 4 and value.shape[1] == 1
    return host(value).float()[0, 0] if plain and value.shape[-1] >= SIDE else None


def numbers_of(image: torch.Tensor) -> torch.Tensor:
    """Numbers x places: means and spreads of channels, and the means around each place."""
    mean = functional.adaptive_avg_pool2d(image[None], SIDE)[0]
    square = functional.adaptive_avg_pool2d(image[None] ** 2, SIDE)[0]
    return torch.cat([mean, (square - mean**2).clamp(min=0).sqrt()])


def parts_of(maps: List[torch.Tensor]) -> torch.Tensor:
    """Maps x parts x places: the shares of each class, or the mean of other numbers."""
    values, counts = torch.unique(torch.cat([each[::2, ::2].reshape(-1) for each in maps]),
                                  return_counts=True)  # fmt: skip
    if len(values) > 64:
        return torch.stack([pooled(each)[None] for each in maps])
    common = values[counts.argsort(descending=True)][1 : 1 + MOST_CLASSES]
    return torch.stack([
        torch.stack([pooled((each == value).float()) for value in common]) for each in maps
    ]) if len(common) else torch.zeros(len(maps), 1, SIDE, SIDE)  # fmt: skip


def apart(target: torch.Tensor) -> torch.Tensor:
    """The target of each image without the mean of its half, which may be the images without an
    object."""
    rest = target.clone()
    for half in (rest[::2], rest[1::2]):
        half -= half.mean(0)
    return rest


def pooled(value: torch.Tensor) -> torch.Tensor:
    return functional.adaptive_avg_pool2d(value[None, None], SIDE)[0, 0]


def covered(at: torch.Tensor) -> torch.Tensor:
    """Which places lie in boxes, as shares of the image."""
    middle = (torch.arange(SIDE) + 0.5) / SIDE
    across = (middle[None] >= at[:, :1]) & (middle[None] < at[:, 2:3])
    down = (middle[None] >= at[:, 1:2]) & (middle[None] < at[:, 3:4])
    return (down[:, :, None] & across[:, None]).any(0).float()


def design(images: torch.Tensor) -> torch.Tensor:
    """Images x places x numbers, scaled, with their squares."""
    plain = images.flatten(2).transpose(1, 2)
    flat = plain.reshape(-1, plain.shape[2])
    scaled = (plain - flat.mean(0)) / flat.std(0).clamp(min=1e-6)
    return torch.cat([scaled, scaled**2, torch.ones_like(scaled[..., :1])], 2).clamp(-20, 20)


def fit(places: Places, target: torch.Tensor, turned: Optional[torch.Tensor] = None) -> Fit:
    """By a linear model of each place, fitted on half of the images and asked of the others, there
    of the `turned` targets where they are given."""
    wanted = target.flatten(2).transpose(1, 2)
    asked = wanted if turned is None else turned.flatten(2).transpose(1, 2)
    missed, whole = [], []
    for n, half in enumerate(places.halves):
        y, other = wanted[n::2].flatten(0, 1), asked[1 - n :: 2]
        missed.append(((half.asked @ (half.solved @ y) - other) ** 2).sum((1, 2)))
        whole.append(((y.mean(0) - other) ** 2).sum((1, 2)))
    errors, all_of_it = torch.cat(missed), torch.cat(whole)
    explained = 1 - float(errors.sum() / all_of_it.sum().clamp(min=1e-9))
    return Fit(explained, (all_of_it - errors) / all_of_it.mean().clamp(min=1e-9))


def better(one: Fit, other: Fit) -> bool:
    """Whether the second one is right where the first one is hardly, in nearly all images."""
    gain = other.gained - one.gained
    errors = float(gain.mean() / (gain.std() / len(gain) ** 0.5).clamp(min=1e-9))
    surely = errors > CLEAR or float((gain > 0).float().mean()) >= NEARLY
    return surely and other.explained > LEAST and one.explained < HALF * other.explained


def form_of(places: Places) -> Tuple[str, Fit]:
    fits = {form: fit(places, each) for form, each in places.targets.items()}
    best = max(fits, key=lambda form: fits[form].explained)
    return best, fits[best]


def of_split(places: Optional[Places], name: str) -> List[Dict[str, Any]]:
    """What the targets are, where it is not what they should be."""
    if places is None:
        return []
    form, own = form_of(places)
    stated = places.stated
    stands = fit(places, places.targets[stated]) if stated in places.targets else own
    if better(stands, own):
        return [relation("boxes of another form", 1, 1, (name, form))]
    target = places.targets[stated if stated in places.targets else form]
    own = fit(places, target)
    meant = ("of ", "moved") if places.series else ()
    each = {text: turn for text, turn in turns().items() if not text.startswith(meant)}
    found = {text: fit(places, turn(target)) for text, turn in each.items()}
    best = max(found, key=lambda text: found[text].explained)
    if better(own, found[best]):
        numbers = (own.explained, found[best].explained)
        return [relation("places apart", 1, 1, (name, best, what_of(places)), (), numbers)]
    return by_image(places, target, own, name) if places.redrawn else []


def by_image(places: Places, target: torch.Tensor, own: Fit, name: str) -> List[Dict[str, Any]]:
    """Where each image has a relation of its own, as from two draws of one random change."""
    each = {text: turn for text, turn in turns().items() if not text.startswith("of ")}
    turned = (fit(places, target, turn(target)).gained for turn in each.values())
    found = torch.stack([own.gained, *turned])
    best, which = found.max(0)
    numbers = (float(own.gained.mean()), float(best.mean()))
    if numbers[1] <= DRAWN:
        return []
    kinds = torch.bincount(which[which > 0], minlength=len(found))
    most = int(kinds.argmax())
    if in_a_part(found[most] - own.gained, float(best.mean())):
        text = "%s in a part of the images" % list(each)[most - 1]
        return [relation("places apart", 1, 1, (name, text, what_of(places)), (), numbers)]
    several = int((kinds > 0.05 * len(best)).sum()) > 1
    owned = float((which == 0).float().mean()) > MOSTLY or numbers[0] >= MOSTLY * numbers[1]
    if not several or owned:
        return []
    if places.inverted:
        text = "x y width height, which the random changes take for corners"
        return [relation("boxes of another form", 1, 1, (name, text))]
    fields = (name, "another change in each image", what_of(places))
    return [relation("places apart", 1, 1, fields, (), numbers)]


def in_a_part(gain: torch.Tensor, whole: float) -> bool:
    """Whether one change is far better in some images, and far worse in others: both fit alike
    where an image resembles its mirror image."""
    shares = ((sign * gain > HALF * whole).float().mean() for sign in (1, -1))
    return min(map(float, shares)) >= SOME


def what_of(places: Places) -> str:
    return "maps" if "" in places.targets else "boxes"


def of_two(train: Optional[Places], other: Optional[Places]) -> List[Dict[str, Any]]:
    """Boxes that have one form in train and another one in eval."""
    if train is None or other is None:
        return []
    one, two = form_of(train), form_of(other)
    if one[0] == two[0] or train.stated != other.stated:
        return []
    for places, (_, own), form in ((train, one, two[0]), (other, two, one[0])):
        if form not in places.targets or not better(fit(places, places.targets[form]), own):
            return []
    text = "%s, and %s in train" % (two[0], one[0])
    return [relation("boxes of another form", 1, 1, ("eval", text))]
