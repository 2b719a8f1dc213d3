"""A rule on terms and arguments whose sign or place is exchanged."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.kinds.clashes import clashes
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import expanded, lines_of, render, statements, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

CRITICS = re.compile(r"critic|disc|^(?:self\.)?[CD]$|q_?net|qf\d?|^(?:self\.)?q\d?$", re.IGNORECASE)
ENTROPY = re.compile(
    r"\+\([\w.]+\*(?:\w+\.entropy\(\)|(?P<name>\w*entrop(?:y|ies)))(?:\.mean\(\))?\)"
)
FAKE = re.compile(r"fake|gen|synth", re.IGNORECASE)
REAL = re.compile(r"real|true|^x$|data", re.IGNORECASE)


def exchanged(reading: Training) -> Iterator[Match]:
    for text, span, scope in reading.cached(statements):
        minimized = re.search(r"^\(-|^\(\w*(?:loss|pg|policy)", text)
        if minimized and _adds_entropy(reading, text, scope):
            yield Match(span, "the entropy is minimized: its term has a minus in a loss")
        found = re.fullmatch(r"\(([\w.]+)\(([\w.]+)\)\.mean\(\)-\1\(([\w.]+)(?:\.detach\(\))?\)"
                             r"\.mean\(\)\)", text)  # fmt: skip
        critic = (
            found and CRITICS.search(found[1]) and REAL.search(found[2]) and FAKE.search(found[3])
        )
        if critic and _is_minimized(reading, span):
            yield Match(
                span, "the critic is trained to score fakes higher: fake minus real is its loss"
            )
    yield from _actors(reading)
    yield from _triplets(reading)
    yield from _mixed(reading)


def _adds_entropy(reading: Training, text: str, scope: int) -> bool:
    """The entropy is a summand of the whole, and of no part that has a sign of its own."""
    names = {found["name"] for found in ENTROPY.finditer(text)} - {None}
    held = [line.text for name in names for line in lines_of(reading, scope, name)]
    if any("neg" in name for name in names) or any(re.search(r"-.*entrop", t) for t in held):
        return False
    before = (text[: found.start()] for found in ENTROPY.finditer(text))
    return any(each.count("(") - each.count(")") == 1 for each in before)


def _is_minimized(reading: Training, span: object) -> bool:
    """The value is a loss that backward() is called on."""
    names = [a.target for a in reading.assignments if a.span == span]
    return any(reading.calls[n].receiver in names for n in reading.backwards)


def _actors(reading: Training) -> Iterator[Match]:
    """critic(state, actor(state)).mean() as the loss of the actor."""
    for number in reading.backwards:
        call = reading.calls[number]
        if "actor" not in words(call.receiver) and "policy" not in words(call.receiver):
            continue
        found = objects.last_definition(reading, call.receiver, call)
        text = render(reading, found[0]) if len(found) == 1 else ""
        held = re.fullmatch(r"([\w.]+)\(.*(?:actor|policy|pi|mu)\w*\(.*\)\.mean\(\)", text)
        if held and CRITICS.search(held[1]):
            yield Match(
                call.span, "the value of the policy is minimized: a minus is missing before it"
            )


def _triplets(reading: Training) -> Iterator[Match]:
    """TripletMarginLoss takes the anchor, the positive and the negative."""
    named = reading.methods("TripletMarginLoss", "triplet_margin_loss")
    for number, call in enumerate(reading.calls if named else ()):
        values = [evaluate.argument(reading, call, k, p) for p, k in enumerate(ROLES)]
        if any(value is None for value in values):
            continue
        made = objects.callee(reading, call)
        triplet = call.method == "triplet_margin_loss" or (
            made and all(m is not None and m.method == "TripletMarginLoss" for m in made)
        )
        second, third = (_role(reading, value, call) for value in values[1:] if value is not None)
        if triplet and (second, third) == ("neg", "pos") and number:
            yield Match(call.span, "the positive comes second, the negative third")


ROLES = ("anchor", "positive", "negative")


def _role(reading: Training, value: Value, call: Call) -> str:
    """pos or neg, by the names that it is made of; "" where they say neither or both."""
    for text in (render(reading, value), expanded(reading, value, call, 1)):
        found = set(re.findall(r"(?<![a-z])(neg|pos)(?:atives?|itives?)?s?(?![a-z])", text.lower()))
        if found:
            return found.pop() if len(found) == 1 else ""
    return ""


def _mixed(reading: Training) -> Iterator[Match]:
    """Mixed inputs with the labels of one of them."""
    for text, span, scope in reading.cached(statements):
        mixed = re.fullmatch(r"\(\((\w+)\*(\w+)\)\+\(\(1-\1\)\*\2\[(\w+)\]\)\)", text)
        if not mixed:
            continue
        others = [t for t, s, _ in reading.cached(statements) if s != span]
        others += texts_in(reading, scope)
        shuffled = rf"(?!{re.escape(mixed[2])}\b)\b\w+\[{mixed[3]}\]"
        owner = reading.function(scope).name
        if not owner and not any(re.search(shuffled, t) for t in others) and any(
            n in reading.by_method for n in ("cross_entropy", "CrossEntropyLoss")
        ):  # fmt: skip
            yield Match(span, "inputs are mixed, and labels are those of one: the loss takes both")


def of_processes(reading: Training) -> Iterator[Match]:
    """DistributedSampler(num_replicas=device_count(), rank=local_rank)."""
    yield from reading.cached(clashes).get("SCR381", ())
    for call in reading.named("DistributedSampler"):
        values = [
            evaluate.argument(reading, call, k, p) for k, p in (("num_replicas", 1), ("rank", 2))
        ]
        texts = [expanded(reading, v, call, 2) if v is not None else "" for v in values]
        if "device_count()" in texts[0] or re.search(r"LOCAL_RANK|^local_?rank$|^local$", texts[1]):
            yield Match(call.span, "nodes read the same data: it counts processes of one node")


RULES = (
    Rule(
        code="SCR380",
        slug="terms-exchanged",
        title="Terms of a loss have their signs, and arguments their places",
        severity="fail",
        find=exchanged,
        why="Optimizers minimize: an entropy that is to stay high, a value and the score of real "
        "samples have a minus. A triplet with its last two exchanged pushes equals apart.",
        fires=(
            "policy_loss + c * entropy; critic(real).mean() - critic(fake).mean() as a loss",
            "critic(state, actor(state)).mean() as the loss of an actor",
            "TripletMarginLoss(anchor, negative, positive)",
            "mixed inputs, and a loss of the labels of one of them",
        ),
        fix="loss - c * entropy; fake - real; -critic(...).mean(); (anchor, positive, negative); "
        "lam * loss(out, y) + (1 - lam) * loss(out, y[perm]).",
        sources=("torch-ppo",),
        needs=("entropy", "entropies", "mean", "TripletMarginLoss", "triplet_margin_loss",
               "randperm"),
    ),
    Rule(
        code="SCR381",
        slug="sampler-of-one-node",
        title="A DistributedSampler counts the processes of all nodes",
        severity="warn",
        find=of_processes,
        why="With the local rank and the GPUs of one node, all nodes read the same parts: a second "
        "node repeats the first.",
        fires=("DistributedSampler(num_replicas=torch.cuda.device_count(), rank=local_rank)",),
        fix="Omit both: the process group knows them.",
        sources=("torch-distributed-sampler",),
        needs=("DistributedSampler",),
    ),
)  # fmt: skip
