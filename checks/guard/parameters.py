"""Parameters: whether the steps change them."""

from __future__ import annotations

import dataclasses

from doctor.checks.checkpoint.norm_causes import MASTER_FIX, NO_GRADIENT_FIX
from doctor.checks.guard.gradients import CHECKPOINT
from doctor.checks.guard.observed import alarmed, cut_off, observed, spoiled, total
from doctor.facts.guard import Guarded
from doctor.judge.check import Check, Owner, Status, Verdict, ok, skip, unknown

NOT_APPLIED = (
    "The optimizer does not change these weights although it has their gradients: look for a "
    "learning rate that is too small for the dtype, weights that are copied back after every step "
    "(EMA, offloading), and an optimizer that works on a copy."
)
OVERWRITTEN = (
    "Look in the loop, and in what it calls at each epoch, for an initialization (model.apply(), "
    "reset_parameters()), load_state_dict() or copy_(): what sets weights before the training "
    "belongs before the loop. Where they are reset on purpose, nothing is wrong."
)
FIXES = {
    "checkpoint": CHECKPOINT,
    "gradient": NO_GRADIENT_FIX,
    "not-applied": NOT_APPLIED,
    "overwritten": OVERWRITTEN,
    "rounding": MASTER_FIX,
}
ENOUGH = 20
"""Steps from which unchanged weights mean something. Our own number."""


def _too_early(guard: Guarded) -> str:
    """Why the comparisons show nothing yet, "" if they do."""
    if reason := spoiled(guard):
        return reason
    steps = total(guard, "effective")
    if steps < ENOUGH:
        return f"{steps} steps that should change weights; at least {ENOUGH} required"
    if not total(guard, "gradients"):
        return "no sampled weight had a gradient that is not 0"
    return ""


def _ones(guard: Guarded) -> Verdict:
    vectors, moved = total(guard, "vectors"), total(guard, "vectors_moved")
    if not vectors:
        return skip("no trainable parameter has one dimension, as with LoRA or FSDP1")
    if reason := _too_early(guard):
        return unknown(reason)
    if not moved:
        return unknown(f"none of {vectors:,} parameters of one dimension has changed so far")
    return ok(f"{moved:,} of {vectors:,} parameters of one dimension changed")


ONES = Check(
    code="GRD005",
    slug="ones-move",
    title="Norms and biases change",
    why="At 1.0, bf16 rounds back every decrease up to 2^-9 and every increase up to 2^-8, so that "
    "norms in bf16 never train at usual learning rates. Norms at other values freeze as well. "
    "Comparing bits shows it within three steps of Adam, and decides at 20.",
    passes=("parameters of one dimension that have a gradient change, bit for bit",),
    warns=(
        "all parameters initialized to 1.0 have a gradient and are unchanged after 3 steps of "
        "torch's own Adam or a relative",
        "after 20 steps all parameters of one dimension with a gradient are unchanged, or some "
        "after 100",
        "none of those initialized to 1.0 has a gradient that is not 0 within 20 steps, and other "
        "parameters have",
    ),
    fails=(
        "those initialized to 1.0 with a gradient are unchanged after 20 steps of torch's own Adam "
        "or a relative, 100 of another optimizer",
        "none of several has a gradient that is not 0 within 50 steps, and other parameters have",
    ),
    fix=MASTER_FIX,
    owner=Owner.JOB,
    judge=observed("GRD005", _ones, FIXES),
    limits="that they learn well: one different bit suffices.",
    sources=("fnr-precision", "fnr-root", "fnr-fix", "bts-fix2", "ps-P17", "flame-47", "optimi"),
)


def _moved(guard: Guarded) -> Verdict:
    if reason := _too_early(guard):
        return unknown(reason)
    moved, tracked = total(guard, "moved"), total(guard, "tracked")
    if not moved:
        return unknown(f"none of {tracked:,} parameters has changed so far")
    return ok(f"{moved:,} of {tracked:,} parameters changed")


MOVE = Check(
    code="GRD007",
    slug="training-weights-move",
    title="Sampled weights change",
    why="A training whose weights stay bit-identical looks normal: losses are printed, time "
    "passes. The guard compares evenly spaced elements of every tensor with their start.",
    passes=("a sampled weight with a gradient changes",),
    notes=(
        "at two comparisons in a row, from step 50 on, weights of torch's Adam or AdamW are unlike "
        "those before and further away than the learning rates lead",
    ),
    warns=(
        "none of at least 16 sampled fp32 weights with a gradient changed after 3 steps of torch's "
        "own Adam or a relative",
    ),
    fails=(
        "the same after 20 steps, of weights of 16 bits too, or 100 of another optimizer",
        "steps change the weights, and before each of steps 4 to 10 they are back at their start",
    ),
    fix=NOT_APPLIED,
    owner=Owner.JOB,
    judge=observed("GRD007", _moved, FIXES),
    limits="that the model that you save is the one that is trained.",
    sources=("fnr-optimizer", "accelerate-3256", "deepspeed-8415"),
)


def _updates_survive(guard: Guarded) -> Verdict:
    """The alarm of the dtypes, with the share of lost updates where --all measured it."""
    verdict = alarmed(guard, "GRD008", {}) or _survive(guard)
    updates, lost = total(guard, "updates"), total(guard, "updates_lost")
    if not updates or verdict.status is Status.UNKNOWN:
        return verdict
    measured = f"; rounding lost {lost / updates:.0%} of {updates:,} sampled updates"
    return dataclasses.replace(verdict, summary=verdict.summary + measured)


def _survive(guard: Guarded) -> Verdict:
    if not total(guard, "effective"):
        return unknown(cut_off(guard) or "no step was applied")
    half = max((process.counts.half for process in guard.processes), default=0)
    if half:
        return ok(f"{half:,} parameters have 16 bits, and the optimizer keeps what they round away")
    tracked = max((process.counts.tracked for process in guard.processes), default=0)
    return ok(f"all {tracked:,} trainable parameters have at least 32 bits")


SURVIVE = Check(
    code="GRD008",
    slug="updates-survive",
    title="Trained weights have fp32 masters",
    why="A bf16 weight of 0.02 rounds away updates below 3e-5. Without an fp32 copy or Kahan "
    "summation most updates are lost: at a learning rate of 1e-5, 84 % at the first step and 97 % "
    "after 300 (measured).",
    passes=(
        "the trainable parameters are fp32",
        "or the optimizer keeps masters or Kahan buffers, or rounds stochastically",
    ),
    warns=(
        "trainable parameters have 16 bits and the optimizer keeps nothing else",
        "with --all: a step leaves at least half of the sampled 16-bit weights with a gradient "
        "unchanged",
    ),
    fix=MASTER_FIX,
    owner=Owner.JOB,
    judge=_updates_survive,
    limits="that no update of fp32 weights is lost.",
    sources=("bts-fix2", "fnr-precision", "fnr-fix", "ps-P4", "optimi"),
)


def _zeros(guard: Guarded) -> Verdict:
    zeros, moved = total(guard, "zeros"), total(guard, "zeros_moved")
    if not zeros:
        return skip("no trainable parameter is initialized to 0.0")
    if reason := _too_early(guard):
        return unknown(reason)
    if not moved:
        return unknown(f"none of {zeros:,} parameters initialized to 0.0 had a gradient so far")
    return ok(f"{moved:,} of {zeros:,} parameters initialized to 0.0 changed")


ZEROS = Check(
    code="GRD013",
    slug="zeros-move",
    title="Parameters initialized to 0.0 change",
    why="LoRA's B matrices, zero-initialized gates and biases start at 0.0, where no rounding "
    "loses an update. One that has a gradient and stays 0 is not trained, and an adapter with B at "
    "0 equals its base model.",
    passes=("every parameter initialized to 0.0 that has a gradient changes",),
    warns=(
        "one with a gradient is still 0.0 after 3 steps of torch's own Adam or a relative",
        "at two comparisons, from step 100 on, every LoRA parameter of the model is frozen and "
        "every B matrix is 0",
        "LoRA trains a model of transformers whose head for a task is frozen and has the values of "
        "a new one",
    ),
    fails=("one with a gradient is still 0.0 after 20 steps",),
    fix="Check that the parameter is in the optimizer with a learning rate above 0, that the "
    "trained copy is the one in the model, and that nothing resets it after the step.",
    owner=Owner.JOB,
    judge=observed(
        "GRD013",
        _zeros,
        {
            "head": "Train the head as well: task_type (TaskType.SEQ_CLS, TOKEN_CLS, ...) or "
            "modules_to_save=['classifier'] in LoraConfig, by its name, before get_peft_model(). A "
            "head that is frozen is not saved with the adapter, either, and is random again after "
            "loading. If it was trained before, nothing is wrong.",
            "frozen": "Set requires_grad_(True) on the LoRA parameters before the optimizer is "
            "created, and give them to it: a loop that freezes the base by name, or "
            "PeftModel.from_pretrained() without is_trainable=True, freezes the adapter, too.",
        },
    ),
    limits="that those without a gradient should have none: see GRD016.",
    sources=("fnr-gradients", "peft-793", "unsloth-3089"),
)

CHECKS = (ONES, MOVE, SURVIVE, ZEROS)
