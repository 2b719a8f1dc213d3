"""Rules on numbers that a script computes of its own model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.metrics.whole import of_two_classes
from doctor.checks.script.naming import PREDICTED, TRUE, direction, words
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

ORDERED = {
    "precision_score", "recall_score", "fbeta_score", "roc_auc_score", "average_precision_score",
    "classification_report", "confusion_matrix", "r2_score", "log_loss",
}  # fmt: skip
"""Whose result changes when truth and prediction are exchanged; the F1 score's does not."""
EXTREME = {"max", "maximum", "min", "minimum", "worst", "peak", "largest", "smallest"}
"""In names of what is an extreme value on purpose, and no best one."""
INFINITE = ("inf", "Inf", "infty", "maxsize")


def score_swapped(reading: Training) -> Iterator[Match]:
    yield from _decisions(reading)
    yield from of_two_classes(reading)
    for call in reading.named("compute", "add_batch"):
        if {"predictions", "references"} <= call.keywords.keys():
            said = [
                set(words(_root(reading, call.keywords[k]))) for k in ("predictions", "references")
            ]
            if said[0] & TRUE and said[1] & PREDICTED:
                yield Match(call.span, "references are passed as predictions, and the other way")
    for call in reading.named(*ORDERED, "f1_score"):
        weighted = call.keywords.get("average")
        if call.method == "f1_score" and (weighted is None or weighted.literal != "weighted"):
            continue
        if call.name.startswith("sklearn.metrics.") and len(call.args) > 1:
            first, second = (set(words(_root(reading, value))) for value in call.args[:2])
            if first & PREDICTED and second & TRUE and not (first & TRUE or second & PREDICTED):
                yield Match(call.span, f"{call.method} takes the truth first, then the prediction")


def _decisions(reading: Training) -> Iterator[Match]:
    """roc_auc_score(y, p > 0.5): the area under two points."""
    for call in reading.named("roc_auc_score", "average_precision_score", "roc_curve"):
        given = call.given("y_score", 1)
        if not call.name.startswith("sklearn.metrics.") or given is None:
            continue
        if _is_decision(reading, given, call):
            yield Match(call.span, f"{call.method} of decisions: it needs scores")


def _is_decision(reading: Training, value: Value, call: Call) -> bool:
    values = evaluate.options(reading, value, call)
    joined = reading.call_of(values[0]) if len(values) == 1 else None
    if joined is not None and joined.name in JOINS and joined.args:
        value = joined.args[0]
        values = [v for v in evaluate.options(reading, value, joined) if v.kind == "list"]
    if [(v.kind, v.items) for v in values] == [("list", ())]:
        key = reading.key(value.name, call.scope)
        values = [c.args[0] for c in reading.named("append", "extend")
                  if reading.key(c.receiver, c.scope) == key and c.args
                  ]  # fmt: skip
    for each in values:
        while each.kind == "call" and reading.calls[each.call].method in CASTS:
            cast = reading.calls[each.call]
            each = cast.base or Value("call", call=cast.receiver_call)
            if each.kind == "call" and each.call < 0:
                return False
        made = reading.call_of(each)
        rounds = made is not None and made.method in ("round", "argmax", "rint")
        if not rounds and not (each.kind == "test" and re.search(r"[<>]", each.text)):
            return False
    return bool(values)


JOINS = {
    "numpy.concatenate", "numpy.hstack", "numpy.array", "numpy.asarray", "torch.cat",
    "torch.hstack", "torch.tensor",
}  # fmt: skip
CASTS = {
    "astype", "int", "float", "long", "cpu", "numpy", "tolist", "detach", "squeeze", "flatten",
}  # fmt: skip


def _root(reading: Training, value: Value) -> str:
    """pred of pred.cpu().numpy()."""
    while value.kind == "call":
        call = reading.calls[value.call]
        if call.receiver or call.receiver_call < 0:
            return call.receiver
        value = Value("call", call=call.receiver_call)
    return value.name


def best_never_changes(reading: Training) -> Iterator[Match]:
    yield from _not_remembered(reading)
    for each in improvements_compared(reading):
        update, new, sign = each
        starts = [start for start in _starts(reading, update) if start != RESTORED]
        if not starts or None in starts:
            continue
        start, better = starts[0], direction(new)
        wrong = len(set(starts)) == 1 and start == sign
        if wrong and abs(start or 0) == 1:
            yield Match(update.span, f"{update.target} starts where no {new} is better", "fail")
        elif wrong is False and better == sign == -1 and set(starts) == {0}:
            yield Match(update.span, f"{update.target} starts at 0, and no {new} is below it")
        elif EXTREME & set(words(update.target)):
            continue
        elif better and better == -sign and start in (0, REACHABLE, -sign):
            word = "highest" if sign > 0 else "lowest"
            yield Match(update.span, f"{update.target} keeps the {word} {new}")


def _not_remembered(reading: Training) -> Iterator[Match]:
    """`if new > best: save`, where nothing in a loop sets best."""
    kept = {name for call in reading.calls for name in call.targets}
    for each in reading.comparisons:
        names = [v.name for v in (each.left, each.right)]
        best = [name for name in names if "best" in words(name)]
        if len(best) != 1 or each.operator not in SIGNS or "" in names or best[0].isupper():
            continue
        key = reading.key(best[0], each.scope)
        found = reading.assigned.get(key, ())
        if (
            not found
            or any(a.loops for a in found)
            or not all(
                a.scope == each.scope or a.value.kind == "item" or _begins(reading, a)
                for a in found
            )
        ):
            continue
        if best[0] in kept or any(_start(reading, a.value) is None for a in found):
            continue
        saves = [
            call
            for n in reading.methods("save", "save_pretrained", "save_checkpoint", "save_model")
            if (call := reading.calls[n]).scope == each.scope and call.loops
            and any(test.text and best[0] in test.names for test in reading.tests(call))
        ]  # fmt: skip
        if saves and set(reading.loops[saves[0].loops[0]].targets).isdisjoint(names):
            yield Match(each.span, f"{best[0]} is compared, and no improvement is kept in it")


def _begins(reading: Training, each: Assignment) -> bool:
    return reading.function(each.scope).name in ("", "__init__")


MISSING = re.compile(r"(?:is None|== None|not [\w.]+) or ")
SIGNS = {"<": -1, "<=": -1, ">": 1, ">=": 1}


def improvements(reading: Training) -> list[Assignment]:
    """Assignments that keep a new best value."""
    return [each for each, _, _ in improvements_compared(reading)]


def improvements_compared(reading: Training) -> Iterator[tuple[Assignment, str, int]]:
    """best = new under `new > best`: the assignment, what is compared, and 1 for >, -1 for <."""
    for each in reading.assignments:
        named = each.value.kind in ("name", "item") and each.value.name and not each.augmented
        for branch, arm in each.arms if named else ():
            test = reading.test_of(branch)
            if arm != 0 or test is None or {each.value.name, each.target} - set(test.names):
                continue
            if " or " not in test.text or MISSING.search(test.text):
                for sign in _signs(reading, each):
                    yield each, each.value.name, sign


def _signs(reading: Training, each: Assignment) -> Iterator[int]:
    """Of the comparisons of both names before the assignment."""
    new, best = each.value.name, each.target
    for turned, left, right in ((1, new, best), (-1, best, new)):
        for line, sign in reading.cached(_compared).get((each.scope, left, right), ()):
            if line <= each.span.line:
                yield turned * sign


def _compared(reading: Training) -> dict[tuple[int, str, str], list[tuple[int, int]]]:
    """Function and both names of a comparison -> its line, and 1 for >, -1 for <."""
    table: dict[tuple[int, str, str], list[tuple[int, int]]] = {}
    for other in reading.comparisons:
        key = (other.scope, _without_margin(other.left), _without_margin(other.right))
        if sign := SIGNS.get(other.operator, 0):
            table.setdefault(key, []).append((other.span.line, sign))
    return table


def _without_margin(value: Value) -> str:
    """best of best - min_delta."""
    shifted = value.kind == "other" and value.name in ("Add", "Sub") and value.items
    return (value.items[0] if shifted else value).name


def _starts(reading: Training, update: Assignment) -> list[int | None]:
    """1 for what is above everything, -1 for below, 0 for 0, or REACHABLE or RESTORED; None where
    it is not known."""
    key = reading.key(update.target, update.scope)
    found = [each.value for each in reading.assigned.get(key, ()) if each is not update]
    if not found and update.target.endswith("]"):  # an entry of a dictionary
        base, _, entry = update.target.removesuffix("]").partition("[")
        tables = [each.value for each in reading.assigned_to(base, update.scope)]
        found = [v for t in tables if (v := evaluate.entry(reading, t, entry)) is not None]
    return [_start(reading, value) for value in found]


RESTORED, REACHABLE = 2, 3
"""A start that is read of a checkpoint, and a number that scores and losses may have."""


def _start(reading: Training, value: Value) -> int | None:
    number = value.literal
    if value.kind == "item" and "best" in value.name:
        return RESTORED
    if evaluate.is_number(number):
        if 0 < abs(number) < 999:
            return REACHABLE
        return (number > 0) - (number < 0)
    if value.kind == "name" and value.name.rpartition(".")[2] in INFINITE:
        return 1
    if value.kind == "call":
        call = reading.calls[value.call]
        text = call.args[0].literal if call.name == "float" and call.args else None
        if isinstance(text, str):
            return {"inf": 1, "infinity": 1, "-inf": -1}.get(text.casefold())
    if value.kind == "other" and len(value.items) == 1:  # -np.inf, -float("inf")
        inner = _start(reading, value.items[0])
        return -inner if inner else None
    return None


WAITING = {
    "patience", "wait", "waited", "counter", "trigger", "stale", "stop", "stopping", "improve",
    "improvement", "bad", "early", "count",
}  # fmt: skip


def patience_kept(reading: Training) -> Iterator[Match]:
    updates = [update for update, _, _ in improvements_compared(reading)]
    for each in reading.assignments if updates else ():
        one = each.value.literal == 1 and each.augmented and each.operator == "Add"
        if not one or not set(words(each.target)) & WAITING:
            continue
        key = reading.key(each.target, each.scope)
        others = [a for a in reading.assigned.get(key, ()) if not a.augmented]
        again = [
            a
            for a in others
            if (a.loops or a.scope != each.scope or exclusive(a.arms, each.arms))
            and reading.function(a.scope).name != "__init__"
        ]
        missed = [
            update
            for update in updates
            if update.scope == each.scope and exclusive(update.arms, each.arms)
        ]
        stops = any(
            each.target in (c.left.name, c.right.name) and c.scope == each.scope
            and c.operator in (">", ">=", "==")
            for c in reading.comparisons
        )  # fmt: skip
        if missed and stops and not again:
            yield Match(
                each.span, f"{each.target} is not set back when {missed[0].target} improves"
            )


RULES = (
    Rule(
        code="SCR266",
        slug="score-arguments-swapped",
        title="Scores receive the truth first, and what they are for",
        severity="warn",
        find=score_swapped,
        why="scikit-learn takes (y_true, y_pred). In the other order precision is recall, AUC "
        "raises and weights count predictions.",
        fires=(
            "a score of (a name for predictions, a name for labels)",
            "roc_auc_score of decisions, such as p > 0.5, in place of scores",
            "compute(predictions=labels, references=predictions)",
        ),
        errors=("f1_score of argmax without average, of a model with more than two classes",),
        fix="Pass the truth first, and for the area under a curve the scores themselves.",
        needs=("sklearn", "references"),
        sources=("attnsleep-13",),
        words=(
            r"_score\s*\(",
            "classification_report",
            "confusion_matrix",
            "log_loss",
            "references=",
        ),
    ),
    Rule(
        code="SCR267",
        slug="best-in-wrong-direction",
        title="The best value is one that can be reached",
        severity="warn",
        find=best_never_changes,
        why="A best accuracy that starts at infinity is never beaten: no checkpoint is saved. A "
        "loss that is compared with > keeps the worst.",
        fires=(
            "a loss is kept where it is larger, or an accuracy where it is smaller",
            "a checkpoint is saved where a score exceeds the best, and the best never changes",
        ),
        errors=("the best value starts at infinity and must be exceeded, or the other way round",),
        fix='Start losses at float("inf"), compare with <; start accuracies at 0, compare with >.',
        sources=("keras-oneshot-13", "backdoors101-25"),
    ),
    Rule(
        code="SCR268",
        slug="patience-never-reset",
        title="An improvement sets the patience back",
        severity="warn",
        find=patience_kept,
        why="Without it the counter sums all epochs without improvement, and the training stops "
        "while the model still improves.",
        fires=("a counter grows where the best value does not improve, and is set once only",),
        fix="Set the counter to 0 where the best value is updated.",
        sources=("cytoself-29", "ms-swift-5326"),
    ),
)
