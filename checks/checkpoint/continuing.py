"""Whether a run can be continued from a checkpoint, as it is planned to be."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import listed
from doctor.checkpoint.records import Checkpoint, Continuation, Plan
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

REQUIRED = {
    "transformers Trainer": ("optimizer", "scheduler", "loop state"),
    "transformers Trainer with DeepSpeed": ("optimizer", "loop state"),
    "accelerate": ("optimizer",),
    "DeepSpeed": ("optimizer",),
    "torch.distributed.checkpoint": ("optimizer",),
    "Lightning": ("optimizer", "scheduler", "loop state"),
    "nanoGPT": ("optimizer",),
    "torch.save": ("optimizer",),
}
"""What each framework fails without, or silently begins anew."""

EXPECTED = {
    "transformers Trainer": ("random state",),
    "transformers Trainer with DeepSpeed": ("random state", "scheduler"),
    "accelerate": ("random state",),
}
"""What it goes on without, with another order of the data or another rate."""


def complete(checkpoint: Checkpoint) -> Verdict:
    found = checkpoint.continuation
    if not isinstance(found, Continuation):
        return without(found)
    if not found.requested:
        lacks = found.framework == "transformers Trainer" and not found.pieces.get("loop state")
        text = f"transformers Trainer: no loop state{_effect(found)}; its weights load"
        return note(text, fix=WHOLE_FIX) if lacks else without(found)
    if not found.framework:
        return unknown("no framework's checkpoint is recognized; nothing shows what it needs")
    if not checkpoint.contents.tensors:
        return fail(f"{found.framework}: no weights could be read", fix=WHOLE_FIX)
    required = REQUIRED[found.framework]
    if found.plan.precision == "fp16" and "Trainer" not in found.framework:
        required = (*required, "scaler")
    absent = [piece for piece in required if not found.pieces.get(piece)]
    if absent:
        return fail(
            f"{found.framework}: no {' and no '.join(absent)}{_effect(found)}", fix=WHOLE_FIX
        )
    if unread := [f"{piece} {reason}" for piece, reason in found.unread.items()]:
        return fail(f"{found.framework}: {listed(unread, 2)}", fix=WHOLE_FIX)
    return _complete(found)


def _complete(found: Continuation) -> Verdict:
    lacking = [p for p in EXPECTED.get(found.framework, ()) if not found.pieces.get(p)]
    if lacking:
        text = f"{found.framework}: no {' and no '.join(lacking)}; the run goes on differently"
        return warn(text, fix=WHOLE_FIX)
    if found.best_gone:
        text = f"best_model_checkpoint {found.best_gone} is not among the run's checkpoints"
        return warn(f"{text}: load_best_model_at_end cannot load it", fix=BEST_FIX)
    if found.random_ranks is not None and found.random_ranks < (found.ranks or 0):
        text = f"{found.framework}: random states of {found.random_ranks:,} processes of "
        return warn(f"{text}at least {found.ranks:,}", fix=RANDOM_FIX)
    here = listed([piece for piece, file in found.pieces.items() if file], 5)
    text = f"{found.framework}: {here} present"
    others = [p for p in ("scheduler", "random state") if p in found.pieces and not found.pieces[p]]
    if others and found.framework in ("torch.save", "accelerate"):
        return note(f"{text}; no {' and no '.join(others)}, which the program has to restore")
    return ok(text)


def _effect(found: Continuation) -> str:
    if found.framework != "transformers Trainer":
        return ""
    if found.pieces.get("loop state"):
        return ": Trainer then loads neither optimizer nor scheduler, and says nothing"
    return ": resume_from_checkpoint fails without trainer_state.json"


def without(found: Continuation | Unknown | None) -> Verdict:
    """The verdict where no continuation was asked for, or nothing is known of it."""
    if not isinstance(found, Unknown):
        return skip("no --continue")
    return unknown(f"the checkpoint could not be read: {found.reason}")


def ranks(checkpoint: Checkpoint) -> Verdict:
    found = checkpoint.continuation
    if not isinstance(found, Continuation) or not found.requested:
        return without(found)
    gpus = found.plan.gpus
    if found.ranks is None:
        if found.reshards:
            return skip("the files show no number of processes, and do not depend on it")
        return unknown("the files do not show for how many processes they are")
    wrote = f"written by {found.ranks:,} process{'es' * (found.ranks != 1)}"
    if gpus is None:
        if found.reshards and found.ranks == 1:
            return ok(f"{wrote}; no --gpus")
        return note(f"{wrote}; --gpus N says whether the resumed run can load it")
    return _with_ranks(found, found.ranks, gpus, wrote)


def _with_ranks(found: Continuation, before: int, gpus: int, wrote: str) -> Verdict:
    if gpus == before:
        if found.random_ranks is not None and found.random_ranks < gpus:
            text = f"{wrote}; random states are there for {found.random_ranks:,} of them"
            return warn(text, fix=RANKS_FIX)
        return ok(f"{wrote}, resumed by {gpus:,}")
    if not found.reshards:
        text = f"{wrote}, resumed by {gpus:,}: its parts fit the same number only"
        return fail(text, fix=RANKS_FIX)
    if found.random_ranks is not None and gpus > found.random_ranks:
        text = f"{wrote}, resumed by {gpus:,}: {gpus - found.random_ranks:,} have no random state"
        return warn(text, fix=RANKS_FIX)
    return note(f"{wrote}, resumed by {gpus:,}: the format allows it")


def same_run(checkpoint: Checkpoint) -> Verdict:
    found = checkpoint.continuation
    if not isinstance(found, Continuation) or not found.requested:
        return without(found)
    plan = found.plan
    if plan == Plan():
        return skip("no --gpus, no --script and no --facts")
    if problem := _versions(found):
        return problem
    notes = list(_other_batches(found))
    if notes:
        text = "; ".join(notes)
        return warn(f"{text}: the position in the data is another", fix=BATCH_FIX)
    compared = [
        "batch size" * bool(plan.batch_size and found.batch_size),
        "processes" * bool(plan.gpus and found.ranks),
        "versions" * bool(plan.packages and (found.versions or found.numpy_core)),
    ]
    text = listed(list(filter(None, compared)), 3)
    if not text:
        return skip("the files record nothing that the plan could be compared with")
    return ok(f"{text} of the resumed run are those of the checkpoint")


def _other_batches(found: Continuation) -> list[str]:
    plan, notes = found.plan, []
    if plan.batch_size and found.batch_size and plan.batch_size != found.batch_size:
        notes.append(f"batches of {plan.batch_size:,} per GPU, {found.batch_size:,} before")
    if plan.gpus and found.ranks and plan.gpus != found.ranks:
        notes.append(f"{plan.gpus:,} processes, {found.ranks:,} before")
    return notes


def _versions(found: Continuation) -> Verdict | None:
    have = found.plan.packages
    numpy = have.get("numpy", "")
    if found.numpy_core and numpy and _numbers(numpy) < (1, 26):
        text = f"a pickle names numpy._core, and the environment has numpy {numpy}"
        return fail(f"{text}; 1.26 required", fix=VERSIONS_FIX)
    for package, wrote in found.versions.items():
        version = have.get(package) or have.get(f"pytorch-{package}", "")
        if version and _numbers(version)[:1] < _numbers(wrote)[:1]:
            text = f"written by {package} {wrote}, and the environment has {version}"
            return warn(f"{text}: the same major version required", fix=VERSIONS_FIX)
    return None


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split("+")[0].split(".")[:2]
    return tuple(int(part) if part.isdecimal() else 0 for part in parts)


WHOLE_FIX = (
    "Continue from a checkpoint that holds all of it, or begin a new run from these weights with a "
    "warm-up; save with save_only_model=False (Trainer), save_state (accelerate) or without "
    "save_weights_only (Lightning)."
)
RANKS_FIX = (
    "Resume with the number of processes that wrote it, or convert first: what DeepSpeed's "
    "ds_to_universal and torch.distributed.checkpoint write loads on any number."
)
RANDOM_FIX = (
    "Collect the missing files from the other machines of the run, or accept that these processes "
    "draw other dropout and another order of the data."
)
BEST_FIX = (
    "Restore that checkpoint, or correct best_model_checkpoint in trainer_state.json. "
    "save_total_limit removes old checkpoints and keeps the best one."
)
BATCH_FIX = (
    "Resume with the same batch size per GPU, accumulation and number of processes, or accept that "
    "samples of this epoch are repeated or left out."
)
VERSIONS_FIX = "Install the version that wrote the files, or a later one, before resuming."

COMPLETE = Check(
    code="CKP019",
    slug="continue-complete",
    title="The checkpoint holds what a resumed run needs",
    why="A run that resumes without its optimizer begins with empty moments, and without its "
    "scheduler at another learning rate. Trainer loads neither if one of the two files is missing, "
    "and says nothing.",
    passes=("weights, optimizer, scheduler and the state of the loop are there and readable",),
    notes=(
        "a file of a program of one's own holds no scheduler or random state",
        "without --continue: Trainer's optimizer.pt lies there without trainer_state.json",
    ),
    warns=(
        "the random states are missing, or those of single processes are",
        "the best checkpoint of Trainer's state is not among the others of the run",
    ),
    fails=("what the framework loads is missing or damaged",),
    fix=WHOLE_FIX,
    limits="that the program loads what is there.",
    owner=Owner.JOB,
    judge=complete,
    required="checkpoint",
    sources=("torch-optimizer-state",),
    after=("CKP001",),
)

RANKS = Check(
    code="CKP020",
    slug="continue-ranks",
    title="The number of resuming processes can load the checkpoint",
    why="ZeRO's optimizer states lie in one part for each process, and only as many can load them "
    "again. Random states are kept for each process, too.",
    passes=("as many processes resume as wrote it, or the format allows any number",),
    notes=("another number resumes, which the format allows",),
    warns=("some of the resuming processes have no random state",),
    fails=("the parts of the optimizer fit the number that wrote them only",),
    fix=RANKS_FIX,
    limits="that tensor and pipeline parallelism are the same.",
    owner=Owner.JOB,
    judge=ranks,
    required="checkpoint",
    sources=("deepspeed-universal",),
    after=("CKP001",),
)

SAME = Check(
    code="CKP022",
    slug="continue-same-run",
    title="Batch, processes and versions are those of the run",
    why="The position in the data is a number of steps: with another batch size or number of "
    "processes the resumed epoch repeats or leaves out samples. Files of newer libraries may not "
    "load in an older environment.",
    passes=("what could be compared is the same",),
    warns=(
        "another batch size per GPU or number of processes",
        "the environment has an older major version of a library",
    ),
    fails=("a pickle names what the environment's numpy does not have",),
    fix=BATCH_FIX,
    limits="that the data and the seed are the same.",
    owner=Owner.JOB,
    judge=same_run,
    required="checkpoint",
    sources=("accelerate-2926",),
    after=("CKP001",),
)

CHECKS = (COMPLETE, RANKS, SAME)
