"""Rules on numbers that a script computes of its own model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.losses import loss_calls
from doctor.checks.script.naming import PREDICTED, TRUE, direction, is_loader, words
from doctor.checks.script.reading import exclusive, flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value
from doctor.facts.script_machine import ScriptMachine

NOT_ADDITIVE = {
    "f1_score", "precision_score", "recall_score", "fbeta_score", "roc_auc_score",
    "average_precision_score", "matthews_corrcoef", "cohen_kappa_score", "balanced_accuracy_score",
}  # fmt: skip
ORDERED = {
    "precision_score", "recall_score", "fbeta_score", "roc_auc_score", "average_precision_score",
    "classification_report", "confusion_matrix", "r2_score", "log_loss",
}  # fmt: skip
"""Whose result changes when truth and prediction are exchanged; the F1 score's does not."""
MEANS = {"mean", "average", "fmean", "sum", "nanmean"}
INFINITE = ("inf", "Inf", "infty", "maxsize")


def count_by_batches(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for each in reading.script.assignments:
        if not each.augmented or not each.loops:
            continue
        counts = is_count(reading, each.value) or _is_weighted(reading, each.value)
        if not counts and not _is_mean(reading, each):
            continue
        loop = reading.script.loops[each.loops[-1]]
        sources = (loop.iterable.name, *loop.iterable.names) if loop.iterable else ()
        loaders = {name for name in sources if is_loader(name) or _is_made(reading, name, each)}
        if counts:
            for span in _divided(reading, each, loaders):
                yield Match(span, f"{each.target} counts samples and is divided by batches")
        else:
            for span in _divided(reading, each, {f"{name}.dataset" for name in loaders}):
                yield Match(span, f"{each.target} adds a mean per batch and is divided by samples")


def _is_made(reading: Training, name: str, at: Assignment) -> bool:
    """A name that a DataLoader of this file is assigned to."""
    found = reading.assigned.get(reading.key(name, at.scope), ())
    return bool(found) and all(
        a.value.kind == "call" and reading.calls[a.value.call].method == "DataLoader" for a in found
    )


def _is_weighted(reading: Training, value: Value) -> bool:
    """loss.item() * x.size(0)."""
    if value.kind != "other" or value.name != "Mult" or len(value.items) != 2:
        return False
    parts = [reading.calls[v.call] if v.kind == "call" else None for v in value.items]
    sizes = [
        (p is not None and p.method == "size" and [a.literal for a in p.args] == [0])
        or (p is not None and p.name == "len")
        or v.name.endswith(".shape[0]")
        for p, v in zip(parts, value.items, strict=True)
    ]
    return any(sizes) and any(p is not None and p.method == "item" for p in parts)


def _is_mean(reading: Training, each: Assignment) -> bool:
    """loss.item() of a loss of torch that averages."""
    call = reading.calls[each.value.call] if each.value.kind == "call" else None
    if call is None or call.method != "item" or not call.receiver:
        return False
    for n, _ in loss_calls(reading):
        loss = reading.calls[n]
        if call.receiver in loss.targets and (loss.scope, loss.loops) == (call.scope, call.loops):
            makers = [made for made in objects.callee(reading, loss)] or [loss]
            return all(m is not None and "reduction" not in m.keywords for m in makers)
    return False


def is_count(reading: Training, value: Value) -> bool:
    """(pred == y).sum(), torch.sum(pred == y) or pred.eq(y).sum(), with item() and moves."""
    while value.kind == "call":
        call = reading.calls[value.call]
        if call.method == "sum":
            inner = call.args[0] if call.args else Value("call", call=call.receiver_call)
            if inner.call >= 0 and inner.kind == "call":
                return reading.calls[inner.call].method in ("eq", "type", "float", "int")
            return inner.kind == "test" or (not call.args and _sums_a_test(reading, call))
        if call.method not in ("item", "float", "int", "cpu", "numpy", "double"):
            return False
        value = call.args[0] if call.args else Value("call", call=call.receiver_call)
        if value.kind == "call" and value.call < 0:
            return False
    return False


def _sums_a_test(reading: Training, call: Call) -> bool:
    """(a == b).sum(): the receiver is a comparison of the same line."""
    return call.name == "[].sum" and any(
        each.operator == "==" and each.span.line == call.span.line and each.scope == call.scope
        for each in reading.script.comparisons
    )


def _divided(reading: Training, count: Assignment, loaders: set[str]) -> Iterator[Span]:
    reading.step(len(reading.expressions))
    for value, span, scope in reading.expressions:
        for part in flatten([value]) if scope == count.scope else ():
            if part.kind == "other" and part.name == "Div" and len(part.items) == 2:
                over, by = part.items
                if count.target in (over.name, *over.names) and _is_length(reading, by, loaders):
                    yield span
    for each in reading.script.assignments:
        same = each.target == count.target and each.scope == count.scope
        if same and each.operator == "Div" and _is_length(reading, each.value, loaders):
            yield each.span


def _is_length(reading: Training, value: Value, loaders: set[str]) -> bool:
    """len(loader) alone, or float() of it."""
    while value.kind == "call":
        call = reading.calls[value.call]
        if len(call.args) != 1:
            return False
        if call.name == "len":
            return call.args[0].name in loaders
        if call.name not in ("float", "int"):
            return False
        value = call.args[0]
    return False


def score_over_batches(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    for number in reading.methods(*NOT_ADDITIVE):
        call = reading.calls[number]
        if not call.name.startswith("sklearn.metrics.") or not call.loops:
            continue
        iterable = reading.script.loops[call.loops[-1]].iterable
        names = (iterable.name, *iterable.names) if iterable is not None else ()
        if any(is_loader(name) for name in names) and _is_averaged(reading, call, number):
            yield Match(call.span, f"{call.method} of single batches is averaged")


def _is_averaged(reading: Training, call: Call, number: int) -> bool:
    held = {number}
    for each in reading.script.assignments:
        same = each.loops == call.loops and each.scope == call.scope
        if (
            same
            and each.augmented
            and (each.value.call == number or {each.value.name} & set(call.targets))
        ):
            return True
    for n in reading.methods("append"):
        other = reading.calls[n]
        value = other.args[0] if len(other.args) == 1 else Value("other")
        if other.loops == call.loops and (value.call in held or value.name in call.targets):
            return any(
                other.receiver in [v.name for v in reading.calls[m].args]
                for m in reading.methods(*MEANS)
                if m > n and reading.calls[m].scope == call.scope
            )
    return False


def score_swapped(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _decisions(reading)
    for number in reading.methods("compute", "add_batch"):
        call = reading.calls[number]
        if {"predictions", "references"} <= call.keywords.keys():
            said = [
                set(words(_root(reading, call.keywords[k]))) for k in ("predictions", "references")
            ]
            if said[0] & TRUE and said[1] & PREDICTED:
                yield Match(call.span, "references are passed as predictions, and the other way")
    for number in reading.methods(*ORDERED, "f1_score"):
        call = reading.calls[number]
        weighted = call.keywords.get("average")
        if call.method == "f1_score" and (weighted is None or weighted.literal != "weighted"):
            continue
        if call.name.startswith("sklearn.metrics.") and len(call.args) > 1:
            first, second = (set(words(_root(reading, value))) for value in call.args[:2])
            if first & PREDICTED and second & TRUE and not (first & TRUE or second & PREDICTED):
                yield Match(call.span, f"{call.method} takes the truth first, then the prediction")


def _decisions(reading: Training) -> Iterator[Match]:
    """roc_auc_score(y, p > 0.5): the area under two points."""
    for number in reading.methods("roc_auc_score", "average_precision_score", "roc_curve"):
        call = reading.calls[number]
        given = call.keywords.get("y_score") or (call.args[1] if len(call.args) > 1 else None)
        if not call.name.startswith("sklearn.metrics.") or given is None:
            continue
        if _is_decision(reading, given, call):
            yield Match(call.span, f"{call.method} of decisions: it needs scores")


def _is_decision(reading: Training, value: Value, call: Call) -> bool:
    values = evaluate.options(reading, value, call)
    if [(v.kind, v.items) for v in values] == [("list", ())]:
        key = reading.key(value.name, call.scope)
        values = [c.args[0] for n in reading.methods("append", "extend")
                  if reading.key((c := reading.calls[n]).receiver, c.scope) == key and c.args
                  ]  # fmt: skip
    for each in values:
        while each.kind == "call" and reading.calls[each.call].method in CASTS:
            cast = reading.calls[each.call]
            each = cast.base or Value("call", call=cast.receiver_call)
            if each.kind == "call" and each.call < 0:
                return False
        made = reading.calls[each.call] if each.kind == "call" else None
        rounds = made is not None and made.method in ("round", "argmax", "rint")
        if not rounds and not (each.kind == "test" and re.search(r"[<>]", each.text)):
            return False
    return bool(values)


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


def best_never_changes(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
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
        elif better and better == -sign and start in (0, -sign):
            word = "highest" if sign > 0 else "lowest"
            yield Match(update.span, f"{update.target} keeps the {word} {new}")


def _not_remembered(reading: Training) -> Iterator[Match]:
    """`if new > best: save`, where nothing in a loop sets best."""
    for each in reading.script.comparisons:
        names = [v.name for v in (each.left, each.right)]
        best = [name for name in names if "best" in words(name)]
        if len(best) != 1 or each.operator not in SIGNS or "" in names:
            continue
        key = reading.key(best[0], each.scope)
        found = reading.assigned.get(key, ())
        kept = {name for call in reading.calls for name in call.targets}
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
        if saves and set(reading.script.loops[saves[0].loops[0]].targets).isdisjoint(names):
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
    for each in reading.script.assignments:
        named = each.value.kind in ("name", "item") and each.value.name and not each.augmented
        for branch, arm in each.arms if named else ():
            test = reading.script.branches[branch].test
            if arm != 0 or test is None or {each.value.name, each.target} - set(test.names):
                continue
            if " or " not in test.text or MISSING.search(test.text):
                for sign in _signs(reading, each):
                    yield each, each.value.name, sign


def _signs(reading: Training, each: Assignment) -> Iterator[int]:
    """Of the comparisons of both names before the assignment."""
    for other in reading.script.comparisons:
        pair = (other.left.name, other.right.name)
        sign = SIGNS.get(other.operator, 0)
        if other.scope == each.scope and other.span.line <= each.span.line and sign:
            if pair == (each.value.name, each.target):
                yield sign
            elif pair == (each.target, each.value.name):
                yield -sign


def _starts(reading: Training, update: Assignment) -> list[int | None]:
    """1 for what is above everything, -1 for below, 0 for 0; None for another."""
    key = reading.key(update.target, update.scope)
    found = [each.value for each in reading.assigned.get(key, ()) if each is not update]
    if not found and update.target.endswith("]"):  # an entry of a dictionary
        base, _, entry = update.target.removesuffix("]").partition("[")
        tables = [each.value for each in reading.assigned.get(reading.key(base, update.scope), ())]
        found = [v for t in tables if (v := evaluate.entry(reading, t, entry)) is not None]
    return [_start(reading, value) for value in found]


RESTORED = 2
"""A start that is read of a checkpoint."""


def _start(reading: Training, value: Value) -> int | None:
    number = value.literal
    if value.kind == "item" and "best" in value.name:
        return RESTORED
    if isinstance(number, int | float) and not isinstance(number, bool):
        return (number >= 999) - (number <= -999) if number else 0
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


def patience_kept(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    updates = [update for update, _, _ in improvements_compared(reading)]
    for each in reading.script.assignments if updates else ():
        one = each.value.literal == 1 and each.augmented and each.operator == "Add"
        if not one or not set(words(each.target)) & WAITING:
            continue
        key = reading.key(each.target, each.scope)
        others = [a for a in reading.assigned.get(key, ()) if not a.augmented]
        again = [
            a
            for a in others
            if (a.loops or a.scope != each.scope) and reading.function(a.scope).name != "__init__"
        ]
        missed = [
            update
            for update in updates
            if update.scope == each.scope and exclusive(update.arms, each.arms)
        ]
        stops = any(
            each.target in (c.left.name, c.right.name) and c.scope == each.scope
            and c.operator in (">", ">=", "==")
            for c in reading.script.comparisons
        )  # fmt: skip
        if missed and stops and not again:
            yield Match(
                each.span, f"{each.target} is not set back when {missed[0].target} improves"
            )


def sum_reset(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """A sum or list of an epoch that is emptied in every batch, or in no epoch."""
    for number in reading.backwards:
        call = reading.calls[number]
        if not call.loops:
            continue
        batch = call.loops
        for target, each in _sums(reading, call):
            plain = [
                a
                for a in reading.assigned.get(reading.key(target, call.scope), ())
                if not a.augmented and a.scope == call.scope
            ]
            inside = [a for a in plain if a.loops == batch and not a.arms]
            before = [a for a in plain if len(a.loops) < len(batch)]
            if inside and before and inside[0].span.order < each.order:
                if _read_after(reading, target, call):
                    yield Match(inside[0].span, f"{target} is emptied in every batch")
            elif len(batch) > 1 and plain and all(not a.loops for a in plain):
                loader = reading.script.loops[batch[-1]].iterable
                names = {loader.name, *loader.names} if loader is not None else set()
                if _averaged_per_epoch(reading, target, batch[:-1], call.scope, names):
                    yield Match(plain[0].span, f"{target} goes on through all epochs")


def _sums(reading: Training, call: Call) -> Iterator[tuple[str, Span]]:
    reading.step(len(reading.script.assignments))
    for each in reading.script.assignments:
        same = (each.scope, each.loops, each.operator) == (call.scope, call.loops, "Add")
        if same and direction(each.target) and "." not in each.target:
            yield each.target, each.span
    for n in reading.methods("append"):
        other = reading.calls[n]
        if (other.scope, other.loops) == (call.scope, call.loops) and other.receiver:
            yield other.receiver, other.span


def _read_after(reading: Training, target: str, call: Call) -> bool:
    """The result of the loop is used after it."""
    function = reading.function(call.scope)
    returned = any(target in (v.name, *v.names) for v in function.returns)
    last = max(reading.by_loop[call.loops[-1]])
    return returned or any(
        n > last and target in (v.name, *v.names)
        for n in reading.scope_calls(call.scope)
        for v in reading.calls[n].args
    )


def _averaged_per_epoch(
    reading: Training, target: str, loops: tuple[int, ...], scope: int, names: set[str]
) -> bool:
    """target / len(loader) in the loop over epochs."""
    for n in reading.methods("len"):
        call = reading.calls[n]
        if call.scope == scope and call.loops == loops and call.args and call.args[0].name in names:
            for value, _, where in reading.expressions:
                for part in flatten([value]) if where == scope and n in value.calls else ():
                    divides = part.name == "Div" and len(part.items) == 2
                    if divides and part.items[0].name == target and part.items[1].call == n:
                        return True
    return False


RULES = (
    Rule(
        code="SCR264",
        slug="count-divided-by-batches",
        title="A count of samples is divided by samples",
        severity="warn",
        find=count_by_batches,
        why="len(loader) is the number of batches: a sum over samples that is divided by it is too "
        "large by the batch size, and a mean per batch divided by samples too small.",
        fires=(
            "(prediction == label).sum() is added up and divided by len(loader)",
            "loss.item() * x.size(0) is added up and divided by len(loader)",
            "loss.item() of a mean is added up and divided by len(loader.dataset)",
        ),
        fix="Divide sums over samples by len(loader.dataset), and means of batches by len(loader).",
        needs=("sum", "item"),
        sources=("mprgdeeplearninglecturenotebook-4", "mlflow-torchserve-56"),
    ),
    Rule(
        code="SCR265",
        slug="score-averaged-over-batches",
        title="Scores are computed of all samples",
        severity="warn",
        find=score_over_batches,
        why="F1, precision, recall and AUC of batches do not average to those of the whole: the "
        "result depends on the batch size.",
        fires=("a score of scikit-learn in a loop over a loader, summed or averaged",),
        fix="Collect predictions and labels in the loop; compute the score once.",
        needs=("sklearn",),
        sources=("argument-mining-45", "few-nerd-2"),
    ),
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
        fix="Pass the truth first, and for the area under a curve the scores themselves.",
        needs=("sklearn", "references"),
        sources=("attnsleep-13",),
        training=False,
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
    Rule(
        code="SCR269",
        slug="epoch-sum-reset",
        title="Sums of an epoch start with the epoch",
        severity="warn",
        find=sum_reset,
        why="Emptied in every batch, the mean is of the last one; never emptied, it grows with the "
        "epochs. Schedulers and early stopping that read it go wrong.",
        fires=(
            "a sum or list that is read after the loop over batches is emptied in it",
            "a loss summed over all epochs is divided by len(loader) in each",
        ),
        fix="Set it to 0 at the start of the epoch, above the loop over batches.",
        sources=("2d-hand-pose-estimation-rgb-2", "pytorch-beginner-40"),
    ),
)
