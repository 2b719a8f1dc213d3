"""The model around the parameters: its buffers and its mode."""

from __future__ import annotations

from doctor.checks.guard.observed import enough, observed, total
from doctor.facts.guard import Guarded
from doctor.judge.check import Check, Owner, Verdict, ok, skip, unknown

LOOKS = 2
"""Looks at the mode that the guard needs for an alarm."""


def _buffers(guard: Guarded) -> Verdict:
    looks, buffers = total(guard, "model_looks"), total(guard, "buffers")
    if not looks:
        return unknown("the model's buffers were not looked at: no step was compared")
    if not buffers:
        return skip("no model with buffers of floating point holds the parameters")
    return ok(f"{buffers:,} buffers were finite at {looks:,} looks")


BUFFERS = Check(
    code="GRD024",
    slug="buffers-finite",
    title="The model's buffers are finite",
    why="A batch norm normalizes with its running mean and variance in evaluation, and one batch "
    "with NaN or Inf spoils them for good. The training goes on, because it uses the statistics of "
    "the batch, while every evaluation and every checkpoint since then is unusable.",
    passes=("the buffers that hold floating point numbers are finite at the comparisons",),
    fails=(
        "a running mean or variance is NaN or Inf",
        "another buffer that was finite before is not",
    ),
    fix="Find the batch whose values are not finite before the first such look, skip such batches, "
    "and take the buffers from a checkpoint before it, or gather them anew: "
    "reset_running_stats(), then some forward passes in training mode.",
    owner=Owner.JOB,
    judge=observed("GRD024", _buffers),
    limits="that they stay so between two comparisons, nor anything of more than 512 buffers.",
    sources=("torch-batchnorm",),
    after=("GRD002",),
)


def _mode(guard: Guarded) -> Verdict:
    looks = total(guard, "mode_looks")
    if total(guard, "effective") < 20:
        steps = total(guard, "effective")
        return unknown(f"{steps:,} steps; the mode is looked at from 20 on")
    if not looks:
        return skip("no model with dropout or batch norms holds the parameters")
    if looks < LOOKS:
        return unknown(f"{looks:,} look at the mode; at least {LOOKS} required")
    return ok(f"modules are in training mode at step() ({looks:,} looks)")


MODE = Check(
    code="GRD025",
    slug="training-mode",
    title="The model trains in training mode",
    why="After an evaluation that calls model.eval() and nothing calls model.train(), dropout "
    "drops nothing and batch norms neither use nor gather the statistics of the batches. The loss "
    "often looks better for it.",
    passes=("some module of the model is in training mode at step()",),
    warns=(
        "at two comparisons in a row, from step 20 on, no module is, and the model has dropout "
        "above 0 or batch norms",
    ),
    fix="Call model.train() at the beginning of every epoch and after every evaluation. An "
    "evaluation that calls backward() and step() itself trains on its data: run it under "
    "torch.no_grad(), without the optimizer. Where this is what you want, ignore the "
    "code with that reason.",
    owner=Owner.JOB,
    judge=observed("GRD025", _mode),
    limits="that each module is in the mode that was meant for it.",
    sources=("vsepp-4",),
)


ITSELF = (
    "Make the second network a copy, copy.deepcopy(network), and load the first one's state into "
    "it from time to time: now both are one object, so that targets move with every step."
)

NOTHING = (
    "Load with strict=True, which names what does not fit. Take the weights out of the file first "
    '(checkpoint["model"]), and remove what DataParallel, DDP (module.), torch.compile '
    "(_orig_mod.) or a trainer (model.) put in front: {k.removeprefix('module.'): v for k, v in "
    "state.items()}. The training began with other weights: start it anew."
)
KEPT = Check(
    code="GRD027",
    slug="kept-state-copied",
    title="A state dict that is kept is a copy",
    why="model.state_dict() returns the tensors that are trained, not copies. A best state that is "
    "kept for the end of the training has the last weights by then, and loading it does nothing.",
    passes=("no state dict is saved or loaded after steps that have changed its tensors",),
    warns=(
        "a state dict taken during the training is saved or loaded at a later step, and its "
        "tensors are still those of the parameters",
        "load_state_dict() gets the module's own tensors at two steps, as where a target network "
        "is the network itself",
        "load_state_dict(strict=False) finds none of the names of a state dict in the module, and "
        "no other call loads something into it, or these names into another one",
    ),
    fix="Keep a copy: copy.deepcopy(model.state_dict()), or torch.save it when it is the best. The "
    "weights that were meant are lost, unless a file of that step exists.",
    owner=Owner.JOB,
    judge=observed(
        "GRD027",
        enough(
            "states",
            1,
            "{n} objects saved or loaded, none with an outdated state dict",
            none="nothing was saved by torch.save or loaded into a module",
        ),
        {"itself": ITSELF, "nothing": NOTHING},
    ),
    limits="that other copies, such as a dict made of its items, hold copies of the tensors.",
    sources=("torch-saving-best",),
)


EVALUATIONS = Check(
    code="GRD031",
    slug="evaluation-mode",
    title="Evaluations leave the model as it is",
    why="In training mode a batch norm gathers the statistics of every batch, also of the "
    "evaluation's, and dropout makes its result worse. no_grad() does not change the mode. A "
    "frozen part in training mode drifts in the same way.",
    passes=("modules are in evaluation mode while a loader is evaluated without gradients",),
    notes=(
        "at two comparisons the batch norms of a part whose parameters are frozen, and stay as "
        "they are, have gathered statistics: as some mean it, and others do not",
    ),
    warns=(
        "two evaluations over a loader run dropout or batch norms in training mode",
        "so do, at two comparisons, those of a network none of whose parameters train or change, "
        "as of a teacher, and it drops values",
    ),
    fix="Call model.eval() before the evaluation, and model.train() after it.",
    owner=Owner.JOB,
    judge=observed(
        "GRD031",
        enough(
            "evaluations",
            1,
            "the model is in evaluation mode in evaluations over a loader ({n} seen)",
            none="no evaluation over a loader ran dropout or batch norms of the model without "
            "gradients",
        ),
        {
            "teacher": "Call teacher.eval() once it is loaded, and again after every train() of a "
            "module that holds it: requires_grad_(False) and no_grad() do not change the mode, and "
            "its outputs are noisy and drift with the data of the student.",
            "frozen": "Call eval() of the frozen part after each model.train(), or override "
            "train() of the model so that it keeps that part in evaluation mode. Where the "
            "statistics shall adapt to the new data, ignore the code with that reason.",
        },
    ),
    limits="that evaluations without a torch.utils.data.DataLoader, or with torch.compile, do.",
    sources=("torch-batchnorm", "vsepp-4"),
)


def _followers(guard: Guarded) -> Verdict:
    if any(process.counts.followers is None for process in guard.processes):
        return unknown("not recorded")
    followers = total(guard, "followers")
    if not followers:
        return skip("no module of the shape of the trained one is beside it")
    return ok(f"{followers:,} modules beside the trained one, as far as they follow it")


FOLLOWERS = Check(
    code="GRD032",
    slug="average-follows",
    title="An average of the weights averages, with its statistics",
    why="An average of weights is evaluated and saved in place of the model. Without the "
    "statistics of its batch norms it computes something else; with the decay the wrong way round "
    "it is the model itself, one step late, and a target network moves with every step.",
    passes=("modules that follow the trained one do so slowly, and with their statistics",),
    warns=(
        "at the end, the weights of one have followed, and the running means of its batch norms "
        "are those of the start, while the trained ones have changed",
        "at 3 comparisons in a row one is, before a step, within 8 % of that step of the trained "
        "weights, but not equal to them",
    ),
    fix="Copy or average the buffers with the parameters, as torch.optim.swa_utils.AveragedModel "
    "does: loop over buffers(), too, or over state_dict(). Or call update_bn() before the average "
    "is evaluated or saved.",
    owner=Owner.JOB,
    judge=observed(
        "GRD032",
        _followers,
        {
            "decay": "The old average keeps the large part: average.mul_(decay).add_(weight, "
            "alpha=1 - decay) or average.lerp_(weight, 1 - decay), with a decay of 0.99 to 0.9999; "
            "a tau of 0.005 is the part of the new weights.",
        },
    ),
    limits="that averages that are no modules, such as dicts of tensors, follow; nor that one that "
    "never changes should.",
    sources=("torch-averaged-model",),
)

CHECKS = (BUFFERS, MODE, KEPT, EVALUATIONS, FOLLOWERS)
