"""What an image is mirrored or turned with: its landmarks by name, its mask, its boxes' corners."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from doctor.checks.script.rendering import render, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

NAMED = re.compile(
    r"(?:^|_)(?:kpt?s?|kpts?|keypoints?|landmarks?|lmks?|lms|joints?|pts|points?|pose)"
    r"(?:_|\d|$)",
    re.IGNORECASE,
)
SUBJECTS = ("landmark", "keypoint", "kpt", "joint", "pose", "nme", "face", "lmk", "skeleton")
EXCHANGES = (
    "swap", "permutation", "perm_", "_perm", "mirror_", "_mirror", "flip_i", "flip_p", "flip_o",
    "pairs", "symm", "left", "right", "flip_lr", "flipped_", "reorder", "hflip_",
)  # fmt: skip
FLIPPED = re.compile(
    r"\.flip\([^,()]+,1\)|fliplr\(|hflip\(|\[:,::-1|FLIP_LEFT_RIGHT|"
    r"\.mirror\(|torch\.flip\(|\.flip\(\(?-1|\.flip\(dims="
)
X_OF = re.compile(r"-(?P<name>[\w.]+)\[(?::|[^\[\],]*),0\]")
MOVES = {
    "rotate", "hflip", "vflip", "affine", "crop", "resized_crop", "warpAffine", "fliplr", "flipud",
    "center_crop", "perspective", "warpPerspective",
}  # fmt: skip
MASKS = re.compile(r"(?:^|_)(?:mask|masks|seg|segmentation|label_?map|lbl|gt_mask)(?:_|$)")


def landmarks(reading: Training) -> Iterator[Match]:
    """x = width - x of landmarks with names, whose left and right stay as they are."""
    if not reading.mentions(*SUBJECTS) or reading.mentions(*EXCHANGES):
        return
    for number in range(len(reading.script.functions)):
        given = reading.stores
        own = [a for a in given if a.scope == number]
        texts = [render(reading, a.value) for a in own]
        if not any(FLIPPED.search(text) for text in texts):
            continue
        for each, text in zip(own, texts, strict=True):
            found = X_OF.search(text) or _in_a_list(text)
            name = found["name"] if found else ""
            if NAMED.search(name.rpartition(".")[2]):
                message = f"left and right of {name} stay: a mirrored left eye is a right eye"
                yield Match(each.span, message, "warn")
                return


def _in_a_list(text: str) -> re.Match[str] | None:
    """[(w - x, y) for x, y in keypoints]."""
    return re.search(r"ListComp<(?P<name>\w+),\(\(\w+(?:-1)?-(?:x|\w+\[0\])(?:-1)?\),", text)


def corners(reading: Training) -> Iterator[Match]:
    """MeanAveragePrecision() takes two corners, unless its box_format says otherwise."""
    made = [
        c
        for c in reading.named("MeanAveragePrecision", "MAP")
        if c.name.startswith("torchmetrics.")
        and "box_format" not in c.keywords
        and not c.args
        and not c.unpacked
    ]
    if not made or reading.mentions("box_convert", "xyxy", "xywh", "cxcywh", "coco_to"):
        return
    values = [(render(reading, v), s) for v, s, _ in reading.expressions]
    coco = any(re.search(r"category_id|'annotations'|loadAnns", text) for text, _ in values)
    for text, span in values if coco else ():
        found = re.search(r"boxes[:=]([^{}]*?\w+\[?'?\.?bbox'?\]?[^{}]*?)(?:,labels|\}|\)$)", text)
        plain = found and not re.search(r"\+|\[2\]|\[3\]|2:|:2", found[1])
        if plain and ("ListComp" in (found[1] if found else "") or "bbox" in text):
            message = "bbox of COCO is (x, y, width, height): this metric takes two corners"
            yield Match(span, message)
            return


def exchanged(reading: Training) -> Iterator[Match]:
    """boxes[:, [0, 2]] = width - boxes[:, [0, 2]], where the left edge becomes the right one."""
    parts = [(a, render(reading, a.value).replace("'", "")) for a in reading.script.parts]
    for place, (each, text) in enumerate(parts):
        name = re.sub("[\"']", "", each.target)
        target = re.fullmatch(r"(?P<box>[\w.\[\]]+)\[:,\[(?P<one>\d),(?P<two>\d)\]\]", name)
        if target is None or "box" not in target["box"]:
            continue
        later = {a.target for a, _ in parts[place + 1 :] if a.scope == each.scope}
        ordered = any(ORDERED.search(text) for text in texts_in(reading, each.scope))
        again = ordered or bool({f"{target['box']}[:,{n}]" for n in "02"} & later)
        same = rf"{re.escape(target['box'])}\[:,\({target['one']},{target['two']}\)\]"
        if re.fullmatch(rf"\([\w.\[\]()-]+-{same}\)", text) and not again:
            yield Match(each.span, CORNERS, fix="boxes[:, [0, 2]] = width - boxes[:, [2, 0]].")
    yield from _overwritten(reading, parts)


ORDERED = re.compile(r"sort|\(2,[01]|min|max")
"""What puts the edges into their places again."""
CORNERS = "the left edge becomes the right one, and stays in the place of the left"


def _overwritten(reading: Training, parts: list[tuple[Assignment, str]]) -> Iterator[Match]:
    """boxes[:, 0] = w - boxes[:, 2], and boxes[:, 2] = w - boxes[:, 0], which is new by then."""
    edge = re.compile(r"\(?[\w.()]+-(?P<box>[\w.]*box\w*)\[:,(?P<place>[0-3])\]\)?")
    for (one, text), (other, later) in itertools.pairwise(parts):
        first, second = edge.fullmatch(text), edge.fullmatch(later)
        if not first or not second or first["box"] != second["box"] or one.scope != other.scope:
            continue
        targets = (f"{first['box']}[:,{n}]" for n in (second["place"], first["place"]))
        if (one.target, other.target) == tuple(targets) and first["place"] != second["place"]:
            yield Match(other.span, "the edge that is read here was replaced by the line before")


def masks(reading: Training) -> Iterator[Match]:
    """An image is turned under a condition, and its mask in the same function is not."""
    for number, function in enumerate(reading.script.functions):
        calls = reading.calls_in(number)
        moved = [c for c in calls if _moves(c) and c.arms and c.targets and not _is_mask(c)]
        returned = {n for v in function.returns for n in v.all_names}
        named = {n for n in returned if MASKS.search(n.rpartition(".")[2].casefold())}
        if not moved or not named or not function.returns:
            continue
        own = [a for a in reading.assignments if a.scope == number and a.arms]
        touched = any(MASKS.search(a.target.casefold()) for a in own) or any(
            _moves(c) and _is_mask(c) for c in calls
        )
        joint = any(
            _is_mask(c)
            and c.method not in ("as_tensor", "tensor", "from_numpy", "array")
            and _names_image(c)
            for c in calls
        )
        if not touched and not joint and any(c.targets[0] in returned for c in moved):
            yield Match(moved[0].span, f"{moved[0].method} moves the image, and its mask stays")


def _moves(call: Call) -> bool:
    return call.method in MOVES or (call.method == "flip" and call.name.startswith("cv2."))


def _is_mask(call: Call) -> bool:
    return any(MASKS.search(n.casefold()) for n in _names(call))


def _names(call: Call) -> Iterator[str]:
    values: tuple[Value, ...] = call.values
    for value in values:
        yield from (n.rpartition(".")[2] for n in value.all_names)
    yield call.receiver.rpartition(".")[2]


def _names_image(call: Call) -> bool:
    return any(re.search(r"img|image|^x$", n.casefold()) for n in _names(call))
