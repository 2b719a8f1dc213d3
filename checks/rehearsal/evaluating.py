"""Stage 4: it evaluates."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from doctor._util.units import gib, shown
from doctor.checks.rehearsal.failing import INDEX, LENGTH
from doctor.checks.rehearsal.parting import alone, longer_evaluation
from doctor.checks.rehearsal.parts import WITHOUT_GRAPHS, not_tried, raised, unobserved
from doctor.checks.rehearsal.running import cut_short, evaluating_rank
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import Evaluated, RehearsedRun
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

KEEP_LESS = (
    "The outputs of each call are kept: add up sums per batch, or keep argmax() and not logits "
    "(transformers: preprocess_logits_for_metrics). Outputs that are moved to the CPU as they come "
    "(eval_accumulation_steps) take as much of the host's memory. Under torch.no_grad() they are "
    "all that is kept."
)
AS_RHS003 = "Follow the remedy of RHS003: the ranks wait for each other there."
EARLIER = (
    "The error of RHS003 is raised by the evaluation, not by the training step: call the "
    "evaluation once before the first step, so that it fails there."
)
RESTORE = (
    "Restore the trained weights after the evaluation, before the next step (ema.restore()), from "
    "a copy: state_dict() refers to the weights themselves, so clone its tensors before the "
    "average is loaded over them. Nothing, if the training is meant to go on from the average."
)
ENDLESS = (
    "Unless it goes over its data on purpose so often, end it: go over a loader that has an end, "
    "or take as many batches as one round has, "
    "itertools.islice(loader, number) (limit_val_batches in Lightning)."
)
EMPTY = (
    "Empty the list where the evaluation ends or begins: self.validation_step_outputs.clear() in "
    "on_validation_epoch_end of Lightning. Nothing, if the list is meant to last, or is bounded."
)
SAMPLES = 1000
"""For which growth is reckoned where the size of the dataset is not known. Our own number."""
GROWTH_CALLS = 8
"""Calls of a model in an evaluation from which growth is read. Our own number."""
RISING = 0.7
"""Share of the calls after which more is in use than before. Our own number."""
GROWTH_BYTES = 64 * 2**20
"""Growth below this in one evaluation is noise of the allocator. Our own number."""


def evaluates(rehearsal: Rehearsal) -> Verdict:
    run = rehearsal.run("run")
    if run is not None and (verdict := _not_ended(run)):
        return verdict
    if reason := not_tried(rehearsal, "evaluates") or unobserved(run):
        return reason
    assert run is not None
    done = [each for rank in run.ranks for each in rank.evaluations]
    if not done:
        return skip("no evaluation ended within the steps")
    growth = max(done, key=growth_per_sample)
    if growth_per_sample(growth):
        return _grows(growth)
    if after := _left_behind(run, done):
        return after
    if graphs := max(each.graphs for each in done):
        return note(
            f"an evaluation calls the model {graphs} times with gradients enabled: each call "
            "keeps its activations as long as a result of it is kept",
            fix=WITHOUT_GRAPHS,
        )
    first = done[0]
    summary = f"{first.samples} samples in {first.calls} calls, {first.seconds:.2g} s"
    generated = sum(each.generated for each in done)
    summary += f"; generate() was called {generated} times" if generated else ""
    return ok(f"the evaluation ends: {summary}")


def _left_behind(run: RehearsedRun, done: Sequence[Evaluated]) -> Verdict | None:
    """Of evaluations that leave a mode, weights or outputs to the steps that follow."""
    if left := next((each for each in done if each.left), None):
        return warn(
            f"the model is in evaluation mode at step {left.step + 1} still, since the evaluation "
            f"after step {left.step}: {', '.join(map(shown, left.left))} do nothing, or keep their "
            "statistics, in the rest of the training",
            fix="Call model.train() after each evaluation, or at the beginning of each step.",
        )
    if averaged := next((each for each in done if each.averaged), None):
        return warn(
            f"the evaluation after step {averaged.step} leaves the weights of the average, "
            f"{shown(averaged.averaged)}, in the model: step {averaged.step + 1} trains on from "
            "them, and what was trained is lost",
            fix=RESTORE,
        )
    if keeps := next((rank for rank in run.ranks if rank.outputs), None):
        return note(
            f"{shown(keeps.outputs)} keeps the tensors of all evaluations until now: "
            f"{keeps.outputs_kept:,} after {len(keeps.evaluations)} of them",
            fix=EMPTY,
        )
    return None


def _not_ended(run: RehearsedRun) -> Verdict | None:
    """Of an evaluation in which the command died, or was killed."""
    dying = next((rank for rank in run.ranks if rank.evaluating is not None), None)
    if dying is None or not (run.code or run.cut):
        return None
    how = cut_short(run) or f"exit code {run.code}{raised(run)}"
    what = "generate()" if dying.generating else "the evaluation"
    if dying.turns and run.cut:
        return warn(
            f"{what} after step {dying.evaluating} takes its first batch again and again, "
            f"{dying.turns} times or more after others: its data may have no end; {how}",
            fix=ENDLESS,
        )
    if not run.code and evaluating_rank(run):
        return unknown(f"{what} after step {dying.evaluating} was under way: {how}")
    apart = alone(run) or longer_evaluation(run)
    fix = EARLIER if run.code and not apart else AS_RHS003
    if dying.generating and INDEX.search(raised(run)):
        fix = f"{LENGTH} {EARLIER}"
    return fail(f"{what} after step {dying.evaluating} did not end: {how}", fix=fix)


def _grows(growth: Evaluated) -> Verdict:
    """Of an evaluation whose memory grows."""
    grown = growth.memory[-1] - growth.memory[1]
    each, whole = growth_per_sample(growth), growth.of or SAMPLES
    all_of = "its dataset" if growth.of else "it"
    return warn(
        f"memory grows with each sample of an evaluation: {gib(grown)} in {growth.calls} "
        f"calls, {each / 2**20:.1f} MiB per sample, {gib(int(whole * each))} for "
        f"{whole:,} samples of {all_of}",
        fix=None if growth.graphs else KEEP_LESS,
    )


def growth_per_sample(evaluation: Evaluated) -> float:
    """Bytes that each sample leaves after the warm-up; 0.0 where that is not known.

    Growth is in most calls of both halves: an allocator that takes more once does not count.
    """
    memory = evaluation.memory
    if len(memory) < GROWTH_CALLS:
        return 0.0
    steps = [after - before for before, after in itertools.pairwise(memory[1:])]
    half = len(steps) // 2
    rising = all(_rises(part) for part in (steps[:half], steps[half:]))
    grown = memory[-1] - memory[1]
    if not rising or grown < GROWTH_BYTES or not evaluation.samples:
        return 0.0
    return grown / max(1.0, evaluation.samples * (len(memory) - 2) / evaluation.calls)


def _rises(steps: list[int]) -> bool:
    return sum(step > 0 for step in steps) >= RISING * len(steps)


EVALUATES = Check(
    code="RHS005",
    slug="evaluation-ends",
    title="The first evaluation ends, and its memory does not grow with each sample",
    why="The first evaluation often comes hours after the start, with another batch size, longer "
    "sequences, and predictions that are kept on the GPU until its end.",
    passes=("the evaluation ended", "memory did not rise from call to call"),
    warns=(
        "memory rises with each sample: more than 64 MiB in one evaluation",
        "dropout and batch norms are in evaluation mode still at the step that follows",
        "the weights of an average are in the model still at the step that follows",
        "it takes its first batch again and again until --budget ends it",
    ),
    notes=(
        "the model is called with gradients enabled, and no step follows",
        "a list keeps the outputs of all evaluations",
    ),
    fails=("an evaluation began, and the command ended with an error or did not go on",),
    fix=f"{WITHOUT_GRAPHS} Move predictions to the CPU as they come "
    "(transformers: eval_accumulation_steps).",
    owner=Owner.JOB,
    judge=evaluates,
    limits="that the whole split fits: only its first batches were evaluated.",
)

CHECKS = (EVALUATES,)
