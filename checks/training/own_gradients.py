"""The user's own training: gradients reach every parameter."""

from __future__ import annotations

from dataclasses import replace

from doctor.checks.training import own_cuts, own_unused
from doctor.checks.training import smoke as judged
from doctor.checks.training.own_depth import VANISHING_FIX, vanishing
from doctor.checks.training.own_failures import SmallModel, about
from doctor.checks.training.own_files import of_layers
from doctor.checks.training.own_misuses import fix_of_last_activation
from doctor.checks.training.own_parameters import (
    SILENT_FIX,
    adapters_frozen,
    kinds,
    matches,
    no_gradient_fix,
    of_all,
    only,
    partition,
    reached_unevenly,
    token_note,
    uncalled,
    uncalled_fix,
    used,
    with_finite_gradients,
    without_idle,
)
from doctor.checks.training.own_seeds import with_other_seed
from doctor.checks.training.own_trend import inverted_masks
from doctor.facts.cut_depth import may_be_the_cut
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Parameter, Smoke, without_gradient
from doctor.job.job import Job
from doctor.judge.check import Owner, Status, Verdict, ok, unknown, warn


@with_other_seed
def gradients_reach_all(own: OwnModel, smoke: SmallModel, job: Job) -> Verdict:
    if (steps := with_finite_gradients(own)) is None:
        return unknown("no parameter was recorded, or gradients are not finite: see SMK006")
    required, expected = partition(steps.parameters, job)
    if not required:
        return ok(f"{own.description}: all {len(expected)} parameters match --expect-no-grad")
    note = f"; {len(expected)} omitted by --expect-no-grad" if expected else ""
    if job.hf and not job.lora:
        required, unused_note = used(required, steps)
        note += unused_note
    required, idle_note = without_idle(required, own)
    required, part_note = own_unused.without_parts_of_libraries(required, steps)
    note += idle_note + part_note + token_note(own)
    if unused := [glob for glob in job.expect_no_grad if not matches(glob, expected)]:
        note += f"; no parameter matches --expect-no-grad {', '.join(unused)}"
    verdict = judged.gradients_reach_all(only(required, steps))
    counted = of_all(verdict.summary, len(required), len(steps.parameters))
    verdict = replace(verdict, summary=counted)
    if verdict.status is not Status.FAIL:
        verdict = reached_unevenly(own, required, verdict, own_batch=not job.hf)
        return about(own, smoke, replace(verdict, summary=f"{verdict.summary}{note}"))
    if reason := _undecided(own, required, steps, job):
        return unknown(f"{own.description}: {verdict.summary}, {reason}")
    return _failed(own, smoke, verdict, required, steps, note)


def _undecided(own: OwnModel, required: list[Parameter], steps: Smoke, job: Job) -> str:
    """Why parameters without a gradient may get one in the training; "" for no reason."""
    if may_be_the_cut(own, job.expect_no_grad):
        return of_layers(own)
    if gates := _at_rest(required, steps):
        named = ", ".join(gates[:2])
        return f"behind {named}, which stays 0 because the learning rate is 0: see SMK008"
    if own.unsearched and _may_be_routed(required, steps):
        return f"and other weights may reach them: {own.unsearched}"
    return ""


def _at_rest(required: list[Parameter], steps: Smoke) -> list[str]:
    """Parameters that are 0 and get a gradient, and cut all others off only because each learning
    rate is 0: a first step would change them."""
    if any(step.lr for step in steps.steps):
        return []
    without = without_gradient(required)
    still = {each.name for each in required if not each.moved}
    reached = still - {each.name for each in without}
    cuts = own_cuts.of(steps.diagnosis.cuts if steps.diagnosis else (), without)
    gates = [own_cuts.parameter_of_zero(cut) for cut in cuts]
    behind = {name for cut in cuts for name in cut.parameters}
    explained = {each.name for each in without} <= behind and set(gates) <= reached
    return list(dict.fromkeys(gates)) if explained else []


def _may_be_routed(required: list[Parameter], steps: Smoke) -> bool:
    """Others get a gradient, and no place was seen that cuts these off."""
    without = without_gradient(required)
    cuts = own_cuts.of(steps.diagnosis.cuts if steps.diagnosis else (), without)
    return len(without) < len(required) and not cuts


def _failed(
    own: OwnModel,
    smoke: SmallModel,
    verdict: Verdict,
    required: list[Parameter],
    steps: Smoke,
    note: str,
) -> Verdict:
    """The failure with the parameters, what cuts them off, and the remedy."""
    without = without_gradient(required)
    cuts = own_cuts.of(steps.diagnosis.cuts if steps.diagnosis else (), without)
    idle = uncalled(steps, without)
    observed = own_cuts.fix(cuts) or uncalled_fix(idle, without)
    pairs = own_cuts.pairs_of_zeros(without, observed)
    observed = pairs or observed + own_cuts.layers_of_zeros(without, observed)
    masked = inverted_masks(own.trend) if own.trend else None
    before = masked[1] if masked else fix_of_last_activation(own.trend)
    observed = f"{before} {observed}".strip()
    fix = no_gradient_fix(without, observed, exempt=len(without) < len(required))
    if adapters_frozen(required) and not cuts:
        fix = SILENT_FIX
    if fading := vanishing(required):
        note, fix = f"; {fading}{note}", VANISHING_FIX
    names = judged.names(without)
    count = f"{len(without)} of {len(steps.parameters)} parameters {kinds(without)}: {names}"
    called = f"; never called: {', '.join(idle)}" if idle else ""
    where = "".join(f"; {text}" for text in [own_cuts.clause(cuts)] if text)
    if own_unused.are_unused(without, steps) and len(without) < len(required):
        purpose = own_unused.purpose(without, steps.diagnosis)
        text = f"{count}{called}{where}; {purpose}{note}"
        use = own_unused.fix(idle, without, steps.diagnosis)
        fix = no_gradient_fix(without, use, exempt=True)
        return about(own, smoke, warn(text, fix=fix))
    summary = f"{count}; required: all have one{called}{where}{note}"
    return about(own, smoke, replace(verdict, summary=summary, fix=fix))


GRADIENTS_REACH_ALL = replace(
    judged.GRADIENTS_REACH_ALL,
    code="SMK007",
    slug="own-gradients-reach-all",
    title="Gradients reach every trainable parameter of your model",
    why="A parameter without a gradient does not learn, and no error is raised. Causes are detach, "
    "no_grad or .item() in the forward pass, a module that is never called, a kernel without a "
    "gradient for its weight, and reentrant checkpointing: with modules_to_save in LoRA the head "
    "then learns and the adapters silently do not.",
    passes=(
        *judged.GRADIENTS_REACH_ALL.passes,
        "parameters that match --expect-no-grad are exempt, and those without a gradient in three "
        "steps that get one in 20 steps, in other batches of the loader or with other weights, "
        "start as copies of trained ones, are in no group of your optimizer, or belong to a "
        "network of an installed package that has them for other uses",
    ),
    notes=("a default argument that is a module with parameters, in several places of the model",),
    warns=(
        "layers of your own classes that no step calls, or whose result nothing uses, or for which "
        "there was no time to see that",
        "the gradients of the matrices fall, or grow, by a factor of 10,000 from the loss to the "
        "input, from each quarter of the depth to the next",
        "a tensor that is held in a plain list, dict or attribute gets a gradient and is no "
        "parameter of the model",
        "an embedding and an output layer of one shape, which are two parameters in one memory, or "
        "two although a setting or a method says that they are tied",
        "a flag such as module.requires_grad = False that its parameters do not follow",
        "each forward pass creates parameters anew",
        "the rows of a matrix are all the same, before the first step and after the last one",
        "a norm over one or two values, or attention over one key, whose result hardly depends on "
        "its input",
    ),
    fix="Look for detach, no_grad and unused modules between these parameters and the loss. For "
    "parameters that are frozen on purpose, call requires_grad_(False), or exempt them with "
    "--expect-no-grad.",
    owner=Owner.JOB,
    judge=gradients_reach_all,
    sources=("fnr-gradients", "ps-P18", "unsloth-4533"),
    after=("SMK006",),
)
