"""The checks of a rehearsal, on facts made for each verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rehearsal_facts import (
    CHECKS,
    CONTINUED,
    DISK,
    HEALTHY,
    NAMED,
    RANK,
    RESUMED,
    RUN,
    SAVED,
    STOPPED,
    agreed,
    attempt,
    changed,
    facts,
    findings,
    lost,
    resumed,
    with_continued,
    with_rank,
    with_run,
    with_stop,
)

from doctor._util.records import Unknown
from doctor.checks.rehearsal.pace import Pace, measured
from doctor.facts.facts import decode, encode
from doctor.facts.guard import Guarded, GuardedProcess, GuardError
from doctor.facts.rehearsal import (
    Accessed,
    Agreement,
    Batches,
    Protection,
    Rehearsal,
    RehearsedStage,
    TriedBatch,
)
from doctor.facts.rehearsal_resume import Lost, SampleOrder
from doctor.facts.rehearsal_runs import (
    CountedStep,
    Evaluated,
    HostMemory,
    KeptGraphs,
    OnDisk,
    RehearsedRank,
    SavedFile,
    Waiting,
)
from doctor.judge.check import Status

ALONE = "if rank == 0 (t.py:3)"
RATE = ("rate", {"before": "0.001", "after": "0.0002", "names": ("StepLR",)})


def test_a_healthy_rehearsal_has_no_warning_and_no_unknown() -> None:
    statuses = {code: each.status for code, each in findings(HEALTHY).items()}
    assert statuses.pop("RHS015") is Status.SKIP  # no number of steps
    assert statuses.pop("RHS016") is Status.SKIP  # no factory
    assert statuses.pop("RHS017") is Status.SKIP  # no --access
    assert set(statuses.values()) == {Status.PASS}


def test_the_remedy_of_an_average_is_not_that_of_keys() -> None:
    """A tied head is missed by every load of a Trainer."""
    tied = {"missed_keys": ("lm_head.weight",)}
    average = findings(resumed(lost("average"), **tied))["RHS010"].verdict
    assert "Save the state of the average" in (average.fix or "")
    assert "lm_head" not in average.summary
    weights = findings(resumed(lost("average"), lost("weights"), **tied))["RHS010"].verdict
    assert "strict=True" in (weights.fix or "")


@pytest.mark.parametrize(
    ("lost_parts", "code", "remedy"),
    [
        ([("buffers", {"fresh": True})], "RHS010", "as named_parameters() has not"),
        ([("buffers", {})], "RHS010", "Load with strict=True"),
        ([("buffers", {}), ("weights", {})], "RHS010", "Load with strict=True"),
        ([("untied", {})], "RHS010", "tie_weights"),
        ([("replaced", {})], "RHS011", "anew after the optimizer"),
        ([("schedule", {"before": "4", "after": "8"}), RATE], "RHS012", "not both"),
        ([("rate", {**RATE[1], "names": ()})], "RHS012", "that the script computes it from"),
        ([("schedule", {"before": "4", "after": "0"}), RATE], "RHS012", "after scheduler.step()"),
    ],
)
def test_the_remedy_is_that_of_what_was_lost(lost_parts: Any, code: str, remedy: str) -> None:
    parts = [lost(kind, **fields) for kind, fields in lost_parts]
    found = findings(resumed(*parts, missed_keys=("bn.running_mean",)))[code]
    assert found.status is Status.FAIL
    assert remedy in (found.verdict.fix or found.check.fix)


@pytest.mark.parametrize(
    ("error", "generating", "named"),
    [
        ("IndexError: index out of range in self", True, True),
        ("IndexError: index out of range in self", False, False),
        ("ValueError: a file", True, False),
    ],
)
def test_a_generation_that_is_longer_than_the_positions(
    error: str, generating: bool, named: bool
) -> None:
    rank = msgspec.structs.replace(RANK, evaluating=4, generating=generating, error=error)
    found = findings(with_run(code=1, ranks=(rank,)))["RHS005"].verdict
    assert ("max_new_tokens" in (found.fix or "")) is named
    assert "before the first step" in (found.fix or "")


def test_an_evaluation_in_which_ranks_wait_has_no_remedy_of_its_own() -> None:
    found = findings(uneven((8, 8)))["RHS005"]
    assert found.status is Status.FAIL
    assert found.verdict.fix == "Follow the remedy of RHS003: the ranks wait for each other there."


@pytest.mark.parametrize(("path", "named"), [("m.pt", True), ("other.pt", False), ("", False)])
def test_a_file_that_another_rank_has_renamed(path: str, named: bool) -> None:
    error = "FileNotFoundError: [Errno 2] No such file or directory: '/o/m.pt'"
    rank = msgspec.structs.replace(RANK, world=2, error=error)
    shared = (path,) if path else ()
    found = findings(with_run(code=1, ranks=(rank,), shared=shared))["RHS003"].verdict
    assert ("more than one rank writes that file" in found.summary) is named
    assert ("Save on rank 0 alone" in (found.fix or "")) is named


@pytest.mark.parametrize(
    ("condition", "remedy"), [(ALONE, "outside of the condition"), ("", "in the same order")]
)
def test_a_call_under_a_condition_on_the_rank_is_named(condition: str, remedy: str) -> None:
    held = msgspec.structs.replace(waits(0, "all_reduce"), condition=condition)
    hung = findings(hangs(held, waits(1)))["RHS003"].verdict
    assert (f"train.py:0, under `{condition}`" in hung.summary) is bool(condition)
    assert remedy in (hung.fix or "")


def waits_at(place: str, collective: str) -> Waiting:
    return Waiting(rank=1, inside=True, place=place, collective=collective, number=11)


def test_a_rank_that_left_its_steps_under_a_condition() -> None:
    ranks = tuple(
        msgspec.structs.replace(RANK, rank=n, world=2, error="gloo: reset" * n) for n in (0, 1)
    )
    gone = msgspec.structs.replace(waits(0), condition=ALONE)
    training = Waiting(rank=1, place="t.py:9", ended=True, exchanging=True)
    found = findings(with_run(code=1, ranks=ranks, waiting=(gone, training)))["RHS003"].verdict
    assert f"under `{ALONE}`" in found.summary
    assert "outside of the condition" in (found.fix or "")


@pytest.mark.parametrize(
    ("second", "error", "told"),
    [
        (waits_at("t.py:121", "barrier"), "gloo: Connection closed by peer", True),
        (waits_at("t.py:49", "all_reduce"), "gloo: Connection closed by peer", False),
        (waits_at("t.py:121", "recv"), "gloo: Connection closed by peer", False),
        (waits_at("t.py:121", "barrier"), "ValueError: no such row", False),
        (Waiting(rank=1, place="t.py:121", ended=True), "gloo: Connection closed by peer", False),
    ],
)
def test_ranks_in_different_collectives(second: Waiting, error: str, told: bool) -> None:
    one = msgspec.structs.replace(RANK, world=2, steps=10, error="gloo: Timed out")
    two = msgspec.structs.replace(RANK, rank=1, world=2, steps=10, error=error)
    evaluated = msgspec.structs.replace(GROWS, step=10)
    ranks = (msgspec.structs.replace(one, evaluations=(evaluated,)), two)
    first = msgspec.structs.replace(waits_at("t.py:49", "all_reduce"), rank=0)
    found = findings(with_run(code=1, ranks=ranks, waiting=(first, second)))["RHS003"].verdict
    assert ("rank 1 is in barrier at t.py:121" in found.summary) is told
    assert ("Call the evaluation on every rank" in (found.fix or "")) is told


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.code)
def test_without_a_record_nothing_passes(check: Any) -> None:
    reason = Unknown(reason="the records could not be read")
    assert findings(reason)[check.code].status is Status.UNKNOWN
    assert findings(None)[check.code].status is Status.SKIP


def test_the_section_survives_a_facts_file() -> None:
    assert decode(encode(facts(HEALTHY))).rehearsal == HEALTHY


def held(**fields: Any) -> HostMemory:
    values = {"loading": 30, "running": 40, "free": 100}
    return HostMemory(**{key: value * 2**30 for key, value in {**values, **fields}.items()})


def of_factory(*tried: TriedBatch, **fields: Any) -> Rehearsal:
    values: dict[str, Any] = {"read": 41, "of": 41, "tried": tried}
    return changed(trained="in a loop", batches=Batches(**values | fields))


def accessed(*usable: bool | None) -> Rehearsal:
    return changed(accessed=tuple(Accessed(target="hf://org/model", usable=u) for u in usable))


def ordered(**fields: Any) -> Rehearsal:
    return resumed(order=SampleOrder(**{"steps": 8, "samples": 48} | fields))


def waits(rank: int, collective: str = "barrier", number: int = 5, **fields: Any) -> Waiting:
    values = {"place": f"train.py:{rank}", "collective": collective, "number": number}
    return Waiting(**{"rank": rank, "inside": True, **values, **fields})


def hangs(*waiting: Waiting, still: float = 99.0) -> Rehearsal:
    return with_run(cut="deadline", code=None, waiting=waiting, still=still)


def turning(loop: str) -> Waiting:
    return Waiting(rank=0, place="a.py:5 in decode", loop=loop)


def evaluating(*waiting: Waiting, **fields: Any) -> Rehearsal:
    rank = msgspec.structs.replace(RANK, evaluating=4, **fields)
    return with_run(cut="deadline", code=None, ranks=(rank,), waiting=waiting, still=99.0)


def apart(error: str, *waiting: Waiting) -> Rehearsal:
    """Rank 0 is in an evaluation when the run ends with an error, or is ended."""
    first = msgspec.structs.replace(RANK, world=2, evaluating=8, error=error)
    ranks = first, msgspec.structs.replace(RANK, rank=1, world=2)
    how: dict[str, Any] = {"code": 1} if error else {"code": None, "cut": "deadline"}
    return with_run(ranks=ranks, waiting=waiting, still=99.0, **how)


def uneven(epoch: tuple[int, ...]) -> Rehearsal:
    """Rank 0 is in an evaluation after step 8, and the ranks' samplers have these lengths."""
    ranks = apart("gloo: Connection reset by peer").runs[0].ranks
    agreement = msgspec.structs.replace(HEALTHY.agreement, epoch=epoch)
    return msgspec.structs.replace(with_run(ranks=ranks, code=1), agreement=agreement)


def state_in(path: str) -> OnDisk:
    return msgspec.structs.replace(DISK, path=path, optimizer=True)


def in_grace(*, ended: bool, **fields: Any) -> Rehearsal:
    """It was killed at the end of the grace period."""
    ranks = (msgspec.structs.replace(RANK, ended=ended),)
    return with_stop(cut="grace", code=None, ranks=ranks, **fields)


def named(path: str) -> OnDisk:
    return msgspec.structs.replace(DISK, path=path)


def weights_alone(optimizer: bool = False, **fields: Any) -> Rehearsal:
    disk = (msgspec.structs.replace(DISK, optimizer=optimizer),)
    stopped = msgspec.structs.replace(STOPPED, checkpoints=disk)
    found = resumed(from_start=True, opened="", **fields)
    return msgspec.structs.replace(found, runs=(RUN, stopped, CONTINUED))


def keeping(*graphs: int) -> Rehearsal:
    """Tensors with graphs that are in memory after each fifth step."""
    looks = enumerate(graphs, 1)
    return with_rank(kept=tuple(KeptGraphs(step=5 * n, graphs=count) for n, count in looks))


def left_evaluating(*kinds: str) -> Rehearsal:
    found = Evaluated(step=4, seconds=0.1, calls=2, samples=8, left=kinds)
    return with_rank(evaluations=(found,))


def in_last_interval(*saves: int) -> Rehearsal:
    """A signal after the save at step 6, which the command does not heed."""
    saved = tuple(SavedFile(step=step, what="torch.save") for step in saves)
    stopped = msgspec.structs.replace(STOPPED, code=0, stopped_at=7)
    return changed(runs=(msgspec.structs.replace(RUN, saved=saved), stopped, CONTINUED))


def parted(
    error: str, *, gone: bool = False, exchanging: bool = True, epoch: tuple[int, ...] = ()
) -> Rehearsal:
    """Rank 0 fails in backward(), rank 1 is in a collective or has ended."""
    ranks = (
        msgspec.structs.replace(RANK, world=2, error=error),
        msgspec.structs.replace(RANK, rank=1, world=2, ended=gone),
    )
    waiting = (
        Waiting(rank=0, place="a.py:37", ended=True, exchanging=exchanging),
        Waiting(rank=1, place="a.py:43", collective="all_reduce", inside=not gone, ended=gone),
    )
    found = with_run(code=1, ranks=ranks, waiting=waiting)
    agreement = msgspec.structs.replace(found.agreement, epoch=epoch)
    return msgspec.structs.replace(found, agreement=agreement)


SEVENTH = msgspec.structs.replace(RANK, steps=7)
GROWS = Evaluated(
    step=1, seconds=1, calls=12, samples=48, memory=tuple(2**27 * n for n in range(12)), of=300_000
)
LONGEST = TriedBatch(name="longest", samples=4, length=512)

CASES: list[tuple[str, Rehearsal, Status, str]] = [
    ("RHS001", changed(attempts=(attempt(exists=True, holds_run=True),)), Status.FAIL, "a.pt"),
    ("RHS001", changed(attempts=(attempt(),)), Status.NOTE, "went on"),
    ("RHS001", changed(attempts=(attempt(),), protection=Protection()), Status.WARN, "not refused"),
    ("RHS001", changed(protection=Protection()), Status.UNKNOWN, "not protected"),
    ("RHS001", with_run(code=1, refusals=("rm: Read-only file system",)), Status.FAIL, "rm"),
    ("RHS001", with_run(refusals=("rm: Read-only file system",)), Status.NOTE, "went on"),
    (
        "RHS002",
        changed(attempts=(attempt(kind="upload", what="create_repo"),)),
        Status.NOTE,
        "create_repo",
    ),
    ("RHS001", with_run(ranks=()), Status.UNKNOWN, "no process"),
    ("RHS001", with_run(ranks=(), refusals=("rm: Read-only",)), Status.NOTE, "rm"),
    ("RHS002", with_run(ranks=()), Status.UNKNOWN, "no process"),
    (
        "RHS002",
        msgspec.structs.replace(with_run(ranks=()), protection=Protection(landlock=7)),
        Status.UNKNOWN,
        "no process",
    ),
    ("RHS003", with_run(code=1), Status.FAIL, "exit code 1"),
    ("RHS003", with_run(cut="deadline", code=None, stuck=("python",)), Status.WARN, "SIGKILL"),
    ("RHS003", with_run(code=1, ranks=(), tail=("ImportError: no x",)), Status.FAIL, "no x"),
    ("RHS003", with_run(ranks=(), checkpoints=()), Status.FAIL, "no training step"),
    ("RHS003", with_run(ranks=()), Status.UNKNOWN, "no training was observed"),
    ("RHS003", apart("gloo: Connection reset by peer"), Status.FAIL, "rank 1 does not take part"),
    ("RHS003", apart("ValueError: no such metric"), Status.FAIL, "exit code 1 after 12 steps"),
    ("RHS003", apart("", waits(0)), Status.FAIL, "none of the ranks goes on"),
    ("RHS003", with_run(cut="deadline", code=None), Status.WARN, "12 steps"),
    ("RHS003", with_run(cut="deadline", code=None, ranks=()), Status.FAIL, "no training step"),
    ("RHS003", evaluating(steps=0), Status.UNKNOWN, "larger --budget"),
    ("RHS003", evaluating(), Status.UNKNOWN, "larger --budget"),
    ("RHS003", evaluating(waits(0, inside=False), waits(1)), Status.UNKNOWN, "larger --budget"),
    ("RHS003", evaluating(waits(0, "gather"), waits(1)), Status.FAIL, "waits in gather"),
    ("RHS006", with_run(checkpoints=(named("step_12.tmp/m.pt"),)), Status.WARN, "temporary name"),
    ("RHS006", with_run(checkpoints=(named("templates_12/m.pt"),)), Status.PASS, "whole"),
    ("RHS008", in_grace(ended=False, handler="stop, at a.py:4"), Status.FAIL, "a.py:4"),
    ("RHS008", in_grace(ended=True), Status.NOTE, "left its program"),
    ("RHS008", in_grace(ended=True, stopped_at=6), Status.WARN, "took all 12 steps"),
    ("RHS008", in_grace(ended=False, stopped_at=5), Status.FAIL, "it took 7 further steps"),
    ("RHS008", in_last_interval(3, 6, 12), Status.NOTE, "no save lay between them"),
    ("RHS008", in_last_interval(3, 6, 9, 12), Status.WARN, "took all 12 steps"),
    ("RHS003", parted("RuntimeError: gloo: Connection reset"), Status.FAIL, "fewer batches"),
    ("RHS003", parted("RuntimeError: gloo: reset", epoch=(9, 8)), Status.FAIL, "fewer batches"),
    ("RHS003", parted("RuntimeError: gloo: reset", epoch=(8, 8)), Status.FAIL, "of its own"),
    ("RHS003", evaluating(turning("while not done (a.py:4)")), Status.UNKNOWN, "while not done"),
    ("RHS003", evaluating(turning("")), Status.UNKNOWN, "whether it goes on"),
    ("RHS003", parted("RuntimeError: gloo: Connection reset", gone=True), Status.FAIL, "had ended"),
    ("RHS003", parted("ValueError: a file"), Status.FAIL, "exit code 1 after 12 steps"),
    ("RHS003", parted("gloo: reset", exchanging=False), Status.FAIL, "exit code 1 after 12 steps"),
    ("RHS004", keeping(0, 5, 10, 15), Status.WARN, "15 after step 20"),
    ("RHS004", keeping(0, 0, 5, 5, 10), Status.WARN, "10 after step 25"),
    ("RHS004", keeping(3, 3, 3, 3), Status.PASS, "host"),
    ("RHS004", keeping(0, 9, 0, 9), Status.PASS, "host"),  # until the next backward pass
    ("RHS004", keeping(0, 0, 0, 9), Status.PASS, "host"),
    ("RHS004", keeping(0, 1, 2, 3), Status.PASS, "host"),
    ("RHS005", left_evaluating("Dropout"), Status.WARN, "at step 5 still"),
    ("RHS006", with_run(newest_removed=("c-9", "c-12")), Status.WARN, "c-9, c-12 were removed"),
    ("RHS009", resumed(steps=9), Status.WARN, "one step is taken twice"),
    ("RHS009", resumed(steps=7), Status.WARN, "one step is left out"),
    ("RHS009", resumed(steps=9, order=SampleOrder(anew=True)), Status.PASS, "after step 4"),
    ("RHS019", resumed(same_batches=2), Status.WARN, "the same samples"),
    ("RHS010", resumed(lost("attribute", names=("Norm.mean",))), Status.WARN, "Norm.mean"),
    ("RHS010", resumed(lost("attribute"), lost("weights")), Status.FAIL, "as at a fresh start"),
    ("RHS008", in_grace(ended=True, saved_after_signal=False), Status.FAIL, "--grace 30"),
    ("RHS009", resumed(from_start=True, unprepared=True), Status.FAIL, "before a model"),
    ("RHS009", resumed(from_start=True, opened="a.tmp/m.pt"), Status.FAIL, "unfinished save"),
    ("RHS009", weights_alone(stateful=4), Status.WARN, "weights alone"),
    ("RHS009", weights_alone(stateful=0), Status.NOTE, "asks for no resume"),
    ("RHS009", weights_alone(True, stateful=4), Status.NOTE, "asks for no resume"),
    ("RHS010", resumed(exchanged=True), Status.FAIL, "average"),
    ("RHS013", agreed(replicated=False, differ_from=0, averaged=2), Status.FAIL, "averaged"),
    ("RHS003", with_rank(world=2), Status.FAIL, "1 of 2 ranks"),
    ("RHS003", with_run(left=("sleep",)), Status.NOTE, "processes were left"),
    ("RHS004", with_rank(allocated=79, reserved=79, total=80), Status.WARN, "rank 0"),
    ("RHS004", with_run(memory=held(loading=96)), Status.WARN, "while loading"),
    ("RHS004", with_run(memory=held(running=80, shm=17)), Status.WARN, "in the steps"),
    ("RHS004", with_run(memory=held(shm=39, shm_free=40)), Status.WARN, "/dev/shm"),
    ("RHS004", with_run(memory=None), Status.UNKNOWN, "could not be read"),
    ("RHS003", with_run(code=-9, memory=held(running=97)), Status.FAIL, "no memory is left"),
    (
        "RHS003",
        with_run(code=1, tail=("exitcode : -9 (pid: 7)",), memory=held(loading=99)),
        Status.FAIL,
        "no memory is left",
    ),
    ("RHS003", with_run(code=-9, memory=held(running=50)), Status.FAIL, "exit code -9"),
    ("RHS004", with_rank(allocated=40, reserved=79, total=80), Status.PASS, "rank 0"),
    (
        "RHS005",
        with_run(code=1, ranks=(msgspec.structs.replace(RANK, evaluating=4),)),
        Status.FAIL,
        "step 4",
    ),
    (
        "RHS005",
        with_rank(
            evaluations=(
                Evaluated(
                    step=1,
                    seconds=1,
                    calls=12,
                    samples=48,
                    memory=tuple(2**27 * n for n in range(12)),
                ),
            )
        ),
        Status.WARN,
        "1,000 samples of it",
    ),
    ("RHS005", with_rank(evaluations=(GROWS,)), Status.WARN, "300,000 samples of its dataset"),
    (
        "RHS005",
        with_rank(
            evaluations=(
                Evaluated(step=1, seconds=1, calls=12, samples=48, memory=(0, *[2**30] * 11)),
            )
        ),
        Status.PASS,
        "ends",
    ),
    (
        "RHS005",
        with_rank(evaluations=(Evaluated(step=1, seconds=1, calls=0, samples=0, graphs=4),)),
        Status.NOTE,
        "4 times with gradients",
    ),
    (
        "RHS006",
        with_run(checkpoints=(msgspec.structs.replace(DISK, torn=("last.pt is cut off",)),)),
        Status.FAIL,
        "cut off",
    ),
    ("RHS006", with_run(checkpoints=()), Status.NOTE, "{output}"),
    ("RHS006", with_run(overwritten=("last.pt",)), Status.WARN, "writes over it in place"),
    ("RHS006", with_run(shared=("last.pt",)), Status.WARN, "more than one rank writes last.pt"),
    ("RHS006", with_run(emptied="last.pt", emptied_at=8), Status.WARN, "removed after step 8"),
    (
        "RHS006",
        with_run(overwritten=("last.pt",), checkpoints=(DISK, named("step_12/m.pt"))),
        Status.PASS,
        "whole",
    ),
    ("RHS006", with_run(overwritten=("log.pkl",)), Status.PASS, "whole"),
    (
        "RHS006",
        with_run(overwritten=("last.pt",), checkpoints=(named("best.pt"), state_in("last.pt"))),
        Status.WARN,
        "last.pt is the only checkpoint with an optimizer's state",
    ),
    (
        "RHS006",
        with_run(overwritten=("last.pt",), checkpoints=(state_in("best.pt"), state_in("last.pt"))),
        Status.PASS,
        "whole",
    ),
    ("RHS003", uneven((8, 9)), Status.FAIL, "an epoch has 8 to 9 batches"),
    ("RHS003", uneven((9, 8)), Status.FAIL, "does not take part in: gloo"),
    ("RHS003", uneven((8, 8)), Status.FAIL, "does not take part in: gloo"),
    ("RHS003", uneven((5, 9)), Status.FAIL, "does not take part in: gloo"),
    ("RHS010", resumed(lost("untied", before="wte.weight")), Status.FAIL, "a weight of its own"),
    ("RHS011", resumed(lost("replaced")), Status.FAIL, "are in no optimizer now"),
    (
        "RHS006",
        with_run(checkpoints=(msgspec.structs.replace(DISK, unread="a file system"),)),
        Status.UNKNOWN,
        "file system",
    ),
    ("RHS007", changed(free=2**20), Status.WARN, "2 checkpoints"),
    ("RHS007", changed(free=2**22, keep=9), Status.FAIL, "10 checkpoints"),
    ("RHS007", changed(free=None), Status.UNKNOWN, "free"),
    (
        "RHS008",
        with_stop(saved_after_signal=False),
        Status.NOTE,
        "steps lost since the last save: 7",
    ),
    ("RHS008", with_stop(saved_after_signal=False, saved=()), Status.NOTE, "steps lost: 11"),
    ("RHS008", in_grace(ended=False), Status.FAIL, "--grace 30"),
    ("RHS008", with_stop(left=("python",)), Status.FAIL, "python"),
    ("RHS008", with_stop(orphans=("python",)), Status.PASS, "passing it on to python"),
    ("RHS008", with_stop(code=0, ranks=(SEVENTH,)), Status.NOTE, "exit code 0 after 7 of 12 steps"),
    ("RHS008", with_stop(code=143, ranks=(SEVENTH,)), Status.PASS, "was saved and is whole"),
    ("RHS008", with_stop(code=0, stopped_at=6), Status.WARN, "took all 12 steps"),
    ("RHS008", with_stop(code=0, stopped_at=11), Status.PASS, "step 11"),
    (
        "RHS008",
        with_stop(checkpoints=(msgspec.structs.replace(DISK, torn=("last.pt is cut off",)),)),
        Status.FAIL,
        "cut off",
    ),
    ("RHS009", resumed(from_start=True), Status.FAIL, "it opened last.pt"),
    ("RHS009", resumed(from_start=True, opened=""), Status.NOTE, "asks for no resume"),
    ("RHS009", resumed(from_start=True, opened="", looked=False), Status.NOTE, "opened nothing"),
    (
        "RHS009",
        resumed(from_start=True, opened="", request="--resume"),
        Status.FAIL,
        "--resume asks for a resume",
    ),
    (
        "RHS009",
        resumed(from_start=True, opened="", request="resume=True"),
        Status.FAIL,
        "resume=True asks for a resume",
    ),
    ("RHS009", resumed(opened="", looked=False), Status.PASS, "after step 4"),
    ("RHS009", resumed(steps=12), Status.FAIL, "counted from 0"),
    ("RHS009", resumed(newest_step=8), Status.NOTE, "step 8"),
    ("RHS009", resumed(taken="c-9.pt", passed_over="c-12.pt"), Status.FAIL, "c-12.pt is newer"),
    ("RHS009", resumed(best="best.pt", best_at=8), Status.NOTE, "writes best.pt after step 8"),
    ("RHS009", with_continued(code=1, tail=("KeyError: 'modle'",)), Status.FAIL, "modle"),
    ("RHS009", with_continued(code=None, cut="deadline"), Status.UNKNOWN, "--budget ended"),
    (
        "RHS009",
        with_continued(code=None, cut="deadline", seconds=90.0),
        Status.FAIL,
        "did not end after 12 steps",
    ),
    ("RHS009", changed(resumed=None), Status.UNKNOWN, "no state"),
    ("RHS010", resumed(NAMED), Status.FAIL, "head.weight"),
    ("RHS010", resumed(lost("weights", before="a", after="b")), Status.FAIL, "a, now b"),
    ("RHS010", resumed(lost("dtype", before="float32", after="bfloat16")), Status.FAIL, "bfloat16"),
    ("RHS010", resumed(lost("average", fresh=True)), Status.FAIL, "fresh start"),
    ("RHS010", resumed(lost("buffers")), Status.FAIL, "buffers"),
    ("RHS010", resumed(lost("buffers", persistent=False)), Status.NOTE, "persistent=False"),
    ("RHS010", resumed(lost("buffers", persistent=False), NAMED), Status.FAIL, "persistent=False"),
    ("RHS011", resumed(lost("optimizer", fresh=True)), Status.FAIL, "empty"),
    ("RHS011", resumed(pending=3), Status.NOTE, "3 further backward passes"),
    ("RHS011", resumed(lost("optimizer", fresh=True), pending=3), Status.FAIL, "empty"),
    ("RHS011", resumed(lost("optimizer", before="step 4", after="step 0")), Status.FAIL, "step 4"),
    (
        "RHS011",
        resumed(lost("scaler", before="[256, 1]", after="[65536, 0]")),
        Status.FAIL,
        "65536",
    ),
    ("RHS012", resumed(lost("rate", before="0.001", after="0.0002")), Status.FAIL, "0.0002"),
    ("RHS012", resumed(lost("rate", before="0.001", after="0.00095")), Status.WARN, "0.00095"),
    (
        "RHS012",
        resumed(lost("schedule", before="4", after="0")),
        Status.NOTE,
        "the rate is the same",
    ),
    (
        "RHS012",
        resumed(lost("rate", before="1", after="2"), lost("optimizer")),
        Status.SKIP,
        "RHS011",
    ),
    (
        "RHS012",
        resumed(lost("rate", before="1", after="2"), lost("optimizer"), lost("schedule")),
        Status.FAIL,
        "is 2",
    ),
    (
        "RHS013",
        changed(
            agreement=Agreement(
                ranks=2, replicated=True, steps=(0, 1), differ_from=1, names=("w",), count=1
            )
        ),
        Status.FAIL,
        "after step 1",
    ),
    (
        "RHS013",
        changed(agreement=Agreement(ranks=2, steps=(0, 1), differ_from=1, names=("w",), count=1)),
        Status.WARN,
        "without",
    ),
    (
        "RHS013",
        changed(agreement=Agreement(ranks=2, steps=(0, 1), differ_from=0, names=("w",), count=1)),
        Status.UNKNOWN,
        "shard",
    ),
    ("RHS013", changed(agreement=None), Status.UNKNOWN, "not compared"),
    (
        "RHS014",
        changed(agreement=Agreement(ranks=2, replicated=True, batches=2, distinct=1)),
        Status.FAIL,
        "1 different",
    ),
    (
        "RHS014",
        changed(agreement=Agreement(ranks=2, batches=2, distinct=1)),
        Status.UNKNOWN,
        "tensor",
    ),
    (
        "RHS014",
        changed(trained="in a loop", agreement=Agreement(ranks=2, replicated=True, batches=2)),
        Status.SKIP,
        "the doctor distributed",
    ),
    ("RHS003", hangs(waits(0), waits(1, "all_reduce")), Status.FAIL, "rank 1 waits in all_reduce"),
    ("RHS003", hangs(waits(0), waits(1, inside=False)), Status.FAIL, "rank 1 is at train.py:1"),
    ("RHS003", hangs(waits(0), waits(1, ended=True)), Status.FAIL, "rank 1 had ended"),
    ("RHS003", hangs(waits(0), waits(1)), Status.WARN, "waits at train.py:0"),  # a slow network
    ("RHS003", hangs(waits(0), waits(1, "all_reduce"), still=1.0), Status.WARN, "12 steps"),
    ("RHS005", with_rank(evaluating=4, generating=True), Status.PASS, "ends"),
    (
        "RHS005",
        with_run(
            cut="deadline", ranks=(msgspec.structs.replace(RANK, evaluating=4, generating=True),)
        ),
        Status.UNKNOWN,
        "generate() after step 4",
    ),
    ("RHS010", with_stop(ranks=(msgspec.structs.replace(RANK, broken="?"),)), Status.UNKNOWN, "?"),
    ("RHS013", agreed(parted=9, whole=0), Status.SKIP, "another part of the 9 weights"),
    ("RHS013", agreed(parted=9), Status.PASS, "holds a part"),
    ("RHS014", agreed(distinct=1, replicated=False), Status.UNKNOWN, "tensor or pipeline"),
    ("RHS014", agreed(distinct=1, replicated=False, data_parallel=True), Status.FAIL, "2 ranks"),
    ("RHS014", agreed(repeated=16), Status.WARN, "in the order of the first"),
    ("RHS014", agreed(repeated=15), Status.PASS, "differ"),
    ("RHS014", agreed(repeated=16, distinct=1), Status.FAIL, "different first batches"),
    ("RHS018", agreed(epoch=()), Status.SKIP, "known length"),
    ("RHS018", agreed(epoch=(9, 8)), Status.NOTE, "8 to 9 batches"),
    ("RHS018", agreed(epoch=(9, 8), joined=True), Status.PASS, "Join"),
    ("RHS018", agreed(epoch=(9, 8), went_on=True), Status.NOTE, "went on"),
    ("RHS018", agreed(epoch=(9, 8), went_on=True, uneven_end=True), Status.FAIL, "had ended"),
    ("RHS019", resumed(order=None), Status.SKIP, "no loader"),
    ("RHS019", ordered(untold="two equal runs"), Status.SKIP, "two equal runs"),
    ("RHS019", ordered(), Status.NOTE, "another order"),
    ("RHS019", ordered(again=8, left_out=8, anew=True), Status.NOTE, "first steps again"),
    ("RHS019", ordered(again=8, left_out=7), Status.NOTE, "8 are seen more often and 7 less"),
    ("RHS017", accessed(True), Status.PASS, "hf://org/model"),
    ("RHS017", accessed(True, None), Status.UNKNOWN, "hf://org/model"),
    ("RHS017", accessed(True, None, False), Status.FAIL, "hf://org/model"),
    ("RHS016", HEALTHY, Status.SKIP, "--rehearse"),
    ("RHS016", changed(trained="in a loop"), Status.SKIP, "no loader"),
    ("RHS016", of_factory(LONGEST), Status.PASS, "longest batch (4 samples)"),
    ("RHS016", of_factory(LONGEST, of=90), Status.UNKNOWN, "only 41 of 90"),
    ("RHS016", of_factory(untold="no dataset"), Status.UNKNOWN, "no dataset"),
    ("RHS016", of_factory(LONGEST, planned=("longest", "last")), Status.UNKNOWN, "no result"),
    ("RHS016", of_factory(), Status.UNKNOWN, "no batch was tried"),
    ("RHS016", of_factory(LONGEST, device="cuda"), Status.UNKNOWN, "without the GPU"),
    (
        "RHS016",
        of_factory(LONGEST, TriedBatch(name="last", samples=1, error="ValueError: 1 value")),
        Status.FAIL,
        "last batch (1 samples) raised ValueError",
    ),
    (
        "RHS016",
        of_factory(TriedBatch(name="longest", samples=4, peak=99, total=100)),
        Status.WARN,
        "95%",
    ),
]


@pytest.mark.parametrize(("code", "rehearsal", "status", "word"), CASES)
def test_a_check_says(code: str, rehearsal: Rehearsal, status: Status, word: str) -> None:
    finding = findings(rehearsal)[code]
    assert finding.status is status
    assert word in finding.verdict.summary


@pytest.mark.parametrize(
    ("saves", "status"),
    [
        ((("a.pt", 4), ("b.pt", 8), ("a.pt", 12)), Status.PASS),  # slots
        ((("a.pt", 4), ("a.pt", 8), ("b.pt", 8)), Status.WARN),
        ((("", 4), ("", 8)), Status.WARN),  # into an open file
    ],
)
def test_a_save_in_place_is_one_that_leaves_none(saves: Any, status: Status) -> None:
    saved = tuple(
        SavedFile(step=step, what="torch.save", path=f"/o/{name}" if name else "")
        for name, step in saves
    )
    names = ("a.pt", "b.pt")
    run = with_run(saved=saved, checkpoints=tuple(map(named, names)), overwritten=names)
    assert findings(run)["RHS006"].status is status


@pytest.mark.parametrize(("rank", "status"), [(0, Status.FAIL), (1, Status.SKIP)])
@pytest.mark.parametrize(
    "how",
    [
        {"differ_from": 1},
        {"differ_from": 1, "replicated": False},
        {"differ_from": 0, "replicated": False, "averaged": 1},
    ],
)
def test_replicas_that_differ_are_not_lost_by_the_resume(
    how: dict[str, Any], rank: int, status: Status
) -> None:
    drifted = msgspec.structs.replace(HEALTHY.agreement, names=("w",), count=1, **how)
    found = resumed(Lost(kind="weights", names=("w",), of=6, rank=rank))
    found = msgspec.structs.replace(found, agreement=drifted)
    assert findings(found)["RHS010"].status is status
    assert findings(found)["RHS013"].status in (Status.FAIL, Status.WARN)


@pytest.mark.parametrize("how", [{"differ_from": 0, "replicated": False}, {"differ_from": None}])
def test_what_one_rank_of_equal_or_sharded_ranks_lost_is_named(how: dict[str, Any]) -> None:
    agreement = msgspec.structs.replace(HEALTHY.agreement, **how)
    found = resumed(Lost(kind="weights", names=("w",), of=6, rank=1))
    found = msgspec.structs.replace(found, agreement=agreement)
    assert findings(found)["RHS010"].status is Status.FAIL


def test_a_momentum_that_a_schedule_sets_is_lost_with_the_schedule() -> None:
    cycled = lost("cycled", names=("betas of group 0",), before="[0.87, 0.999]", after="[0.95, 1]")
    for parts in ((cycled,), (cycled, lost(*RATE[:1], **RATE[1]))):
        found = findings(resumed(*parts))
        assert found["RHS011"].status is Status.PASS
        assert found["RHS012"].status is Status.FAIL
    found = findings(resumed(lost("option", names=("betas of group 0",), before="1", after="2")))
    assert found["RHS011"].status is Status.FAIL
    assert found["RHS012"].status is Status.PASS


CAUGHT = {"handled_by": "on_term", "raised_by_handler": "RuntimeError: preempted", "reached": True}


@pytest.mark.parametrize(
    ("fields", "words", "fix"),
    [
        (CAUGHT, "on_term() raised RuntimeError: preempted", "raise SystemExit"),
        ({"handled_by": "on_term", "reached": True}, "further steps", "Read what on_term() sets"),
        ({"handled_by": "on_term", "reached": False}, "did not come", "exec python"),
        ({"reached": False}, "did not end it", ""),
        ({**CAUGHT, "handler": "on_term, at a.py:4"}, "still in on_term", "Only set a flag"),
    ],
)
def test_what_a_handler_did_with_the_signal(fields: Any, words: str, fix: str) -> None:
    verdict = findings(in_grace(ended=False, stopped_at=8, **fields))["RHS008"].verdict
    assert words in verdict.summary
    assert fix in (verdict.fix or "")
    assert ("did not come" in verdict.summary) is (words == "did not come")


@pytest.mark.parametrize(
    ("fields", "status"),
    [(CAUGHT, Status.PASS), ({"handled_by": "on_term"}, Status.WARN)],
)
def test_the_step_whose_exception_was_caught_is_not_left_out(fields: Any, status: Status) -> None:
    runs = with_stop(stopped_at=4, **fields).runs
    changed_resume = msgspec.structs.replace(RESUMED, steps=7)
    assert findings(changed(runs=runs, resumed=changed_resume))["RHS009"].status is status


@pytest.mark.parametrize(
    ("error", "named"), [("RuntimeError: gloo: Connection reset by peer", True),
                         ("ValueError: no such file", False)],
)  # fmt: skip
def test_ranks_that_call_different_collectives(error: str, named: bool) -> None:
    rank = msgspec.structs.replace(RANK, rank=1, world=2, error=error)
    line = "Is there a distributed collective mismatch in your code?"
    found = findings(with_run(code=1, ranks=(RANK, rank), mismatch=line))["RHS003"].verdict
    assert ("get_model_state_dict" in (found.fix or "")) is named


@pytest.mark.parametrize(
    ("hooks", "status"),
    [
        ((1, 2, 3, 4), Status.WARN),
        ((1, 1, 2, 3), Status.WARN),
        ((0, 1, 1, 1), Status.PASS),
        ((2, 3, 0, 1), Status.PASS),
        ((4, 4, 4, 4), Status.PASS),
    ],
)
def test_hooks_that_are_registered_again(hooks: tuple[int, ...], status: Status) -> None:
    looks = tuple(KeptGraphs(step=5 * n, graphs=0, hooks=h) for n, h in enumerate(hooks, 1))
    found = findings(with_rank(kept=looks))["RHS004"]
    assert found.status is status
    assert ("handle.remove()" in (found.verdict.fix or "")) is (status is Status.WARN)


@pytest.mark.parametrize(
    ("handler", "fix"),
    [
        ("stop, at a.py:4", "Only set a flag"),
        ("stop, at a.py:4, in join of threading.py", "sentinel"),
        ("", "finish the step"),
        ("collective", "all_reduce(MAX)"),
    ],
)
def test_a_handler_that_waits(handler: str, fix: str) -> None:
    waiting = (waits(1),) if handler == "collective" else ()
    rehearsal = in_grace(ended=False, handler=handler.replace("collective", ""), waiting=waiting)
    finding = findings(rehearsal)["RHS008"]
    assert finding.status is Status.FAIL
    assert fix in (finding.verdict.fix or finding.check.fix)


@pytest.mark.parametrize(
    ("error", "lost", "fix"),
    [
        ("RuntimeError: element 0 of tensors does not require grad", "frozen", "is_trainable"),
        ("RuntimeError: element 0 of tensors does not require grad", "", "trainable parameter"),
        ("NoSuchThing: a", "", "half written"),
        ("EOFError: Compressed file ended before the end", "", "os.replace()"),
    ],
)
def test_a_continued_run_that_fails_has_the_causes_of_its_error(
    error: str, lost: Any, fix: str
) -> None:
    rank = msgspec.structs.replace(RANK, steps=0, error=error)
    found = with_continued(code=1, ranks=(rank,))
    entries = (Lost(kind=lost, names=("a.lora_A",), of=8),) if lost else ()
    resumed = msgspec.structs.replace(RESUMED, lost=entries)
    finding = findings(msgspec.structs.replace(found, resumed=resumed))["RHS009"]
    assert finding.status is Status.FAIL
    assert error.partition(":")[2] in finding.verdict.summary
    assert fix in (finding.verdict.fix or "")


@pytest.mark.parametrize(
    ("code", "kind", "fields", "said", "fix"),
    [
        (
            "RHS010",
            "weights",
            {"narrow": "float16"},
            "given float16",
            "dtype that they are trained",
        ),
        ("RHS010", "weights", {}, "differ from what", "of the whole model"),
        ("RHS010", "reference", {}, "no step had", "its reference"),
        ("RHS011", "frozen", {}, "are frozen now", "is_trainable=True"),
        ("RHS011", "optimizer", {"kept_optimizer": True}, "is empty", "get_state_dict()"),
        ("RHS011", "optimizer", {}, "is empty", "save_only_model=False"),
    ],
)
def test_a_lost_state_has_the_remedy_of_its_cause(
    code: str, kind: Any, fields: dict[str, Any], said: str, fix: str
) -> None:
    lost = Lost(kind=kind, names=("a.weight",), of=6, fresh=kind == "optimizer")
    finding = findings(resumed(lost, **fields))[code]
    assert finding.status is Status.FAIL
    assert said in finding.verdict.summary
    assert fix in (finding.verdict.fix or finding.check.fix)


def paced(seconds: tuple[float, ...], **fields: Any) -> Rehearsal:
    """Steps of these seconds from the second on, with what follows steps 4 and 8."""
    evaluation = Evaluated(step=8, seconds=1, calls=1, samples=1)
    rank = msgspec.structs.replace(
        RANK, steps=len(seconds) + 1, seconds=seconds, evaluations=(evaluation,)
    )
    run = msgspec.structs.replace(RUN, ranks=(rank,))
    return changed(runs=(run, STOPPED, CONTINUED), **fields)


STEPS = (9.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0)
"""Of steps 2 to 14; 5 and 9 are longer by 2 s, by a save and an evaluation."""


def test_the_pace_leaves_out_the_first_steps_and_those_with_a_save_or_evaluation() -> None:
    finding = findings(paced(STEPS, total_steps=36_000, price=2.5))["RHS015"]
    assert finding.status is Status.NOTE
    summary = finding.verdict.summary
    assert "36,000 steps take 10 (9 to 11) h, cost 25 (22.5 to 27.5) at 2.5 per hour" in summary
    assert "(1 s per step, of 10 steps)" in summary
    assert "adds 3.33 h, 25.0% of the whole" in summary
    assert "wide" not in summary


def test_the_interval_of_the_pace_is_as_wide_as_the_steps_spread() -> None:
    steps = tuple(0.8 if number % 2 else 1.2 for number in range(21))
    finding = findings(paced((9.0, *steps), total_steps=3600))["RHS015"]
    pace = measured(msgspec.structs.replace(RUN, ranks=(rank_of(steps),), saved=()))
    low, high = pace.interval(10**9)
    assert 0.8 < low < 0.9 < pace.mean < 1.1 < high < 1.2  # never less than what may drift
    wide_low, wide_high = pace.interval(1)
    assert wide_low == pytest.approx(0.72)
    assert 21 < pace.enough(10**9) < 60
    more = Pace(steps * 3, 0.0, 0)
    assert more.enough(10**9) == 0
    assert (more.interval(10**9)[1] - more.interval(10**9)[0]) / more.mean < 0.25
    assert "would make the interval at most 25% wide" in finding.verdict.summary
    assert wide_high > 1.4
    assert "per hour" not in finding.verdict.summary


def test_steps_that_drift_give_a_wider_interval_than_the_same_steps_in_turn() -> None:
    drifting = tuple(1 + number / 20 for number in range(20))
    in_turn = tuple(1 + (number * 11 % 20) / 20 for number in range(20))
    assert sorted(in_turn) == sorted(drifting)
    low, high = Pace(drifting, 0.0, 0).interval(1000)
    narrow_low, narrow_high = Pace(in_turn, 0.0, 0).interval(1000)
    assert high - low > 1.5 * (narrow_high - narrow_low)


def test_achieved_rates_stand_beside_the_data_sheet_where_tensor_cores_multiply() -> None:
    def summary(flops: dict[str, int], gpu: str = "", *left_out: str) -> str:
        rank = msgspec.structs.replace(
            rank_of((1.0,) * 12), gpu=gpu, counted=CountedStep(flops=flops, left_out=left_out)
        )
        run = msgspec.structs.replace(RUN, saved=(), ranks=(rank,))
        return findings(changed(runs=(run,), total_steps=1000))["RHS015"].verdict.summary

    h100 = "NVIDIA H100 80GB HBM3"
    half = summary({"bfloat16": 400 * 10**12, "float32": 10**12}, h100)
    assert "401 TFLOP/s per rank" in half
    assert "41% of the 989 that the data sheet of H100 80GB HBM3 names" in half
    assert "data sheet" not in summary({"float32": 10**12}, h100)
    assert "data sheet" not in summary({"bfloat16": 10**12}, "an unknown GPU")
    assert "without flash_attn::fwd" in summary({"float32": 10**12}, "", "flash_attn::fwd")
    nothing = summary({})
    assert nothing.startswith("1,000 steps take")
    assert "FLOP" not in nothing


def test_tokens_become_steps_and_waiting_is_a_share() -> None:
    run = msgspec.structs.replace(RUN, saved=(), ranks=(rank_of((1.0,) * 12),))
    plain = changed(runs=(run,), total_tokens=10**9)
    assert findings(plain)["RHS015"].status is Status.UNKNOWN  # no whole numbers in the batch
    rank = msgspec.structs.replace(run.ranks[0], tokens=4096, passes=4, waited=2.1)
    known = changed(runs=(msgspec.structs.replace(run, ranks=(rank,)),), total_tokens=10**9)
    summary = findings(known)["RHS015"].verdict.summary
    assert "30,518 steps" in summary  # two ranks, as the agreement has two first batches
    assert "each of 32,768 tokens" in summary
    assert "waiting for batches takes 10% of it" in summary


def rank_of(seconds: tuple[float, ...]) -> RehearsedRank:
    return RehearsedRank(rank=0, world=1, steps=22, seconds=(9.0, *seconds), ended=True)


def test_the_slowest_rank_sets_the_pace() -> None:
    ranks = (rank_of((1.0,) * 12), rank_of((2.0,) * 12), rank_of((1.5,) * 12))
    assert measured(msgspec.structs.replace(RUN, ranks=ranks, saved=())).mean == 2.0


@pytest.mark.parametrize(
    ("rehearsal", "status", "word"),
    [
        (paced(STEPS), Status.SKIP, "--total-steps"),
        (paced(STEPS[:-1], total_steps=100), Status.UNKNOWN, "9 steps were timed"),
        (paced((), total_steps=100), Status.UNKNOWN, "0 steps were timed"),
        (with_run(code=1), Status.SKIP, "--total-steps"),
        (
            msgspec.structs.replace(with_run(code=1), total_steps=100),
            Status.UNKNOWN,
            "the run failed",
        ),
        (
            msgspec.structs.replace(with_run(ranks=()), total_steps=100),
            Status.UNKNOWN,
            "no process",
        ),
        (changed(runs=(), total_steps=100), Status.UNKNOWN, "no record"),
    ],
)
def test_no_pace_is_made_up(rehearsal: Rehearsal, status: Status, word: str) -> None:
    finding = findings(rehearsal)["RHS015"]
    assert finding.status is status
    assert word in finding.verdict.summary


def test_weights_that_ddp_waits_for_are_named() -> None:
    message = "Expected to have finished reduction in the prior iteration before starting a new one"
    error = GuardError(error="RuntimeError", message=message, moment=0)
    process = GuardedProcess(rank=0, world=2, pid=1, started=0, torch="2.13.0", error=error)
    failed = agreed(lacking=("spare.weight", "spare.bias"))
    runs = with_run(code=1).runs
    guard = Guarded(processes=(process,), exit_code=1)
    found = findings(msgspec.structs.replace(failed, runs=runs), guard)["RHS003"]
    assert "without a gradient: spare.weight, spare.bias" in found.verdict.summary
    apart_since = agreed(lacking=("spare.weight",), differ_from=1, count=2, names=("w",))
    failed = msgspec.structs.replace(apart_since, runs=runs)
    assert findings(failed, guard)["RHS013"].status is Status.SKIP
    assert findings(apart_since, guard)["RHS013"].status is Status.FAIL
    found = findings(with_run(code=1), guard)["RHS003"]
    assert "without a gradient" not in found.verdict.summary


@pytest.mark.parametrize("name", ["agrees", "saves", "evaluates", "stops", "continues"])
def test_a_stage_that_was_not_tried_says_why(name: Any) -> None:
    stages = [each for each in HEALTHY.stages if each.name != name]
    reason = RehearsedStage(name=name, reason="of a reason")
    found = findings(changed(stages=(*stages, reason)))
    skipped = [each.verdict.summary for each in found.values() if each.status is Status.SKIP]
    assert any("of a reason" in summary for summary in skipped)


def test_an_error_has_the_causes_that_doctor_explain_proposes() -> None:
    message = "CUDA out of memory. Tried to allocate 2.00 GiB"
    error = GuardError(error="OutOfMemoryError", message=message, moment=0)
    process = GuardedProcess(rank=0, world=1, pid=1, started=0, torch="2.13.0", error=error)
    guard = Guarded(processes=(process,), exit_code=1)
    assert findings(with_run(code=1), guard)["RHS003"].verdict.causes


@pytest.mark.parametrize("flags", [("on_term", "STOP"), ()])
def test_a_flag_that_a_handler_sets_for_itself_is_named(flags: Any) -> None:
    """In a job that goes on to its end, and in one that the doctor killed."""
    went_on = with_stop(code=0, stopped_at=7, saved_after_signal=False, lost_flags=flags)
    for rehearsal in (went_on, in_grace(ended=False, stopped_at=5, lost_flags=flags)):
        found = findings(rehearsal)["RHS008"]
        assert found.status in (Status.WARN, Status.FAIL)
        assert ("on_term() sets STOP" in (found.verdict.fix or "")) is bool(flags)


@pytest.mark.parametrize("saved", [(SAVED,), ()])
def test_a_job_that_saves_at_its_end_alone_is_told_so(saved: Any) -> None:
    found = findings(with_stop(saved_after_signal=False, stopped_at=7, saved=saved))["RHS008"]
    assert found.status is Status.NOTE
    assert ("Save inside the loop" in (found.verdict.fix or "")) is not bool(saved)


@pytest.mark.parametrize(
    ("order", "status", "word"),
    [
        (None, Status.NOTE, "step 5 has another one"),
        (SampleOrder(untold="workers"), Status.NOTE, "step 5 has another one"),
        (SampleOrder(steps=8, samples=48, same=True), Status.PASS, "without the stop"),
    ],
)
def test_the_first_batch_again(order: Any, status: Status, word: str) -> None:
    found = findings(resumed(order=order, first_batch=True))["RHS019"]
    assert (found.status, word in found.verdict.summary) == (status, True)
    assert findings(resumed(order=None))["RHS019"].status is Status.SKIP


@pytest.mark.parametrize("best", ["best.pt", ""])
def test_a_best_result_so_far_that_begins_anew(best: str) -> None:
    """Where a file of the best result is there to be overwritten."""
    found = findings(resumed(best=best, best_anew="(main) best"))["RHS009"]
    assert found.status is (Status.NOTE if best else Status.PASS)
    assert ("the next evaluation overwrites best.pt" in found.verdict.summary) is bool(best)


@pytest.mark.parametrize("uneven", [True, False])
def test_ranks_that_wait_after_an_uneven_end(uneven: bool) -> None:
    run = hangs(waits(0), waits(1, inside=False)).runs
    agreed_on = msgspec.structs.replace(HEALTHY.agreement, uneven_end=uneven)
    found = findings(changed(runs=run, agreement=agreed_on))["RHS003"]
    assert found.status is Status.FAIL
    assert ("as many batches" in (found.verdict.fix or "")) is uneven


@pytest.mark.parametrize("unwrapped", [True, False])
def test_weights_outside_of_ddp_that_differ_are_to_be_wrapped(unwrapped: bool) -> None:
    differ = {"replicated": True, "differ_from": 4, "count": 1, "names": ("logit_scale",)}
    found = findings(agreed(unwrapped=unwrapped, **differ))["RHS013"]
    assert found.status is Status.FAIL
    assert ("a loss with weights of its own" in (found.verdict.fix or "")) is unwrapped


def test_a_counter_of_an_average_has_the_remedy_of_averages() -> None:
    counter = Lost(kind="buffers", names=("(AveragedModel) n_averaged",), count=1, of=7, fresh=True)
    assert "an AveragedModel's own" in (findings(resumed(counter))["RHS010"].verdict.fix or "")


@pytest.mark.parametrize("line", ["/a/train.py:57", ""])
def test_the_line_of_an_error_is_named(line: str) -> None:
    ranks = (msgspec.structs.replace(RANK, error="IndexError: index out of range", place=line),)
    for code, rehearsal in (
        ("RHS003", with_run(code=1, ranks=ranks)), ("RHS009", with_continued(code=1, ranks=ranks)),
    ):  # fmt: skip
        assert (", at /a/train.py:57" in findings(rehearsal)[code].verdict.summary) is bool(line)


def test_a_file_with_the_parts_of_one_rank() -> None:
    found = findings(with_run(partial=("m.pt", "1.weight", "3.weight")))["RHS006"]
    assert found.status is Status.FAIL
    assert "m.pt has one rank's part alone of the sharded 1.weight, 3.weight" in (
        found.verdict.summary
    )


def test_states_that_went_to_other_parameters_are_no_error_of_sizes() -> None:
    error = "RuntimeError: The size of tensor a (96) must match the size of tensor b (24)"
    ranks = (msgspec.structs.replace(RANK, error=error),)
    broken = with_continued(code=1, ranks=ranks).runs
    group = Lost(kind="group", count=0, of=2, before="groups of 9", after="groups of 9")
    found = findings(msgspec.structs.replace(resumed(group), runs=broken))
    assert "sorted(names)" in (found["RHS009"].verdict.fix or "")
    assert "sorted(names)" in (found["RHS011"].verdict.fix or "")
    found = findings(msgspec.structs.replace(HEALTHY, runs=broken))
    assert "sorted(names)" not in (found["RHS009"].verdict.fix or "")
