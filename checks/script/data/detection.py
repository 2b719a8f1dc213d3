"""A rule on boxes: their corners, their classes, and what moves their image."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.data import mirrored
from doctor.checks.script.data.box_forms import of_anchors
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import lines_of, render, statements, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Function, Span, Value

MODELS = re.compile(r"torchvision\.models\.detection\.\w+")
SOFTMAX = re.compile(r"rcnn|ssd", re.IGNORECASE)
"""Those whose class 0 is the background; RetinaNet and FCOS have none."""
NUMBERED = re.compile(r"DictComp<enumerate\((\w+)\),\w+,(?:i|j|k|n|idx|index|id)>")
FLIPS = {"hflip", "vflip", "rotate", "crop", "resized_crop", "RandomHorizontalFlip",
         "RandomVerticalFlip", "RandomRotation", "RandomResizedCrop", "RandomCrop"}  # fmt: skip

FROM_ONE = "Count labels from 1, and give the model one class more than they are."


def boxes(reading: Training) -> Iterator[Match]:
    models = [c for c in reading.calls if MODELS.match(c.name)]
    if models:
        yield from _corners(reading)
        yield from _background(reading)
        if any(SOFTMAX.search(c.name) for c in models):
            yield from _from_zero(reading)
    yield from of_anchors(reading)
    yield from _flipped_alone(reading)
    yield from _resized_alone(reading)
    yield from mirrored.landmarks(reading)
    yield from mirrored.corners(reading)
    yield from mirrored.exchanged(reading)
    yield from mirrored.masks(reading)


def _corners(reading: Training) -> Iterator[Match]:
    """bbox of COCO is (x, y, width, height)."""
    if reading.mentions("box_convert", "xyxy", "xywh", "coco_to", "cxcywh", "x2", "xmax"):
        return
    for each in reading.assignments:
        text = render(reading, each.value)
        own = [render(reading, a.value) for a in reading.assignments if a.scope == each.scope]
        moved = any(re.search(r"\[:,2:\]|\[2\]|\[3\]|:,2|:,3", t) for t in own) or any(
            ":,2" in a.target or "2:" in a.target or "[]" in a.target
            for a in reading.assignments if a.scope == each.scope
        )  # fmt: skip
        moved |= f"{each.target}[]" in reading.script.identifiers
        if "bbox" in text and re.search(r"box", each.target) and not moved and (
            each.augmented is False and "ListComp" in text and "+" not in text
        ):  # fmt: skip
            yield Match(
                each.span, "bbox of COCO is (x, y, width, height): the model takes two corners"
            )


def _background(reading: Training) -> Iterator[Match]:
    """num_classes=len(CLASSES) without one for the background."""
    for call in reading.calls:
        value = call.keywords.get("num_classes")
        if value is None and call.method.endswith("Predictor") and len(call.args) > 1:
            value = call.args[1]
        if value is None or not (MODELS.match(call.name) or call.method.endswith("Predictor")):
            continue
        text = render(reading, value)
        counted = re.fullmatch(r"len\((\w+)\)", text)
        lists = reading.assigned.get((0, counted[1]), ()) if counted else ()
        names = [str(v.literal).casefold() for a in lists for v in a.value.items]
        if names and not any("background" in n or n in ("bg", "__background__") for n in names):
            message = f"{text} has no class for the background, which is class 0"
            yield Match(call.span, message, fix=FROM_ONE)


def _from_zero(reading: Training) -> Iterator[Match]:
    """labels of {name: i for i, name in enumerate(NAMES)}, where no name is the background."""
    if reading.mentions("retinanet", "fcos", "background"):
        return
    tables = {
        each.target: found[1]
        for each in reading.assignments
        if (found := NUMBERED.fullmatch(render(reading, each.value)))
    }
    for span, name in _numbered_from_zero(reading):
        yield Match(span, f"{name} begins at 0, which is the background", fix=FROM_ONE)
        return
    values = _labels(reading)
    if any(re.search(r"labels?\b[^=]*\+1\b", text) for text, _, _ in reading.cached(statements)):
        return
    for value, span in values:
        text = render(reading, value)
        for table, source in tables.items():
            lists = reading.assigned.get((0, source), ())
            names = [str(v.literal).casefold() for a in lists for v in a.value.items]
            named = bool(names) and not any("background" in n or n in ("bg", "") for n in names)
            if named and f"{table}[" in text and "+" not in text:
                message = f"{names[0]} is class 0, which is the background"
                yield Match(span, message, fix=FROM_ONE)
                return


def _numbered_from_zero(reading: Training) -> Iterator[tuple[Span, str]]:
    """labels.append(int(c)) of a row of YOLO, and CLASSES.index(name)."""
    rows = {
        a.target for a in reading.assignments
        if a.value.kind == "item" and ".split(" in render(reading, a.value)
        and re.search(r"\[0\]$", render(reading, a.value))
    }  # fmt: skip
    yolo = reading.mentions("yolo", "x_center", "xc") or reading.mentions("cx", "bw")
    for value, span in _labels(reading):
        text = render(reading, value)
        number = re.search(r"(?:^|\(|<)int\((?:float\()?(\w+)", text)
        if yolo and number and number[1] in rows and "+" not in text:
            yield span, f"{number[1]} of a row of YOLO"
        listed = re.search(r"(?:^|[<(,])([A-Z_]{3,})\.index\(", text)
        names = _names(reading, listed[1]) if listed and "+" not in text else []
        if listed and names and not any(n in ("background", "bg", "") for n in names):
            yield span, f"{listed[1]}.index()"


def _labels(reading: Training) -> list[tuple[Value, Span]]:
    """What is assigned to labels, or appended to them."""
    values = [
        (c.args[0], c.span)
        for c in reading.named("append")
        if c.receiver.endswith(("labels", "classes")) and c.args
    ]
    values += [(a.value, a.span) for a in reading.assignments
               if a.target.endswith("labels")]  # fmt: skip
    for value, span, _ in reading.expressions:
        for part in flatten([value]):
            if part.kind == "dict" and {"boxes", "labels"} <= set(part.keys):
                values.append((part.items[part.keys.index("labels")], span))
    return values


def _names(reading: Training, listed: str) -> list[str]:
    lists = reading.assigned.get((0, listed), ())
    return [str(v.literal).casefold().strip("_") for a in lists for v in a.value.items]


def _flipped_alone(reading: Training) -> Iterator[Match]:
    """An image is flipped at random, and boxes of the same function stay."""
    for scope, function in enumerate(reading.script.functions):
        pair = _returns_both(function)
        if function.name != "__getitem__" and not pair:
            continue
        calls = reading.calls_in(scope)
        flips = [c for c in calls if c.arms and not c.method[:1].isupper() and (
                 c.method in FLIPS or mirrored.FLIPPED.search(render(reading, Value(
                     "call", call=reading.number(c)))))]  # fmt: skip
        boxed = [n for v, _, where in reading.expressions if where == scope
                 for n in v.all_names if re.search(r"box|keypoint", n)]  # fmt: skip
        dicts = [key for v in reading.values_in(scope) for part in (v, *v.items)
                 for key in part.keys]  # fmt: skip
        targets = {n for v in reading.values_in(scope) for part in (v, *v.items)
                   for n in _under(part, "boxes")}  # fmt: skip
        listed = boxed and "boxes" in dicts
        if not flips or not (listed or (pair and _is_all(reading, scope, flips[0]))):
            continue
        changed = [a for a in reading.assignments if a.scope == scope
                   and re.search(r"box|keypoint|target", a.target) and a.arms]  # fmt: skip
        passed = any(re.search(r"box|target|keypoint", n) for c in flips for v in c.args
                     for n in v.all_names)  # fmt: skip
        changed_parts = [n for n in boxed if f"{n}[]" in reading.script.identifiers]
        stored = any(a.scope == scope and a.arms and a.target.partition("[")[0] in targets
                     for a in (*reading.stores, *reading.assignments))  # fmt: skip
        if not (changed or passed or changed_parts or stored or _each_changed(reading, scope)):
            what = f"{flips[0].method} moves the image, and its boxes stay"
            fix = "boxes[:, [0, 2]] = width - boxes[:, [2, 0]] where hflip is applied."
            yield Match(flips[0].span, what, fix=fix if flips[0].method == "hflip" else "")


def _under(value: Value, key: str) -> tuple[str, ...]:
    """The names in what a dict holds under a key."""
    at = value.keys.index(key) if value.kind == "dict" and key in value.keys else None
    return () if at is None else tuple(value.items[at].all_names)


def _returns_both(function: Function) -> bool:
    """def augment(image, boxes): ...; return image, boxes."""
    given = {p.name for p in function.parameters}
    boxed = {name for name in given if re.fullmatch(r"(?:gt_)?b?boxe?s?", name)}
    together = [v for v in function.returns if v.kind == "list"]
    return (
        bool(boxed)
        and len(together) == len(function.returns) > 0
        and all(boxed & {each.name for each in v.items} for v in together)
    )


def _is_all(reading: Training, scope: int, flip: Call) -> bool:
    """image = hflip(image), and the boxes stand in what is returned, and nowhere else."""
    function = reading.function(scope)
    image = flip.first.name if flip.first is not None and flip.first.name else flip.receiver
    changed = any(reading.inside(line.value) for line in lines_of(reading, scope, image))
    boxed = re.compile(r"\b(?:gt_)?b?boxe?s?\b")
    used = [text for text in texts_in(reading, scope) if boxed.search(text)]
    touched = [c.name for c in reading.calls_in(scope)] + [
        a.target for a in reading.stores if a.scope == scope
    ]
    alone = len(used) <= len(function.returns) and not any(map(boxed.search, touched))
    returned = all(image in {each.name for each in v.items} for v in function.returns)
    return changed and alone and returned


def _each_changed(reading: Training, scope: int) -> bool:
    """for box in boxes: box[0] = width - box[2]."""
    loops = [loop for loop in reading.loops if loop.scope == scope and loop.iterable is not None
             and any("box" in name for name in loop.iterable.all_names)]  # fmt: skip
    each = {name for loop in loops for name in loop.targets}
    return any(a.scope == scope and a.target.partition("[")[0] in each for a in reading.stores)


def _resized_alone(reading: Training) -> Iterator[Match]:
    """An image is resized to a fixed size, and its boxes keep their numbers."""
    for scope in reading.functions_by_name.get("__getitem__", ()):
        calls = reading.calls_in(scope)
        resized = [
            c for c in calls
            if c.method == "resize" and c.name.startswith(("torchvision.", "cv2.")) and not c.arms
        ]  # fmt: skip
        dicts = [key for v in reading.function(scope).returns for part in (v, *v.items)
                 for key in part.keys]  # fmt: skip
        held = [n for n in dicts if n == "boxes"]
        own = [a for a in reading.assignments if a.scope == scope]
        own += [a for a in reading.script.parts if a.scope == scope]
        texts = [render(reading, a.value) for a in own]
        texts += texts_in(reading, scope)
        moved = any(
            re.search(r"box|target", a.target) and re.search(r"[*/]", render(reading, a.value))
            for a in own
        ) or any(re.search(r"box\w*[^,]*[*/]|[*/][^,]*box|scale|ratio", t) for t in texts)
        changed = any("box" in name and name.endswith("[]") for name in reading.script.identifiers)
        passed = any(re.search(r"box|target", n) for c in resized for v in c.args
                     for n in v.all_names)  # fmt: skip
        if resized and held and not (moved or changed or passed):
            yield Match(resized[0].span, "resize() moves the image, and its boxes stay")


RULES = (
    Rule(
        code="SCR370",
        slug="boxes",
        title="Boxes are corners of their image, and class 0 is the background",
        severity="fail",
        find=boxes,
        why="Detectors of torchvision take boxes as (x1, y1, x2, y2) and count the background as a "
        "class: widths taken for corners raise or train on other boxes, and the last class is out "
        "of range. A flip that leaves the boxes teaches wrong places.",
        fires=(
            "boxes of annotation['bbox'] that nothing converts, for a detector of torchvision",
            "num_classes=len(CLASSES), where no class is the background",
            "labels of enumerate(CLASSES), from 0, for an R-CNN or SSD",
            "resize() of the image, and boxes that keep their numbers",
            "hflip() of the image under a condition, and boxes or a mask that stay",
            "boxes of annotation['bbox'] for MeanAveragePrecision() without box_format",
            "box_iou(anchors, boxes) beside (gt - anchors[:, :2]) / anchors[:, 2:]",
            "boxes[:, [0, 2]] = width - boxes[:, [0, 2]]: the edges stay in each other's place",
            "landmarks whose x is mirrored, and whose left and right stay (a warning)",
        ),
        fix="boxes[:, 2:] += boxes[:, :2]; num_classes=len(CLASSES) + 1, labels from 1; flip "
        "boxes, too.",
        sources=("torchvision-models", "vision-1952"),
        needs=(
            "detection",
            "box_iou",
            "boxes",
            "bbox",
            "MeanAveragePrecision",
            "flip",
            "fliplr",
            "hflip",
            "rotate",
            "affine",
            "warpAffine",
            "crop",
            "copy",
        ),
    ),
)
