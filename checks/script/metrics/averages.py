"""Rules on sums and averages over the batches of an epoch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.metrics import epoch_sums, whole
from doctor.checks.script.metrics.unequal import unequal_batches
from doctor.checks.script.naming import direction, is_loader
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Span, Value

NOT_ADDITIVE = {
    "f1_score", "precision_score", "recall_score", "fbeta_score", "roc_auc_score",
    "average_precision_score", "matthews_corrcoef", "cohen_kappa_score", "balanced_accuracy_score",
}  # fmt: skip


MEANS = {"mean", "average", "fmean", "sum", "nanmean"}


CURVED = re.compile(r"(?:math\.exp|torch\.exp|numpy\.exp)\(.*(?:loss|cross_entropy|nll|criterion)|"
                    r"(?:math\.sqrt|torch\.sqrt|numpy\.sqrt)\(.*(?:mse|loss|criterion)|"
                    r"mse_loss\(.*\.sqrt\(")  # fmt: skip


def curve_of_means(reading: Training) -> Iterator[Match]:
    """perplexity += exp(loss), divided by the number of batches."""
    for each in reading.assignments:
        if not each.augmented or each.operator != "Add" or not each.loops:
            continue
        loop = reading.loops[each.loops[-1]]
        sources = loop.iterable.all_names if loop.iterable else ()
        loaders = {name for name in sources if is_loader(name)}
        function = reading.function(each.scope).name.casefold()
        if not CURVED.search(render(reading, each.value)) or "train" in function:
            continue
        for span in _divided(reading, each, loaders):
            what = "perplexities" if "exp(" in render(reading, each.value) else "roots"
            yield Match(span, f"{what} of batches are averaged: take the mean of the losses first")


def count_by_batches(reading: Training) -> Iterator[Match]:
    yield from whole.summed(reading)
    yield from epoch_sums.by_other_length(reading)
    yield from epoch_sums.divided_before(reading)
    yield from epoch_sums.by_last_index(reading)
    for each in reading.assignments:
        if not each.augmented or not each.loops:
            continue
        counts = is_count(reading, each.value) or _is_weighted(reading, each.value)
        if not counts and not _is_mean(reading, each):
            continue
        loop = reading.loops[each.loops[-1]]
        sources = loop.iterable.all_names if loop.iterable else ()
        loaders = {name for name in sources if is_loader(name) or _is_made(reading, name, each)}
        loaders = {name for name in loaders if not _are_samples(reading, name, each)}
        if counts:
            for span in _divided(reading, each, loaders):
                yield Match(span, f"{each.target} counts samples and is divided by batches")
        else:
            for span in _divided(reading, each, set(), _datasets(reading, loaders, each)):
                yield Match(span, f"{each.target} adds a mean per batch and is divided by samples")


def _datasets(reading: Training, loaders: set[str], at: Assignment) -> frozenset[str]:
    """loader.dataset, and the name that DataLoader(name) was given."""
    found = {f"{name}.dataset" for name in loaders}
    for name in loaders:
        for each in reading.assigned_to(name, at.scope):
            call = reading.call_of(each.value)
            data = call.given("dataset", 0) if call is not None else None
            if call is not None and call.method == "DataLoader" and data is not None and (
                data.kind == "name" and reading.key(data.name, call.scope)
                == reading.key(data.name, at.scope)
            ):  # fmt: skip
                found.add(data.name)
    return frozenset(found)


def _are_samples(reading: Training, name: str, at: Assignment) -> bool:
    """Batches of one sample; of a loader that comes from elsewhere, where any of the file is so."""
    made = {each.value.call for each in reading.assigned_to(name, at.scope)} - {-1}
    singles = reading.cached(_of_single_samples)
    return bool(made & singles if made else singles)


def _of_single_samples(reading: Training) -> set[int]:
    """Calls of DataLoader with a batch_size of 1, as it is by default, or without batches."""
    found = set()
    for n, call in reading.numbered(reading.methods("DataLoader")):
        size = evaluate.argument(reading, call, "batch_size", 1)
        if size is None:
            single = "batch_sampler" not in call.keywords and not call.unpacked
        else:
            known = evaluate.literals(reading, size, call)
            single = bool(known & {1, None}) or evaluate.flag_default(reading, size.name) == 1
        if single:
            found.add(n)
    return found


def _is_made(reading: Training, name: str, at: Assignment) -> bool:
    """A name that a DataLoader of this file is assigned to."""
    found = reading.assigned_to(name, at.scope)
    return bool(found) and all(
        a.value.kind == "call" and reading.calls[a.value.call].method == "DataLoader" for a in found
    )


def _is_weighted(reading: Training, value: Value) -> bool:
    """loss.item() * x.size(0)."""
    if value.kind != "other" or value.name != "Mult" or len(value.items) != 2:
        return False
    parts = [reading.call_of(v) for v in value.items]
    sizes = [
        (p is not None and p.method == "size" and [a.literal for a in p.args] == [0])
        or (p is not None and p.name == "len")
        or v.name.endswith(".shape[0]")
        for p, v in zip(parts, value.items, strict=True)
    ]
    return any(sizes) and any(p is not None and p.method == "item" for p in parts)


def _is_mean(reading: Training, each: Assignment) -> bool:
    """loss.item() of a loss of torch that averages."""
    call = reading.call_of(each.value)
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
        for each in reading.comparisons
    )


def _divided(
    reading: Training, count: Assignment, loaders: set[str], datasets: frozenset[str] = frozenset()
) -> Iterator[Span]:
    reading.step(len(reading.expressions))
    for value, span, scope in reading.expressions:
        for part in flatten([value]) if scope == count.scope else ():
            if part.kind == "other" and part.name == "Div" and len(part.items) == 2:
                over, by = part.items
                counted = loaders and _counts_batches(reading, by, count)
                by = _length_of(reading, by, scope)
                if count.target in over.all_names and (
                    counted or _is_length(reading, by, loaders | datasets)
                ):
                    yield span
    for each in reading.assignments:
        same = each.target == count.target and each.scope == count.scope
        by = _length_of(reading, each.value, each.scope)
        if same and each.operator == "Div" and _is_length(reading, by, loaders | datasets):
            yield each.span


def _counts_batches(reading: Training, value: Value, count: Assignment) -> bool:
    """n of n += 1, in the same loop as the sum."""
    own = [a for a in reading.assigned_to(value.name, count.scope) if a.augmented]
    return bool(own) and all(
        a.operator == "Add" and a.value.literal == 1 and a.loops == count.loops for a in own
    )


def _length_of(reading: Training, value: Value, scope: int) -> Value:
    """len(loader) of n = len(loader)."""
    found = reading.assigned_to(value.name, scope) if value.kind == "name" else ()
    return found[0].value if len(found) == 1 and not found[0].loops else value


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


def score_over_batches(reading: Training) -> Iterator[Match]:
    yield from curve_of_means(reading)
    yield from unequal_batches(reading)
    yield from whole.perplexities(reading)
    yield from whole.epoch_scores(reading)
    for number, call in reading.numbered(reading.methods(*NOT_ADDITIVE)):
        if not call.name.startswith("sklearn.metrics.") or not call.loops:
            continue
        iterable = reading.iterable_of(call)
        names = iterable.all_names if iterable is not None else ()
        if any(is_loader(name) for name in names) and _is_averaged(reading, call, number):
            yield Match(call.span, f"{call.method} of single batches is averaged")


def _is_averaged(reading: Training, call: Call, number: int) -> bool:
    held = {number}
    for each in reading.assignments:
        same = each.loops == call.loops and each.scope == call.scope
        if (
            same
            and each.augmented
            and (each.value.call == number or {each.value.name} & set(call.targets))
        ):
            return True
    for n, other in reading.numbered(reading.methods("append")):
        value = other.args[0] if len(other.args) == 1 else Value("other")
        if other.loops == call.loops and (value.call in held or value.name in call.targets):
            return any(
                other.receiver in [v.name for v in reading.calls[m].args]
                for m in reading.methods(*MEANS)
                if m > n and reading.calls[m].scope == call.scope
            )
    return False


def sum_reset(reading: Training) -> Iterator[Match]:
    """A sum or list of an epoch that is emptied in every batch, or in no epoch."""
    yield from epoch_sums.counters_kept(reading)
    yield from epoch_sums.lists_kept(reading)
    for number in reading.backwards:
        call = reading.calls[number]
        if not call.loops:
            continue
        batch = call.loops
        for target, each in _sums(reading, call):
            plain = [
                a
                for a in reading.assigned_to(target, call.scope)
                if not a.augmented and a.scope == call.scope
            ]
            inside = [a for a in plain if a.loops == batch and not a.arms]
            before = [a for a in plain if len(a.loops) < len(batch)]
            emptied = inside and before and inside[0].span.order < each.order
            if emptied and _read_after(reading, target, call):
                yield Match(inside[0].span, f"{target} is emptied in every batch")


def _sums(reading: Training, call: Call) -> Iterator[tuple[str, Span]]:
    reading.step(len(reading.assignments))
    for each in reading.assignments:
        same = (each.scope, each.loops, each.operator) == (call.scope, call.loops, "Add")
        if same and direction(each.target) and "." not in each.target:
            yield each.target, each.span
    for other in reading.named("append"):
        if (other.scope, other.loops) == (call.scope, call.loops) and other.receiver:
            yield other.receiver, other.span


def _read_after(reading: Training, target: str, call: Call) -> bool:
    """The result of the loop is used after it."""
    function = reading.function(call.scope)
    returned = any(target in v.all_names for v in function.returns)
    last = max(reading.by_loop[call.loops[-1]])
    return returned or any(
        n > last and target in v.all_names
        for n in reading.scope_calls(call.scope)
        for v in reading.calls[n].args
    )


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
            "losses with reduction='sum' are added up and divided by len(loader)",
            "a sum over val_loader is divided by len(train_loader)",
            "for i, x in enumerate(loader): total += loss; and total / i behind the loop",
            "losses that were divided by the accumulation are added up, and divided once more",
        ),
        fix="Divide sums over samples by len(loader.dataset), and means of batches by len(loader).",
        needs=("sum", "item", "detach"),
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
        fires=(
            "a score of scikit-learn in a loop over a loader, summed or averaged",
            "exp(loss) or sqrt(mse) of batches, averaged",
            "a score of what the loop over batches sets anew: of the last batch alone",
            "2 ** loss of a cross-entropy",
            "a note: the mean of accuracies of batches, of which the last is smaller",
        ),
        fix="Collect predictions and labels in the loop, compute the score once; take the root or "
        "the exponential of the mean loss.",
        needs=("sklearn", "exp", "sqrt", "cross_entropy", "CrossEntropyLoss", "mean"),
        sources=("argument-mining-45", "few-nerd-2"),
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
            "hits / total in each epoch of a range, of counters that are 0 before the first alone",
            "np.mean(scores) in each epoch, of a list that is empty before the first alone",
        ),
        fix="Set it to 0 at the start of the epoch, above the loop over batches.",
        sources=("2d-hand-pose-estimation-rgb-2", "pytorch-beginner-40"),
    ),
)
