"""A rule on the data of an evaluation: all of them, of all classes, and not those of training."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.data.parts_unused import training_unused, whole_held_out
from doctor.checks.script.naming import is_held_out, is_training, words
from doctor.checks.script.rendering import render
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Call, Value

SORTED = ("ImageFolder", "DatasetFolder")
"""Datasets of torchvision whose samples come class by class."""


def held_out_parts(reading: Training) -> Iterator[Match]:
    yield from _cut_by_place(reading)
    yield from _measured_on_training(reading)
    yield from _stopped_by_training(reading)
    yield from training_unused(reading)
    yield from whole_held_out(reading)


def _cut_by_place(reading: Training) -> Iterator[Match]:
    """Subset(ImageFolder(...), range(n)): the first classes train, the last ones test."""
    for call in reading.named("Subset"):
        data, indices = call.given("dataset", 0), call.given("indices", 1)
        made = reading.call_of(indices)
        if data is None or made is None or made.name not in ("range", "list"):
            continue
        text = render(reading, indices) if indices is not None else ""
        folder = [reading.call_of(v) for v in objects.last_definition(reading, data.name, call)]
        if (
            "range(" in text
            and folder
            and all(f is not None and f.method in SORTED for f in folder)
        ):
            yield Match(
                call.span,
                f"{data.name} comes class by class: a range of it lacks classes",
                fix="Cut torch.randperm(len(data)).tolist(), or split by class.",
            )
            return


def _measured_on_training(reading: Training) -> Iterator[Match]:
    """val_loss += loss of a batch of train_loader, in a loop without gradients."""
    for each in _sums_without_gradient(reading):
        loop = reading.loops[each.loops[-1]]
        source = loop.iterable
        names = source.all_names if source is not None else ()
        if is_held_out(each.target) and names and any(map(is_training, names)):
            others = any(map(is_held_out, names))
            if not others and _has_other_data(reading, each):
                yield Match(
                    each.span,
                    f"{each.target} is measured on {names[0]}",
                    fix="Loop over the held-out loader.",
                )
                return


def _sums_without_gradient(reading: Training) -> Iterator[Assignment]:
    for each in reading.assignments:
        if each.augmented and each.loops and reading.under_no_grad(each.contexts):
            inside = reading.by_loop.get(each.loops[-1], ())
            if reading.backward_numbers.isdisjoint(inside):
                yield each


def _has_other_data(reading: Training, each: Assignment) -> bool:
    """Held-out data have a name in the function."""
    function = reading.function(each.scope)
    given = [p.name for p in function.parameters]
    given += [a.target for a in reading.assignments if a.scope in (0, each.scope)]
    loaders = {"loader", "dl", "dataloader", "set", "dataset", "ds", "iter", "data"}
    return any(is_held_out(name) and loaders & set(words(name)) for name in given)


def _stopped_by_training(reading: Training) -> Iterator[Match]:
    """The best epoch is that of the training loss, and a validation loss is computed beside it."""
    for each in reading.comparisons:
        if each.operator not in ("<", "<=", ">", ">=") or each.left.kind != "name":
            continue
        name, best = each.left.name, each.right.name
        if "best" not in words(best) or not _sums_backward(reading, name, each.scope):
            continue
        measured = [a.target for a in _sums_without_gradient(reading) if a.scope == each.scope]
        saved = [
            c
            for c in reading.named("save", "state_dict", "deepcopy")
            if _tests(reading, c, each.left)
        ]
        if (
            saved
            and any("loss" in words(m) or m[:1] == "v" for m in measured)
            and name not in measured
        ):
            yield Match(
                each.span,
                f"{name} is of the training: {measured[0]} tells the best epoch",
                fix=f"Compare {measured[0]} with the best value.",
            )
            return


def _tests(reading: Training, call: Call, value: Value) -> bool:
    return any(value.name in test.names for test in reading.tests(call))


def _sums_backward(reading: Training, name: str, scope: int) -> bool:
    """The name adds up what the loop over training batches computes."""
    return any(
        each.target == name
        and each.augmented
        and each.operator == "Add"
        and bool(each.loops)
        and not reading.backward_numbers.isdisjoint(reading.by_loop[each.loops[-1]])
        for each in reading.assigned_to(name, scope)
    )


RULES = (
    Rule(
        code="SCR431",
        slug="held-out-parts",
        title="An evaluation sees all held-out data, and these alone",
        severity="warn",
        find=held_out_parts,
        why="A score of a part of the data, of some classes or of what trains says little of the "
        "model, and an early stop by the training loss never comes where the model overfits.",
        fires=(
            "Subset(ImageFolder(...), range(n)), whose samples come class by class",
            "val_loss summed in a loop over train_loader without gradients",
            "the weights of the lowest training loss are saved, beside a loss without gradients",
            "tf_train or train_mask is made and never read, and tf_val or test_mask is",
            "train_ids = nodes[:1000] and test_ids = nodes",
        ),
        fix="torch.randperm(len(data)).tolist() or a stratified split; the loop "
        "over val_loader; compare the validation loss.",
        sources=("torch-data-loading",),
    ),
)
