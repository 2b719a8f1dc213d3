"""Diffusion: which steps are drawn, what is compared, and in which order samples are made."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rendering import (
    expanded,
    formulas,
    lines,
    render,
    statements,
    written_out,
)
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

LOSSES = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "MSELoss", "L1Loss")
SINGLE = re.compile(r"\(?\[?1,?\]?\)?")
COUNTS = re.compile(r"num_train_timesteps|num_timesteps|n_timesteps|timesteps|n_steps|(?:^|\.)T$")


def of_steps(reading: Training) -> Iterator[Match]:
    yield from _one_step(reading)
    yield from _one_too_far(reading)
    yield from _drawn_again(reading)
    yield from _not_cumulated(reading)
    yield from _of_one_step(reading)
    yield from _one_root(reading)
    yield from _upwards(reading)


def flow(reading: Training) -> Iterator[Match]:
    """(1 - t) * a + t * b moves by b - a."""
    mixed = re.compile(r"\(\(\(1-(?P<t>\w+)\)\*(?P<a>\w+)\)\+\((?P=t)\*(?P<b>\w+)\)\)")
    turned = re.compile(r"\(\((?P<t>\w+)\*(?P<b>\w+)\)\+\(\(1-(?P=t)\)\*(?P<a>\w+)\)\)")
    texts = reading.cached(statements)
    for text, _, scope in texts:
        found = mixed.fullmatch(text) or turned.fullmatch(text)
        if found is None or "lam" in found["t"]:
            continue
        drawn = f"({found['a']}-{found['b']})"
        held = {a.target for a in reading.assignments if a.scope == scope}
        noisy = found["a"] in held or found["b"] in held
        for call in reading.named(*LOSSES) if noisy else ():
            if call.scope != scope or len(call.args) < 2:
                continue
            written = {expanded(reading, call.args[1], call, depth) for depth in (0, 1)}
            if drawn in written and _names_noise(reading, found, call):
                message = f"the path goes from {found['a']} to {found['b']}: "
                message += "its velocity is the second minus the first"
                yield Match(call.span, message, "warn")


def _names_noise(reading: Training, found: re.Match[str], call: Call) -> bool:
    """One end of the path is drawn from a normal distribution."""
    return any(
        re.search(r"randn(?:_like)?\(", expanded(reading, Value("name", name=found[key]), call, 1))
        for key in ("a", "b")
    )


def _draws(reading: Training) -> Iterator[tuple[Call, str]]:
    """randint() calls that draw steps, with the names that they are given."""
    wanted = reading.mentions("cumprod", "add_noise", "betas", "noise_scheduler", "alpha_bar")
    for n, call in reading.numbered(reading.methods("randint") if wanted else ()):
        given = {
            a.target
            for a in reading.assignments
            if a.scope == call.scope and n in (a.value.call, *a.value.calls)
        }
        for name in given:
            if re.fullmatch(r"t|ts|tt|step|steps|timesteps?|time_?steps?|k", name):
                yield call, name


def _size(call: Call) -> Value | None:
    return call.keywords.get("size") or next((v for v in call.args if v.kind == "list"), None)


def _one_step(reading: Training) -> Iterator[Match]:
    """randint(0, T, (1,)) for a whole batch."""
    loaders = reading.named("DataLoader")
    single = any(
        (v := evaluate.argument(reading, c, "batch_size", 1)) is None or v.literal == 1
        for c in loaders
    )
    for call, name in _draws(reading) if not single else ():
        size = _size(call)
        if size is None or not SINGLE.fullmatch(render(reading, size)) or not call.loops:
            continue
        spread = any(
            other.method in ("expand", "repeat", "full", "full_like", "expand_as")
            for other in reading.calls_in(call.scope)
        )
        batch = any(_reads_batches(reading, loop) for loop in call.loops)
        if batch and not spread:
            message = f"{name} is one step for the whole batch: each sample has its own"
            yield Match(call.span, message, "warn")


def _reads_batches(reading: Training, number: int) -> bool:
    """A for loop over something else than numbers: one image may be all that is trained on."""
    iterable = reading.loops[number].iterable
    made = iterable.calls if iterable is not None else ()
    return iterable is not None and not any(reading.calls[n].name == "range" for n in made)


def _one_too_far(reading: Training) -> Iterator[Match]:
    """randint() leaves out its upper end: T + 1 draws a step that does not exist."""
    for call, name in _draws(reading):
        ends = [v for v in call.args if v.kind != "list"][:2]
        high = call.keywords.get("high") or (ends[-1] if ends else None)
        text = render(reading, high) if high is not None else ""
        found = re.fullmatch(r"\(([\w.]+)\+1\)", text)
        low = call.keywords.get("low") or (ends[0] if len(ends) == 2 else None)
        from_zero = low is None or low.literal == 0
        if found and (
            (COUNTS.search(found[1]) and from_zero) or _is_length(reading, found[1], name)
        ):
            yield Match(call.span, f"{name} may be {found[1]}, one behind the last step")


def _is_length(reading: Training, count: str, step: str) -> bool:
    """The levels of noise that the step indexes are as many as linspace(first, last, count)."""
    made = [(a.target, render(reading, a.value)) for a in reading.assignments]
    levels = {target for target, text in made if "cumprod(" in text and "cat(" not in text}
    betas = re.compile(rf"linspace\(.*,(?:steps=)?{re.escape(count)}[,)]")
    indexed = re.compile(rf"(?P<name>[\w.]+)\[{step}\]")
    read = {m["name"] for text, _, _ in reading.cached(formulas) for m in indexed.finditer(text)}
    whole = any(betas.search(text) for _, text in made)
    return whole and bool(read & levels) and not reading.mentions("pad", "append", "insert")


def _drawn_again(reading: Training) -> Iterator[Match]:
    """The target of the loss is drawn anew: it is not the noise that was added."""
    if not reading.mentions("cumprod", "add_noise", "alpha_bar", "abar", "sqrt_alphas"):
        return
    for call in reading.named(*LOSSES):
        for value in call.args[:2]:
            made = reading.call_of(value)
            if made is not None and made.method in ("randn_like", "randn"):
                yield Match(
                    call.span, "the target is drawn anew: it is not the noise that was added"
                )


def _not_cumulated(reading: Training) -> Iterator[Match]:
    """sqrt(alpha) and sqrt(1 - alpha) of single steps, in a file that multiplies none of them."""
    if reading.mentions("cumprod", "add_noise", "cumsum", "alpha_bar", "alphas_bar", "abar"):
        return
    for each in reading.assignments:
        value = render(reading, each.value)
        if not re.fullmatch(r"(?:\w+\.)*alphas?", each.target):
            continue
        if not re.fullmatch(r"\(1-(?:\w+\.)*betas?\)", value):
            continue
        name = re.escape(each.target)
        for made in reading.assignments:
            text = render(reading, made.value)
            root = re.search(r"randn|noise|eps", " ".join(made.value.names)) and "sqrt" in text
            level = rf"{name}\[\w+\]"
            levels = {
                a.target for a in reading.assignments if re.match(level, render(reading, a.value))
            }
            used = re.search(level, text) or levels & set(made.value.names)
            if root and used and "1-" in text:
                yield Match(
                    made.span, f"{each.target} is of one step: their product up to t is used"
                )
                return


TAKEN = r"(?:\[[^\[\]]*\])*(?:\.view\([^()]*\))?"
"""The level of a step is taken, and given the axes of the images."""


def _of_one_step(reading: Training) -> Iterator[Match]:
    """sqrt(alpha) * x + sqrt(1 - alpha) * noise, beside the products that are meant."""
    if not reading.mentions("cumprod"):
        return
    steps = [line.target for line in reading.cached(lines)
             if re.fullmatch(r"\(1-(?:\w+\.)*betas?\)", line.text)]  # fmt: skip
    if not steps:
        return
    level = rf"(?:{'|'.join(map(re.escape, steps))}){TAKEN}"
    mixed = re.compile(
        rf"\((?:torch\.sqrt\({level}\)|{level}\.sqrt\(\)|{level}\*\*0\.5)\*[\w.]+\)\+"
        rf"\((?:torch\.sqrt\(\(1-{level}\)\)|\(1-{level}\)\.sqrt\(\))\*[\w.]+\)"
    )
    for text, span, scope in reading.cached(statements):
        if mixed.search(written_out(reading, scope, text)):
            yield Match(
                span,
                f"{steps[0]} is of one step: their product up to t is used",
                fix="Index the result of cumprod().",
            )


LEVEL = rf"[\w.]+{TAKEN}"
ONE_ROOT = re.compile(
    rf"\((?:torch\.sqrt\((?P<a>{LEVEL})\)|(?P<b>{LEVEL})\.sqrt\(\))\*[\w.]+\)\+"
    rf"\(\(1-(?:(?P=a)|(?P=b))\)\*(?P<noise>[\w.]+)"
)


def _one_root(reading: Training) -> Iterator[Match]:
    """sqrt(a) * x + (1 - a) * noise: the share of the noise has no root."""
    for text, span, scope in reading.cached(statements):
        found = ONE_ROOT.search(text) or ONE_ROOT.search(written_out(reading, scope, text))
        if found and re.search(r"noise|eps|randn", found["noise"]):
            yield Match(
                span,
                "the share of the noise is sqrt(1 - a): its root is missing",
                fix="(1 - a).sqrt() * noise",
            )


def _upwards(reading: Training) -> Iterator[Match]:
    """Samples are made from the last step to the first."""
    if not reading.mentions("cumprod", "alpha_bar", "betas", "alphas_cumprod"):
        return
    for number, loop in enumerate(reading.loops):
        iterable = loop.iterable
        made = reading.calls[iterable.call] if iterable is not None and iterable.call >= 0 else None
        if made is None or made.name != "range" or len(made.args) not in (1, 2):
            continue
        function = reading.function(loop.scope)
        named = re.search("sampl|generat|denois|reverse", function.name.casefold())
        start = made.args[0].literal if len(made.args) == 2 else 0
        inside = [reading.calls[n] for n in reading.by_loop.get(number, ())]
        noised = any(c.method in ("randn_like", "randn") for c in inside)
        text = " ".join(render(reading, a.value) for a in reading.assignments if number in a.loops)
        turned = re.search(rf"-1?-?\(?{loop.target}\b", text) or "flip" in text
        subtracts = re.search(r"\(\w+-\(.*(?:beta|1-|eps|noise)", text)
        indexed = f"[{loop.target}]" in text
        if named and start in (0, 1) and noised and subtracts and indexed and not turned:
            message = f"{loop.target} goes up: samples are made from the last step to the first"
            yield Match(made.span, message)
