"""Whether label maps hold classes."""

from __future__ import annotations

from doctor.checks.data.seen import each_split, observed, passed, share
from doctor.facts.data import Data, Split
from doctor.facts.data_batches import LabelMaps
from doctor.judge.check import Check, Owner, Verdict, note, skip

BETWEEN, KINDS, FLAT, LEAST_BORDERS = 0.15, 6, 0.7, 200
"""Share of the pixels at borders that lie between two other values (measured 0.2 to 1.0 after
bilinear resizing, below 0.02 for drawn classes), in how many combinations (a class for the outline
of another one makes few), share of pixels within an area, and pixels at borders. Our own
numbers."""
MOST_CLASSES = 64
"""Values above which they may be brightness, as the targets of an image model."""
INVENTED = 2
"""Values; one may be the class of an outline. Our own number."""


def whole_classes(data: Data) -> Verdict:
    maps = [each.maps for each in data.splits if each.maps is not None and not each.maps.broken]
    count = sum(each.maps for each in maps)
    if maps and all(each.values == 1 for each in maps) and count > 1:
        text = f"all {count:,} label maps hold one value alone, in all splits"
        return note(text, fix=ALONE)  # as of small tiles of one class each
    return each_split(data, _whole_classes)


def _whole_classes(split: Split) -> Verdict:
    maps = split.maps
    if maps is None:
        return skip("the batches have no label maps of classes")
    text = f"{maps.values} values in {maps.maps} label maps"
    return _broken(maps, text) or _levels(maps) or _borders(maps, text, split)


def _broken(maps: LabelMaps, text: str) -> Verdict | None:
    if maps.broken == "divided":
        steps = f"{text} are steps of 1/255: numbers of classes that were divided like an image"
        return observed(f"{steps}; required: whole numbers", maps.maps, fix=UNDIVIDED)
    if maps.broken:
        return observed(f"{text} are whole within areas and fractions between them", maps.maps)
    return None


def _levels(maps: LabelMaps) -> Verdict | None:
    if not maps.levels:
        return None
    between = "" if maps.levels == 2 else f" and {maps.levels - 2} between them at equal distances"
    text = (
        f"{maps.maps} label maps hold 0 and 255{between}: {maps.levels} levels of brightness in "
        f"place "
        f"of the classes 0 to {maps.levels - 1}"
    )
    if maps.as_stored:
        return note(f"{text}, if the loop does not turn these bytes into classes", fix=LEVELS)
    return observed(text, maps.maps, fix=LEVELS)


def _borders(maps: LabelMaps, text: str, split: Split) -> Verdict:
    if maps.borders < LEAST_BORDERS or maps.flat < FLAT:
        return passed(f"{text}, too few borders of areas to judge them", split)
    if maps.invented >= INVENTED and maps.values <= MOST_CLASSES:
        text = f"{text}; {maps.invented} of them stand at borders alone, between the two values"
        return observed(f"{text}, as after interpolation", maps.maps)
    lying = share(maps.between, maps.borders, "pixels at borders lie between the two values")
    if maps.between < BETWEEN * maps.borders or maps.kinds < KINDS:
        return passed(f"{text}; {lying}", split)
    if maps.unit_steps > maps.between:
        return passed(f"{text}, in steps of 1, as heights or ages have them", split)
    if maps.values > MOST_CLASSES:
        return note(f"{text}; {lying}, as after interpolation or in images")
    return observed(f"{text}; {lying}, as after interpolation", maps.maps)


ALONE = (
    "Look at a mask as it is read: numbers of classes that were divided by 255, compared with "
    "another value, or read in another mode become one class."
)
UNDIVIDED = (
    "Read masks without ToTensor(): torch.from_numpy(numpy.array(mask)).long(), or "
    "v2.ToImage() and tv_tensors.Mask, which leave the numbers as they are."
)

LEVELS = (
    "Turn brightness into classes where the mask is read: (mask > 127).long() of two classes, "
    "mask // step of several; for a binary cross entropy, mask.float() / 255."
)

MAPS = Check(
    code="DAT020",
    slug="label-maps-whole",
    title="Label maps hold classes, and no values between them",
    why="Bilinear resizing or rotation of a mask averages the numbers of two classes at their "
    "border: between 0 and 2 the class 1 appears, and 5 to 254 next to the 255 that is ignored.",
    passes=("fewer than 15 % of the pixels at borders lie between the values on both sides",),
    notes=(
        "at least 15 % do, of more than 64 values",
        "all maps of all splits hold one value",
        "maps of bytes hold 0 and 255 alone",
    ),
    warns=(
        "in 32 or more label maps at least 15 % do, in 6 or more combinations of values",
        "in 32 or more maps two values stand at borders alone, between those on both sides",
        "the values of 32 or more maps of whole numbers are 0 and 255, or divide that range evenly",
        "the values of 32 or more maps are 0 to 63 divided by 255, or whole within areas and "
        "fractions between them",
    ),
    fix="Resize, rotate and warp masks with interpolation='nearest' (InterpolationMode.NEAREST), "
    "and only images with another one.",
    owner=Owner.JOB,
    judge=whole_classes,
    limits="that the classes are the right ones.",
    sources=("torchvision-masks",),
)

CHECKS = (MAPS,)
