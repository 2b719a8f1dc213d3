"""Rules on Lightning: what training_step returns, and what Lightning 2 no longer has."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp, evaluate, objects
from doctor.checks.script.installed import limited
from doctor.checks.script.loop.lightning_schedules import lightning_modules
from doctor.checks.script.naming import direction
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Function, Span, Value

HOOKS = {
    "training_epoch_end": "on_train_epoch_end", "validation_epoch_end": "on_validation_epoch_end",
    "test_epoch_end": "on_test_epoch_end", "training_step_end": "on_train_batch_end",
    "validation_step_end": "on_validation_batch_end",
}  # fmt: skip
ARGUMENTS = {
    "gpus": "accelerator and devices", "tpu_cores": "accelerator and devices", "ipus": "devices",
    "num_processes": "devices", "auto_select_gpus": 'devices="auto"', "amp_backend": "precision",
    "amp_level": "precision", "progress_bar_refresh_rate": "TQDMProgressBar",
    "weights_summary": "enable_model_summary", "checkpoint_callback": "enable_checkpointing",
    "resume_from_checkpoint": "ckpt_path of fit()", "auto_lr_find": "Tuner",
    "auto_scale_batch_size": "Tuner", "replace_sampler_ddp": "use_distributed_sampler",
    "distributed_backend": "strategy", "track_grad_norm": "on_before_optimizer_step",
    "move_metrics_to_cpu": "", "flush_logs_every_n_steps": "", "log_gpu_memory": "",
    "stochastic_weight_avg": "a callback", "terminate_on_nan": "detect_anomaly",
    "truncated_bptt_steps": "", "multiple_trainloader_mode": "CombinedLoader",
}  # fmt: skip

PACKAGES = ("lightning.", "pytorch_lightning.")


def _severity(reading: Training) -> Severity | None:
    """The package lightning begins with 2; pytorch_lightning may be older."""
    if limited(reading, "pytorch-lightning", (2,)) or limited(reading, "lightning", (2,)):
        return None
    return "fail" if reading.imports_from("lightning") else "warn"


def gone_in_2(reading: Training) -> Iterator[Match]:
    severity = _severity(reading)
    if severity is not None:
        for span, message in (*_gone_hooks(reading), *_gone_arguments(reading)):
            yield Match(span, f"Lightning 2 {message}", severity)


def _gone_hooks(reading: Training) -> Iterator[tuple[Span, str]]:
    modules = lightning_modules(reading)
    for function in reading.script.functions:
        if function.owner not in modules:
            continue
        if (instead := HOOKS.get(function.name)) is not None:
            yield function.span, f"has no {function.name}: {instead}"
        names = [parameter.name for parameter in function.parameters]
        if function.name == "training_step" and "optimizer_idx" in names:
            yield function.span, "passes no optimizer_idx: several optimizers step by hand"


def _gone_arguments(reading: Training) -> Iterator[tuple[Span, str]]:
    for call in reading.named("Trainer"):
        if call.name.startswith(PACKAGES):
            for name in sorted(ARGUMENTS.keys() & call.keywords.keys()):
                yield (
                    call.span,
                    f"has no argument {name}" + (ARGUMENTS[name] and f": {ARGUMENTS[name]}"),
                )


def wrong_step(reading: Training) -> Iterator[Match]:
    modules = lightning_modules(reading)
    yield from _wrong_mode(reading)
    yield from _options_of_automatic(reading, modules)
    if not modules or reading.mentions("automatic_optimization"):
        return
    for number in reading.functions_by_name.get("training_step", ()):
        function = reading.function(number)
        if function.owner in modules:
            manual = _steps_by_hand(reading, function, number)
            yield from manual or _wrong_results(reading, function, number)
            if not manual:
                yield from _own_backward(reading, number) or _early_clip(reading, number, modules)
    yield from _misspelt(reading, modules)
    if _are_whole(reading, modules):
        yield from _never_logged(reading)


def _are_whole(reading: Training, modules: set[str]) -> bool:
    """Whether the file has all bases of its modules but Lightning's own."""
    bases = [b for each in reading.script.classes if each.name in modules for b in each.bases]
    return all(base in modules or base.rpartition(".")[2] in OWN_BASES for base in bases)


def _steps_by_hand(reading: Training, function: Function, number: int) -> list[Match]:
    """Several optimizers, or self.optimizers() in training_step, and nothing says that steps are
    made by hand."""
    missing = "self.automatic_optimization = False is missing in __init__"
    calls = reading.calls_in(number)
    held = {t for each in calls if each.name == "self.optimizers" for t in each.targets}
    acts = not _is_nothing(function) and any(
        each.method in ("zero_grad", "toggle_optimizer")
        or (each.method == "step" and ("opt" in each.receiver.casefold() or each.receiver in held))
        for each in calls
    )  # what reads the rate of self.optimizers() makes no step
    for call in calls:
        if call.name == "self.manual_backward" or (call.name == "self.optimizers" and acts):
            return [Match(call.span, f"{call.name}() makes steps by hand: {missing}")]
    for n in reading.functions_by_name.get("configure_optimizers", ()):
        hook = reading.function(n)
        for value, span in zip(hook.returns, hook.exit_spans, strict=False):
            if hook.owner == function.owner and _optimizers(reading, value, n) > 1:
                return [Match(span, f"several optimizers step by hand only: {missing}")]
    return []


def _optimizers(reading: Training, value: Value, scope: int) -> int:
    """How many optimizers configure_optimizers() returns: [a, b], (a, b), [a, b], [schedules]."""
    parts = value.items if value.kind == "list" else ()
    if parts and parts[0].kind == "list":
        parts = parts[0].items
    made = {n for n in reading.optimizers if reading.calls[n].scope == scope}
    names = {t for n in made for t in reading.calls[n].targets}
    return sum(v.name in names or v.call in made for v in parts)


def _wrong_results(reading: Training, function: Function, number: int) -> Iterator[Match]:
    calls = reading.calls_in(number)
    left = any(c.name.startswith(("super", "NotImplementedError")) for c in calls)
    left = left or any(each.name.endswith("abstractmethod") for each in function.decorators)
    if calls and not function.returns and not left:
        yield Match(function.span, "training_step returns nothing: no step is made")
    for value, span in zip(function.returns, function.exit_spans, strict=False):
        complete = value.kind == "dict" and len(value.items) == len(value.keys) > 0
        if complete and "loss" not in value.keys:
            yield Match(span, "training_step returns a dictionary without the key loss")
        call = reading.call_of(value)
        if call is not None and call.method in ("item", "detach", "tolist"):
            yield Match(span, f"training_step returns .{call.method}(): no gradient is left")


def _is_nothing(function: Function) -> bool:
    """Whether it returns None: Lightning skips its own backward() and step() then."""
    return all(v.kind == "literal" and v.literal is None for v in function.returns)


def _own_backward(reading: Training, number: int) -> list[Match]:
    message = "Lightning propagates the returned loss by itself"
    found = [
        Match(call.span, f"{call.name}() in training_step: {message}")
        for call in reading.calls_in(number)
        if call.method in ("backward", "manual_backward") and not call.name.startswith("super")
    ]
    return [] if _is_nothing(reading.function(number)) else found[:1]


def _early_clip(reading: Training, number: int, modules: set[str]) -> list[Match]:
    """A clip in training_step, where no function of the file propagates anything, and no other
    object is given what is returned."""
    calls = [c for c in reading.calls_in(number) if c.method not in LOGGING]
    given = {name for c in calls for v in c.args for name in v.all_names}
    returned = {name for v in reading.function(number).returns for name in v.all_names}
    if (
        not _are_whole(reading, modules)
        or given & returned
        or reading.methods("backward", "manual_backward")
    ):
        return []
    message = "in training_step comes before the backward() of Lightning"
    found = filter(amp.is_clip, reading.calls_in(number))
    return [Match(call.span, f"{call.name}() {message}", "warn") for call in found][:1]


NAMES = {
    "configure_optimizer": "configure_optimizers", "configure_optimisers": "configure_optimizers",
    "train_step": "training_step", "training_steps": "training_step", "val_step": "validation_step",
    "validate_step": "validation_step", "valid_step": "validation_step", "foward": "forward",
    "train_dataloaders": "train_dataloader", "validation_dataloader": "val_dataloader",
}  # fmt: skip


def _misspelt(reading: Training, modules: set[str]) -> Iterator[Match]:
    """A method with nearly the name of a hook that the class lacks, and nothing calls."""
    for function in reading.script.functions:
        hook = NAMES.get(function.name)
        if hook is None or function.owner not in modules or reading.methods(function.name):
            continue
        if not any(
            reading.function(n).owner == function.owner
            for n in reading.functions_by_name.get(hook, ())
        ):
            yield Match(function.span, f"Lightning calls {hook}, and never {function.name}")


LOGGING = ("log", "log_dict", "print")
OWN_BASES = ("LightningModule", "ABC", "PyTorchModelHubMixin")
"""Bases that log nothing by themselves."""


def _never_logged(reading: Training) -> Iterator[Match]:
    """monitor="val_loss" while self.log() has other names."""
    logged: set[str] = set()
    elsewhere: set[str] = set()
    for call in reading.named("log", "log_dict"):
        names = evaluate.texts(reading, call.given("name", 0), call)
        if call.receiver != "self":  # a callback has the module under another name
            elsewhere |= names
            continue
        if call.method == "log_dict" or not names or evaluate.UNDECIDED in names:
            return
        logged |= names
    for call in reading.named("ModelCheckpoint", "EarlyStopping"):
        value = call.keywords.get("monitor")
        known = value is not None and isinstance(value.literal, str) and bool(logged)
        if known and value is not None and value.literal not in logged:
            near = str(value.literal).removesuffix("_epoch").removesuffix("_step")
            if near not in logged and not elsewhere & {value.literal, near}:
                message = f"{value.literal} is logged nowhere; {_some(logged)} is"
                yield Match(call.span, message, fix="Monitor a name that self.log() is given.")


MONITORS = {"ModelCheckpoint": (2, 7), "EarlyStopping": (0, 4)}
"""Positions of monitor and mode."""


def _wrong_mode(reading: Training) -> Iterator[Match]:
    """monitor="val_acc" with the default mode, which is min."""
    if limited(reading, "pytorch-lightning", (1, 3)):  # before, the name decided
        return
    for call in reading.named(*MONITORS):
        kept = call.keywords.get("save_top_k")
        all_kept = kept is not None and kept.literal in (0, -1)
        if not call.name.startswith(PACKAGES) or call.unpacked or all_kept:
            continue
        monitor, mode = (
            evaluate.argument(reading, call, name, position)
            for name, position in zip(("monitor", "mode"), MONITORS[call.method], strict=True)
        )
        name = _literal(reading, monitor, call)
        chosen = "min" if mode is None else _literal(reading, mode, call)
        better = {1: "max", -1: "min"}.get(direction(name.replace("/", "_").replace("-", "_")))
        if better and chosen in ("min", "max") and chosen != better:
            yield Match(call.span, f"{call.method} keeps the {chosen} of {name}", "warn")


def _literal(reading: Training, value: Value | None, call: Call) -> str:
    """The text that a value is, "" where the file does not decide it."""
    options = evaluate.options(reading, value, call)
    text = options[0].literal if len(options) == 1 else None
    return text if isinstance(text, str) else ""


def _options_of_automatic(reading: Training, modules: set[str]) -> Iterator[Match]:
    """Trainer(gradient_clip_val=1.0) fits a module with automatic_optimization = False."""
    manual = modules & {
        reading.function(each.scope).owner
        for each in reading.assignments
        if each.target == "self.automatic_optimization"
        and each.value.literal is False
        and not each.arms
    }
    for fit in reading.named("fit") if manual else ():
        models = evaluate.options(reading, evaluate.argument(reading, fit, "model", 0), fit)
        if not models or any(
            each.kind != "call" or reading.calls[each.call].name not in manual for each in models
        ):
            continue
        for made in evaluate.options(reading, objects.receiver_of(fit), fit):
            call = reading.calls[made.call]
            if made.kind == "call" and call.name.startswith(PACKAGES):
                for name, least in (("gradient_clip_val", 0), ("accumulate_grad_batches", 1)):
                    value = call.keywords[name].literal if name in call.keywords else None
                    if isinstance(value, (int, float)) and value > least:
                        message = "raises with automatic_optimization = False"
                        own = f"Omit {name}; call self.clip_gradients() or count steps by hand."
                        yield Match(call.span, f"{name} of the Trainer {message}", fix=own)


def _some(names: set[str]) -> str:
    return ", ".join(sorted(names)[:3])


RULES = (
    Rule(
        code="SCR280",
        slug="training-step-result",
        title="training_step returns the loss and leaves the step to Lightning",
        severity="fail",
        find=wrong_step,
        why="In automatic optimization Lightning propagates what training_step returns: without a "
        "loss it raises or skips the step, and a second backward() raises or counts twice.",
        fires=(
            "training_step returns nothing, a dictionary without loss, or loss.item()",
            "backward() in training_step without automatic_optimization = False",
            "a warning: gradients are clipped in training_step, before Lightning's backward()",
            "a method with nearly the name of a hook, such as configure_optimizer",
            "ModelCheckpoint or EarlyStopping monitors what no self.log() of the file names",
            "gradient_clip_val or accumulate_grad_batches of the Trainer that fits a module with "
            "automatic_optimization = False",
            'a warning: either monitors a score such as val_acc without mode="max", or a loss '
            "with it",
        ),
        fix='Return the loss, or {"loss": loss, ...}; for manual steps set '
        "self.automatic_optimization = False, call self.manual_backward(loss) and clip there. Pass "
        'mode="max" with a score that should be high.',
        needs=("lightning", "pytorch_lightning"),
        sources=(
            "pytorch-lightning-7750",
            "lightning-optimization",
            "pytorch-lightning-4668",
            "stable-pretraining-246",
        ),
    ),
    Rule(
        code="SCR281",
        slug="lightning-2-lacks",
        title="Hooks and arguments exist in Lightning 2",
        severity="warn",
        find=gone_in_2,
        why="Lightning 2 raises for training_epoch_end and the like, for optimizer_idx and for "
        "arguments of the Trainer such as gpus.",
        fires=(
            "a hook, parameter or argument that Lightning 2 lacks, in a file that imports "
            "pytorch_lightning",
        ),
        errors=("the same in a file that imports lightning",),
        fix="Use what the message names.",
        needs=("lightning", "pytorch_lightning"),
        sources=("lightly-1113", "pytorch-lightning-17801", "lightning-upgrade"),
    ),
)
