"""Errors by where they were raised: in a save, in a thread, in a sample, in an evaluation."""

from __future__ import annotations

import re

from doctor._util.units import shown
from doctor.checks.guard.ending import with_causes
from doctor.checks.rehearsal.parts import error_in
from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_runs import FailedCall, OnDisk, RehearsedRank, RehearsedRun
from doctor.judge.check import Verdict, fail, note

NO_DIRECTORY = re.compile(r"[Pp]arent directory|No such file or directory|FileNotFound")
SAMPLE = re.compile(r" in __getitem__$")
JOINED = re.compile(
    r"Sizes of tensors must match|must match exactly|inhomogeneous shape|expects each tensor to be "
    r"equal size"
)
UNEQUAL = "expects each tensor to be equal size"
TUPLES = re.compile(r"inhomogeneous shape after 1 dim|'tuple' object has no attribute")
INDEX = re.compile(r"index\b.{0,40}\bout of (?:range|bounds)|device-side assert", re.IGNORECASE)
LENGTH = (
    "The prompt and max_new_tokens together must not be longer than the model has positions "
    "(max_position_embeddings, n_positions): shorten the one or the other."
)
DTYPE = re.compile(r"dtype|scalar type|\b(?:Half|BFloat16|Double)\b")
SWITCHED_OFF = (
    "Write with torch.no_grad(): around the evaluation (or decorate it), which switches gradients "
    "on again at its end: torch.set_grad_enabled(False) holds for the rest of the program."
)
CONVERT_COPY = (
    "Convert a copy for the file, {k: v.half() for k, v in model.state_dict().items()}: "
    "model.half(), model.to(dtype) and model.cpu() change the model that is trained."
)
MAKE_DIRECTORY = (
    "Make the directory before the save: os.makedirs(os.path.dirname(path), exist_ok=True), on the "
    "rank that saves. A name with / in it (a model's, a run's) is a directory, too."
)
READ_RESULT = (
    "Read what the thread gives back, future.result() at the next save and at the end: an executor "
    "keeps the error until then."
)
TO_TRAINING = (
    "Fix the error that ended the thread, and let it reach the training: catch it in the thread, "
    "put it into the queue, and raise it where the queue is read. A DataLoader with workers does "
    "so, and future.result() does."
)
SAMPLES_FIX = (
    "Let __len__ be the number of samples that __getitem__ can give, as the sampler draws from 0 "
    "to len - 1: windows are len(series) - width, rows that were filtered need positions (iloc, "
    "or reset_index), and each field of a sample as many rows. Call dataset[len(dataset) - 1] once "
    "before the training."
)
EACH_BATCH = (
    "Count what is right, and how many there are, in each batch of the evaluation and divide at "
    "the end, as the batches have different lengths; or pad outputs and labels to one length "
    "before they are joined (accelerate: pad_across_processes; labels with -100)."
)
IGNORED = re.compile(r"^OverflowError\b.*(?:too small|out of range|can't convert negative)")
IGNORED_FIX = (
    "Replace -100 before decoding, labels = np.where(labels != -100, labels, tokenizer."
    "pad_token_id), in labels and predictions (both are padded with it): -100 marks what the loss "
    "leaves out, and is no token."
)
LAST_OF_ONE = re.compile(r"zero-dimensional tensor \(at position [1-9]\d*\) cannot be concatenated")
LAST_OF_ONE_FIX = (
    "Name the dimension, squeeze(-1): squeeze() alone removes that of the batch as well where the "
    "last batch has one sample, and a single number is left."
)
SAMPLE_FIX = (
    "Resize, crop or pad each sample in the dataset, or give the loader a collate_fn that pads the "
    "batch to its longest: the samples of one batch have different sizes."
)
OF_INDEX = re.compile(r"KeyError: -?\d+$|IndexError\b")
FIRST_OF_TUPLE = (
    "Take the logits, predictions[0], in compute_metrics, or let preprocess_logits_for_metrics "
    "return them alone: the model returns more (hidden states, past key values), and predictions "
    "are a tuple then."
)


def failed_save(rehearsal: Rehearsal, run: RehearsedRun) -> FailedCall | None:
    """A save that raised an error, other than one that was refused outside of {output}, and was
    not done again."""
    refused = {each.path for each in rehearsal.attempts if each.kind == "write"}
    for each in run.failures:
        outside = any(path and each.path.startswith(path) for path in refused)
        if each.what != "thread" and not each.repeated and not outside:
            return each
    return None


def ended_by(run: RehearsedRun, failed: FailedCall) -> bool:
    """Whether the error of a save ended its process."""
    return any(rank.error and rank.error[:200] == failed.error[:200] for rank in run.ranks)


def of_save(failed: FailedCall, summary: str) -> Verdict:
    """The failure of a save, with the remedy of its error."""
    if failed.entry:
        what = shown(failed.entry, 200)
        return fail(
            f"{summary}: {shown(failed.error, 300)}",
            fix=f"Save states, not objects: state{what}, cannot be written. Of models, optimizers "
            "and schedules save the state_dict(), and leave locks, functions, generators and open "
            "files out.",
        )
    if NO_DIRECTORY.search(failed.error):
        return fail(f"{summary}: {shown(failed.error, 300)}", fix=MAKE_DIRECTORY)
    return with_causes(summary, error_in(failed.error))


def save_failed(rehearsal: Rehearsal, run: RehearsedRun) -> Verdict | None:
    """The verdict on the saves of a run, where one raised an error."""
    failed = failed_save(rehearsal, run)
    if failed is None or (not ended_by(run, failed) and run.code):
        return None
    summary = f"{failed.what} after step {failed.step} failed{at(failed.place)}"
    if run.code:
        return of_save(failed, summary)
    begun = [each.path for each in run.failures]
    otherwise = any(s.step >= failed.step and s.path not in begun for s in run.saved if s.path)
    if not otherwise and not any(_is_kept(each, begun) for each in run.checkpoints):
        ended = "" if run.cut else "; exit code 0"
        verdict = of_save(failed, f"{summary}, and no whole checkpoint is there{ended}")
        fix = f"{verdict.fix or ''} {READ_RESULT}".strip() if failed.thread else verdict.fix
        return fail(verdict.summary, fix=fix)
    return note(
        f"{summary}, and the run went on: {shown(failed.error, 300)}",
        fix="Nothing, if that file is not needed: other checkpoints are there.",
    )


def _is_kept(checkpoint: OnDisk, begun: list[str]) -> bool:
    """Whether a checkpoint is whole, and none that a failed save began."""
    failed = any(path.endswith(f"/{checkpoint.path}") for path in begun)
    return not (failed or checkpoint.torn or checkpoint.unread)


def of_thread(rehearsal: Rehearsal, run: RehearsedRun, dead: FailedCall) -> str:
    """The remedy of an error that ended a thread, also of the save that raised it."""
    save = failed_save(rehearsal, run)
    own = of_save(save, "").fix if save is not None and save.error == dead.error else None
    return f"{own} {TO_TRAINING}" if own else TO_TRAINING


def dead_thread(run: RehearsedRun) -> FailedCall | None:
    """A thread that an error ended."""
    return next((each for each in run.failures if each.what == "thread"), None)


def at(place: str) -> str:
    """The user's line, as a part of a summary; "" for none."""
    return f", at {shown(place, 200)}" if place else ""


def own_remedy(rank: RehearsedRank) -> str:
    """The remedy of an error by where it was raised; "" where that says nothing more."""
    if SAMPLE.search(rank.place) and OF_INDEX.match(rank.error):
        return SAMPLES_FIX
    if LAST_OF_ONE.search(rank.error):
        return LAST_OF_ONE_FIX
    if rank.grad_off and "does not require grad" in rank.error:
        return SWITCHED_OFF
    if rank.dtypes and DTYPE.search(rank.error):
        return f"{CONVERT_COPY} Its weights were {shown(rank.dtypes, 100)}."
    if rank.generating and INDEX.search(rank.error):
        return LENGTH
    if rank.evaluating is None or rank.in_model:
        return ""
    if rank.in_loader and UNEQUAL in rank.error:
        return SAMPLE_FIX
    return next((fix for pattern, fix in IN_EVALUATIONS if pattern.search(rank.error)), "")


IN_EVALUATIONS = (
    (IGNORED, IGNORED_FIX),
    (TUPLES, FIRST_OF_TUPLE),
    (JOINED, EACH_BATCH),
)
