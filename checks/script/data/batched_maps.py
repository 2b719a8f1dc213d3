"""Rules on what is mapped, sampled and numbered before a training: batches, rates, table sizes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import formulas, lines, render, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

TEXT = r"{row}\['\w+'\]"
SPEECH = re.compile(r"wav2vec2|hubert|wavlm|whisper|unispeech", re.IGNORECASE)
MIRRORED = {"MNIST", "SVHN", "EMNIST", "USPS", "QMNIST", "GTSRB"}
WITH_VOID = {"VOCSegmentation": "VOC", "Cityscapes": "Cityscapes"}


ONE_ROW = "batched=True passes lists of rows, and the function takes one row"
OMIT = "Omit batched, or loop over the lists."


def prepared(reading: Training) -> Iterator[Match]:
    yield from _one_row(reading)
    yield from _rate(reading)
    yield from _mirrored(reading)
    yield from _void(reading)
    yield from _table(reading)


def _one_row(reading: Training) -> Iterator[Match]:
    """map(lambda row: row["a"] + " " + row["b"], batched=True): lists, not texts."""
    for call in reading.named("map"):
        batched = call.keywords.get("batched")
        value = call.given("function", 0)
        if batched is None or batched.literal is not True or value is None:
            continue
        body = value.items[-1] if value.kind == "other" and value.items else value
        if body.kind == "dict" and any(is_text(reading, each) for each in body.items):
            yield Match(call.span, ONE_ROW, fix=OMIT)
            return
        for function in objects.functions_of(reading, value, call):
            parameters = reading.function(function).parameters
            if parameters and (
                _of_a_text(reading, function, parameters[0].name)
                or _returns_text(reading, function, parameters[0].name)
            ):
                yield Match(call.span, ONE_ROW, fix=OMIT)
                return


def _of_a_text(reading: Training, function: int, row: str) -> bool:
    """Something that only a text can do is done with a column."""
    column = TEXT.format(row=re.escape(row))
    texts = texts_in(reading, function)
    joined = re.compile(rf"\({column}\+'|'\+{column}|{column}\+'[^']*'\+")
    methods = {"strip", "lower", "split", "replace", "upper", "splitlines", "startswith"}
    called = any(
        call.method in methods and re.fullmatch(rf"{re.escape(row)}\[\w+\]", call.receiver)
        for call in reading.calls_in(function)
    )
    return called or any(joined.search(t) for t in texts)


def _returns_text(reading: Training, function: int, row: str) -> bool:
    """A column that it returns, or sets in the rows that it gets, is one text."""
    columns = [v for each in reading.returns(function) if each.kind == "dict" for v in each.items]
    columns += [
        each.value
        for each in reading.assignments
        if each.scope == function and each.target.startswith(f"{row}[") and not each.loops
    ]
    end = len(reading.calls)
    found = [evaluate.options_at(reading, v, function, end, ()) for v in columns]
    return any(options and all(is_text(reading, each) for each in options) for options in found)


def is_text(reading: Training, value: Value) -> bool:
    """One text whatever its parts are: an f-string, format(), join(), or a sum with a text."""
    if value.kind == "literal":
        return isinstance(value.literal, str)
    if value.kind == "call":
        call = reading.calls[value.call]
        literal = call.base is not None and isinstance(call.base.literal, str)
        return (call.method == "format" and call.name.count(".") < 2) or (
            call.method == "join" and literal
        )
    parts = [is_text(reading, item) for item in value.items] if value.kind == "other" else []
    if value.name in ("Add", "Mod"):
        return any(parts[:1] if value.name == "Mod" else parts)
    return value.name == "" and len(parts) > 1 and any(parts)


def _rate(reading: Training) -> Iterator[Match]:
    """torchaudio.load() at the rate of the file, for a network of 16 kHz."""
    if reading.mentions("resample", "sox", "orig_freq", "cast_column", "assert_rate"):
        return
    names = [str(v.literal) for v, _, _ in reading.expressions if isinstance(v.literal, str)]
    named = any(SPEECH.search(t) for t in names) or any(
        SPEECH.search(c.name) for c in reading.calls
    )
    if not named:
        return
    for call in reading.named("load"):
        if call.name not in ("torchaudio.load", "soundfile.read"):
            continue
        rate = _second(reading, call)
        used = rate not in ("", "_") and any(
            rate in v.all_names for v, _, scope in reading.expressions if scope == call.scope
        )
        tested = any(
            rate and b.test is not None and re.search(rf"\b{re.escape(rate)}\b", b.test.text)
            for b in reading.branches
        )
        if rate and not used and not tested:
            message = (
                f"{rate} is not read: the network takes 16 kHz, the file may have another rate"
            )
            fix = "waveform = torchaudio.functional.resample(waveform, rate, 16000)."
            yield Match(call.span, message, "warn", fix=fix)
            return


def _second(reading: Training, call: Call) -> str:
    number = reading.number(call)
    made = [
        a.target
        for a in reading.assignments
        if a.scope == call.scope and number in (a.value.call, *a.value.calls)
        and a.value.kind == "item" and a.value.items[-1].literal == 1
    ]  # fmt: skip
    return made[0] if made else ""


def _mirrored(reading: Training) -> Iterator[Match]:
    """RandomHorizontalFlip() of digits and signs."""
    named = [c for c in reading.calls if c.name.startswith("torchvision.datasets.")]
    kinds = {c.method for c in named}
    if not kinds or not kinds <= MIRRORED:
        return
    for call in reading.named("RandomHorizontalFlip", "RandomVerticalFlip"):
        message = f"mirrored images of {sorted(kinds)[0]} are other signs, or none"
        yield Match(call.span, message, "warn", fix="Omit the flip.")
        return


def _void(reading: Training) -> Iterator[Match]:
    """CrossEntropyLoss() of masks in which 255 is no class."""
    sets = [c for c in reading.calls if c.method in WITH_VOID and c.name.startswith("torchvision.")]
    if not sets or reading.mentions("ignore_index", "void", "ignore_label"):
        return
    texts = [text for text, _, _ in reading.cached(formulas)]
    tests = [c for c in reading.comparisons if 255 in (c.left.literal, c.right.literal)]
    if tests or any("255" in t for t in texts):
        return
    for call in reading.named("CrossEntropyLoss", "cross_entropy"):
        if call.name.startswith("torch.nn"):
            message = f"masks of {WITH_VOID[sets[0].method]} hold 255, which is no class"
            yield Match(call.span, message, fix="ignore_index=255.")
            return


def _table(reading: Training) -> Iterator[Match]:
    """Embedding(len(vocab)) of words that are numbered from 1."""
    for line in reading.cached(lines):
        found = re.fullmatch(r"DictComp<enumerate\([^<>]*\),\w+,\(\w+\+(?P<n>[12])\)>", line.text)
        found = found or re.fullmatch(
            r"DictComp<enumerate\([^<>]*,(?:start=)?(?P<n>[12])\),\w+,\w+>", line.text
        )
        if found is None:
            continue
        name = line.target.removeprefix("self.")
        grown = any(a.target.startswith(f"{line.target}[") for a in reading.stores) or any(
            c.receiver == line.target and c.method in ("update", "setdefault")
            for c in reading.calls
        )
        for call in reading.named("Embedding") if not grown else ():
            size = render(reading, call.args[0]) if call.args else ""
            if size in (f"len({line.target})", f"len({name})"):
                message = (
                    f"{name} begins at {found['n']}: its last number is beyond a table "
                    f"of {size} rows"
                )
                fix = f"Embedding(len({name}) + {found['n']}), or count from 0."
                yield Match(call.span, message, fix=fix)


RULES = (
    Rule(
        code="SCR413",
        slug="prepared-data",
        title="Rows, rates and numbers are what the network takes",
        severity="fail",
        find=prepared,
        why="A column of a batch is a list, masks of VOC hold 255 for pixels without a class, a "
        "table of n rows has no row n, and a speech model hears 44.1 kHz as slow speech.",
        fires=(
            "map(function of one row, batched=True), also one that returns one text",
            "CrossEntropyLoss() without ignore_index for VOCSegmentation or Cityscapes",
            "Embedding(len(vocab)) of a vocabulary that begins at 1",
            "torchaudio.load() for a network of 16 kHz, whose rate nothing reads (a warning)",
            "RandomHorizontalFlip() of MNIST, SVHN or GTSRB (a warning)",
        ),
        fix="Omit batched, or loop over the lists; ignore_index=255; Embedding(len(vocab) + 1); "
        "torchaudio.functional.resample(wave, rate, 16000).",
        sources=("datasets-image-process", "torchvision-masks"),
        needs=(
            "map",
            "load",
            "RandomHorizontalFlip",
            "RandomVerticalFlip",
            "VOCSegmentation",
            "Cityscapes",
            "Embedding",
        ),
    ),
)
