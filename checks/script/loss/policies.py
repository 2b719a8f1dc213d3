"""Formulas of agents: advantages that go on behind an end, samples without a gradient."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from doctor.checks.script import objects
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import containing, lines_of, render, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

ENDS = re.compile(
    r"done|terminal|terminated|not_?done|non_?terminal|(?:^|[^a-z])(?:nd|nt|d)(?:$|[^a-z])"
    r"|mask",
    re.IGNORECASE,
)
LAMBDAS = re.compile(r"lam(?:bda)?\b|lmbda|gae_lambda|tau", re.IGNORECASE)
STOPS = re.compile(r"^\(?1(?:\.0*)?-|~|logical_not|\bnot\b|==0|mask")
"""What turns a flag for the end into a factor of 0."""
NORMAL = ("Normal", "MultivariateNormal", "Independent")
CORRECTED = re.compile(
    r"1-\(*[\w.()]*?(?:\.pow\(2\)|\*\*2|\.square\(\))|1-\(?(\w+)\*\1\b|square\(|log1p|softplus|TanhTransform|log_?abs_?det|"
    r"tanh_corr|correct",
    re.IGNORECASE,
)


def advantages(reading: Training) -> Iterator[Match]:
    """gae = delta + gamma * lam * gae, where delta knows the ends of episodes and gae does not."""
    for each in reading.stores:
        text = render(reading, each.value)
        base, _, index = each.target.partition("[")
        name = re.escape(base) + (r"\[\(\w+\+1\)\]" if index else "")
        recursive = re.search(rf"\*{name}(?:\)|$|\b)|\({name}\*", text)
        if not recursive or not each.loops or not LAMBDAS.search(text) or ENDS.search(text):
            continue
        if _stops(reading, each, base):
            continue
        names = {n for n in each.value.names if n.isidentifier()}
        own = [
            a
            for a in reading.assignments
            if a.scope == each.scope and a.loops == each.loops and a.target in names
        ]
        knows = any(
            ENDS.search(render(reading, a.value))
            for a in own
            if "delta" in a.target or "td" in words(a.target)
        ) or any(other is not each for other in _added(reading, each).ending)
        left = "" if knows else _stored_ends(reading)
        if left or (knows and not _reset(reading, each)):
            reason = f"{left} is read nowhere" if left else "only the delta stops"
            yield Match(each.span, f"{each.target} goes on behind the end of an episode: {reason}")


def _stops(reading: Training, each: Assignment, base: str) -> bool:
    """A factor of what is carried may end it, whatever its name: 1 - x, ~x, one of the step."""
    bound = {name for loop in each.loops for name in reading.loops[loop].targets}
    bound |= {a.target for a in reading.assignments
              if a.scope == each.scope and set(a.loops) & set(each.loops)}  # fmt: skip
    for factor in _carrying(reading, each.value, base):
        text = render(reading, factor)
        of_step = bool(bound & {*factor.all_names})
        if of_step or (STOPS.search(text) and not LAMBDAS.search(text)):
            return True
    return False


def _carrying(reading: Training, value: Value, base: str) -> Iterator[Value]:
    """Whatever is multiplied with a name in an expression, and the conditions that it stands in."""
    held = [v for v in _parts(reading, value) if base in _roots(reading, v)]
    if len(held) != 1:
        return
    if value.name == "Mult" or value.kind == "choice" or _chooses(reading, value):
        yield from (v for v in _parts(reading, value) if v is not held[0])
    yield from _carrying(reading, held[0], base)


def _parts(reading: Training, value: Value) -> tuple[Value, ...]:
    return reading.calls[value.call].args if value.kind == "call" else value.items


def _chooses(reading: Training, value: Value) -> bool:
    return value.kind == "call" and reading.calls[value.call].method in ("where", "masked_fill")


def _roots(reading: Training, value: Value) -> set[str]:
    """The names of an expression, without their parts."""
    return {*re.findall(r"[A-Za-z_]\w*", render(reading, value))}


@dataclass(slots=True)
class Added:
    """gae = gae + delta behind gae = gae * gamma * lam: those of one name in one loop."""

    numbers: set[int] = field(default_factory=set)
    ending: list[Assignment] = field(default_factory=list)
    """Those that know the ends of episodes."""


def _added(reading: Training, each: Assignment) -> Added:
    return reading.cached(_added_anywhere).get((each.scope, each.target, each.loops), Added())


def _added_anywhere(reading: Training) -> dict[tuple[int, str, tuple[int, ...]], Added]:
    table: dict[tuple[int, str, tuple[int, ...]], Added] = {}
    for a in reading.assignments:
        text = render(reading, a.value) if a.loops else ""
        if a.loops and (a.operator == "Add" or text.lstrip("(").startswith(f"{a.target}+")):
            own = table.setdefault((a.scope, a.target, a.loops), Added())
            own.numbers.add(id(a))
            if ENDS.search(text):
                own.ending.append(a)
    return table


def _stored_ends(reading: Training) -> str:
    """A name that flags for the end are stored in, and nothing reads, of environments that are
    reset once, and go on behind an end by themselves."""
    resets = reading.named("reset")
    if not resets or any(call.loops or call.arms for call in resets):
        return ""
    tests = [b.test for b in reading.branches if b.test is not None]
    values = (*tests, *(value for value, _, _ in reading.expressions))
    read = {n.partition("[")[0].partition(".")[0] for v in values for n in v.all_names}
    stored = [(a.target.partition("[")[0], a.value) for a in reading.stores
              if a.loops and "[" in a.target]  # fmt: skip
    return next((name for name, value in stored if name.isidentifier() and name not in read
                 and re.search(r"\b(?:done|term|trunc)", render(reading, value))), "")  # fmt: skip


def _reset(reading: Training, each: Assignment) -> bool:
    """Under a test for an end it is set to 0, or scaled by a flag elsewhere in the loop."""
    added = _added(reading, each).numbers
    others = [
        a
        for a in reading.assignments
        if a.scope == each.scope
        and a.target == each.target
        and a is not each
        and id(a) not in added
        and set(a.loops) & set(each.loops)
    ]
    tested = any(ENDS.search(test.text) for test in reading.tests(each))
    factors = [
        a
        for a in reading.assignments
        if a.scope == each.scope
        and a.target in each.value.names
        and id(a) not in added
        and a.loops == each.loops
        and ENDS.search(render(reading, a.value))
        and "delta" not in a.target
        and "td" not in words(a.target)
    ]
    return bool(others) or tested or bool(factors)


def squashed(reading: Training) -> Iterator[Match]:
    """tanh(u) is the action, and the log-probability is that of u."""
    for call in reading.named("log_prob"):
        value = call.args[0] if len(call.args) == 1 else None
        if value is None or value.kind != "name" or not call.receiver or not call.scope:
            continue
        own = [(a, render(reading, a.value)) for a in reading.assignments if a.scope == call.scope]
        name = re.escape(value.name)
        bound = [
            a
            for a, text in own
            if re.search(
                rf"(?:torch\.|F\.)?tanh\({name}\)|"
                rf"\b{name}\.tanh\(\)",
                text,
            )
        ]
        drawn = any(a.target == value.name and "rsample(" in text for a, text in own)
        made = objects.last_definition(reading, call.receiver, call)
        kinds = {reading.calls[v.call].method for v in made if v.kind == "call"}
        texts = [text for _, text in own]
        texts += texts_in(reading, call.scope)
        if (
            bound
            and drawn
            and kinds
            and kinds <= {*NORMAL}
            and not any(CORRECTED.search(t) for t in texts)
        ):
            yield Match(
                call.span,
                f"the action is tanh({value.name}): its log-probability lacks "
                f"log(1 - tanh({value.name})**2)",
            )


def samples_cut(reading: Training) -> Iterator[Match]:
    """z = Normal(mu, std).sample(): no gradient reaches the encoder from what z becomes."""
    if "rsample" in reading.by_method:
        return
    for call in reading.named("sample"):
        function = reading.function(call.scope)
        if (
            function.owner not in reading.modules
            or not call.targets
            or not _is_normal(reading, call)
        ):
            continue
        fed = [
            c
            for c in reading.calls_in(call.scope)
            if c.name.startswith("self.") and c.args and c.args[0].name in call.targets
        ]
        divergent = reading.mentions("kl", "kld", "elbo")
        if fed and divergent and reading.function(call.scope).name == "forward":
            yield Match(call.span, "sample() has no gradient: the encoder learns nothing of it")


def _is_normal(reading: Training, call: Call) -> bool:
    if call.receiver_call >= 0:
        return reading.calls[call.receiver_call].method in NORMAL
    made = objects.last_definition(reading, call.receiver, call) if call.receiver else []
    return bool(made) and all(
        v.kind == "call" and reading.calls[v.call].method in NORMAL for v in made
    )


NEAR = r"(?:\w*(?:ap|pos|positive|pos_dist|same)\w*)"
FAR = r"(?:\w*(?:an|neg|negative|neg_dist|diff)\w*)"
TRIPLET = re.compile(
    r"(?:relu|clamp|clamp_min|clip|max|maximum)\([^a-z]*\(\((?P<one>\w+)-(?P<two>\w+)\)\+[\w.]+\)|"
    r"\(\((?P<first>\w+)-(?P<second>\w+)\)\+[\w.]+\)\.(?:clamp|relu|clip)"
)
PAIR = re.compile(
    r"\(\((?P<y>\w+)\*(?P<far>[^*]+?(?:relu|clamp)\([^)]*-[^)]*\).*?)\)\+"
    r"\(\(1-(?P=y)\)\*(?P<near>\w+(?:\.pow\(2\)|\*\*2)|\(\w+\*\*2\))\)\)"
)
DISTANCE = re.compile(r"(?:^|_)(?:d|dist|distance|dp|dn)(?:_|$)|dist")


def margins(reading: Training) -> Iterator[Match]:
    """relu(d_an - d_ap + margin), and y * relu(margin - d)**2 + (1 - y) * d**2 of equal pairs."""
    for text, span, scope in containing(reading, TRIPLET, PAIR):
        found = TRIPLET.search(text)
        one, two = (
            (found["one"] or found["first"], found["two"] or found["second"]) if found else ("", "")
        )
        near, far = re.compile(rf"(?:^|_){NEAR}$"), re.compile(rf"(?:^|_){FAR}$")
        distances = found and all(_is_distance(reading, name, scope) for name in (one, two))
        if distances and _is(far, one, "n") and _is(near, two, "p"):
            yield Match(span, f"{one} - {two} + margin pulls the negative closer: signs exchanged")
        pair = PAIR.search(text)
        if pair and _of_equal(reading, pair["y"], scope):
            yield Match(span, f"{pair['y']} is 1 for equal pairs, and they are pushed apart")


TAKEN = re.compile(
    r"(?P<of>\w+)(?:\.masked_fill\([^()]*\))?\.(?:min|max|amin|amax|topk)\([^()]*\)"
    r"(?:\.values|\[0\])?"
)


def _is_distance(reading: Training, name: str, scope: int) -> bool:
    """By its name, or one of a matrix of distances: torch.cdist(x, y).masked_fill(...).min(1)."""
    if DISTANCE.search(name):
        return "sim" not in name
    held = lines_of(reading, scope, name)
    taken = TAKEN.fullmatch(held[0].text) if len(held) == 1 else None
    made = lines_of(reading, scope, taken["of"]) if taken else []
    return len(made) == 1 and re.fullmatch(r"torch\.cdist\([^()]*\)", made[0].text) is not None


def _is(pattern: re.Pattern[str], name: str, last: str) -> bool:
    short = re.fullmatch(rf"(?:d|dist)_?a?{last}", name)
    return bool(short) or pattern.search(name) is not None


def _of_equal(reading: Training, name: str, scope: int) -> bool:
    """The label is made of a name such as same, equal or positive."""
    texts = [
        render(reading, a.value)
        for a in reading.assignments
        if a.target == name and a.scope == scope
    ]
    equal = re.compile(r"same|equal|positive|similar\b|==|is_pos")
    return bool(equal.search(name)) or any(equal.search(t) for t in texts)


def formulas(reading: Training) -> Iterator[Match]:
    yield from squashed(reading)
    yield from samples_cut(reading)
    yield from margins(reading)
