"""Rules on data for training that reach the evaluation, and the other way round."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import direction, is_held_out, is_loader, is_training, words
from doctor.checks.script.origins import shared_rows
from doctor.checks.script.reading import exclusive, flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.scores import improvements_compared
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

SPLIT = "torch.utils.data.random_split"
RANDOM = "torchvision.transforms."
FITTED = {
    "StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "PCA", "PowerTransformer",
    "QuantileTransformer", "TfidfVectorizer", "TruncatedSVD", "SelectKBest", "SelectPercentile",
    "SelectFromModel", "RFE", "SimpleImputer", "KNNImputer", "IterativeImputer",
}  # fmt: skip
SPLITTER = "sklearn.model_selection.train_test_split"


def evaluated_on_training(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    if "tests" in reading.script.path:
        return
    for call, name, rows in shared_rows(reading):
        yield Match(call.span, f"{name} reads {rows}, which trains the model")
    yield from _augmented_parts(reading)
    yield from _below_split(reading)
    yield from _held_out_unused(reading)
    yield from _overlapping(reading)
    yield from _chosen_by_test(reading)


def _overlapping(reading: Training) -> Iterator[Match]:
    """x[:8000] trains and x[7000:] evaluates."""
    ends: dict[str, tuple[str, int]] = {}
    for each in reading.script.assignments:
        name = each.target.rpartition(".")[2]
        for part in flatten([each.value, *_arguments(reading, each.value)]):
            index = part.items[1] if part.kind == "item" and len(part.items) == 2 else None
            if index is None or index.kind != "slice":
                continue
            start, stop = index.items[0].literal, index.items[1].literal
            key = f"{part.name} in {each.scope}"
            if is_training(name) and start in (None, 0) and isinstance(stop, int) and stop > 0:
                ends[key] = (name, stop)
            first, stop_of = ends.get(key, ("", 0))
            if is_held_out(name) and isinstance(start, int) and 0 <= start < stop_of:
                yield Match(each.span, f"{name} begins at {start}, and {first} ends at {stop_of}")


def _arguments(reading: Training, value: Value) -> tuple[Value, ...]:
    return reading.calls[value.call].args if value.kind == "call" else ()


def _chosen_by_test(reading: Training) -> Iterator[Match]:
    """The best epoch, the rate or the end is chosen by test data, beside validation data."""
    named = {w for each in reading.script.assignments for w in words(each.target)}
    both = named & {"val", "valid", "validation", "dev"} and "test" in named
    for each, new, _ in improvements_compared(reading) if both else ():
        if "test" in words(new):
            yield Match(each.span, f"the best epoch is chosen by {new}, and validation is at hand")
    for call in reading.calls if both else ():
        value = call.args[0] if call.args else None
        stops = call.method == "step" or "stop" in call.method.casefold()
        if value is not None and value.kind == "name" and "test" in words(value.name) and (
            stops and direction(value.name) and call.loops
        ):  # fmt: skip
            yield Match(call.span, f"{call.name}() reads {value.name}, and validation is at hand")
    yield from _trainers_on_test(reading)


def _trainers_on_test(reading: Training) -> Iterator[Match]:
    """The data that choose the checkpoint are those that the result is reported of."""
    chooses = reading.setting("load_best_model_at_end")[0] or reading.methods(
        "EarlyStopping", "ModelCheckpoint", "EarlyStoppingCallback"
    )
    sinks = [(n, "eval_dataset") for n in reading.trainers]
    sinks += [(n, "val_dataloaders") for n in reading.fits]
    for number, key in sinks if chooses else ():
        value = reading.calls[number].keywords.get(key)
        if value is None or "test" not in words(value.name):
            continue
        for n in reading.methods("test", "predict", "evaluate"):
            call = reading.calls[n]
            if n > number and value in (*call.args, *call.keywords.values()):
                yield Match(reading.calls[number].span, f"{value.name} chooses the checkpoint, and "
                            f"{call.method}() reports of it")  # fmt: skip
                break


def _held_out_unused(reading: Training) -> Iterator[Match]:
    """evaluate(model, train_loader), while the loader for evaluation is read nowhere."""
    loaders = [t for n in reading.methods("DataLoader") for t in reading.calls[n].targets]
    loaders += [t for call in reading.calls for t in call.targets if len(call.targets) > 1]
    unused = [n for n in loaders if is_held_out(n) and is_loader(n) and "." not in n]
    if not unused:
        return
    read = {n for value, _, _ in reading.expressions for n in (value.name, *value.names)}
    read |= {n for loop in reading.script.loops if loop.iterable is not None
             for n in (loop.iterable.name, *loop.iterable.names)}  # fmt: skip
    for call in reading.calls:
        name = call.method.casefold()
        evaluates = any(word in name for word in ("eval", "valid", "test")) and "train" not in name
        if not evaluates or reading.target_function(call) is None:
            continue
        given = next((v.name for v in call.args if v.kind == "name" and is_loader(v.name)
                      and is_training(v.name)), "")  # fmt: skip
        missed = next((n for n in unused if (given and n.replace("test", "train") == given)
                       or n.replace("valid", "train") == given
                       or n.replace("val", "train") == given), "")  # fmt: skip
        returned = missed and reading.function(call.scope).returns
        if missed and not returned and _uses(reading, missed, call.scope, read):
            yield Match(call.span, f"{call.method}() reads {given}, and {missed} is never used")


def _uses(reading: Training, name: str, scope: int, read: set[str]) -> bool:
    """The name is bound in this function, and read in none but those that return it."""
    readers = {
        s for value, _, s in reading.expressions if name in (value.name, *value.names)
    } | {loop.scope for loop in reading.script.loops if loop.iterable is not None
         and name in (loop.iterable.name, *loop.iterable.names)}  # fmt: skip
    bound = any(name in call.targets and call.scope == scope for call in reading.calls)
    return bound and scope not in readers


def _augmented_parts(reading: Training) -> Iterator[Match]:
    """Validation by a sampler over images that random transforms change."""
    loaders = [reading.calls[n] for n in reading.methods("DataLoader")]
    for call in loaders:
        target, data = _target(call), _data(call)
        if data is None or data.kind != "name" or not is_held_out(target) or not _is_part(call):
            continue
        shared = any(
            each is not call and each.scope == call.scope and _target(each) != target
            and (other := _data(each)) is not None and other.name == data.name
            and not exclusive(each.arms, call.arms)
            for each in loaders
        )  # fmt: skip
        if shared and (name := _augmented(reading, data, call)):
            yield Match(call.span, f"{target} reads images that {name} changes at random")


def _target(call: Call) -> str:
    return call.targets[0] if len(call.targets) == 1 else ""


def _data(call: Call) -> Value | None:
    return call.args[0] if call.args else call.keywords.get("dataset")


def _is_part(call: Call) -> bool:
    return bool({"sampler", "batch_sampler"} & call.keywords.keys() or call.unpacked)


def _augmented(reading: Training, data: Value, call: Call) -> str:
    """A random transform of the dataset, "" where there is none or the file does not show it."""
    for option in evaluate.options(reading, data, call):
        made = reading.calls[option.call] if option.kind == "call" else None
        value = made.keywords.get("transform") if made is not None else None
        for each in evaluate.options(reading, value, call) if value is not None else ():
            for n in each.calls:
                name = reading.calls[n].name
                if name.startswith(RANDOM) and reading.calls[n].method.startswith("Random"):
                    return reading.calls[n].method
    return ""


RANDOMIZES = {"ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"}
FLAGS = {"augment", "augmentation", "train_augment", "augmented", "do_augment"}


def held_out_augmented(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    """Data for evaluation that random transforms change."""
    if reading.mentions("tta", "test_time", "contrastive", "twocrop", "twoview", "ten_crop"):
        return
    for number, target in sorted({*_read_by_loaders(reading), *_named_sets(reading)}):
        if name := _randomizes(reading, number):
            message = f"{target} has samples that {name} changes at random"
            yield Match(reading.calls[number].span, message)


def _read_by_loaders(reading: Training) -> Iterator[tuple[int, str]]:
    """Calls that make the data of a loader for evaluation, and its name."""
    for number in reading.methods("DataLoader"):
        call, data = reading.calls[number], _data(reading.calls[number])
        if data is not None and is_held_out(_target(call)):
            for option in evaluate.options(reading, data, call):
                if option.kind == "call":
                    target = _target(reading.calls[option.call])
                    yield option.call, target if is_held_out(target) else _target(call)


def _named_sets(reading: Training) -> Iterator[tuple[int, str]]:
    for number, call in enumerate(reading.calls):
        known = call.method.endswith(("Dataset", "Folder")) or call.name.startswith(OF_IMAGES)
        if known and len(call.targets) == 1 and is_held_out(call.targets[0]):
            yield number, call.targets[0]


OF_IMAGES = ("torchvision.datasets.", "torchaudio.datasets.")


def _randomizes(reading: Training, number: int) -> str:
    """A random transform among the arguments of a dataset, or a switch that asks for them."""
    call = reading.calls[number]
    if call.name == SPLIT or call.method in ("Subset", "DataLoader"):
        return ""
    for key in FLAGS & call.keywords.keys():
        if call.keywords[key].literal is True:
            return f"{key}=True"
    for value in (*call.args[1:], *call.keywords.values()):
        for each in evaluate.options(reading, value, call):
            made = reading.calls[each.call] if each.kind == "call" else None
            for n in each.calls if made is not None and made.method == "Compose" else ():
                name = reading.calls[n].name
                random = reading.calls[n].method.startswith("Random")
                if name.startswith(RANDOM) and (random or reading.calls[n].method in RANDOMIZES):
                    return reading.calls[n].method
    return ""


def _below_split(reading: Training) -> Iterator[Match]:
    """The dataset below a part, or the whole beside its parts."""
    for number in reading.methods("random_split"):
        split = reading.calls[number]
        if split.name != SPLIT or len(split.targets) < 2:
            continue
        parts = {reading.key(name, split.scope) for name in split.targets}
        yield from _shared_transforms(reading, parts)
        for n in reading.methods("DataLoader"):
            call, data = reading.calls[n], _data(reading.calls[n])
            if data is None or data.kind != "name":
                continue
            base = data.name.removesuffix(".dataset")
            if base != data.name and reading.key(base, call.scope) in parts:
                yield Match(call.span, f"{data.name} is the whole data and not the part")
            elif _is_whole(reading, split, call, data):
                message = f"the loader reads {data.name}, and not {split.targets[0]}"
                yield Match(call.span, message)


def _shared_transforms(reading: Training, parts: set[tuple[object, str]]) -> Iterator[Match]:
    copied = {each.target for each in reading.script.assignments}
    for each in reading.script.assignments:
        base, _, last = each.target.rpartition(".dataset.")
        shared = reading.key(base, each.scope) in parts and f"{base}.dataset" not in copied
        if shared and last in ("transform", "transforms"):
            yield Match(each.span, f"{each.target} is set for all parts: they share a dataset")


def _is_whole(reading: Training, split: Call, call: Call, data: Value) -> bool:
    """The loader for training gets what was split, and the part for it is never used."""
    source, part = split.args[0] if split.args else Value("other"), split.targets[0]
    if source.kind != "name" or not is_training(part) or _is_part(call):
        return False
    if reading.key(source.name, split.scope) != reading.key(data.name, call.scope):
        return False
    trains = is_training(_target(call)) or is_training(reading.function(call.scope).name)
    key = reading.key(part, split.scope)
    used = any(
        name and reading.key(name, scope) == key
        for value, _, scope in reading.expressions
        for name in (value.name, *value.names)
    )
    return trains and not used


def fitted_on_test(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    splits = [reading.calls[n] for n in reading.methods("train_test_split")]
    splits = [call for call in splits if call.name == SPLITTER and call.args]
    parted = [*splits, *(reading.calls[n] for n in reading.methods("random_split"))]
    for number in reading.methods("fit_transform", "fit"):
        call = reading.calls[number]
        if not _is_fitted(reading, call, number) or not call.args:
            continue
        name = call.args[0].name.partition("[")[0]
        if _joins_parts(reading, call.args[0]):
            yield Match(call.span, "it is fitted to training and test data together")
        elif is_held_out(name) and _fitted_before(reading, call, number):
            yield Match(call.span, f"{call.receiver} is fitted again, on {name}")
        elif name and not _is_some(call.args[0]) and _is_split(reading, name, call, parted):
            yield Match(call.span, f"{name} is scaled by its own test part: the split comes later")
    yield from _splits(reading, splits)
    yield from _resampled(reading, parted)
    yield from _one_side(reading, splits)
    yield from _own_statistics(reading, parted)


def _fitted_before(reading: Training, call: Call, number: int) -> bool:
    return any(
        each.receiver == call.receiver and each.args and is_training(each.args[0].name)
        for n in reading.methods("fit_transform", "fit")
        if n < number and (each := reading.calls[n]).scope == call.scope
    )


def _joins_parts(reading: Training, value: Value) -> bool:
    """concatenate([train, test]), also by a name for it."""
    names = list(value.names)
    for each in reading.script.assignments:
        if value.kind == "name" and each.target == value.name and each.value.kind == "call":
            value = each.value
            names = list(value.names)
            break
    made = reading.calls[value.call] if value.kind == "call" else None
    joins = made is not None and made.method in ("concatenate", "concat", "vstack", "cat", "append")
    named = [{*words(name)} for name in names]
    return joins and any(is_training(n) for n in names) and any("test" in w for w in named)


def _is_some(value: Value) -> bool:
    """x[:n] or df[df.fold != 0]: not all rows."""
    return value.kind == "item" and len(value.items) == 2 and value.items[1].kind in (
        "slice", "test", "other",
    )  # fmt: skip


def _is_split(reading: Training, name: str, call: Call, splits: list[Call]) -> bool:
    """What the name holds, or what is made of it or of the result, is cut into parts later."""
    names, number = {name, *call.targets}, reading.numbers[id(call)]
    for each in reading.script.assignments:
        later = each.scope == call.scope and each.position >= number and "[" not in each.target
        later = later and not any(reading.calls[n].name == "len" for n in each.value.calls)
        if later and names & {each.value.name, *each.value.names} and not is_training(each.target):
            names.add(each.target)
    cut = any(
        reading.numbers[id(split)] > number
        and split.scope == call.scope
        and names & {n for v in split.args for n in (v.name, *v.names)}
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
    for number in reading.methods("std", "max", "amax"):
        call = reading.calls[number]
        name, axis = _reduced(call)
        pair = {"std": {"mean", "nanmean"}}.get(call.method, {"min", "amin"})
        same = any(_reduced(reading.calls[n]) == (name, axis) for n in reading.methods(*pair)
                   if reading.calls[n].scope == call.scope)  # fmt: skip
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
    number = reading.numbers[id(call)]
    for value, _, scope in reading.expressions:
        for part in flatten([value]) if scope == call.scope else ():
            if part.kind == "other" and part.name == "Div" and len(part.items) == 2:
                over, by = part.items
                if (number in by.calls or {by.name, *by.names} & set(_held(reading, call))) and (
                    name.rpartition(".")[2]
                    and (over.name == "Sub" or over.kind in ("other", "name"))
                ):
                    return True
    return False


def _held(reading: Training, call: Call) -> list[str]:
    """Names of the result, also of one of several that are assigned together."""
    number = reading.numbers[id(call)]
    return [
        each.target
        for each in reading.script.assignments
        if each.scope == call.scope and number in (each.value.call, *each.value.calls)
    ]


def _resampled(reading: Training, splits: list[Call]) -> Iterator[Match]:
    """Rows are made or repeated before the split: copies of test rows train."""
    for number in reading.methods("fit_resample", "fit_sample"):
        call = reading.calls[number]
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
    for n in reading.methods("shuffle"):
        call = reading.calls[n]
        name = call.args[0].name if len(call.args) == 1 else ""
        if call.name not in ("numpy.random.shuffle", "random.shuffle") or call.loops:
            continue
        others = [
            reading.calls[m].args[0].name
            for m in reading.methods("shuffle")
            if reading.calls[m].args
        ]
        seeded = reading.methods("seed", "set_state", "RandomState")
        pairs = [
            [v.name for v in reading.calls[m].args]
            for m in reading.methods("train_test_split", "TensorDataset")
            if m > n and reading.calls[m].scope == call.scope
        ]
        for pair in pairs:
            if (
                name in pair
                and len(pair) == 2
                and set(words(name)) & INPUTS
                and not seeded
                and not (set(pair) - {name} & set(others))
            ):
                yield Match(call.span, f"{name} is shuffled, and {pair[1]} is not")


INPUTS = {"x", "data", "features", "images", "inputs"}
LABELS = {"y", "labels", "label", "targets", "target"}


def _is_fitted(reading: Training, call: Call, number: int) -> bool:
    """A scaler of scikit-learn."""
    if call.receiver_call >= 0:
        made = reading.calls[call.receiver_call]
        return made.name.startswith("sklearn.") and made.method in FITTED
    values = evaluate.options(reading, Value("name", name=call.receiver), call)
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
        and reading.numbers[id(first)] < each.position <= reading.numbers[id(call)]
        for each in reading.script.assignments
    )
    return not changed and any(is_held_out(name) for name in (*names, *first.targets))


def _has_side(name: str) -> bool:
    return bool(words(name)) and (is_training(name) or is_held_out(name))


RULES = (
    Rule(
        code="SCR311",
        slug="held-out-augmented",
        title="Data for evaluation are not changed at random",
        severity="warn",
        find=held_out_augmented,
        why="A metric on randomly cropped or flipped samples is lower than the model's, and "
        "another one in every epoch.",
        fires=(
            "a dataset named for validation or test with a random transform of torchvision",
            "the same with augment=True",
        ),
        fix="Give the evaluation transforms without a random part: Resize, CenterCrop.",
        sources=("swin-unet-135",),
        needs=("Compose", *FLAGS),
    ),
    Rule(
        code="SCR262",
        slug="evaluated-on-training-data",
        title="Training and evaluation use different data",
        severity="warn",
        find=evaluated_on_training,
        why="A metric on data that trained the model says nothing of other data, and the best "
        "checkpoint is chosen by it.",
        fires=(
            "a loader named for validation or test over the data of the training loader",
            "the same dataset with train=True for both, or one value for train_dataset and "
            "eval_dataset",
            "part.dataset of random_split in a loader, or a transform set on it: it is the whole",
            "the training loader reads what was split, and the part for training is unused",
            "validation by a sampler over images that random transforms change",
            "evaluate(model, train_loader), while the loader for evaluation is never read",
        ),
        fix="Give each loader its own part. For other transforms, make the dataset twice and use "
        "torch.utils.data.Subset.",
        sources=("x-vector-pytorch-8", "swin-unet-135", "aestetik-8", "torchgeo-257"),
    ),
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
