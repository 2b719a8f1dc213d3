"""What a Trainer of Lightning runs: all of the data, and the model that was fitted."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loop.lightning_schedules import lightning_modules
from doctor.checks.script.naming import is_loader
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.trainers.hooks import of_lightning
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

PACKAGES = ("lightning.", "pytorch_lightning.")
KEEPS = ("save_checkpoint", "test", "predict", "save", "ModelCheckpoint")
"""What shows that the run is for its result."""


def wrong_runs(reading: Training) -> Iterator[Match]:
    modules = lightning_modules(reading)
    yield from _left_on(reading)
    yield from _other_model(reading, modules)
    yield from _plateau(reading, modules)
    yield from _tested_on_training(reading)
    yield from of_lightning(reading)


def _tested_on_training(reading: Training) -> Iterator[Match]:
    """trainer.fit(model, train_loader), and trainer.test(model, train_loader) as the only test."""
    fits = [reading.calls[m] for m in reading.fits]
    fitted = {v.name for fit in fits for v in fit.args[1:2]}
    fitted -= {v.name for fit in fits for v in fit.args[2:3]}  # one graph with a mask for each part
    tests = [
        (call, value)
        for call in reading.named("test", "validate")
        if (value := evaluate.argument(reading, call, "dataloaders", 1)) is not None
        and "trainer" in call.receiver.casefold()
    ]
    for call, value in tests:
        alone = all(other.name == value.name for c, other in tests if c.scope == call.scope)
        if value.name in fitted and alone and _is_one_loader(reading, value, call):
            message = f"{call.method}() reads {value.name}, which trained the model"
            yield Match(call.span, message, fix="Pass the loader of the split that was held out.")


def _is_one_loader(reading: Training, value: Value, call: Call) -> bool:
    """A data module has a loader for each part of the data."""
    made = objects.makers_at(reading, value, call)
    loaders = bool(made) and all(m is not None and m.method.endswith("Loader") for m in made)
    return loaders or (is_loader(value.name) and None in made)


def _left_on(reading: Training) -> Iterator[Match]:
    """fast_dev_run=True, overfit_batches=10 beside a result that is kept."""
    for call in reading.named("Trainer") if reading.methods(*KEEPS) else ():
        tested = "test" in f"{reading.script.path} {reading.function(call.scope).name}".casefold()
        if not call.name.startswith(PACKAGES) or tested:
            continue
        for name in ("fast_dev_run", "overfit_batches"):
            value = call.keywords.get(name)
            found = value.literal if value is not None and value.kind == "literal" else None
            if found and not reading.is_flagged(call):
                what = "one batch" if name == "fast_dev_run" else f"{found} of the batches"
                yield Match(call.span, f"{name} is left on: {what} for the whole run", "warn")


def _other_model(reading: Training, modules: set[str]) -> Iterator[Match]:
    """trainer.fit(model), and trainer.test(Model()) of weights that nothing trained."""
    for n, call in reading.numbered(reading.methods("test", "validate", "predict")):
        value = evaluate.argument(reading, call, "model", 0)
        made = reading.call_of(value)
        fitted = any(
            reading.calls[m].receiver == call.receiver and m < n
            and reading.calls[m].scope == call.scope
            for m in reading.methods("fit")
        )  # fmt: skip
        loaded = {"ckpt_path"} & call.keywords.keys()
        if made is not None and made.name in modules and fitted and not loaded:
            message = f"{call.name}() gets a new {made.name}: nothing has trained it"
            yield Match(call.span, message, "fail")


def _plateau(reading: Training, modules: set[str]) -> Iterator[Match]:
    """ReduceLROnPlateau in a dictionary without monitor, or in a list."""
    for scope in reading.functions_by_name.get("configure_optimizers", ()) if modules else ():
        function = reading.function(scope)
        made = [
            n for n in reading.scope_calls(scope)
            if reading.calls[n].method == "ReduceLROnPlateau"
        ]  # fmt: skip
        named = reading.mentions("automatic_optimization", "lr_scheduler_step") or any(
            each.scope == scope and each.target.endswith("[monitor]")
            for each in reading.assignments
        )
        if function.owner not in modules or len(made) != 1 or named:
            continue
        for value, span in zip(function.returns, function.exit_spans, strict=False):
            if _holds(reading, value, reading.calls[made[0]], made[0]) and not _monitors(value):
                message = "ReduceLROnPlateau needs monitor: Lightning raises after the first epoch"
                yield Match(span, message, "fail")


def _holds(reading: Training, value: Value, made: Call, number: int) -> bool:
    """The returned value has the scheduler, directly or in lists and dictionaries."""
    if value.kind == "call":
        return value.call == number
    if value.kind == "name":
        return value.name in made.targets
    return any(_holds(reading, item, made, number) for item in value.items)


def _monitors(value: Value) -> bool:
    """A dictionary within has monitor, or may have it."""
    unknown = value.kind == "dict" and len(value.keys) < len(value.items)
    return unknown or "monitor" in value.keys or any(_monitors(item) for item in value.items)


RULES = (
    Rule(
        code="SCR385",
        slug="lightning-run-incomplete",
        title="A run of Lightning is whole, and tests the model that it fitted",
        severity="fail",
        find=wrong_runs,
        why="fast_dev_run and overfit_batches are for the search for errors: the result is of a "
        "few batches. A new model has the weights that it was made with. Without a monitor "
        "ReduceLROnPlateau raises after the first epoch.",
        fires=(
            "trainer.fit(model), and trainer.test(Model())",
            "self.hparams without save_hyperparameters(); configure_optimizers that returns "
            "(optimizer, scheduler)",
            "trainer.test(model, train_loader) of the loader that fit() got",
            "configure_optimizers returns ReduceLROnPlateau without monitor",
            "a warning: fast_dev_run or overfit_batches as a literal, beside a result that is kept",
        ),
        fix="Remove the option; test the fitted model, or pass ckpt_path='best'; return "
        '{"optimizer": o, "lr_scheduler": {"scheduler": s, "monitor": "val_loss"}}.',
        sources=("lightning-optimization",),
        needs=("lightning", "pytorch_lightning"),
    ),
)
