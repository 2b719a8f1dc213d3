"""A rule on losses that compare embeddings of two views."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.lineage import PARAMETERS
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.loss.neighbours import own_neighbours
from doctor.checks.script.loss.similarity_targets import targets
from doctor.checks.script.loss.unit_length import any_length
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, formulas, formulas_in, render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value

ITSELF = re.compile(
    r"\((\w+)@\1\.(?:T\b|t\(\)|transpose\()|torch\.(?:mm|matmul)\((\w+),\2\.(?:T\b|t\(\)|transpose)"
)
MASKS = (
    "eye", "fill_diagonal", "masked_fill", "diag", "diagonal", "mask", "triu", "tril", "off_diag",
)  # fmt: skip
TWO_VIEWS = ("simclr", "contrast", "info_nce", "infonce", "byol", "moco", "simsiam", "barlow",
             "vicreg", "nt_xent", "ntxent", "views", "view1", "view_1")  # fmt: skip
AUGMENTS = re.compile(r"(?:^|[._])(?:aug\w*|transforms?|tfm?s?|trans|t|train_transform|view\w*)$")
COSINES = ("cosine_similarity", "CosineSimilarity")


def compared(reading: Training) -> Iterator[Match]:
    yield from _one_view_twice(reading)
    yield from _without_offset(reading)
    yield from targets(reading)
    yield from own_neighbours(reading)
    yield from any_length(reading)
    yield from _both_branches(reading)
    if not reading.mentions("cross", "cosine", "similar"):
        return
    for number, function in enumerate(reading.script.functions):
        texts = formulas_in(reading, number)
        crossed = [t for t, _ in texts if "cross_entropy(" in t or "CrossEntropyLoss" in t]
        own = "".join(t for t, _ in texts)
        own += " ".join(call.name for call in reading.calls_in(number))
        hidden = any(mask in own for mask in MASKS) or "e9" in own or "inf" in own
        for text, span in texts:
            found = ITSELF.search(text)
            if found and crossed and not hidden and function.name:
                yield Match(span, "each sample is compared with itself: the diagonal is not masked")
                break
        yield from _same_term_twice(texts)
    yield from _along_batch(reading)
    yield from _gathered_both(reading)


def _one_view_twice(reading: Training) -> Iterator[Match]:
    """[augment(image)] * 2: the transform is drawn once, and both views are equal."""
    if not reading.mentions(*TWO_VIEWS):
        return
    message = "the transform is drawn once: both views are the same tensor"
    for value, span, _ in reading.expressions:
        for part in flatten([value]):
            repeated = part.name == "Mult" and len(part.items) == 2 and part.items[0].kind == "list"
            once = part.items[0].items if repeated else ()
            if len(once) == 1 and _is_augmented(reading, once[0]) and part.items[1].literal:
                yield Match(span, message)
    for one, other in itertools.pairwise(reading.assignments):
        same = one.span == other.span and one.value == other.value
        if same and one.target != other.target and _is_augmented(reading, one.value):
            yield Match(one.span, message)


def _is_augmented(reading: Training, value: Value) -> bool:
    """A call of what is called an augmentation, of one argument."""
    call = reading.call_of(value)
    return call is not None and len(call.args) == 1 and AUGMENTS.search(call.name) is not None


def _same_term_twice(texts: list[tuple[str, Span]]) -> Iterator[Match]:
    """cross_entropy(logits, labels) + cross_entropy(logits, labels)."""
    for text, span in texts:
        found = re.search(
            r"\(((?:\w+\.)*(?:cross_entropy|\w*loss\w*|criterion|ce)\([^()]*\))\+\1\)", text
        )
        if found:
            yield Match(
                span, "both terms of the loss are the same: one needs the transposed logits"
            )


def _both_branches(reading: Training) -> Iterator[Match]:
    """SimSiam and BYOL: -cosine(p, z) with gradients through z, which collapses."""
    if not reading.methods(*COSINES, "normalize") or reading.mentions(
        "detach", "no_grad", "negatives", "margin", "stop_grad"
    ):
        return
    for backward in reading.named("backward"):
        found = objects.last_definition(reading, backward.receiver, backward)
        text = render(reading, found[0]) if len(found) == 1 else ""
        pairs = re.findall(r"(\w+)\((\w+),(\w+)\)", text)
        rest = re.findall(r"(\w+)\(", re.sub(r"\w+\(\w+,\w+\)", "", text))
        if {*rest} - {"mean", "sum"}:
            continue  # another term may keep the outputs apart
        if len(pairs) != 2 or pairs[0][0] != pairs[1][0]:
            continue
        targets = [pair[2] for pair in pairs]
        negative = _is_negative_cosine(reading, pairs[0][0]) or _is_cosine(reading, text, backward)
        if negative and all(_through_trained(reading, name, backward) for name in targets):
            yield Match(
                backward.span,
                f"{targets[0]} carries gradients: without detach() all outputs become equal",
            )


def _along_batch(reading: Training) -> Iterator[Match]:
    """normalize(z, dim=0) of embeddings whose products are compared by cross-entropy."""
    for call in reading.named("normalize"):
        axis = call.keywords.get("dim") or (call.args[2] if len(call.args) > 2 else None)
        if call.name != "torch.nn.functional.normalize" or axis is None or axis.literal != 0:
            continue
        own = [t for t, _, scope in reading.cached(formulas) if scope == call.scope]
        products = any(re.search(r"@\w+\.(?:t\(\)|T\b|mT\b)|@\w+\.transpose\(", t) for t in own)
        if products and any("cross_entropy(" in t for t in own):
            yield Match(call.span, "embeddings are normalized along the batch, not each by itself")


def _is_negative_cosine(reading: Training, name: str) -> bool:
    for scope in reading.functions_by_name.get(name, ()):
        texts = [render(reading, value) for value in reading.function(scope).returns]
        product = all(OF_UNITS.fullmatch(t) for t in texts) and _makes_units(reading, scope)
        return bool(texts) and (all(t.startswith("-") and "cosine" in t for t in texts) or product)
    return False


OF_UNITS = re.compile(r"-\((\w+)\*(\w+)\)\.sum\((?:dim=|axis=)?-?1\)\.mean\(\)")
"""D(p, z) of the paper on SimSiam: minus the mean of the products of unit vectors."""


def _makes_units(reading: Training, scope: int) -> bool:
    """p = normalize(p) and z = normalize(z), and nothing else is called."""
    units = {c.target for c in reading.calls_in(scope) if c.method == "normalize"}
    return len(units) == 2 and units == {p.name for p in reading.function(scope).parameters}


def _is_cosine(reading: Training, text: str, call: Call) -> bool:
    """-(cosine(p1, z2) + cosine(p2, z1)), with cosine = nn.CosineSimilarity()."""
    name = re.match(r"\(*-\(*(\w+)\(", text)
    made = objects.makers_at(reading, Value("name", name=name[1]), call) if name else []
    return bool(made) and all(m is not None and m.method == "CosineSimilarity" for m in made)


def _through_trained(reading: Training, name: str, call: Call) -> bool:
    """The name is the output of a network whose parameters an optimizer holds."""
    held = {other.receiver for other in reading.named(*PARAMETERS)}
    for value in objects.last_definition(reading, name, call):
        calls = [reading.calls[n].name for n in (value.call, *value.calls) if n >= 0]
        if set(calls) & held:
            return True
        inner: Value | None = value.items[0] if value.kind == "item" and value.items else None
        if inner is not None and any(made.name in held for made in reading.inside(inner)):
            return True
    return False


def _gathered_both(reading: Training) -> Iterator[Match]:
    """Both factors of the logits are what all_gather() copied: no gradient reaches the towers."""
    gathers = _cut_off(reading)
    lost: dict[tuple[int, str], Call] = {}
    for each in reading.assignments if gathers else ():
        call = reading.call_of(each.value)
        if call is None or reading.target_function(call) not in gathers or not call.args:
            continue
        if call.args[0].name == each.target and not reading.is_without_graph(call):
            lost[each.scope, each.target] = call
    losing = {reading.calls[n].scope for n, _ in loss_calls(reading)}
    for value, _, scope in reading.expressions if lost else ():
        for part in flatten([value]) if scope in losing else ():
            factors = part.items if part.name == "MatMult" else ()
            names = [{n for n in v.all_names if (scope, n) in lost} for v in factors]
            if names and all(names):
                name = min(names[0])
                yield Match(lost[scope, name].span, f"{name} has no gradient after all_gather()")
                return


def _cut_off(reading: Training) -> set[int]:
    """Functions that return what all_gather() filled, without the tensor that was given."""
    found: set[int] = set()
    for call in reading.named("all_gather"):
        function = reading.function(call.scope)
        if call.name != "torch.distributed.all_gather" or not call.scope or not call.args:
            continue
        filled = call.args[0].name
        back = any(
            each.scope == call.scope and each.target.startswith(f"{filled}[")
            for each in reading.assignments
        )
        own = {parameter.name for parameter in function.parameters}
        given = [own.intersection(v.all_names) for v in function.returns if filled in v.names]
        if (
            given
            and not any(given)
            and not back
            and f"{filled}[]" not in reading.script.identifiers
        ):
            found.add(call.scope)
    return found


def _without_offset(reading: Training) -> Iterator[Match]:
    """arange(batch) as labels of logits whose keys come from all ranks."""
    yield from _without_own_rows(reading)
    gathers = {
        reading.function(other.scope).name
        for other in reading.named("all_gather")
        if other.scope and reading.function(other.scope).returns
    }
    for call in reading.named("cross_entropy") if gathers else ():
        if len(call.args) < 2:
            continue
        logits, labels = (expanded(reading, v, call, 4) for v in call.args[:2])
        counted = COUNTED.match(labels)
        sides = re.search(r"@(\w+)\.(?:t\(\)|T\b|mT\b|transpose\()", logits)
        if sides is None:
            continue
        left = logits[: sides.start()]
        name = re.search(r"(\w+)$", left)
        own = any(f"{each}(" in left for each in gathers)
        own = _is_gathered(reading, name[1], call, gathers) is not False if name else own
        keys = _is_gathered(reading, sides[1], call, gathers)
        if counted and keys and not own and not re.search(r"rank|offset|\+|\*", labels):
            message = "keys of all ranks, and labels from 0 on each: the rank's offset is missing"
            yield Match(call.span, message)


COLLECTED = re.compile(
    r"torch\.cat\((?:[\w.]+\.)?all_gather\(\w+\)(?:,(?:dim=)?0)?\)|(?:\w+\.)?accelerator\.gather\(\w+\)"
)
COLUMNS = re.compile(r"(\w+)\)?@(\w+)\.(?:t\(\)|T\b|mT\b|transpose\()")
COUNTED = re.compile(r"torch\.arange\((?:\w+\.(?:size\(0\)|shape\[0\])|len\(\w+\))[,)]")


def _without_own_rows(reading: Training) -> Iterator[Match]:
    """img @ torch.cat(all_gather(txt)).t(), both gathered here, and labels of arange(batch)."""
    gathered = {
        (call.scope, call.args[0].name)
        for n in reading.methods("all_gather", "gather")
        if len((call := reading.calls[n]).args) == 1 and call.args[0].kind == "name"
    }
    for call in reading.named("cross_entropy") if gathered else ():
        if len(call.args) != 2:
            continue
        logits, labels = (expanded(reading, v, call, 2) for v in call.args)
        sides = COLUMNS.search(logits)
        own = [a for a in reading.assignments if a.scope == call.scope]
        texts = [(a.target, render(reading, a.value)) for a in own]
        if sides is None or not COUNTED.match(labels) or (call.scope, sides[1]) not in gathered:
            continue
        keys = [text for target, text in texts if target == sides[2]]
        whole = any("gather" in text for target, text in texts if target == sides[1])
        moved = any(re.search(r"rank|offset", t + text) for t, text in texts)
        if len(keys) == 1 and COLLECTED.fullmatch(keys[0]) and not whole and not moved:
            message = "keys of all ranks, and labels from 0 on each: the rank's offset is missing"
            yield Match(call.span, message)
            return


def _is_gathered(reading: Training, name: str, call: Call, gathers: set[str]) -> bool | None:
    """The name holds what a function that gathers returned; None where nothing is assigned."""
    number = reading.number(call)
    held = [a for a in reading.assignments
            if a.target == name and a.scope == call.scope and a.position <= number]  # fmt: skip
    made = held[-1].value if held else None
    if made is None:
        return None
    return made.kind == "call" and reading.calls[made.call].method in gathers


RULES = (
    Rule(
        code="SCR341",
        slug="views-compared",
        title="Views are compared with each other, and one side is a constant where nothing repels",
        severity="fail",
        find=compared,
        why="The most similar embedding to a sample is the sample itself: with the diagonal in the "
        "softmax the loss teaches nothing of the other view. Without negatives, gradients through "
        "both branches let all outputs become equal. What all_gather() fills has no gradient.",
        fires=(
            "cross_entropy of z @ z.T whose diagonal nothing masks",
            "[augment(image)] * 2, or one augmented image by two names, for two views",
            "two equal terms where the second should have the transposed logits",
            "the same of -(p * z).sum(1).mean() of unit vectors",
            "-cosine_similarity(p, z) of one trained network without detach(), twice",
            "z @ z.T / 0.1 of the output of a layer that nothing normalizes (a warning)",
            "labels of arange(batch) beside keys that all ranks gathered",
            "logits of two embeddings that torch.distributed.all_gather copied, neither put back",
        ),
        fix="Call the transform once for each view; fill the "
        "diagonal with -inf; use logits.t() for the other direction; pass z.detach(); "
        "put the local tensor back at gathered[rank], or use torch.distributed.nn.all_gather.",
        sources=("simsiam",),
        needs=("cross_entropy", "CrossEntropyLoss", "normalize", *COSINES),
    ),
)
