"""A rule on statistics of test data that reach the training."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.naming import is_held_out, is_training, words
from doctor.checks.script.reading import exclusive, flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

FITTED = {
    "StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "PCA", "PowerTransformer",
    "QuantileTransformer", "TfidfVectorizer", "TruncatedSVD", "SelectKBest", "SelectPercentile",
    "SelectFromModel", "RFE", "SimpleImputer", "KNNImputer", "IterativeImputer",
}  # fmt: skip


SPLITTER = "sklearn.model_selection.train_test_split"


def fitted_on_test(reading: Training) -> Iterator[Match]:
    splits = reading.named("train_test_split")
    splits = [call for call in splits if call.name == SPLITTER and call.args]
    parted = [*splits, *(reading.named("random_split"))]
    for number, call in reading.numbered(reading.methods("fit_transform", "fit")):
        if not _is_fitted(reading, call) or not call.args:
            continue
        given = _converted(reading, call.args[0])
        name = given.name.partition("[")[0]
        if _joins_parts(reading, call.args[0]):
            yield Match(call.span, "it is fitted to training and test data together")
        elif is_held_out(name) and _fitted_before(reading, call, number):
            yield Match(call.span, f"{call.receiver} is fitted again, on {name}")
        elif name and not _is_some(given) and _is_split(reading, name, call, parted):
            yield Match(call.span, f"{name} is scaled by its own test part: the split comes later")
    yield from _splits(reading, splits)
    yield from _resampled(reading, parted)
    yield from _one_side(reading, splits)
    yield from _own_statistics(reading, parted)


def _converted(reading: Training, value: Value) -> Value:
    """frame in frame.to_numpy() and frame.values, which may be a part of its rows."""
    call = reading.call_of(value)
    if call is None or call.method not in ("to_numpy", "numpy", "astype", "reshape", "asarray"):
        return value
    below = objects.operand(call)
    return _converted(reading, below) if below is not None else value


def _fitted_before(reading: Training, call: Call, number: int) -> bool:
    return any(
        each.receiver == call.receiver and each.args and is_training(each.args[0].name)
        for n in reading.methods("fit_transform", "fit")
        if n < number and (each := reading.calls[n]).scope == call.scope
    )


def _joins_parts(reading: Training, value: Value) -> bool:
    """concatenate([train, test]), also by a name for it."""
    names = list(value.names)
    for each in reading.assignments:
        if value.kind == "name" and each.target == value.name and each.value.kind == "call":
            value = each.value
            names = list(value.names)
            break
    made = reading.call_of(value)
    joins = made is not None and made.method in ("concatenate", "concat", "vstack", "cat", "append")
    named = [{*words(name)} for name in names]
    return joins and any(is_training(n) for n in names) and any("test" in w for w in named)


def _is_some(value: Value) -> bool:
    """x[:n], x[:n, :3] or df[df.fold != 0]: not all rows."""
    if value.kind != "item" or len(value.items) != 2:
        return False
    index = value.items[1]
    rows = index.items[0] if index.kind == "list" and index.items else index
    every = rows.kind == "slice" and all(v.literal is None and not v.name for v in rows.items)
    part = rows.kind in ("slice", "test", "other") and not (every and rows is not index)
    return part or (rows.kind == "name" and bool({*words(rows.name)} & ROWS))


ROWS = {"train", "trn", "idx", "index", "indices", "mask", "rows", "fit"}


def _is_split(reading: Training, name: str, call: Call, splits: list[Call]) -> bool:
    """What the name holds, or what is made of it or of the result, is cut into parts later."""
    names, number = {name, *call.targets}, reading.number(call)
    for each in reading.assignments:
        later = each.scope == call.scope and each.position >= number and "[" not in each.target
        later = later and not any(other.name == "len" for other in reading.inside(each.value))
        if later and names.intersection(each.value.all_names) and not is_training(each.target):
            names.add(each.target)
    cut = any(
        reading.number(split) > number
        and split.scope == call.scope
        and names & {n for v in split.args for n in v.all_names}
        and not exclusive(split.arms, call.arms)
        for split in splits
    )
    return cut or (not is_training(name) and _is_sliced(reading, names, call))


def _is_sliced(reading: Training, names: set[str], call: Call) -> bool:
    """Both x[:n] and x[n:] of one of the names are used later in the function."""
    sides: dict[str, set[bool]] = {}
    for value, span, scope in reading.expressions:
        for part in flatten([value]) if scope == call.scope and span.line > call.span.line else ():
            index = part.items[1] if part.kind == "item" and len(part.items) == 2 else None
            if index is None or index.kind != "slice" or part.items[0].name not in names:
                continue
            start, stop = index.items[:2]
            ends = [v.kind != "literal" or v.literal is not None for v in (start, stop)]
            if ends in ([False, True], [True, False]):
                sides.setdefault(part.items[0].name, set()).add(ends[0])
    return any(len(found) == 2 for found in sides.values())


def _own_statistics(reading: Training, splits: list[Call]) -> Iterator[Match]:
    """mean and std, or min and max, of all rows, which are cut into parts later."""
    for call in reading.named("std", "max", "amax"):
        name, axis = _reduced(call)
        pair = {"std": {"mean", "nanmean"}}.get(call.method, {"min", "amin"})
        same = any(_reduced(other) == (name, axis) for other in reading.named(*pair)
                   if other.scope == call.scope)  # fmt: skip
        if not same or call.loops or axis not in (None, 0) or is_training(name):
            continue
        if is_held_out(name) or not _scales(reading, name, call):
            continue
        joined = _joins_parts(reading, Value("name", name=name))
        if joined or _is_split(reading, name, call, splits):
            yield Match(call.span, f"{name} is scaled by its own test part: the split comes later")


def _reduced(call: Call) -> tuple[str, object]:
    """What is reduced, as a whole or by columns, and its axis; "" for a part of it."""
    value = call.base or Value("name", name=call.receiver)
    axes = list(call.args)
    if call.name.startswith(("numpy.", "torch.")) and call.args:
        value, axes = call.args[0], list(call.args[1:])
    axis = call.keywords.get("axis") or call.keywords.get("dim") or (axes[0] if axes else None)
    if call.receiver_call >= 0 or _is_some(value):
        return "", None
    found = axis.literal if axis is not None and axis.kind == "literal" else axis and "?"
    return value.name.partition("[")[0], found


def _scales(reading: Training, name: str, call: Call) -> bool:
    """Something is divided by the result, or by what it is a part of."""
    number = reading.number(call)
    for value, _, scope in reading.expressions:
        for part in flatten([value]) if scope == call.scope else ():
            if part.kind == "other" and part.name == "Div" and len(part.items) == 2:
                over, by = part.items
                if (number in by.calls or set(by.all_names) & set(_held(reading, call))) and (
                    name.rpartition(".")[2]
                    and (over.name == "Sub" or over.kind in ("other", "name"))
                ):
                    return True
    return False


def _held(reading: Training, call: Call) -> list[str]:
    """Names of the result, also of one of several that are assigned together."""
    number = reading.number(call)
    return [
        each.target
        for each in reading.assignments
        if each.scope == call.scope and number in (each.value.call, *each.value.calls)
    ]


def _resampled(reading: Training, splits: list[Call]) -> Iterator[Match]:
    """Rows are made or repeated before the split: copies of test rows train."""
    for call in reading.named("fit_resample", "fit_sample"):
        for target in call.targets[:1]:
            if _is_split(reading, target, call, splits) and not is_training(target):
                message = "rows are resampled before the split: copies of test rows are trained on"
                yield Match(call.span, message)


def _one_side(reading: Training, splits: list[Call]) -> Iterator[Match]:
    """Inputs and labels are split or shuffled one by one, each in an order of its own."""
    for first, second in itertools.pairwise(splits):
        alone = len(first.args) == len(second.args) == 1 and first.scope == second.scope
        seeds = [c.keywords.get("random_state") for c in (first, second)]
        fixed = seeds[0] is not None and seeds[0] == seeds[1]
        ordered = any("shuffle" in c.keywords for c in (first, second))
        sides = [{w for t in c.targets for w in words(t)} for c in (first, second)]
        if (
            alone
            and not fixed
            and not ordered
            and (
                (sides[0] & INPUTS and sides[1] & LABELS)
                or (sides[0] & LABELS and sides[1] & INPUTS)
            )
        ):
            yield Match(second.span, "inputs and labels are split in different orders")
    others = {other.args[0].name for other in reading.named("shuffle") if other.args}
    seeded = reading.methods("seed", "set_state", "RandomState")
    joined = reading.methods("train_test_split", "TensorDataset")
    for n, call in reading.numbered(reading.methods("shuffle")):
        name = call.args[0].name if len(call.args) == 1 else ""
        if call.name not in ("numpy.random.shuffle", "random.shuffle") or call.loops:
            continue
        pairs = (
            [v.name for v in reading.calls[m].args]
            for m in joined
            if m > n and reading.calls[m].scope == call.scope
        )
        for pair in pairs:
            if (
                name in pair
                and len(pair) == 2
                and set(words(name)) & INPUTS
                and not seeded
                and not (set(pair) - {name} & others)
            ):
                yield Match(call.span, f"{name} is shuffled, and {pair[1]} is not")


INPUTS = {"x", "data", "features", "images", "inputs"}


LABELS = {"y", "labels", "label", "targets", "target"}


def _is_fitted(reading: Training, call: Call) -> bool:
    """A scaler of scikit-learn."""
    if call.receiver_call >= 0:
        made = reading.calls[call.receiver_call]
        return made.name.startswith("sklearn.") and made.method in FITTED
    values = evaluate.receivers(reading, call)
    return bool(call.receiver and values) and all(
        each.kind == "call"
        and reading.calls[each.call].name.startswith("sklearn.")
        and reading.calls[each.call].method in FITTED
        for each in values
    )


def _splits(reading: Training, splits: list[Call]) -> Iterator[Match]:
    for n, call in enumerate(splits):
        names = call.targets
        sides = len(names) == 4 and len(call.args) == 2 and all(map(_has_side, names))
        if sides and is_training(names[1]) and is_held_out(names[2]):
            yield Match(call.span, "train_test_split returns both parts of X first, then of y")
        for other in splits[:n]:
            if _is_again(reading, other, call):
                source = call.args[0].name
                yield Match(
                    call.span, f"{source} is split once more: rows of the first test part train"
                )


def _is_again(reading: Training, first: Call, call: Call) -> bool:
    """Another split of the same rows, of which one is for test."""
    source, names = call.args[0], call.targets
    same = source.kind == "name" and first.args[0].name == source.name
    if not same or call.loops or first.scope != call.scope or exclusive(call.arms, first.arms):
        return False
    if names == first.targets or len(names) != len(first.targets) or len(names) < 2:
        return False
    seed = call.keywords.get("random_state")
    if seed is not None and isinstance(seed.literal, int) and call.keywords == first.keywords:
        return False
    changed = source.name in first.targets or any(
        each.target == source.name
        and each.scope == call.scope
        and reading.number(first) < each.position <= reading.number(call)
        for each in reading.assignments
    )
    return not changed and any(is_held_out(name) for name in (*names, *first.targets))


def _has_side(name: str) -> bool:
    return bool(words(name)) and (is_training(name) or is_held_out(name))


RULES = (
    Rule(
        code="SCR263",
        slug="test-data-in-training",
        title="Nothing is fitted to test data",
        severity="warn",
        find=fitted_on_test,
        why="Statistics or rows of the test data that reach the training make its result better "
        "than it is on new data. A second fit also scales the test data unlike the training data.",
        fires=(
            "fit() or fit_transform() of a scaler on test data, or on all data before the split",
            "train_test_split of the same data once more",
            "train_test_split unpacked as X_train, y_train, X_test, y_test",
            "fit_transform(x), or x.mean() and x.std(), and then x[:n] and x[n:]",
            "fit_resample() before the split",
            "inputs and labels split or shuffled apart, in different orders",
        ),
        fix="Split first; fit on the training part; transform the others. The order is X_train, "
        "X_test, y_train, y_test.",
        needs=("sklearn", "imblearn", "numpy", "pandas", "std", "max"),
        sources=("100-days-of-machine-learning-75", "ml-capsule-1574", "deslib-126"),
    ),
)
