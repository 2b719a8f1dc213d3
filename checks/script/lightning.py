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


def _wrong_results(reading: Training, function: Function, number: int) -> Iterator[Match]:
    calls = [reading.calls[n] for n in reading.scope_calls(number)]
    if calls and not function.returns and not any(c.name.startswith("super") for c in calls):
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
        ),
        fix='Return the loss, or {"loss": loss, ...}; for manual steps set '
        "self.automatic_optimization = False and call self.manual_backward(loss).",
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
        sources=("lightly-1113", "pytorch-lightning-17801", "lightning-upgrade"),
    ),
)
