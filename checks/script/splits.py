"""Rules on data for training that reach the evaluation, and the other way round."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.naming import is_held_out, is_loader, is_training, words
from doctor.checks.script.reading import exclusive, flatten
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
    yield from _named_for_other(reading)
    yield from _held_out_unused(reading)


def _named_for_other(reading: Training) -> Iterator[Match]:
    """A loader for validation that is made of what is named for training."""
    for number in reading.methods("DataLoader"):
        call = reading.calls[number]
        function = reading.function(call.scope).name
        hook = function.endswith("_dataloader") and is_held_out(function)
        held = is_held_out(_target(call)) or (hook and not call.targets)
        data = _data(call)
        made = reading.calls[data.call] if data is not None and data.kind == "call" else None
        if data is None or not held or _is_part(call):
            continue
        source = made.args[0] if made is not None and made.args else data
        other = any(
            is_training(_target(reading.calls[n])) or reading.function(
                reading.calls[n].scope).name == "train_dataloader"
            for n in reading.methods("DataLoader")
        )  # fmt: skip
        inside = made is None or made.name in {each.name for each in reading.script.classes}
        if (
            other
            and inside
            and (made is not None or hook)
            and source.kind == "name"
            and (is_training(source.name))
        ):
            what = _target(call) or function
            yield Match(call.span, f"{what} reads {source.name}, which trains the model")


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


def _same_split(reading: Training) -> Iterator[Match]:
    """The same dataset with train=True, for training and for evaluation."""
    parts = ("Subset", "random_split", "SubsetRandomSampler", "train_test_split", "StratifiedKFold")
    if reading.methods(*parts):
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
        later = later or (
            not is_training(name) and _is_sliced(reading, {name, *call.targets}, call)
        )
        if is_held_out(name) and before:
            yield Match(call.span, f"{call.receiver} is fitted again, on {name}")
        elif later:
            yield Match(call.span, f"{name} is scaled by its own test part: the split comes later")
    yield from _splits(reading, splits)
    yield from _resampled(reading, splits)
    yield from _one_side(reading, splits)
    yield from _own_statistics(reading)


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


def _own_statistics(reading: Training) -> Iterator[Match]:
    """mean and std of a whole array, which is cut into parts later."""
    for each in reading.script.assignments:
        call = reading.calls[each.value.call] if each.value.kind == "call" else None
        if call is None or call.method != "std" or is_training(call.receiver):
            continue
        name = call.receiver or ""
        if call.name in ("numpy.std", "torch.std") and call.args:
            name = call.args[0].name
        means = {"mean", "nanmean"}
        same = any(
            reading.calls[n].receiver == name and reading.calls[n].scope == call.scope
            for n in reading.methods(*means)
        ) or any(v.name == name for n in reading.methods(*means) for v in reading.calls[n].args)
        if name and not is_held_out(name) and same and _is_sliced(reading, {name}, call):
            yield Match(call.span, f"{name} is scaled by its own test part: the split comes later")


def _resampled(reading: Training, splits: list[Call]) -> Iterator[Match]:
    """Rows are made or repeated before the split: copies of test rows train."""
    for number in reading.methods("fit_resample", "fit_sample"):
        call = reading.calls[number]
        for split in splits:
            given = {v.name for v in split.args} & set(call.targets)
            if given and reading.numbers[id(split)] > number and split.scope == call.scope:
                yield Match(call.span, "rows are resampled before the split: copies of test rows "
                            "are trained on")  # fmt: skip
                break


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
            "fit_transform(x), or x.mean() and x.std(), and then x[:n] and x[n:]",
            "fit_resample() before the split",
            "inputs and labels split or shuffled apart, in different orders",
        ),
        fix="Split first; fit on the training part; transform the others. The order is X_train, "
        "X_test, y_train, y_test.",
        needs=("sklearn", "imblearn", "numpy"),
        sources=("100-days-of-machine-learning-75", "ml-capsule-1574", "deslib-126"),
    ),
)
