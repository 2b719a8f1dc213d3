"""The range and the order of pixels: statistics of 0..255, tanh, and rows that are no channels."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.data.pixel_scale import never_divided
from doctor.checks.script.objects import operand, receiver_of
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, formulas, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

SCALES = ("ToTensor", "ToDtype", "to_tensor")


def ranges(reading: Training) -> Iterator[Match]:
    yield from _statistics(reading)
    yield from _exchanged(reading)
    yield from _not_divided(reading)
    yield from never_divided(reading)
    yield from _divided_again(reading)
    yield from _rows_as_channels(reading)
    yield from _real_and_made(reading)


def _statistics(reading: Training) -> Iterator[Match]:
    """Normalize([123.675, ...], ...) behind ToTensor(), which divides by 255."""
    for n, call in reading.numbered(reading.methods("Normalize")):
        mean = call.given("mean", 0)
        numbers = [v.literal for v in mean.items] if mean is not None else []
        large = numbers and all(isinstance(v, int | float) and v > 2 for v in numbers)
        around = (
            [
                c
                for m in reading.methods("Compose")
                if n in (c := reading.calls[m]).args[0].calls
                if c.args
            ]
            if large
            else []
        )
        scaled = any(
            (made := reading.calls[k]).method in SCALES and k < n and not _keeps_range(made)
            for c in around
            for k in c.args[0].calls
        )
        if scaled and call.name.startswith("torchvision."):
            yield Match(
                call.span, "statistics of 0 to 255, and ToTensor() has divided by 255", "fail"
            )


KNOWN = (
    ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    ((0.481, 0.458, 0.408), (0.269, 0.261, 0.276)),
    ((0.491, 0.482, 0.447), (0.247, 0.244, 0.262)),
    ((0.507, 0.487, 0.441), (0.267, 0.256, 0.276)),
    ((0.131,), (0.308,)),
    ((0.286,), (0.353,)),
)
"""Mean and deviation of ImageNet, CLIP, CIFAR-10, CIFAR-100, MNIST and Fashion-MNIST."""


def _exchanged(reading: Training) -> Iterator[Match]:
    """Normalize(mean=(0.229, ...), std=(0.485, ...))."""
    for call in reading.named("Normalize", "normalize"):
        given = [call.given(name, n + (call.method == "normalize"))
                 for n, name in enumerate(("mean", "std"))]  # fmt: skip
        values = [_numbers(reading, value, call) for value in given]
        if any(_near(values[0], std) and _near(values[1], mean) for mean, std in KNOWN):
            yield Match(
                call.span,
                "mean and std of the dataset are exchanged",
                "fail",
                fix="Exchange mean and std.",
            )


def _numbers(reading: Training, value: Value | None, call: Call) -> tuple[float, ...]:
    if value is None:
        return ()
    options = [value] if value.kind == "list" else evaluate.options(reading, value, call)
    if len(options) != 1 or options[0].kind != "list":
        return ()
    literals = [each.literal for each in options[0].items]
    return tuple(float(n) for n in literals if isinstance(n, int | float))


def _near(numbers: tuple[float, ...], known: tuple[float, ...]) -> bool:
    """The same to two digits: published figures differ in the third."""
    return len(numbers) == len(known) and all(
        abs(one - other) < 0.006 for one, other in zip(numbers, known, strict=True)
    )


BYTES = ("ToImage", "PILToTensor", "pil_to_tensor", "read_image", "decode_image", "ToTensorV2")
"""What makes a tensor of an image, and keeps 0 to 255."""
FLOATS = ("float32", "float", "float16", "bfloat16", "half")
MOVES = re.compile(
    r"Resize|Crop|Flip|Rotation|Affine|Pad|RandAugment|TrivialAugmentWide|AutoAugment|ColorJitter"
    r"|Grayscale|Perspective|Erasing|ToPureTensor|GaussianBlur|ToImage|PILToTensor|RGB"
)
"""Transforms that keep the range."""


def _not_divided(reading: Training) -> Iterator[Match]:
    """ToDtype(torch.float32) keeps 0 to 255, and Normalize() has statistics of 0 to 1."""
    for call in reading.named("Compose", "Sequential"):
        given = call.args[0].items if call.args and call.args[0].kind == "list" else call.args
        made = [m for part in given for m in [reading.call_of(part)] if m is not None]
        if not made or not all(m.name.startswith(TRANSFORMS) for m in made):
            continue
        last = next((n for n, m in enumerate(made) if m.method == "Normalize"), -1)
        cast = next((m for m in made[: max(last, 0)] if _keeps_range(m)), None)
        kept = all(m is cast or MOVES.search(m.method) for m in made[: max(last, 0)])
        bytes_ = any(m.method in BYTES for m in made)
        if (
            cast is not None
            and kept
            and bytes_
            and not _divides(reading)
            and _is_of_fractions(reading, made[last])
        ):
            yield Match(
                cast.span,
                "ToDtype() keeps 0 to 255 without scale=True, and Normalize() has statistics of "
                "0 to 1",
                "fail",
                fix="ToDtype(torch.float32, scale=True).",
            )


def _divides(reading: Training) -> bool:
    """Something else of the file may bring bytes between 0 and 1."""
    scaled = [call.keywords.get("scale") for call in reading.named("ToDtype", "to_dtype")]
    values = flatten([value for value, _, _ in reading.expressions])
    return (
        any(v is not None and v.literal is not False for v in scaled)
        or any(v.literal == 255 for v in values)
        or bool(
            {*SCALES, "convert_image_dtype", "ConvertImageDtype"}
            & reading.script.identifiers - {"ToDtype"}
        )
    )


TRANSFORMS = "torchvision.transforms."


def _keeps_range(call: Call) -> bool:
    """ToDtype(torch.float32), and no scale."""
    dtype = call.given("dtype", 0)
    scale = call.given("scale", 1)
    plain = call.method == "ToDtype" and not call.unpacked
    plain &= scale is None or scale.literal is False
    return plain and dtype is not None and dtype.name.rpartition(".")[2] in FLOATS


def _is_of_fractions(reading: Training, call: Call) -> bool:
    """Means that pixels between 0 and 1 have, also by a name of the file."""
    mean = call.given("mean", 0)
    for value in evaluate.options(reading, mean, call):
        numbers = [v.literal for v in value.items] if value.kind == "list" else []
        if numbers and all(isinstance(v, float) and 0 < v < 1 for v in numbers):
            return True
    return False


def _divided_again(reading: Training) -> Iterator[Match]:
    """ToTensor(), and / 255 in the same transforms."""
    for call in reading.named("Compose"):
        parts = call.args[0].items if call.args and call.args[0].kind == "list" else ()
        texts = [render(reading, part) for part in parts]
        scaled = [place for place, text in enumerate(texts) if "ToTensor()" in text]
        for text in texts[scaled[0] + 1 :] if scaled else ():
            if re.search(r"Lambda\(.*/255(?:\.0)?\)", text):
                yield Match(call.span, AGAIN)
    for each in reading.assignments:
        for part in flatten([each.value]) if "255" in render(reading, each.value) else ():
            over, by = part.items if part.name == "Div" and len(part.items) == 2 else (None, None)
            if over is None or by is None or by.literal != 255:
                continue
            over = _uncast(reading, over)
            given = [a for a in reading.assigned_to(over.name, each.scope)
                     if a.span.order < each.span.order][-1:]  # fmt: skip
            made = reading.calls_of([a.value for a in given if not a.arms] or [over])
            if all(_is_scaled(reading, call) for call in made) and (
                made or _is_of_loader(reading, over.name, each)
            ):
                yield Match(each.span, AGAIN, fix="Divide once: remove / 255.")


AGAIN = "ToTensor() has divided by 255: the images are divided again"


def _uncast(reading: Training, value: Value) -> Value:
    """x of x.float() and x.to(device)."""
    call = reading.call_of(value)
    while call is not None and call.method in ("float", "to", "cuda"):
        value = receiver_of(call)
        call = reading.call_of(value)
    return value


def _is_of_loader(reading: Training, name: str, at: Assignment) -> bool:
    """What a loop over DataLoader(a dataset of torchvision with ToTensor()) binds, the labels
    apart."""
    loops = [reading.loops[n] for n in at.loops if name in reading.loops[n].targets[:-1]]
    value = loops[0].iterable if loops else None
    call = reading.call_of(value)
    while call is not None and call.method in ("enumerate", "tqdm") and call.args:
        value = call.args[0]
        call = reading.call_of(value)
    if value is None or len(reading.assigned_to(name, at.scope)) > 1:
        return False
    found = evaluate.options_at(reading, value, at.scope, at.position, at.arms)
    made = [call for call in reading.calls_of(found) if call.method == "DataLoader"]
    return len(made) == len(found) == 1 and _holds_fractions(reading, made[0])


def _holds_fractions(reading: Training, loader: Call) -> bool:
    """Its dataset is one of torchvision, whose transform ends between 0 and 1."""
    for data in reading.calls_of(evaluate.options(reading, loader.given("dataset", 0), loader)):
        given = evaluate.options(reading, data.keywords.get("transform"), data)
        known = data.name.startswith("torchvision.datasets.")
        return known and any(_makes_fractions(reading, t) for t in reading.calls_of(given))
    return False


def _makes_fractions(reading: Training, made: Call) -> bool:
    """ToTensor(), or a Compose of torchvision with it."""
    names = [s.name for s in (_made(reading, made) if made.method == "Compose" else [made])]
    known = all(name.startswith(TRANSFORMS) and "Lambda" not in name for name in names)
    return known and any(name.endswith(".ToTensor") for name in names)


def _is_scaled(reading: Training, call: Call) -> bool:
    """What a ToTensor() of this file returned of an image of bytes, also at the end of a Compose
    of torchvision."""
    made = objects.known_callees(reading, call)
    image = expanded(reading, call.args[0], call, 3) if call.args else ""
    bytes_ = OF_BYTES.search(image) and not re.search(r"float|/\(?\d\d", image)
    return len(made) == 1 and bytes_ is not None and _makes_fractions(reading, made[0])


OF_BYTES = re.compile(r"Image\.open\(|cv2\.imread\(|uint8|\.convert\(")
"""What ToTensor() divides: it leaves the values of other arrays."""


def _rows_as_channels(reading: Training) -> Iterator[Match]:
    """img.reshape(3, 224, 224) of an image whose channels are last."""
    for n, call in reading.numbered(reading.methods("reshape", "view")):
        given = call.args[0].items if len(call.args) == 1 else call.args
        if len(given) != 3 or given[0].literal not in (3, "3"):
            continue
        source = operand(call)
        named = source.name if source is not None else ""
        inner = reading.call_of(source)
        if inner is not None and inner.name in ("torch.from_numpy", "torch.tensor") and inner.args:
            named = inner.args[0].name
        last = [
            a
            for a in reading.assignments
            if named and a.target == named and a.scope == call.scope and a.position <= n
        ]
        texts = [render(reading, a.value) for a in last]
        read = any(
            re.search(r"cv2\.(?:imread|resize|cvtColor)\(|Image\.open\(|imread\(", t) for t in texts
        )
        moved = any(
            re.search(r"transpose|permute|moveaxis|ToTensor|to_tensor|\.T\b", t) for t in texts
        )
        if read and not moved:
            message = "the channels are last: reshape() makes rows of pixels into channels"
            yield Match(call.span, f"{message}, permute(2, 0, 1) moves them", "fail")


def _real_and_made(reading: Training) -> Iterator[Match]:
    """A generator that ends in tanh, and real images from 0 to 1."""
    tanh = [
        c
        for n in reading.methods("Tanh")
        if (c := reading.calls[n]).name == "torch.nn.Tanh"
        and re.search(
            r"gen|decoder|netg|^g$",
            reading.function(c.scope).owner.casefold() or "".join(c.targets).casefold(),
        )
    ]
    if not tanh or not reading.mentions("discriminator", "critic", "netd", "opt_d", "od", "loss_d"):
        return
    texts = [text for text, _, _ in reading.cached(formulas)]
    if any(
        re.search(r"\*2\)-1|2\*\w+\)-1|-0\.5\)/0\.5|/127\.5|\.mul\(2|normalize", t, re.I)
        for t in texts
    ):
        return
    for call in reading.calls:
        plain = call.keywords.get("transform")
        alone = reading.call_of(plain)
        if alone is not None and call.name.startswith("torchvision.datasets."):
            made = [alone] if alone.method == "ToTensor" else []
        elif call.method == "Compose":
            made = _made(reading, call)
        else:
            continue
        known = all(c.name.startswith("torchvision.transforms.") for c in made) and made
        names = {c.method for c in made}
        if known and "ToTensor" in names and not names & {"Normalize", "Lambda"}:
            message = "real images are from 0 to 1, and the generator ends in tanh: from -1 to 1"
            yield Match(call.span, message)
            return


def _made(reading: Training, call: Call) -> list[Call]:
    value = call.first
    if value is None or value.kind != "list" or any(v.kind != "call" for v in value.items):
        return []
    return [reading.calls[v.call] for v in value.items]
