"""Rules on Lightning: what training_step returns, and what Lightning 2 no longer has."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.installed import limited
from doctor.checks.script.rule import Match, Rule, Severity
from doctor.checks.script.training import Training
from doctor.facts.script import Function, Span
from doctor.facts.script_machine import ScriptMachine

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


def _modules(reading: Training) -> set[str]:
    return {
        each.name
        for each in reading.script.classes
        if any(base.endswith("LightningModule") for base in each.bases)
    }


def _severity(reading: Training) -> Severity | None:
    """The package lightning begins with 2; pytorch_lightning may be older."""
    if limited(reading, "pytorch-lightning", (2,)) or limited(reading, "lightning", (2,)):
        return None
    return "fail" if reading.imports_from("lightning") else "warn"


def gone_in_2(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    severity = _severity(reading)
    if severity is not None:
        for span, message in (*_gone_hooks(reading), *_gone_arguments(reading)):
            yield Match(span, f"Lightning 2 {message}", severity)


def _gone_hooks(reading: Training) -> Iterator[tuple[Span, str]]:
    modules = _modules(reading)
    for function in reading.script.functions:
        if function.owner not in modules:
            continue
        if (instead := HOOKS.get(function.name)) is not None:
            yield function.span, f"has no {function.name}: {instead}"
        names = [parameter.name for parameter in function.parameters]
        if function.name == "training_step" and "optimizer_idx" in names:
            yield function.span, "passes no optimizer_idx: several optimizers step by hand"


def _gone_arguments(reading: Training) -> Iterator[tuple[Span, str]]:
    for number in reading.methods("Trainer"):
        call = reading.calls[number]
        if call.name.startswith(("lightning.", "pytorch_lightning.")):
            for name in sorted(ARGUMENTS.keys() & call.keywords.keys()):
                yield (
                    call.span,
                    f"has no argument {name}" + (ARGUMENTS[name] and f": {ARGUMENTS[name]}"),
                )


def wrong_step(reading: Training, machine: ScriptMachine) -> Iterator[Match]:
    modules = _modules(reading)
    if not modules or reading.mentions("automatic_optimization"):
        return
    for number in reading.functions_by_name.get("training_step", ()):
        function = reading.function(number)
        if function.owner in modules:
            yield from _wrong_results(reading, function, number)
            yield from _own_backward(reading, number)
    yield from _misspelt(reading, modules)
    yield from _never_logged(reading)


def _wrong_results(reading: Training, function: Function, number: int) -> Iterator[Match]:
    calls = [reading.calls[n] for n in reading.scope_calls(number)]
    left = any(c.name.startswith(("super", "NotImplementedError")) for c in calls)
    left = left or any(each.name.endswith("abstractmethod") for each in function.decorators)
    if calls and not function.returns and not left:
        yield Match(function.span, "training_step returns nothing: no step is made")
    for value, span in zip(function.returns, function.exit_spans, strict=False):
        complete = value.kind == "dict" and len(value.items) == len(value.keys) > 0
        if complete and "loss" not in value.keys:
            yield Match(span, "training_step returns a dictionary without the key loss")
        call = reading.calls[value.call] if value.kind == "call" else None
        if call is not None and call.method in ("item", "detach", "tolist"):
            yield Match(span, f"training_step returns .{call.method}(): no gradient is left")


def _own_backward(reading: Training, number: int) -> Iterator[Match]:
    for n in reading.scope_calls(number):
        call = reading.calls[n]
        if call.method in ("backward", "manual_backward") and not call.name.startswith("super"):
            message = "Lightning propagates the returned loss by itself"
            yield Match(call.span, f"{call.name}() in training_step: {message}")
            return


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


def _never_logged(reading: Training) -> Iterator[Match]:
    """monitor="val_loss" while self.log() has other names."""
    logged: set[object] = set()
    for number in reading.methods("log", "log_dict"):
        call = reading.calls[number]
        if call.receiver != "self":
            continue
        name = call.args[0] if call.args else call.keywords.get("name")
        if call.method == "log_dict" or name is None or name.kind != "literal":
            return
        logged.add(name.literal)
    for number in reading.methods("ModelCheckpoint", "EarlyStopping"):
        call = reading.calls[number]
        value = call.keywords.get("monitor")
        known = value is not None and isinstance(value.literal, str) and bool(logged)
        if known and value is not None and value.literal not in logged:
            near = str(value.literal).removesuffix("_epoch").removesuffix("_step")
            if near not in logged:
                yield Match(call.span, f"{value.literal} is logged nowhere; {_some(logged)} is")


def _some(names: set[object]) -> str:
    return ", ".join(sorted(map(str, names))[:3])


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
            "a method with nearly the name of a hook, such as configure_optimizer",
            "ModelCheckpoint or EarlyStopping monitors what no self.log() of the file names",
        ),
        fix='Return the loss, or {"loss": loss, ...}; for manual steps set '
        "self.automatic_optimization = False and call self.manual_backward(loss).",
        needs=("lightning", "pytorch_lightning"),
        sources=("pytorch-lightning-7750", "lightning-optimization"),
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
