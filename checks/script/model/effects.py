"""A rule on switches that come too late, are of another device, or lack their second half."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

STARTS = ("cuda", "current_device", "set_device", "device_count", "synchronize", "empty_cache")


def effects(reading: Training) -> Iterator[Match]:
    yield from _workspace(reading)
    yield from _too_late(reading)
    yield from _other_device(reading)


def _workspace(reading: Training) -> Iterator[Match]:
    """use_deterministic_algorithms(True), and nothing sets CUBLAS_WORKSPACE_CONFIG."""
    launched = any("CUBLAS" in each.text + each.prefix for each in reading.script.launches)
    named = any(
        "CUBLAS_WORKSPACE_CONFIG" in str(v.literal) or "CUBLAS_WORKSPACE_CONFIG" in v.name
        for v, _, _ in reading.expressions
    ) or any("CUBLAS_WORKSPACE_CONFIG" in a.target for a in reading.assignments)
    for call in reading.named("use_deterministic_algorithms"):
        on = bool(call.args) and evaluate.truth(reading, call.args[0], call) is True
        gpu = bool(reading.methods("cuda")) or reading.mentions("cuda")
        if on and gpu and not (launched or named or "warn_only" in call.keywords):
            yield Match(call.span, "matrix products on a GPU raise without CUBLAS_WORKSPACE_CONFIG")


def _too_late(reading: Training) -> Iterator[Match]:
    """os.environ["CUDA_VISIBLE_DEVICES"] after a tensor went to a GPU."""
    for each in reading.assignments:
        if each.target != "os.environ[CUDA_VISIBLE_DEVICES]" or each.arms:
            continue
        before = [
            n
            for n in reading.methods("cuda")
            if n < each.position
            and reading.calls[n].scope == each.scope
            and not reading.calls[n].arms
        ]
        if before:
            yield Match(each.span, "CUDA has started: CUDA_VISIBLE_DEVICES is read no more")


def _other_device(reading: Training) -> Iterator[Match]:
    """torch.autocast("cpu") around what is moved to a GPU."""
    for n, call in reading.numbered(reading.methods("autocast")):
        value = evaluate.argument(reading, call, "device_type", 0)
        if not call.name.startswith("torch.") or value is None or value.literal != "cpu":
            continue
        inside = [
            c
            for c in reading.calls
            if c.method == "cuda"
            and any(reading.script.contexts[k].value.call == n for k in c.contexts)
        ]
        if inside and not call.arms:
            yield Match(call.span, "autocast is of the CPU, the network on a GPU: nothing is cast")


RULES = (
    Rule(
        code="SCR399",
        slug="switch-without-effect",
        title="Switches of devices and kernels come in time, and are of this device",
        severity="warn",
        find=effects,
        training=True,
        why="CUDA reads its variables once, at the first use of a GPU. Deterministic matrix "
        "products need a workspace of a fixed size. Autocast acts on one kind of device.",
        fires=(
            "torch.use_deterministic_algorithms(True) without CUBLAS_WORKSPACE_CONFIG",
            "CUDA_VISIBLE_DEVICES that is set behind the first cuda()",
            'torch.autocast("cpu") around tensors that cuda() moves',
        ),
        fix='os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8" and CUDA_VISIBLE_DEVICES before '
        'torch is imported; torch.autocast("cuda").',
        sources=("torch-cuda-env",),
        needs=("use_deterministic_algorithms", "environ", "autocast"),
        limits="that the environment of the job sets no variable.",
    ),
)
