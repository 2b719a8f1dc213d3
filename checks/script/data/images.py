"""Rules on images: their channels, their masks, and the same normalization everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.data.array_transforms import of_arrays
from doctor.checks.script.data.ranges import ranges
from doctor.checks.script.data.scaled_masks import class_counts, scaled
from doctor.checks.script.naming import is_held_out, is_training, words
from doctor.checks.script.rendering import expanded, formulas, render
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

MASKS = {"mask", "masks", "seg", "segmentation", "label", "labels", "lbl", "target", "gt",
         "annotation", "annotations", "segmap", "labelmap"}  # fmt: skip
SMOOTH = re.compile(r"BILINEAR|BICUBIC|LANCZOS|ANTIALIAS|INTER_(?:LINEAR|CUBIC|AREA)|bilinear|"
                    r"bicubic")  # fmt: skip
NEAREST = re.compile("nearest", re.IGNORECASE)
BINARY = re.compile(r"where\(.+,1,0\)|(?:==|>|!=)[\w.]+\)\.astype\(")
ALSO = re.compile(r"(\w+)(?:\[[^\]]*\])?(?:\.(?:float|unsqueeze|to|type)\([^()]*\))*$")
"""mask[None, None].float(): the mask in another form."""


def _blue_first(reading: Training) -> Iterator[Match]:
    """cv2.imread() beside weights or statistics of ImageNet."""
    imread = [n for n in reading.methods("imread") if reading.calls[n].name == "cv2.imread"]
    if not imread or reading.mentions("cvtcolor", "rgb", "bgr"):
        return
    flipped = any("::-1" in render(reading, v) or "-1]" in render(reading, v)
                  for v, _, scope in reading.expressions
                  if scope in {reading.calls[n].scope for n in imread})  # fmt: skip
    if flipped or not _of_imagenet(reading):
        return
    for n in imread:
        call = reading.calls[n]
        plain = len(call.args) == 1 and not call.keywords
        named = {w for t in call.targets for w in words(t)}
        if plain and not named & MASKS:
            yield Match(call.span, "cv2 reads blue first: the model's weights expect red first")


def _of_imagenet(reading: Training) -> bool:
    return any(
        "0.485" in render(reading, v) for call in reading.named("Normalize")
        for v in call.values
    ) or any(
        c.name.startswith(("torchvision.models.", "timm.create_model"))
        and ("pretrained" in c.keywords or "weights" in c.keywords)
        for c in reading.calls
    )  # fmt: skip


def _not_normalized(reading: Training) -> Iterator[Match]:
    """Normalize() among the transforms of training, and not among those of evaluation."""
    composed = reading.named("Compose")
    named = [(c, c.targets[0]) for c in composed if len(c.targets) == 1 and c.args]
    trained = _for_training(named)
    if len(trained) != 1 or reading.calls_where(lambda name: name.endswith("_normalize")):
        return
    (training,) = trained.values()
    for call, name in named:
        if not is_held_out(name) or call.scope != training.scope:
            continue
        for word in ("Normalize", "ToTensor"):
            if _has(reading, training, word) and not _has(reading, call, word):
                if word == "ToTensor" and _has(reading, call, "ToImage"):
                    continue
                if _is_written(reading, call):
                    yield Match(call.span, f"{name} has no {word}, which images for training get")
                break
    yield from _other_statistics(reading, training, named)


def _for_training(named: list[tuple[Call, str]]) -> dict[str, Call]:
    """Transforms that are called so; of two, the one that is not for evaluation."""
    found = {name: call for call, name in named if is_training(name)}
    if found or len(named) != 2:
        return found
    return {name: call for call, name in named if not is_held_out(name)}


def _other_statistics(
    reading: Training, training: Call, named: list[tuple[Call, str]]
) -> Iterator[Match]:
    """Normalize() with other numbers for evaluation."""
    mine = _statistics(reading, training)
    for call, name in named:
        other = _statistics(reading, call)
        if is_held_out(name) and call.scope == training.scope and mine and other and mine != other:
            yield Match(call.span, f"{name} normalizes with other numbers than training")


def _statistics(reading: Training, call: Call) -> str:
    made = [other for other in reading.inside(call.args[0]) if other.method == "Normalize"]
    texts = [render(reading, v) for c in made for v in c.values]
    return "".join(texts) if texts and re.fullmatch(r"[\d.,()\-]*", "".join(texts)) else ""


def _has(reading: Training, call: Call, word: str) -> bool:
    return any(other.method == word for other in reading.inside(call.args[0]))


def _is_written(reading: Training, call: Call) -> bool:
    """All transforms are calls that stand in the list itself."""
    value = call.args[0]
    return value.kind == "list" and all(
        v.kind == "call"
        and reading.calls[v.call].name.startswith(("torchvision.", "albumentations."))
        for v in value.items
    )


def masks_kept(reading: Training) -> Iterator[Match]:
    """Masks hold numbers of classes: nothing may lie between two of them."""
    if reading.imports_from("diffusers"):  # masks of inpainting are weights
        return
    for call in reading.calls:
        if call.method in ("resize", "Resize", "rotate", "affine", "interpolate", "warpAffine"):
            yield from _resized(reading, call)
        else:
            yield from scaled(reading, call, MASKS)
            yield from _resized_by_object(reading, call)


UNROUNDED = {"input", "logits", "logit", "probs", "prob", "scores", "pred", "soft"}
"""Words of masks that are no classes yet."""


def _subject(reading: Training, call: Call) -> str:
    """What is resized, by its name, where it is named as the result, too."""
    value = call.args[0].name if call.args and call.args[0].kind == "name" else ""
    subject = value or call.receiver
    if call.args and not value and (same := ALSO.match(render(reading, call.args[0]))):
        value = same[1]
    if call.name.startswith(("cv2.", "torchvision.", "torch.")):
        subject = value
    named = set(words(subject))
    return subject if named & MASKS and not named & UNROUNDED else ""


def _known_by_source(reading: Training, call: Call) -> str:
    """y of y = Image.open(self.labels[i]), which becomes numbers of classes."""
    name = call.args[0].name if call.args and call.args[0].kind == "name" else ""
    if not name or not call.name.startswith(("torchvision.", "cv2.")):
        return ""
    source = {*words(re.sub(r"\W+", "_", expanded(reading, call.args[0], call, 2)))}
    known = source & {*MASKS, "lab"} and source & {"open", "imread"}
    return name if known and _holds_classes(reading, call.scope) else ""


def _opened_mask(reading: Training, call: Call) -> str:
    """mask of mask = Image.open(path).resize(size, Image.BILINEAR)."""
    named = set(words(call.target)) & MASKS and not set(words(call.target)) & UNROUNDED
    opened = "Image.open(" in render(reading, Value("call", call=reading.number(call)))
    return call.target if named and opened else ""


def _resized(reading: Training, call: Call) -> Iterator[Match]:
    subject = _subject(reading, call)
    own = [render(reading, v) for v in (*call.args[1:], *call.keywords.values())]
    own += [render(reading, v) for v in call.args[:1] if call.receiver == subject]
    text = ",".join(own)
    if not subject and SMOOTH.search(text):
        subject = _known_by_source(reading, call) or _opened_mask(reading, call)
    if not subject or NEAREST.search(text) or _is_binary(reading, subject, call):
        return
    classes = reading.mentions("cross_entropy", "crossentropy", "diceloss", "dice_loss")
    classes = classes or _is_rounded(reading, subject, call)
    classes = classes or _becomes_whole(reading, subject, call)
    soft = "align_corners" in call.keywords or (
        call.method == "interpolate" and "mode" not in call.keywords
    )
    soft = soft and not _is_rounded(reading, subject, call)
    if SMOOTH.search(text) and classes and not soft:
        yield Match(call.span, f"{subject} is interpolated: classes are made up at borders")
    elif classes and "interpolation" not in call.keywords and _smooth_by_default(call):
        yield Match(
            call.span,
            f"{subject} is interpolated bilinearly by default: classes are made up at borders",
        )


def _holds_classes(reading: Training, scope: int) -> bool:
    """Masks become integers in this function, of more classes than two, without a threshold."""
    texts = [text for text, _, where in reading.cached(formulas) if where == scope]
    whole = any(re.search(r"int64|\.long\(|torch\.long", text) for text in texts)
    halves = any(c.scope == scope and c.operator in (">", ">=") for c in reading.comparisons)
    counts = reading.cached(class_counts)
    several = not counts or max(counts) > 2
    return whole and several and not halves and reading.mentions("cross_entropy", "crossentropy")


PLAIN = {"torch", "numpy", "np", "array", "asarray", "as_tensor", "from_numpy", "tensor", "astype",
         "long", "int64", "dtype", "LongTensor"}  # fmt: skip
WHOLE = {"long", "int64", "LongTensor"}


def _becomes_whole(reading: Training, name: str, call: Call) -> bool:
    """torch.as_tensor(np.array(mask), dtype=torch.long) of a mask of classes, to which nothing
    else is done behind its resize."""
    if not set(words(name)) & MASKS - {"target", "gt"}:
        return False
    later = [a for a in reading.stores if a.scope == call.scope and a.span.order > call.span.order]
    own = [a for a in later if a.target.partition("[")[0] == name]
    kept = all(a.target == name and _parts(reading, a.value) <= {*PLAIN, name} for a in own)
    counts = reading.cached(class_counts)
    several = not counts or max(counts) > 2
    numbers = reading.scope_calls(call.scope) if kept and several else ()
    found = (_parts(reading, Value("call", call=n)) for n in numbers)
    return any(name in p and p & WHOLE and p <= {*PLAIN, name} for p in found)


def _parts(reading: Training, value: Value) -> set[str]:
    return set(re.findall(r"[A-Za-z_]\w*", render(reading, value)))


PALETTE = "PIL resizes an image with a palette by its nearest pixel"


def _resized_by_object(reading: Training, call: Call) -> Iterator[Match]:
    """mask_tf(mask), where mask_tf is Resize(size) or a Compose that begins with one."""
    alone = len(call.args) == 1 and not call.keywords
    subject = (_subject(reading, call) or call.target) if alone else ""
    if not set(words(subject)) & MASKS or not _holds_classes(reading, call.scope):
        return
    made = objects.known_callees(reading, call)
    listed = made[0].first if len(made) == 1 else None
    if listed is not None and made[0].method == "Compose":
        made = reading.calls_of(listed.items[:1])
    for each in made:
        how = each.given("interpolation", 1)
        text = "" if how is None else render(reading, how)
        if each.name != "torchvision.transforms.Resize" or NEAREST.search(text):
            continue
        if how is None or SMOOTH.search(text):
            source = expanded(reading, call.args[0], call, 3)
            palette = "Image.open(" in source and ".convert(" not in source
            message = f"{subject} is interpolated: classes are made up at borders"
            yield Match(call.span, message, undecided=PALETTE if palette else "")


def _is_rounded(reading: Training, subject: str, call: Call) -> bool:
    """mask.round().long(): the numbers of classes are brought back after the resizing."""
    return any(
        each.method in ("round", "long") and each.scope == call.scope and each.receiver == subject
        for each in reading.calls
    )


def _is_binary(reading: Training, subject: str, call: Call) -> bool:
    """np.where(mask == 3, 1, 0): between two classes there is none, and bytes are rounded."""
    found = objects.last_definition(reading, subject, call)
    return bool(found) and all(BINARY.search(render(reading, value)) for value in found)


def _smooth_by_default(call: Call) -> bool:
    functional = call.name.startswith("torchvision.transforms") and call.name.endswith(".resize")
    return (functional and len(call.args) == 2) or (
        call.name == "cv2.resize" and len(call.args) == 2
    )


RULES = (
    Rule(
        code="SCR347",
        slug="image-channels",
        title="Images have the channels and the scale that the weights expect",
        severity="warn",
        find=each_of(_blue_first, _not_normalized, ranges, of_arrays),
        why="OpenCV reads blue, green, red; weights and statistics of ImageNet are for red, green, "
        "blue. Images that are normalized for training only are other data in the evaluation.",
        fires=(
            "cv2.imread() without a conversion beside weights or statistics of ImageNet",
            "Normalize or ToTensor in train_transform, and not in val_transform",
            "other numbers in the Normalize of the evaluation",
            "real images without Normalize beside a generator that ends in tanh",
        ),
        errors=(
            "Normalize() with a mean above 2 behind ToTensor()",
            "Normalize() with the deviations of a known dataset as means, and its means as std",
            "ToImage(), ToDtype(torch.float32) without scale=True, and Normalize() of 0 to 1",
            "Normalize() of 0 to 1 of an image that was read as bytes and made float",
            "img.reshape(3, 224, 224) of an image whose channels are last",
            "a transform of albumentations behind ToTensorV2; cv2.resize(image, (height, width))",
        ),
        fix="cv2.cvtColor(image, cv2.COLOR_BGR2RGB); give both the same Normalize.",
        sources=("torchvision-models",),
        needs=("imread", "Compose", "Image", "ToTensor", "Normalize", "normalize", "resize"),
    ),
    Rule(
        code="SCR348",
        slug="mask-interpolated",
        title="Masks keep the numbers of their classes",
        severity="fail",
        find=masks_kept,
        why="Between class 0 and class 5 an interpolation makes 1 to 4, which are other classes. "
        "to_tensor() divides bytes by 255, and as integers all are 0 then.",
        fires=(
            "a mask that is resized or rotated bilinearly, also by default and by a Resize()",
            "to_tensor(mask).long(); the same through a Compose, with more than two classes",
        ),
        fix="Pass InterpolationMode.NEAREST; torch.from_numpy(np.array(mask)).long() keeps them.",
        sources=("image-segmentation-keras-11",),
        needs=("resize", "Resize", "rotate", "to_tensor", "ToTensor", "interpolate"),
    ),
)
