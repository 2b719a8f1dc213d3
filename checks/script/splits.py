"""Rules on data for training that reach the evaluation, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import is_held_out, is_training, words
from doctor.checks.script.reading import exclusive
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value
from doctor.facts.script_machine import ScriptMachine

SPLIT = "torch.utils.data.random_split"
RANDOM = "torchvision.transforms."
FITTED = {
    "StandardScaler", "MinMaxScaler", "RobustScaler", "MaxAbsScaler", "PCA", "PowerTransformer",
    "QuantileTransformer",
}  # fmt: skip
SPLITTER = "sklearn.model_selection.train_test_split"


def evaluated_on_training(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    yield from _loaders(reading)
    yield from _same_split(reading)
    yield from _below_split(reading)
    yield from _trainers(reading)


def _loaders(reading: Training) -> Iterator[Match]:
    """A loader for evaluation over the data that another loader trains on."""
    loaders = [reading.calls[n] for n in reading.methods("DataLoader")]
    for call in loaders:
        target, data = _target(call), _data(call)
        if data is None or data.kind != "name" or not is_held_out(target):
            continue
        others = [
            each
            for each in loaders
            if each is not call and each.scope == call.scope and _target(each) != target
            and (other := _data(each)) is not None and other.name == data.name
            and not exclusive(each.arms, call.arms)
        ]  # fmt: skip
        if not others:
            continue
        if not _is_part(call) and is_training(data.name):
            yield Match(call.span, f"{target} reads {data.name}, which trains the model")
        elif _is_part(call) and (name := _augmented(reading, data, call)):
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


def _same_split(reading: Training) -> Iterator[Match]:
    """The same dataset with train=True, for training and for evaluation."""
    if reading.mentions("subset", "random_split", "sampler", "train_test_split"):
        return
    for call in reading.calls:
        train = call.keywords.get("train")
        if train is None or train.literal is not True or not is_held_out(_target(call)):
            continue
        others = [c for c in reading.calls if c.name == call.name and c is not call]
        if any(c.keywords.get("train") == train and is_training(_target(c)) for c in others):
            yield Match(call.span, f"{_target(call)} is made with train=True")


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


def _trainers(reading: Training) -> Iterator[Match]:
    if "tests" in reading.script.path:
        return
    for number in reading.trainers:
        call = reading.calls[number]
        train, held = call.keywords.get("train_dataset"), call.keywords.get("eval_dataset")
        if train is not None and held == train and train.kind in ("name", "item") and train.name:
            yield Match(call.span, f"eval_dataset is train_dataset: {train.name}")


def fitted_on_test(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    splits = [reading.calls[n] for n in reading.methods("train_test_split")]
    splits = [call for call in splits if call.name == SPLITTER and call.args]
    for number in reading.methods("fit_transform", "fit"):
        call = reading.calls[number]
        if not _is_fitted(reading, call, number) or not call.args or call.args[0].kind != "name":
            continue
        name = call.args[0].name
        before = any(
            each.receiver == call.receiver and each.args and is_training(each.args[0].name)
            for n in reading.methods("fit_transform", "fit")
            if n < number and (each := reading.calls[n]).scope == call.scope
        )
        later = any(
            reading.numbers[id(split)] > number and split.scope == call.scope
            and {name, *call.targets} & {v.name for v in split.args}
            and not exclusive(split.arms, call.arms)
            for split in splits
        )  # fmt: skip
        if is_held_out(name) and before:
            yield Match(call.span, f"{call.receiver} is fitted again, on {name}")
        elif later:
            yield Match(call.span, f"{name} is scaled by its own test part: the split comes later")
    yield from _splits(reading, splits)


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
        ),
        fix="Give each loader its own part. For other transforms, make the dataset twice and use "
        "torch.utils.data.Subset.",
        needs=("DataLoader", "train", "eval_dataset", "random_split"),
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
        ),
        fix="Split first; fit on the training part; transform the others. The order is X_train, "
        "X_test, y_train, y_test.",
        needs=("sklearn",),
        sources=("100-days-of-machine-learning-75", "ml-capsule-1574", "deslib-126"),
    ),
)
