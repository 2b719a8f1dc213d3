"""Losses that are written out for critics, samplers and weights: signs and terms that are lost."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.loss.log_probs import codes
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import Line, expanded, lines, render
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Value

SCORE = (
    r"(?:torch\.mean\((?P<{0}>[\w.]+\([^()]*(?:\([^()]*\))*[^()]*\)|\w+)\)"
    r"|(?P<{0}x>[\w.]+\([^()]*(?:\([^()]*\))*[^()]*\)|\w+)\.mean\(\))"
)
WASSERSTEIN = re.compile(rf"\({SCORE.format('a')}-{SCORE.format('b')}\)")
REAL = re.compile(
    r"(?:^|[_(.])(?:real|x|img|imgs|images|data|true)(?:$|[_).,\d])|real", re.IGNORECASE
)
FAKE = re.compile(r"fake|gen|detach\(\)|synth|recon", re.IGNORECASE)
MIXED = re.compile(
    r"\(\(?(?P<lam>\w+)\*(?P<loss>[\w.]+)\((?P<out>[\w.]+(?:\([\w.]+\))?),(?P<y>[\w.]+)\)\)\+\(\(1-(?P=lam)\)\*(?P=loss)\((?P=out),(?P=y)\)\)\)"
)


def written(reading: Training) -> Iterator[Match]:
    yield from _sign_of_critic(reading)
    yield from _last_of_weights(reading)
    yield from _one_label(reading)
    yield from _angles(reading)
    yield from _noise_at_end(reading)
    yield from codes(reading)


def _sign_of_critic(reading: Training) -> Iterator[Match]:
    """critic(real).mean() - critic(fake).mean() is minimized."""
    if len(reading.optimizers) < 2:
        return
    for number in reading.backwards:
        call = reading.calls[number]
        found = objects.last_definition(reading, call.receiver, call) if call.receiver else []
        text = render(reading, found[0]) if len(found) == 1 else ""
        terms = WASSERSTEIN.match(re.sub(r"^\(+", "(", text))
        if terms is None or "-=" in text:
            continue
        first = expanded(reading, _name(terms["a"] or terms["ax"]), call, 1)
        second = expanded(reading, _name(terms["b"] or terms["bx"]), call, 1)
        named = [f"{terms['a'] or terms['ax']} {first}", f"{terms['b'] or terms['bx']} {second}"]
        if FAKE.search(named[1]) and REAL.search(named[0]) and not FAKE.search(named[0]):
            if _steps_up(reading) or not _same_network(terms):
                continue
            yield Match(
                call.span, "the critic rates real samples down: fake minus real is minimized"
            )


def _name(text: str) -> Value:
    return Value("name", name=text) if text.isidentifier() else Value("literal", literal=text)


def _same_network(terms: re.Match[str]) -> bool:
    """Both scores come from one network, or from names that say no network."""
    owners = {
        (t or "").partition("(")[0] for t in (terms["a"] or terms["ax"], terms["b"] or terms["bx"])
    }
    called = [t for t in (terms["a"] or terms["ax"], terms["b"] or terms["bx"]) if t and "(" in t]
    return len(owners) == 1 if len(called) == 2 else not called


def _steps_up(reading: Training) -> bool:
    """maximize=True, or backward(minus_one)."""
    turned = any("maximize" in reading.calls[n].keywords for n in reading.optimizers)
    given = any(reading.calls[n].args for n in reading.backwards)
    rates = any("-1" in line.text and "lr" in line.target for line in reading.cached(lines))
    return turned or given or rates


def _last_of_weights(reading: Training) -> Iterator[Match]:
    """for p in model.parameters(): penalty = p.norm(): the last one is all that stays."""
    losses = {reading.loss_name(reading.calls[n]) for n in reading.backwards} - {""}
    terms = {n for a in reading.assignments if a.target in losses for n in a.value.names}
    for line in reading.cached(lines):
        if line.augmented or not line.loops or line.target not in terms - losses:
            continue
        loop = reading.loops[line.loops[-1]]
        over = render(reading, loop.iterable) if loop.iterable is not None else ""
        item = set(loop.targets) & set(re.findall(r"\w+", line.text))
        if (
            re.search(r"\.(?:named_)?parameters\(\)", over)
            and item
            and not re.search(rf"\b{re.escape(line.target)}\b", line.text)
        ):
            before = any(
                a.target == line.target and a.scope == line.scope and a.loops == line.loops[:-1]
                for a in reading.cached(lines)
            )
            if before:
                yield Match(
                    line.span, f"{line.target} is that of the last parameter: += adds them up"
                )


def _one_label(reading: Training) -> Iterator[Match]:
    """lam * loss(out, y) + (1 - lam) * loss(out, y) of mixed images."""
    for line in reading.cached(lines):
        if MIXED.fullmatch(line.text):
            yield Match(
                line.span,
                "both terms have the labels of the first images: the second are those of the "
                "others",
            )


def _angles(reading: Training) -> Iterator[Match]:
    """acos() of cosines that rounding brings to 1: its gradient is infinite there."""
    for call in reading.named("acos", "arccos", "acos_"):
        if not call.name.startswith("torch.") and not call.receiver:
            continue
        value = (
            call.args[0] if call.name.startswith("torch.") and call.args else objects.operand(call)
        )
        text = expanded(reading, value, call, 3) if value is not None else ""
        own = [a.text for a in reading.cached(lines) if value is not None and a.target == value.name
               and a.scope == call.scope]  # fmt: skip
        whole = " ".join([text, *own])
        cosine = re.search(
            r"linear\(|normalize\(|cosine_similarity\(|@|matmul\(|mm\(|\.dot\(", whole
        )
        if cosine and not re.search(r"clamp|clip|\*0\.9|1-1e|eps", whole):
            yield Match(
                call.span,
                "acos() has an infinite gradient at 1 and -1: the loss becomes NaN",
                "warn",
            )


def _noise_at_end(reading: Training) -> Iterator[Match]:
    """Each step of a sampler adds noise, the last one, too."""
    if not {"randn_like", "randn"} & reading.by_method.keys() or not reading.mentions(
        "beta", "alpha", "ddpm", "diffusion"
    ):
        return
    for line in reading.cached(lines):
        if not line.loops or line.arms or not _is_noisy(line):
            continue
        loop = reading.loops[line.loops[-1]]
        over = render(reading, loop.iterable) if loop.iterable is not None else ""
        to_zero = re.fullmatch(r"(?:tqdm\()?reversed\(range\((?:0,)?[\w.]+\)\)\)?", over)
        if to_zero is None or _is_last_left_out(reading, line):
            continue
        yield Match(
            line.span, "the last step of the sampler adds noise to the image: none at t = 0", "warn"
        )
        return


def _is_noisy(line: Line) -> bool:
    again = re.search(rf"\b{re.escape(line.target)}\b", line.text)
    drawn = re.search(
        r"(?:sigma|sqrt|beta|var|std)[\w.\[\]()]*\*torch\.randn_like\(|torch\.randn(?:_like)?\([^()]*\)\*",
        line.text,
    )
    return bool(again and drawn)


def _is_last_left_out(reading: Training, line: Line) -> bool:
    own = reading.loops[line.loops[-1]].targets
    values = [a.value for a in reading.cached(lines) if a.scope == line.scope]
    if any(part.kind == "choice" and set(own) & set(part.names) for part in flatten(values)):
        return True  # noise if t else 0
    tests = [b.test.text for b in reading.branches if b.test is not None]
    texts = [a.text for a in reading.cached(lines) if a.scope == line.scope]
    word = re.compile(rf"\b(?:{'|'.join(map(re.escape, own))})\b\s*(?:[><]=?|==|!=)")
    alone = {*own, *(f"not {name}" for name in own)}
    asked = any(word.search(t) for t in (*tests, *texts)) or not alone.isdisjoint(tests)
    return asked or any("mask" in t for t in texts) or _is_variance_zero(reading)


def _is_variance_zero(reading: Training) -> bool:
    """F.pad(alpha_bar[:-1], (1, 0), value=1): the posterior variance is 0 at t = 0."""
    return any(
        (value := call.keywords.get("value")) is not None and value.literal in (1, 1.0)
        for call in reading.named("pad")
    )
