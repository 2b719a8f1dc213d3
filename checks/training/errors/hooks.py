"""Hooks that never run, because their layer is no part of the model: what they were to keep is
missing."""

from __future__ import annotations

from doctor.facts.own_model import OwnModel, StrayHook

FIX = (
    "Register {name} after the layers are replaced, on the layer that the forward pass calls, or "
    "return what it keeps from the forward pass itself."
)


def describe(hook: StrayHook) -> str:
    """ "the hook keep in train.py, line 9, never runs: train.py, line 4 registers it on ..."."""
    where = f"{hook.registered} registers it" if hook.registered else "it is registered"
    return f"the hook {hook.hook}, never runs: {where} on {hook.module}, no part of the model"


def fix(hook: StrayHook) -> str:
    return FIX.format(name=hook.hook.partition(" in ")[0])


def beside(own: OwnModel, remedy: str, *, explained: bool) -> tuple[str, str]:
    """A clause about the first such hook and the remedy with that for the hook, which comes first
    unless something else explains the fault."""
    if not own.stray_hooks:
        return "", remedy
    hook = own.stray_hooks[0]
    return f"; {describe(hook)}", remedy if explained else f"{fix(hook)} {remedy}"
