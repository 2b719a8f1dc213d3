"""A rule on files that belong together by their place in two lists."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import words
from doctor.checks.script.reading import exclusive, flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

LISTS = {"listdir", "glob", "iterdir", "rglob", "scandir"}
ORDERS = {"sorted", "natsorted", "sort"}
Key = tuple[object, str]


AIMS = {"target", "targets"}
"""Also the other side of an unpaired translation."""
LABELS = {"label", "labels", "y", "target", "targets", "mask", "masks", "annotations", "captions"}


def shuffled_apart(reading: Training) -> Iterator[Match]:
    """random.shuffle(paths); random.shuffle(labels), which are read at the same place."""
    shuffled: dict[Key, Call] = {}
    for call in reading.named("shuffle"):
        if call.name in ("random.shuffle", "numpy.random.shuffle") and len(call.args) == 1:
            shuffled[reading.key(call.args[0].name, call.scope)] = call
    again = reading.named("setstate", "set_state") or len(reading.named("seed", "manual_seed")) > 1
    for one, other in _read_together(reading) if len(shuffled) > 1 and not again else ():
        labels = any(LABELS - AIMS & set(words(name)) for _, name in (one, other))
        if one == other or not labels or not {one, other} <= shuffled.keys():
            continue
        places = sorted(reading.number(shuffled[key]) for key in (one, other))
        between = reading.calls[places[0] + 1 : places[1]]
        if all(reading.target_function(call) is None for call in between):  # which may seed
            message = f"{one[1]} and {other[1]} are shuffled apart, and read at the same place"
            yield Match(shuffled[other].span, message, "fail")
            return


def paired_unsorted(reading: Training) -> Iterator[Match]:
    yield from shuffled_apart(reading)
    lists: dict[Key, Assignment] = {}
    for each in reading.assignments:
        names = {reading.calls[n].method for n in (each.value.call, *each.value.calls) if n >= 0}
        keyed = each.value.name in ("DictComp", "Dict")
        if each.value.kind in ("call", "other") and names & LISTS and not keyed:
            lists[reading.key(each.target, each.scope)] = each
    unsorted = {key for key, each in lists.items() if not _is_sorted(reading, key, each)}
    for one, other in _read_together(reading) if unsorted else ():
        if one != other and {one, other} <= lists.keys() and {one, other} & unsorted:
            first = one if one in unsorted else other
            second = other if first == one else one
            if second[1] in lists[first].value.names:
                continue  # one list of files for each of the other
            message = f"{first[1]} and {second[1]} are paired by place, and {first[1]} is unsorted"
            yield Match(lists[first].span, message)
            return


def _is_sorted(reading: Training, key: Key, each: Assignment) -> bool:
    """sorted(...) in the assignment or a later one of the name, or name.sort()."""
    inside = {reading.calls[n].method for n in (each.value.call, *each.value.calls) if n >= 0}
    later = any(
        reading.key(call.receiver, call.scope) == key
        or any(reading.key(name, call.scope) == key for v in call.args[:1]
               for name in v.all_names if name)
        for call in reading.named(*ORDERS)
    )  # fmt: skip
    return bool(inside & ORDERS) or later or len(reading.assigned.get(key, ())) > 1


def _read_together(reading: Training) -> Iterator[tuple[Key, Key]]:
    """zip(a, b), and a[i] beside b[i] in one function."""
    for call in reading.named("zip"):
        keys = [reading.key(v.name, call.scope) for v in call.args if v.kind == "name"]
        yield from itertools.pairwise(keys)
    at: dict[tuple[int, str], list[Key]] = {}
    for value, _, scope in reading.expressions:
        for part in flatten([value]):
            if part.kind == "item" and [v.kind for v in part.items] == ["name", "name"]:
                place = at.setdefault((scope, part.items[1].name), [])
                place.append(reading.key(part.items[0].name, scope))
    for keys in at.values():
        yield from ((one, other) for one in keys for other in keys)


GEOMETRIC = {
    "RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation", "RandomCrop", "RandomAffine",
    "RandomResizedCrop", "RandomPerspective", "HorizontalFlip", "VerticalFlip", "RandomRotate90",
    "Rotate", "ShiftScaleRotate", "Affine", "ElasticTransform", "RandomSizedCrop", "RandomRotate",
    "Flip", "D4", "RandFlip", "RandRotate", "RandAffine",
}  # fmt: skip
"""Random transforms that move pixels, of torchvision, albumentations, kornia and MONAI."""
ALWAYS = Value("literal", literal=1)
TURNS = re.compile(r"Flip|Transpose")
"""What p=1 makes the same for all: crops and rotations still draw their place or angle."""
MOVES = {"hflip", "vflip", "rotate", "crop", "affine", "flip", "rot90", "fliplr", "flipud"}
MASK = {"mask", "masks", "seg", "segmentation", "segm", "segmap"}
OF_MASKS = {"VOCSegmentation", "Cityscapes", "SBDataset", "OxfordIIITPet", "CocoDetection"}


def transformed_apart(reading: Training) -> Iterator[Match]:
    """An image and its mask get random flips or crops of their own."""
    message = "image and mask are transformed apart: each draws its own flips and crops"
    if reading.mentions("replayed", "set_rng_state", "setstate", "get_params", "to_deterministic"):
        return
    for scope in range(len(reading.script.functions)):
        calls = reading.calls_in(scope)
        masks = [c for c in calls if _is_mask(reading, c) and len((*c.args, *c.keywords)) == 1]
        if not masks or any("seed" in c.method for c in calls):
            continue
        images = [call for call in calls if not _is_mask(reading, call)]
        for mask in masks:
            if any(_draws_apart(reading, image, mask) for image in images):
                yield Match(mask.span, message)
                break
    for n in reading.calls_where(OF_MASKS.__contains__):
        call = reading.calls[n]
        texts = {str(v.literal) for v in call.keywords.values()}
        given = [v for k, v in call.keywords.items() if k in ("transform", "target_transform")]
        of_masks = "segmentation" in texts or call.method in ("VOCSegmentation", "SBDataset")
        if of_masks and len(given) == 2 and _is_random(reading, given[0], call):
            yield Match(call.span, message)


def _is_mask(reading: Training, call: Call) -> bool:
    """The word is in what is assigned, or in what is passed."""
    values = call.values
    parts = reading.cached(_parts_assigned).get(reading.number(call), ())
    names = [*call.targets, *parts, *(n for v in values for n in v.all_names)]
    return any(MASK & set(words(name)) for name in names)


def _parts_assigned(reading: Training) -> dict[int, tuple[str, ...]]:
    """Names that get a part of what a call returns: x = aug(image=x)["image"]."""
    items = [each for each in reading.assignments if each.value.kind == "item"]
    return {v.call: (each.target,) for each in items for v in each.value.items[:1] if v.call >= 0}


def _draws_apart(reading: Training, image: Call, mask: Call) -> bool:
    """Both are called on one thing, as transforms of which one is random, or below two coins."""
    if exclusive(image.arms, mask.arms):
        return False
    drawn = _is_random(reading, Value("name", name=image.name), image)
    if image.method in MOVES and not drawn:
        first, last = sorted(reading.number(call) for call in (image, mask))
        again = any("rand" in call.name for call in reading.calls[first + 1 : last])
        coins = _is_drawn(reading, image) and _is_drawn(reading, mask)
        return image.method == mask.method and coins and again
    if len((*image.args, *image.keywords)) != 1:
        return False
    if reading.target_function(image) is not None or not _given(image) or not _given(mask):
        return False
    made = Value("name", name=mask.name)
    known = any(v.kind == "call" and v.items == () and reading.calls[v.call].values for v in
                evaluate.options(reading, made, mask))  # fmt: skip
    return known and drawn


def _given(call: Call) -> bool:
    """It is called on a name, or on what a file holds."""
    return not call.name.endswith(("()", "[]")) and not call.method[:1].isupper()


def _is_drawn(reading: Training, call: Call) -> bool:
    """A condition around draws a number."""
    return any("rand" in test.text for test in reading.tests(call))


def _is_random(reading: Training, value: Value, call: Call) -> bool:
    """A pipeline that moves pixels at random, also by lists that it is put together from."""
    pending, seen = [(value, call)], set[int]()
    while pending and len(seen) < 40:
        each, place = pending.pop()
        for option in evaluate.options(reading, each, place):
            for n, made in reading.numbered({option.call, *option.calls} - {-1}):
                always = TURNS.search(made.method) and made.keywords.get("p") == ALWAYS
                if made.method in GEOMETRIC and not always:
                    return True
                if n not in seen and made.method in (
                    "Compose",
                    "Sequential",
                    "AugmentationSequential",
                ):
                    seen.add(n)
                    names = [Value("name", name=name) for v in made.args for name in v.names]
                    pending += [(v, made) for v in (*made.args, *names)]
    return False


RULES = (
    Rule(
        code="SCR333",
        slug="files-paired-unsorted",
        title="Lists of files that belong together are sorted",
        severity="warn",
        find=paired_unsorted,
        why="The order of os.listdir() and glob() is that of the file system: images get masks of "
        "others, on one machine and not on the next.",
        fires=(
            "two lists of os.listdir, glob or iterdir, one of them unsorted, that are zipped or "
            "read at one index",
        ),
        fix="Sort both lists, or derive the second name from the first.",
        sources=("python-listdir",),
        needs=(*sorted(LISTS), "shuffle"),
    ),
    Rule(
        code="SCR334",
        slug="pair-transformed-apart",
        title="An image and its mask get the same random transform",
        severity="warn",
        find=transformed_apart,
        why="Each call of a random flip, crop or rotation draws anew: the mask no longer belongs "
        "to the image, and the model learns from wrong targets.",
        fires=(
            "a random pipeline of flips, crops or rotations that is called on the image, and "
            "another call for the mask",
            "transform and target_transform of a dataset of masks, with random ones",
            "two drawn numbers that decide about the same flip of image and mask",
        ),
        fix="Call one transform with both: torchvision.transforms.v2 with tv_tensors, or "
        "albumentations with image= and mask=.",
        sources=("torchvision-masks",),
        words=(
            "Random(?:Hor|Ver|Rot|Crop|Res|Aff|Per)",
            "HorizontalFlip",
            "ShiftScaleRotate",
            r"hflip\s*\(",
        ),
        needs=tuple(sorted(GEOMETRIC | MOVES)),
    ),
)
