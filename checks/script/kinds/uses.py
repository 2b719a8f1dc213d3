"""Calls that are judged by more than one argument."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.directions import is_turned
from doctor.checks.script.kinds.clash import Clash, clash
from doctor.checks.script.kinds.dimensions import KIND
from doctor.checks.script.kinds.flow import Flow
from doctor.checks.script.kinds.known import CALL, DERIVED
from doctor.checks.script.kinds.made import codes, is_library, receiver
from doctor.checks.script.kinds.sources import COLORS
from doctor.checks.script.naming import words
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match
from doctor.facts.script import Call

MINUS = re.compile(r"-.*inf|^-1e\+?\d|finfo.*min|^-\d{4,}")
ANCHORS = {"anchor", "anchors", "pred", "preds", "prediction", "predictions"}
POSITIVES = {"positive", "positives", "pos", "target", "targets"}
PLAIN = re.compile(r"[\w.]+?(?:\.detach\(\))?")
NEAREST = re.compile("nearest|closest|neighbou?rs?|knn|nn")
SCHEDULES = (
    "get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "get_scheduler",
    "get_polynomial_decay_schedule_with_warmup",
    "get_cosine_with_hard_restarts_schedule_with_warmup",
)  # fmt: skip


def found(flow: Flow) -> Iterator[Clash]:
    for find, methods in FINDERS:
        for number in flow.reading.methods(*methods):
            yield from find(flow, flow.reading.calls[number])
    for number in flow.reading.backwards:
        yield from _minimized(flow, flow.reading.calls[number])


def _scheduled(flow: Flow, call: Call) -> Iterator[Clash]:
    """A warmup in epochs of a training in steps; both in epochs may be meant."""
    place = int(call.method == "get_scheduler") + 1
    kinds = [
        flow.of_argument(value, call).get("progress") if value is not None else None
        for key, position in (("num_warmup_steps", place), ("num_training_steps", place + 1))
        for value in [evaluate.argument(flow.reading, call, key, position)]
    ]
    warmup, total = kinds
    if warmup is None or total is None or total.evidence != CALL:
        return
    if warmup.kind.name == "epochs" and total.kind.name == "steps":
        yield clash(call.span, "the warmup of a training in steps is in", KIND["steps"], warmup)


def _resized(flow: Flow, call: Call) -> Iterator[Clash]:
    """image.resize(size) of PIL takes (width, height)."""
    value = receiver(call)
    given = call.args[0] if call.args else call.keywords.get("size")
    if value is None or given is None or is_library(call):
        return
    form = flow.of_argument(value, call).get("form")
    if form is None or form.kind.name != "PIL image":
        return
    known = flow.of_argument(given, call).get("plane")
    if known is not None and known.kind.name == "(height, width)" and known.evidence == CALL:
        yield clash(call.span, "resize() of PIL takes", KIND["(width, height)"], known)


def _recolored(flow: Flow, call: Call) -> Iterator[Clash]:
    """cvtColor() from a color that the image is not in."""
    before, _ = codes(call)
    known = flow.of_argument(call.args[0], call).get("color") if call.args else None
    if known is None or before not in COLORS or known.evidence != CALL:
        return
    if known.kind.name != COLORS[before]:
        yield clash(call.span, "the conversion is from", KIND[COLORS[before]], known)


def _to_bytes(flow: Flow, call: Call) -> Iterator[Clash]:
    """astype(np.uint8) of numbers from 0 to 1."""
    given = call.args[0] if call.args else call.keywords.get("dtype")
    named = str(given.literal or given.name) if given is not None else ""
    value = receiver(call)
    if value is None or not (call.method == "byte" or named.endswith("uint8")):
        return
    known = flow.of_argument(value, call).get("range")
    if known is not None and known.kind.name in ("0 to 1", "-1 to 1") and known.evidence == CALL:
        yield clash(call.span, "uint8 is for", KIND["0 to 255"], known)


def _filled(flow: Flow, call: Call) -> Iterator[Clash]:
    """masked_fill(mask, -inf) of a mask that is True where attention looks."""
    if len(call.args) != 2 or not MINUS.search(render(flow.reading, call.args[1])):
        return
    known = flow.of_argument(call.args[0], call).get("mask")
    if known is None:
        return
    near = (flow.reading.calls[n].method for n in flow.reading.scope_calls(call.scope))
    if known.origin == "tril()" and ("softmax" not in near or flow.reading.cached(is_turned)):
        return
    if known.kind.name == "True for tokens" and known.evidence >= DERIVED:
        yield clash(call.span, "what is filled is", KIND["True for what is ignored"], known)


def _largest_distance(flow: Flow, call: Call) -> Iterator[Clash]:
    """The nearest by argmax or topk of distances."""
    if not any(NEAREST.fullmatch(word) for name in call.targets for word in words(name)):
        return
    value = call.args[0] if call.name.startswith("torch.") and call.args else receiver(call)
    if value is None or "largest" in call.keywords or len(call.args) > 2 or call.statement:
        return
    known = flow.of_argument(value, call).get("distance")
    if known is not None and known.evidence == CALL and "distances" in known.kind.name:
        what = f"the nearest by {call.method} is that of the largest of"
        yield clash(call.span, what, KIND["similarities"], known)


def _minimized(flow: Flow, call: Call) -> Iterator[Clash]:
    """backward() of a similarity alone, where all of the file's are of pairs that belong
    together by their names: of negatives, of parts to keep apart or in an attack it is right.
    """
    reading = flow.reading
    value = receiver(call)
    pairs = [reading.calls[number] for number in reading.methods("cosine_similarity", "cos_sim")]
    if value is None or not pairs or not all(_belong(flow, each) for each in pairs):
        return
    known = flow.of_argument(value, call).get("distance")
    if any("maximize" in each.keywords for each in reading.calls) or known is None:
        return
    if known.evidence == CALL and known.kind.name == "similarities":
        one, other = (render(reading, each) for each in pairs[0].args[:2])
        message = f"minimizing the similarity of {one} and {other} drives them apart"
        yield Clash("distance", Match(call.span, message, fix="Use 1 - similarity."))


def _belong(flow: Flow, call: Call) -> bool:
    """An anchor and its positive, a prediction and its target."""
    texts = [render(flow.reading, each) for each in call.args[:2]]
    if len(texts) != 2 or not all(PLAIN.fullmatch(each) for each in texts):
        return False
    one, other = (set(words(each.removesuffix(".detach()"))) for each in texts)
    return bool(one & ANCHORS and other & POSITIVES)


FINDERS: tuple[tuple[Callable[[Flow, Call], Iterator[Clash]], tuple[str, ...]], ...] = (
    (_scheduled, SCHEDULES),
    (_resized, ("resize",)),
    (_recolored, ("cvtColor",)),
    (_to_bytes, ("astype", "byte")),
    (_filled, ("masked_fill", "masked_fill_")),
    (_largest_distance, ("argmax", "max", "topk")),
)
