"""Parameters of the user's own training that get no gradient, or uneven ones."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import msgspec

from doctor._util.units import listed
from doctor.checks.training.own_depth import EXPLODING_FIX, VANISHING_FIX, exploding, vanishing
from doctor.facts.own_model import OwnModel
from doctor.facts.training import Parameter, Smoke, without_gradient
from doctor.job.job import Job
from doctor.judge.check import Status, Verdict, fail, note, warn


def of_all(summary: str, some: int, total: int) -> str:
    """The summary of a judge that saw `some` of `total` parameters."""
    if some == total:
        return summary
    summary = summary.replace(f"all {some} trainable", f"{some} of {total} trainable", 1)
    return re.sub(rf"(?<=\d of ){some}(?= (?:trainable )?parameters)", str(total), summary, count=1)


def with_finite_gradients(own: OwnModel) -> Smoke | None:
    """The steps, if parameters were recorded and all gradients are finite."""
    if own.smoke is None or not own.smoke.parameters:
        return None
    return own.smoke if all(each.finite for each in own.smoke.parameters) else None


def only(parameters: Sequence[Parameter], smoke: Smoke) -> Smoke:
    return msgspec.structs.replace(smoke, parameters=tuple(parameters))


def partition(parameters: Sequence[Parameter], job: Job) -> tuple[list[Parameter], list[Parameter]]:
    """Parameters that need a gradient, and those that --expect-no-grad matches."""
    matched = [p for p in parameters if any(matches(g, (p,)) for g in job.expect_no_grad)]
    return [p for p in parameters if p not in matched], matched


def matches(glob: str, parameters: Sequence[Parameter]) -> bool:
    return any(fnmatchcase(each.name, glob) for each in parameters)


def used(required: Sequence[Parameter], steps: Smoke) -> tuple[list[Parameter], str]:
    """The parameters that the loss of a class of transformers depends on, and the others in words.

    Those outside of its graph are unused by design, such as the last layers of LLaVA's image
    encoder. Zeros in fp32, or whatever is changed, are those of this class and batch: an expert
    that got no token, a last layer of which the loss reads one position.
    """
    attempts = steps.diagnosis.attempts if steps.diagnosis else ()
    by_design = not any(each.outcome == "fixed" for each in attempts)
    without = {each.name for each in without_gradient(required)} if by_design else set()
    unused = [each for each in required if each.computed is False]
    zeros = [each for each in required if each.name in without and each.computed is not False]
    used = [each for each in required if each not in unused and each not in zeros]
    if not used:
        return list(required), ""
    note = f"; the loss of this class does not use {_counted(unused)}" if unused else ""
    if zeros:
        note += f"; with this batch {_counted(zeros)} of it get gradients of exactly 0"
    return used, note


def _counted(parameters: Sequence[Parameter]) -> str:
    common = _common_module([each.name for each in parameters])
    inner = f" ({common}.*)" if common else ""
    return f"{len(parameters)} {'parameter' if len(parameters) == 1 else 'parameters'}{inner}"


def _common_module(names: Sequence[str]) -> str:
    """The innermost module that holds all of these parameters, "" for the model itself."""
    parts = zip(*(name.split(".") for name in names), strict=False)
    shared = itertools.takewhile(lambda column: len(set(column)) == 1, parts)
    return ".".join(column[0] for column in shared)


IDLE = {
    "in other steps": "more are reached in some steps only",
    "in other batches": "more are reached in other batches of the loader only",
    "with other weights": "more are reached with other weights only, as experts are",
    "copies": "more get none and start as copies of trained ones, as in a target network",
    "not optimized": "more get none and are in no group of the optimizer",
    "cancelled": "more get gradients that add up to exactly 0 over the batch",
    "ignored": "more get zeros, because every label of their loss is ignored in this batch",
    "one step": "more multiply the state of a recurrent layer that runs for one step from an "
    "initial state of 0, which leaves them no gradient",
}
"""Reason of `OwnModel.idle` -> in words."""


def without_idle(required: Sequence[Parameter], own: OwnModel) -> tuple[list[Parameter], str]:
    """The parameters that need a gradient in these steps, and a note about the others."""
    cuts = own.smoke.diagnosis.cuts if own.smoke and own.smoke.diagnosis else ()
    ignored = [cut for cut in cuts if cut.kind == "zero" and cut.name.startswith("NllLoss")]
    idle = {name: "ignored" for cut in ignored for name in cut.parameters}
    vectors = {each.name for each in required if each.dimensions in (0, 1)}
    cancelled = {name for cut in cuts if cut.kind == "cancelled" for name in cut.parameters}
    idle |= dict.fromkeys(cancelled & vectors, "cancelled") | own.idle
    counts = Counter(idle[each.name] for each in required if each.name in idle)
    note = "".join(f"; {count} {IDLE[reason]}" for reason, count in counts.items())
    return [each for each in required if each.name not in idle], note


def kinds(without: Sequence[Parameter]) -> str:
    """ "got no gradient", "got only zeros", or how many got which."""
    absent = sum(each.computed is False for each in without)
    if any(each.computed is None for each in without):
        return "had no non-zero gradient"
    if absent == len(without):
        return "got no gradient"
    zeros = f"got no gradient ({absent}) or only zeros ({len(without) - absent})"
    return zeros if absent else "got a gradient of zeros only"


def uncalled(steps: Smoke, without: Sequence[Parameter]) -> list[str]:
    """Modules that the forward pass does not call and that hold one of these parameters."""
    uncalled = steps.diagnosis.uncalled if steps.diagnosis else ()
    return [name for name in uncalled if any(p.name.startswith(f"{name}.") for p in without)]


def uncalled_fix(names: Sequence[str], without: Sequence[Parameter]) -> str:
    """The remedy if modules that are not called hold all of these parameters, else ""."""
    if not all(any(each.name.startswith(f"{name}.") for name in names) for each in without):
        return ""
    return f"Call {', '.join(names)} in the forward pass, or remove it from the model."


def no_gradient_fix(without: Sequence[Parameter], observed: str, *, exempt: bool) -> str:
    """The remedy; `observed` is that of the places where paths end, "" if none was seen.

    `exempt`: with the flag that exempts exactly these parameters.
    """
    fix = observed or (
        "Look for detach, .data, .item(), numpy, no_grad, rounding, indices and unused modules "
        "between these parameters and the loss. Gradients of zeros come from a multiplication by "
        "0, a saturated or clamped value, or underflow in half precision (compare --precision "
        "fp32)."
    )
    if not exempt:
        return fix
    heads = dict.fromkeys(each.name.partition(".")[0] for each in without)
    globs = " ".join(f"--expect-no-grad '{name}*'" for name in list(heads)[:3])
    return (
        f"{fix} If they are frozen or unused on purpose, call requires_grad_(False) on them, or "
        f"exempt them:\ndoctor run ... {globs}"
    )


def reached_unevenly(
    own: OwnModel, required: Sequence[Parameter], verdict: Verdict, *, own_batch: bool
) -> Verdict:
    """The verdict on gradients that reach all: a warning if they vanish or explode with depth, or
    reach tensors that are no parameters. `own_batch`: the user's code makes the batch."""
    if found := _outside(own) or _over_too_few(own, own_batch):
        return warn(f"{found[0]}; {verdict.summary}", fix=found[1])
    if alike := [each.name for each in required if each.rows_alike]:
        return warn(
            f"all rows are the same, before the steps and after them: {listed(alike, 4)}; "
            f"required: different rows; {verdict.summary}",
            fix=ALIKE_FIX,
        )
    if clause := vanishing(required):
        if still := sum(not each.moved for each in required):
            clause = f"{clause}; {still} of {len(required)} parameters do not change"
            return fail(f"{clause}; {verdict.summary}", fix=VANISHING_FIX)
        return warn(f"{clause}; {verdict.summary}", fix=VANISHING_FIX)
    if clause := exploding(required):
        return warn(f"{clause}; {verdict.summary}", fix=EXPLODING_FIX)
    if own.of_defaults and verdict.status is Status.PASS:
        clause = (
            "a default argument, which is made once for all instances of a class, is one module in "
            f"several places: {'; '.join(own.of_defaults)}"
        )
        return note(f"{verdict.summary}; {clause}", fix=OF_DEFAULTS_FIX)
    return verdict


def _outside(own: OwnModel) -> tuple[str, str] | None:
    """Values that the loss depends on and that the training does not change, as it seems to, and
    the fix."""
    for names, text, fix in OUTSIDE:
        if found := names(own):
            return text + listed(list(found), 4), fix
    return None


OUTSIDE: tuple[tuple[Callable[[OwnModel], Sequence[str]], str, str], ...] = (
    (
        lambda own: own.unregistered,
        "no parameters of the model, and so neither trained nor saved, although the loss depends "
        "on them: ",
        "Hold layers in nn.ModuleList or nn.ModuleDict instead of a plain list or dict, and "
        "single tensors in nn.Parameter: only these are in model.parameters() and in the state "
        "dict.",
    ),
    (
        lambda own: own.of_loss,
        "the loss has parameters that are in no group of the optimizer, and keep their random "
        "values: ",
        "Give the optimizer these parameters, too: Adam([*model.parameters(), "
        "*criterion.parameters()]), or make the loss a submodule of the model. If an optimizer of"
        " their own trains them, pass both as groups of one for this run.",
    ),
    (
        lambda own: [str(list(shape)) for shape in own.trend.created] if own.trend else (),
        "each forward pass creates parameters anew, which never train: shapes ",
        "Create the layers and parameters in __init__ and use them in forward: what forward "
        "creates starts from new random numbers in each step, and no optimizer holds it.",
    ),
    (
        lambda own: own.ineffective,
        "without effect on the parameters: ",
        "Call the method instead: module.requires_grad_(False) freezes its parameters, and "
        "module.requires_grad_(True) trains them. requires_grad is an attribute of parameters; an"
        " assignment to a module, or to a name that is spelled otherwise, is kept and changes "
        "nothing.",
    ),
    (
        lambda own: own.untied,
        "weights that are not shared: ",
        "Assign the parameter itself, in the last line of __init__ and after from_pretrained or a"
        " new embedding: self.head.weight = self.embedding.weight. A clone, nn.Parameter(weight) "
        "and weight.data make a second parameter, which trains on its own.",
    ),
)
"""What is not among the parameters that the optimizer trains -> what that means, and the fix."""


def token_note(own: OwnModel) -> str:
    """A remark on attention of single tokens, which is no fault by itself."""
    if not own.trend or not own.trend.single_tokens:
        return ""
    calls = ", ".join(own.trend.single_tokens)
    text = "sequences of 1 token attend to themselves, so queries and keys have no effect"
    return f"; note: {text} ({calls})"


def _over_too_few(own: OwnModel, own_batch: bool) -> tuple[str, str] | None:
    """Norms and attention over so few values that their result hardly depends on them, and the
    remedy; None if there are none. The doctor's own batch has few samples by itself."""
    for field, (text, remedy) in TOO_FEW.items():
        if field in BY_BATCH and not own_batch:
            continue
        if calls := dict.fromkeys(getattr(own.trend, field, ())):
            return f"{text}: {'; '.join(calls)}", remedy
    return None


OF_DEFAULTS_FIX = (
    "Write None in its place, and make the module in __init__: self.norm = norm or "
    "nn.LayerNorm(width). Each place then has weights of its own. Where they are to be shared, "
    "make one and pass it."
)
ONE_VALUE_FIX = (
    "Normalize over more than one value (normalized_shape of LayerNorm, num_groups of GroupNorm, "
    "the size of its input), or leave this norm out: the deviation of one value from its mean is 0."
)
TOO_FEW = {
    "constant_norms": (
        "a norm over 1 value, whose result does not depend on its input, so that what computes it "
        "gets rounding errors only",
        ONE_VALUE_FIX,
    ),
    "norms_of_two": (
        "a norm over 2 values, which become 1 and -1 whatever they are, so that what computes them "
        "gets hardly any gradient",
        "Normalize over more than two values. For a batch norm: more samples in the batch (give "
        "the doctor a batch of the size that you train with), drop_last=True for the last one, or "
        "a norm that does not depend on the batch (GroupNorm, LayerNorm).",
    ),
    "single_keys": (
        "attention in which each query sees 1 key: its softmax is 1, so that the weights of "
        "queries and keys learn nothing",
        "Attend to more keys: look at the length of the sequences in the batch, at the mask, and "
        "at the order of the dimensions: nn.MultiheadAttention takes (length, batch, width) unless "
        "batch_first=True. Where the context is one token on purpose, a linear layer in place of "
        "the attention computes the same.",
    ),
}
"""Field of a trend -> what was observed in these calls, and the remedy."""
BY_BATCH = ("norms_of_two", "single_keys")
"""Fields of `TOO_FEW` that a small batch alone causes."""
ALIKE_FIX = (
    "Initialize these weights with random numbers (torch.nn.init.kaiming_uniform_, "
    "xavier_uniform_): units that start the same get the same gradient and stay the same."
)


def adapters_frozen(parameters: Sequence[Parameter]) -> bool:
    """Whether no adapter gets a gradient while another module does."""
    adapters = [p for p in parameters if "lora_" in p.name]
    others = [p for p in parameters if "lora_" not in p.name]
    without = adapters and not any(p.had_gradient for p in adapters)
    return bool(without and any(p.had_gradient for p in others))


SILENT_FIX = (
    "Pass gradient_checkpointing_kwargs={'use_reentrant': False}, or call "
    "model.enable_input_require_grads(): reentrant checkpointing cuts the graph, so only "
    "modules_to_save learn and the adapters do not, without an error."
)
