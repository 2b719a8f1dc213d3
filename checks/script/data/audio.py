"""Rules on audio: logarithms of silence, and the lengths that CTC is given."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.rendering import expanded, formulas, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

POWERS = (
    "MelSpectrogram", "Spectrogram", "melspectrogram", "stft", "spectrogram", "mel_spectrogram",
    "rfft", "periodogram", "welch",
)  # fmt: skip
"""What is exactly 0 where the signal is."""
SAFE = re.compile(r"\+|clamp|clip|maximum|max\(|eps|log1p|where\(|1e-")
LOGS = ("log", "log10", "log2")
BLANKS = ("_", "-", "", "<blank>", "blank", "<pad>", "pad", "[blank]", "<blk>", "~", "|", "<b>")


def resampled_from(reading: Training) -> Iterator[Match]:
    """Resample(16000, rate) of a rate that torchaudio.load() returned."""
    loads = [call for call in reading.named("load")
             if call.name == "torchaudio.load" and len(call.targets) == 2]  # fmt: skip
    waves = {call.targets[0] for call in loads}
    rates = {call.targets[1] for call in loads}
    for call in reading.named("Resample", "resample") if rates else ():
        first = 1 if call.method == "resample" else 0
        source, wanted = call.given("orig_freq", first), call.given("new_freq", first + 1)
        if source is None or wanted is None or not call.name.startswith("torchaudio."):
            continue
        fixed = source.kind == "literal" or source.name.rpartition(".")[2].isupper()
        if fixed and wanted.name in rates and _of_files(reading, call, waves):
            yield Match(call.span, f"it resamples to {wanted.name}, the rate that the file has")


def of_silence(reading: Training) -> Iterator[Match]:
    """log(mel(wave)) of frames that are 0."""
    for call in reading.named(*LOGS):
        value = objects.operand(call)
        if value is None or call.name.startswith(("math.", "logging", "self.logger")):
            continue
        if call.name.startswith(("torch.", "numpy.")) is False and call.args:
            continue
        text = expanded(reading, value, call, 3)
        if SAFE.search(text) or not _is_power(reading, value, call):
            continue
        if not reading.mentions("log_offset", "nan_to_num", "isinf", "isfinite", "dither"):
            yield Match(call.span, f"{call.method} of a spectrum without a floor: silence is -inf")


def _of_files(reading: Training, call: Call, waves: set[str]) -> bool:
    """What it resamples is what was read: a result may well go back to the rate of the file."""
    uses = [call]
    if call.method == "Resample":
        number = reading.number(call)
        uses = [c for c in reading.calls if c.receiver_call == number or c.name in call.targets]
    given = [use.first.name if use.first is not None else "" for use in uses]
    own = all(
        a.value.kind == "item" or reading.call_of(a.value) in (*uses, *reading.named("load"))
        for name in given
        for a in reading.assigned_to(name, call.scope)
    )
    return bool(given) and set(given) <= waves and own


def _is_power(reading: Training, value: Value, call: Call, depth: int = 4) -> bool:
    """A spectrum of the file: what one of these functions, or an object of a class, returned."""
    if not depth:
        return False
    if value.kind == "name":
        found = objects.last_definition(reading, value.name, call)
        return bool(found) and all(_is_power(reading, v, call, depth - 1) for v in found)
    if value.kind == "other" and value.name in ("Pow", "Mult", "MatMult") and value.items:
        return _is_power(reading, value.items[0], call, depth - 1)
    if value.kind != "call":
        return False
    inner = reading.calls[value.call]
    if inner.method in POWERS and not inner.method[:1].isupper():
        return reading.target_function(inner) is None and inner.receiver != "self"
    made = objects.callee(reading, inner) if inner.args else []
    known = [m for m in made if m is not None]
    if known and len(known) == len(made):
        return all(m.method in POWERS or _ends_in_power(reading, m) for m in known)
    if inner.method in ("abs", "pow", "square", "absolute", "squeeze", "power", "to", "float"):
        part = objects.operand(inner) or (inner.first)
        return part is not None and _is_power(reading, part, inner, depth - 1)
    return False


def _ends_in_power(reading: Training, made: Call) -> bool:
    last = made.args[-1] if made.args and made.method == "Sequential" else Value("other")
    return last.kind == "call" and reading.calls[last.call].method in POWERS


def ctc(reading: Training) -> Iterator[Match]:
    losses = [
        c for c in reading.calls if len(c.args) + len(c.keywords) >= 4 and _is_ctc(reading, c)
    ]
    for call in losses:
        yield from _lengths(reading, call)
        yield from _axis_of_classes(reading, call)
        yield from _blank(reading, call)


def _is_ctc(reading: Training, call: Call) -> bool:
    if call.name == "torch.nn.functional.ctc_loss":
        return True
    made = objects.callee(reading, call)
    return bool(made) and all(m is not None and m.name == "torch.nn.CTCLoss" for m in made)


def _axis_of_classes(reading: Training, call: Call) -> Iterator[Match]:
    """x.permute(1, 0, 2).log_softmax(dim=1): the input is (time, batch, classes)."""
    value = call.args[0] if call.args else call.keywords.get("log_probs")
    found = objects.last_definition(reading, value.name, call) if value is not None else []
    made = reading.call_of(found[0] if len(found) == 1 else value)
    if made is None or made.method != "log_softmax":
        return
    axis = made.given("dim", int(made.name.startswith("torch.")))
    if axis is not None and axis.literal in (0, 1) and axis.literal is not False:
        message = f"log_softmax over axis {axis.literal} of (time, batch, classes)"
        yield Match(call.span, message, "warn", fix="x.log_softmax(-1)")


def _lengths(reading: Training, call: Call) -> Iterator[Match]:
    """The lengths of the input, though layers of the network shorten time."""
    value = call.keywords.get("input_lengths") or (call.args[2] if len(call.args) > 2 else None)
    if value is None:
        return
    text = expanded(reading, value, call, 2)
    raw = re.fullmatch(
        r"(?:torch\.clamp\()?(\w+)(?:,max=[^()]*(?:\([^()]*\))?\)|"
        r"\.(?:clamp|to|cuda|cpu|int|long)\([^()]*(?:\([^()]*\))?\))*",
        text,
    )
    raw = raw or re.match(r"torch\.full\(.*,(\w+)\.(?:size\(-?[12]\)|shape\[-?[12]\])[,)]", text)
    bound = raw and any(raw[1] in reading.loops[n].targets for n in call.loops)
    layer = _shortens(reading)
    if bound and layer is not None and not _recounted(reading):
        message = f"{text} counts frames before {layer.method} shortens them: "
        yield Match(call.span, message + "padding is read as speech")


def _shortens(reading: Training) -> Call | None:
    """A layer of a module of this file that makes time shorter, along all axes."""
    for made in reading.named("Conv1d", "Conv2d", "MaxPool1d", "MaxPool2d", "AvgPool1d"):
        if reading.function(made.scope).owner not in reading.modules:
            continue
        pool = made.method in ("MaxPool1d", "MaxPool2d", "AvgPool1d")
        stride = made.keywords.get("stride") or (made.args[3] if len(made.args) > 3 else None)
        if pool:
            stride = made.given("stride", 0)
        if stride is None:
            continue
        numbers = [v.literal for v in (stride.items or (stride,))]
        if numbers and all(isinstance(v, int) and v > 1 for v in numbers):
            return made
    return None


def _recounted(reading: Training) -> bool:
    """Lengths are divided or computed anew anywhere in the file."""
    texts = [text for text, _, _ in reading.cached(formulas)]
    return any(
        re.search(r"(?:len|frames|size|num_frames|steps)\w*(?:\[[^\]]*\])?\)?(?://|/|>>|\*)", t)
        or (
            re.search(r"//\(?\d|floor|\bget_\w*len|output_len|conv_len|subsample|out_len", t)
            and "len" in t
        )
        for t in texts
    )


MOVED = re.compile(r"(?P<table>[\w.]+)(?:\[[^\[\]]*\]|\.get\([^()]*\))\+1")


def _moved(reading: Training) -> set[str]:
    """Tables whose numbers are moved by one: table[c] + 1."""
    texts = [text for text, _, _ in reading.cached(formulas)]
    return {found["table"] for text in texts for found in MOVED.finditer(text)}


def _blank(reading: Training, call: Call) -> Iterator[Match]:
    """The blank is number 0, and so is the first letter."""
    made = objects.known_callees(reading, call) or [call]
    blank = next((m.keywords["blank"] for m in made if "blank" in m.keywords), None)
    numbers = evaluate.literals(reading, blank, call) if blank is not None else {0}
    if any(m.args for m in made if m is not call) or numbers != {0}:
        return
    tables = re.compile(r"DictComp<enumerate\((\w+)\),(\w+),(\w+)>")
    for each in reading.assignments:
        found = tables.fullmatch(render(reading, each.value))
        held = reading.assigned.get((0, found[1]), ()) if found else ()
        if not found or len(held) != 1:
            continue
        value = held[0].value
        while value.name == "Add" and value.items:
            value = value.items[0]
        if value.name.startswith("string.ascii_l"):
            value = Value("literal", literal=string.ascii_lowercase)
        letters = str(value.literal) if isinstance(value.literal, str) else ""
        listed = value.items[0].literal if value.items else None
        first = letters[:1] if letters else listed if isinstance(listed, str) else "_"
        if each.target in reading.cached(_moved):
            return
        if first.casefold() not in BLANKS and first.isalnum():
            yield Match(call.span, f"{first!r} has number 0 in {each.target}, and so has the blank")
            return


RULES = (
    Rule(
        code="SCR389",
        slug="log-of-silence",
        title="Logarithms of spectra have a floor",
        severity="warn",
        find=of_silence,
        why="Padding and digital silence have a power of exactly 0, whose logarithm is -inf: its "
        "mean, its normalization and every gradient of it are NaN.",
        fires=("torch.log or np.log10 of a spectrogram without an epsilon or a clamp",),
        fix="torch.log(spec + 1e-6), spec.clamp_min(1e-6).log(), or AmplitudeToDB().",
        sources=("ps-P8",),
        limits="that the floor is below the signal.",
        needs=LOGS,
    ),
    Rule(
        code="SCR432",
        slug="resampled-from-another-rate",
        title="Audio is resampled from the rate of its file",
        severity="fail",
        find=resampled_from,
        why="Resample(orig_freq, new_freq) from a fixed rate to that of the file stretches each "
        "file by another factor: pitch and length change, and no two files have the same rate.",
        fires=("Resample(16000, rate), where rate is what torchaudio.load() returned",),
        fix="torchaudio.functional.resample(wave, rate, 16000)",
        sources=("torchaudio-resampling",),
        needs=("Resample", "resample"),
    ),
    Rule(
        code="SCR390",
        slug="ctc-lengths",
        title="CTC gets the lengths of its own input, and a blank that is no letter",
        severity="fail",
        find=ctc,
        why="CTC aligns the labels with as many frames as it is told. Lengths before a strided "
        "layer call padding valid; a letter with the number of the blank is never written.",
        fires=(
            "input_lengths of the loader, beside convolutions or pooling with a stride",
            "CTCLoss() with blank 0, and {letter: number} of enumerate() from 0",
        ),
        fix="Divide the lengths by the strides, as the layers do; count letters from 1.",
        sources=("torch-ctc",),
        needs=("CTCLoss", "ctc_loss"),
    ),
)
