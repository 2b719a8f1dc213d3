"""A rule on data for evaluation that are changed at random."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.data.splits import RANDOM, SPLIT, data_of, target_of
from doctor.checks.script.naming import is_held_out
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

RANDOMIZES = {"ColorJitter", "AutoAugment", "RandAugment", "TrivialAugmentWide", "AugMix"}


FLAGS = {"augment", "augmentation", "train_augment", "augmented", "do_augment"}


def held_out_augmented(reading: Training) -> Iterator[Match]:
    """Data for evaluation that random transforms change."""
    if reading.mentions("tta", "test_time", "contrastive", "twocrop", "twoview", "ten_crop"):
        return
    for number, target in sorted({*_read_by_loaders(reading), *_named_sets(reading)}):
        if name := _randomizes(reading, number):
            message = f"{target} has samples that {name} changes at random"
            yield Match(reading.calls[number].span, message)
    yield from _parts(reading)


def _parts(reading: Training) -> Iterator[Match]:
    """A held-out part of a dataset whose samples random transforms change."""
    changed = {each.target.partition(".dataset")[0] for each in reading.assignments
               if ".dataset" in each.target}  # fmt: skip
    for call in reading.named("random_split", "Subset"):
        held = [name for name in call.targets if is_held_out(name)]
        if not held or not call.args or held[0] in changed or _wrapped(reading, held[0], call):
            continue
        for option in evaluate.options(reading, call.args[0], call):
            if option.kind == "call" and (name := _randomizes(reading, option.call)):
                yield Match(call.span, f"{held[0]} has samples that {name} changes at random")
                break


def _wrapped(reading: Training, name: str, call: Call) -> bool:
    """The part gets transforms of its own: Transformed(part, tf), or indices of it are read."""
    key = reading.key(name, call.scope)
    return any(
        each.method not in ("DataLoader", "len", "print")
        and each.method[:1].isupper()
        and any(v.kind == "name" and reading.key(v.name, each.scope) == key for v in each.args)
        for each in reading.calls
    ) or any(
        reading.key(n.removesuffix(".indices"), scope) == key and n.endswith(".indices")
        for value, _, scope in reading.expressions
        for n in value.all_names
    )


def _read_by_loaders(reading: Training) -> Iterator[tuple[int, str]]:
    """Calls that make the data of a loader for evaluation, and its name."""
    for number in reading.methods("DataLoader"):
        call, data = reading.calls[number], data_of(reading.calls[number])
        if data is not None and is_held_out(target_of(call)):
            for option in evaluate.options(reading, data, call):
                if option.kind == "call":
                    target = target_of(reading.calls[option.call])
                    yield option.call, target if is_held_out(target) else target_of(call)


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
        found = [_random_part(reading, each) for each in evaluate.options(reading, value, call)]
        if found and all(found):
            return found[0]
    return ""


def _random_part(reading: Training, value: Value) -> str:
    """The first random transform of a Compose; not one that a condition chooses among others."""
    made = reading.call_of(value)
    if made is None or made.method != "Compose":
        return ""
    chosen = {n for part in flatten(made.args) if part.kind == "choice" for n in part.calls}
    for n in value.calls:
        call = reading.calls[n]
        random = call.method.startswith("Random") or call.method in RANDOMIZES
        if n not in chosen and random and call.name.startswith(RANDOM):
            return call.method
    return ""


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
            "a held-out part of random_split() or Subset() of such a dataset",
        ),
        fix="Give the evaluation transforms without a random part: Resize, CenterCrop.",
        sources=("swin-unet-135",),
        needs=("Compose", *FLAGS),
    ),
)
