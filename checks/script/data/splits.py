"""Rules on data for training that reach the evaluation, and the other way round."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.data.origins import shared_rows
from doctor.checks.script.data.parts_unused import held_out_unused, read_for_another
from doctor.checks.script.data.split_again import drawn_for_each_part
from doctor.checks.script.data.split_slices import overlapping_slices
from doctor.checks.script.metrics import whole
from doctor.checks.script.metrics.scores import improvements_compared
from doctor.checks.script.naming import direction, is_held_out, is_training, words
from doctor.checks.script.reading import exclusive, flatten
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

SPLIT = "torch.utils.data.random_split"
RANDOM = "torchvision.transforms."


def evaluated_on_training(reading: Training) -> Iterator[Match]:
    if "tests" in reading.script.path:
        return
    for call, name, rows in shared_rows(reading):
        yield Match(call.span, f"{name} reads {rows}, which trains the model")
    yield from _augmented_parts(reading)
    yield from _below_split(reading)
    yield from held_out_unused(reading)
    yield from read_for_another(reading)
    yield from _overlapping(reading)
    yield from overlapping_slices(reading)
    yield from _chosen_by_test(reading)
    yield from whole.overlapping(reading)
    yield from drawn_for_each_part(reading)


def _overlapping(reading: Training) -> Iterator[Match]:
    """x[:8000] trains and x[7000:] evaluates."""
    ends: dict[str, tuple[str, int]] = {}
    for each in reading.assignments:
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
    targets = {
        each.target for each in reading.assignments if each.value.kind not in ("literal", "name")
    } - {"dev"}  # dev = torch.device("cuda"), and numbers to begin with
    named = {w for target in targets for w in words(target)}
    both = named & {"val", "valid", "validation", "dev"} and "test" in named
    for each, new, _ in improvements_compared(reading) if both else ():
        loaders = whole.loaders_of(reading, new, each)
        validated = loaders and not any("test" in words(name) for name in loaders)
        if ("test" in words(new) and not validated) or whole.chosen_by(reading, new, each):
            yield Match(each.span, f"the best epoch is chosen by {new}, and validation is at hand")
    for call in reading.calls if both else ():
        value = call.first
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
        for n, call in reading.numbered(reading.methods("test", "predict", "evaluate")):
            if n > number and value in call.values:
                yield Match(reading.calls[number].span, f"{value.name} chooses the checkpoint, and "
                            f"{call.method}() reports of it")  # fmt: skip
                break


def _augmented_parts(reading: Training) -> Iterator[Match]:
    """Validation by a sampler over images that random transforms change."""
    loaders = reading.named("DataLoader")
    for call in loaders:
        target, data = target_of(call), data_of(call)
        if data is None or data.kind != "name" or not is_held_out(target) or not _is_part(call):
            continue
        shared = any(
            each is not call and each.scope == call.scope and target_of(each) != target
            and (other := data_of(each)) is not None and other.name == data.name
            and not exclusive(each.arms, call.arms)
            for each in loaders
        )  # fmt: skip
        if shared and (name := _augmented(reading, data, call)):
            yield Match(call.span, f"{target} reads images that {name} changes at random")


def target_of(call: Call) -> str:
    return call.target


def data_of(call: Call) -> Value | None:
    return call.given("dataset", 0)


def _is_part(call: Call) -> bool:
    return bool({"sampler", "batch_sampler"} & call.keywords.keys() or call.unpacked)


def _augmented(reading: Training, data: Value, call: Call) -> str:
    """A random transform of the dataset, "" where there is none or the file does not show it."""
    for option in evaluate.options(reading, data, call):
        made = reading.call_of(option)
        value = made.keywords.get("transform") if made is not None else None
        if name := _random_part(reading, evaluate.options(reading, value, call)):
            return name
    return ""


def _random_part(reading: Training, options: list[Value]) -> str:
    """RandomCrop of Compose([RandomCrop(32), ToTensor()])."""
    made = [reading.calls[n] for each in options for n in each.calls]
    return next((c.method for c in made
                 if c.name.startswith(RANDOM) and c.method.startswith("Random")), "")  # fmt: skip


def _below_split(reading: Training) -> Iterator[Match]:
    """The dataset below a part, or the whole beside its parts."""
    for parts, first in _subsets(reading):
        yield from _shared_transforms(reading, parts, first)
    for split in reading.named("random_split"):
        if split.name != SPLIT or len(split.targets) < 2:
            continue
        parts = {reading.key(name, split.scope) for name in split.targets}
        yield from _shared_transforms(reading, parts, split)
        yield from _returned_whole(reading, split.scope, parts)
        for n in reading.methods("DataLoader"):
            call, data = reading.calls[n], data_of(reading.calls[n])
            if data is None or data.kind != "name":
                continue
            base = data.name.removesuffix(".dataset")
            if base != data.name and reading.key(base, call.scope) in parts:
                yield Match(call.span, f"{data.name} is the whole data and not the part")
            elif _is_whole(reading, split, call, data):
                message = f"the loader reads {data.name}, and not {split.targets[0]}"
                yield Match(call.span, message)


def _returned_whole(
    reading: Training, scope: int, parts: set[tuple[object, str]]
) -> Iterator[Match]:
    """return train_set.dataset, valid_set.dataset: twice what was split."""
    function = reading.function(scope)
    spans = function.exit_spans or (function.span,) * len(function.returns)
    for value, span in zip(function.returns, spans, strict=True):
        below = {
            each.name for each in value.items
            if each.name.endswith(".dataset")
            and reading.key(each.name.removesuffix(".dataset"), scope) in parts
        }  # fmt: skip
        if len(below) > 1 and value.kind == "list":
            names = " and ".join(sorted(below))
            yield Match(span, f"{names} are the whole data, twice, and not its parts")


def _subsets(reading: Training) -> Iterator[tuple[set[tuple[object, str]], Call]]:
    """The names of several Subset() of one dataset, and the first of the calls."""
    table: dict[object, list[Call]] = {}
    for call in reading.named("Subset"):
        if call.target and call.first is not None and call.first.kind == "name":
            made = evaluate.definitions_at(reading, call.first.name, call)
            key = reading.key(call.first.name, call.scope), tuple(each.span for each in made)
            table.setdefault(key, []).append(call)
    for calls in table.values():
        parts = {reading.key(call.target, call.scope) for call in calls}
        if len(parts) > 1:
            yield parts, calls[0]


def _shared_transforms(
    reading: Training, parts: set[tuple[object, str]], made: Call
) -> Iterator[Match]:
    """One part's transform, where the parts are to have different ones."""
    copied = {each.target for each in reading.assignments}
    texts, chance = set(), bool(made.args and _augmented(reading, made.args[0], made))
    found = []
    for each in reading.assignments:
        base, _, last = each.target.rpartition(".dataset.")
        shared = reading.key(base, each.scope) in parts and f"{base}.dataset" not in copied
        shared &= not each.loops
        if shared and last in ("transform", "transforms"):
            given = evaluate.options_at(reading, each.value, each.scope, each.position, each.arms)
            chance |= bool(_random_part(reading, given))
            texts.add(render(reading, each.value))
            found.append(each)
    for each in found if chance or len(texts) > 1 else ():
        yield Match(each.span, f"{each.target} is set for all parts: they share a dataset")


def _is_whole(reading: Training, split: Call, call: Call, data: Value) -> bool:
    """The loader for training gets what was split, and the part for it is never used."""
    source, part = split.args[0] if split.args else Value("other"), split.targets[0]
    if source.kind != "name" or not is_training(part) or _is_part(call):
        return False
    if reading.key(source.name, split.scope) != reading.key(data.name, call.scope):
        return False
    trains = is_training(target_of(call)) or is_training(reading.function(call.scope).name)
    key = reading.key(part, split.scope)
    used = any(
        name and reading.key(name, scope) == key
        for value, _, scope in reading.expressions
        for name in value.all_names
    )
    return trains and not used


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
            "part.dataset of random_split or Subset in a loader, or a transform set on it: it is "
            "the whole",
            "return train_set.dataset, val_set.dataset of one random_split",
            "the training loader reads what was split, and the part for training is unused",
            "validation by a sampler over images that random transforms change",
            "the best epoch is chosen by a score of the test loader, and validation is at hand",
            "a random split in a function or class that is called for each part, without a seed",
            "evaluate(model, train_loader), while the loader for evaluation is never read",
            "validate(val_loader) that reads train_loader; val_files of train_dir, of two options",
        ),
        fix="Give each loader its own part. For other transforms, make the dataset twice and use "
        "torch.utils.data.Subset.",
        sources=("x-vector-pytorch-8", "swin-unet-135", "aestetik-8", "torchgeo-257"),
    ),
)
