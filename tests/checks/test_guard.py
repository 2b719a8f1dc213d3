"""The checks of a running training, on facts built here: pass, warn, fail, skip and unknown."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from doctor._util.records import Unknown
from doctor.checks.guard import CHECKS
from doctor.checks.guard.gpus import growth
from doctor.errors.causes import BY_ID
from doctor.errors.match import with_message
from doctor.facts.facts import Facts, decode, encode
from doctor.facts.guard import (
    GuardAlarm,
    GuardChecksums,
    GuardCounts,
    Guarded,
    GuardedProcess,
    GuardError,
    GuardStall,
)
from doctor.facts.load import OtherProcess, Use, Watched
from doctor.job.job import Job
from doctor.judge.check import Finding, Owner, Status
from doctor.judge.engine import examine
from doctor.report.report import Outcome, Report

NOTHING = Unknown(reason="not examined")
HEALTHY: dict[str, Any] = {
    "steps": 300, "backwards": 300, "losses": 300, "norms": 300, "rates": 300, "looks": 14,
    "effective": 300, "tracked": 21, "gradients": 21, "moved": 21, "ones": 5, "zeros": 2,
    "zeros_moved": 2, "vectors": 7, "vectors_moved": 7, "scaled": True,
    "vocabulary": 32000, "flat_steps": 300, "timed": 200, "batches": 300, "memory_windows": 12,
    "seconds": 600.0, "buffers": 4, "model_looks": 8, "mode_looks": 4,
    "clips": 5, "states": 2, "fetched": 300, "graphs": 16, "schedules": 1, "evaluations": 3,
    "followers": 1,
}  # fmt: skip


def process(rank: int = 0, *alarms: GuardAlarm, **fields: Any) -> GuardedProcess:
    counts = {
        name: fields.pop(name) for name in list(fields) if name in GuardCounts.__annotations__
    }
    head: dict[str, Any] = {"world": 1, "pid": 7, "started": 0, "torch": "2.13", "ended": "exit"}
    head |= fields
    return GuardedProcess(rank=rank, counts=GuardCounts(**HEALTHY | counts), alarms=alarms, **head)


def alarm(code: str, status: Any = "fail", **fields: Any) -> GuardAlarm:
    values: dict[str, Any] = {"step": 7, "text": f"observed by {code}"} | fields
    return GuardAlarm(code=code, status=status, **values)


def replica(rank: int, *sums: int, step: int = 5, until: int = 0, **fields: Any) -> GuardedProcess:
    """A rank of two, with checksums of its parameters after one step, or two."""
    steps = (step, until) if until else (step,)
    values = tuple(
        GuardChecksums(optimizer=0, step=each, values=sums, names=("a", "b", "c", "d"))
        for each in steps
    )
    return process(rank, world=2, all=True, checksums=values, **fields)


def used(*others: OtherProcess, **fields: Any) -> tuple[Watched, ...]:
    """A GPU whose memory is constant, sampled while the training ran."""
    use = {"memory": (8 << 30,) * 8, "memory_total": 80 << 30, "window_seconds": 60.0}
    use |= {"samples": 100, "with_training": 90, "others": others} | fields
    return (Watched(uuid="GPU-0", samples=100, mask=0, use=Use(**use)),)


def facts(guard: Guarded | Unknown, watched: Any = None) -> Facts:
    return Facts(
        job=Job(device="cpu"), host=NOTHING, interpreter=NOTHING, torch=NOTHING, places=NOTHING,
        guard=guard, watched=watched,
    )  # fmt: skip


def findings(*processes: GuardedProcess, watched: Any = None) -> dict[str, Finding]:
    guard = Guarded(processes=processes, exit_code=0, watched=len(processes))
    examined = examine(CHECKS, facts(guard, watched))
    return {finding.check.code: finding for finding in examined}


ALL = [check.code for check in CHECKS]
IN_PROCESS = [code for code in ALL if code not in ("GRD021", "GRD022", "GRD023")]
"""Codes for which the training's own process raises the alarm."""


def test_a_healthy_training_passes_everything() -> None:
    found = findings(replica(0, 1, 2, 3), replica(1, 1, 2, 3), watched=used())
    assert {finding.status for finding in found.values()} == {Status.PASS}


@pytest.mark.parametrize(("until", "status"), [(0, Status.WARN), (9, Status.FAIL)])
def test_replicas_that_differ_at_two_steps_fail_and_name_their_parameters(
    until: int, status: Status
) -> None:
    found = findings(replica(0, 1, 2, 3, until=until), replica(1, 1, 7, 8, until=until))["GRD020"]
    assert found.status is status
    assert "step 5: 2 sampled parameters differ between ranks 0 and 1 (b, c)" in (
        found.verdict.summary
    )


@pytest.mark.parametrize("other", [replica(1, 1, 2, 3, step=6), process(1, world=2, all=True)])
def test_replicas_without_a_common_step_are_unknown(other: GuardedProcess) -> None:
    assert findings(replica(0, 1, 2, 3), other)["GRD020"].status is Status.UNKNOWN


OTHER: dict[str, Any] = {"pid": 4711, "name": "python3", "samples": 40, "memory": 30 << 30}


def test_gradients_that_ddp_waited_for_are_no_replicas_that_drift() -> None:
    message = "Expected to have finished reduction in the prior iteration before starting a new one"
    for text, status in ((message, Status.SKIP), ("another", Status.WARN)):
        error = GuardError(error="RuntimeError", message=text, moment=0)
        first = msgspec.structs.replace(replica(0, 1, 2, 3), error=error)
        assert findings(first, replica(1, 1, 7, 3))["GRD020"].status is status


@pytest.mark.parametrize(
    ("watched", "status"),
    [
        (used(), Status.PASS),
        (used(OtherProcess(**OTHER)), Status.WARN),
        (used(OtherProcess(**OTHER | {"memory": None})), Status.WARN),
        (used(OtherProcess(**OTHER | {"memory": 300 << 20})), Status.PASS),
        (used(OtherProcess(**OTHER | {"samples": 3})), Status.PASS),
        (used(OtherProcess(**OTHER | {"name": "nvidia-cuda-mps-server"})), Status.PASS),
        (used(with_training=0), Status.UNKNOWN),
        (used(unread={"processes": "Not Supported (3)"}), Status.UNKNOWN),
        (Unknown(reason="nvmlInit: Driver Not Loaded"), Status.UNKNOWN),
    ],
)
def test_other_processes_on_the_gpus(watched: Any, status: Status) -> None:
    finding = findings(process(all=True), watched=watched)["GRD021"]
    assert finding.status is status
    if status is Status.WARN:
        assert "process 4711 (python3), which is not the training's" in finding.verdict.summary


def windows(*gib: float) -> tuple[Watched, ...]:
    return used(memory=tuple(int(size * 2**30) for size in gib))


@pytest.mark.parametrize(
    ("watched", "status"),
    [
        (windows(0, 40, 45, 50, 55, 60, 65), Status.WARN),
        (windows(0, 40, 45, 50, 50, 55, 60, 65), Status.PASS),  # not in a row
        (windows(0, 20, 40, 50, 55, 58, 59), Status.PASS),  # ever less: a cache
        (windows(0, 10, 11, 12, 13, 14, 15), Status.PASS),  # the rest lasts for an hour
        (windows(0, 60, 65, 70), Status.PASS),  # too short
        (used(memory=(), unread={"memory": "Unknown Error"}), Status.PASS),
    ],
)
def test_memory_that_grows_outside_of_the_process(watched: Any, status: Status) -> None:
    finding = findings(process(all=True), watched=watched)["GRD019"]
    assert finding.status is status
    if status is Status.WARN:
        assert "at that rate it is full in 3 minutes" in finding.verdict.summary


def test_the_cache_of_an_allocator_is_not_growth() -> None:
    """It holds the largest need so far: the running maximum of what steps need."""
    for seed in range(300):
        sizes = random.Random(seed)
        need, lowest = 0.0, []
        for _ in range(16):
            lowest.append(int(max(need, 1.0) * 2**30))
            need = max(need, *(min(sizes.lognormvariate(3, 0.5), 79) for _ in range(200)))
        assert growth(used(memory=tuple(lowest))[0].use) == ""


def test_the_share_of_lost_updates_is_reported() -> None:
    measured = process(0, alarm("GRD008", "warn"), updates=200, updates_lost=150, all=True)
    assert (
        "rounding lost 75% of 200 sampled updates" in findings(measured)["GRD008"].verdict.summary
    )


@pytest.mark.parametrize("code", IN_PROCESS)
@pytest.mark.parametrize("status", ["warn", "fail"])
def test_an_alarm_is_the_verdict_of_its_check(code: str, status: str) -> None:
    finding = findings(process(0, alarm(code, status), all=True))[code]
    assert finding.status == status
    assert "step 7: observed by" in finding.verdict.summary
    assert finding.fix


@pytest.mark.parametrize("code", ALL)
def test_without_a_step_everything_is_unknown(code: str) -> None:
    judged = examine(CHECKS, facts(Unknown(reason="no training step was observed")))
    assert {finding.status for finding in judged} == {Status.UNKNOWN}


@pytest.mark.parametrize(
    "code", [code for code in IN_PROCESS if code not in ("GRD004", "GRD008", "GRD024")]
)
def test_a_guard_that_switched_itself_off_leaves_everything_unknown(code: str) -> None:
    finding = findings(process(all=True, ended="error: RuntimeError: broken"))[code]
    assert finding.status is Status.UNKNOWN
    assert "broken" in finding.verdict.summary


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("GRD001", {"losses": 0}),
        ("GRD001", {"bad_losses": 2, "scaled": False}),
        ("GRD002", {"norms": 0}),
        ("GRD003", {"steps": 2}),
        ("GRD004", {"norms": 0}),
        ("GRD005", {"effective": 19}),
        ("GRD005", {"gradients": 0}),
        ("GRD005", {"vectors_moved": 0}),
        ("GRD006", {"rates": 9}),
        ("GRD007", {"effective": 19}),
        ("GRD007", {"moved": 0}),
        ("GRD008", {"effective": 0}),
        ("GRD009", {"norms": 0}),
        ("GRD012", {"steps": 5}),
        ("GRD013", {"zeros_moved": 0}),
        ("GRD014", {"losses": 199}),
        ("GRD015", {"flat_steps": 299, "all": True}),
        ("GRD016", {"effective": 99}),
        ("GRD024", {"model_looks": 0}),
        ("GRD025", {"effective": 19}),
        ("GRD025", {"mode_looks": 1}),
        ("GRD026", {"clips": 4}),
        ("GRD030", {"effective": 19}),
        ("GRD032", {"followers": None}),
        ("GRD028", {"fetched": 19}),
        ("GRD017", {"batches": 69, "all": True}),
        ("GRD018", {"timed": 49, "all": True}),
        ("GRD018", {"seconds": 59.0, "all": True}),
        ("GRD019", {"memory_windows": 5, "all": True}),
    ],
)
def test_too_little_was_observed(code: str, fields: dict[str, Any]) -> None:
    assert findings(process(**fields))[code].status is Status.UNKNOWN


@pytest.mark.parametrize(
    ("code", "fields"),
    [
        ("GRD005", {"vectors": 0}),
        ("GRD010", {"scaled": False}),
        ("GRD013", {"zeros": 0}),
        ("GRD015", {}),
        ("GRD015", {"vocabulary": 0, "all": True}),
        ("GRD015", {"flat_steps": 0, "all": True}),
        ("GRD024", {"buffers": 0}),
        ("GRD025", {"mode_looks": 0}),
        ("GRD026", {"clips": 0}),
        ("GRD027", {"states": 0}),
        ("GRD028", {"fetched": 0}),
        ("GRD029", {"graphs": 0}),
        ("GRD030", {"schedules": 0}),
        ("GRD031", {"evaluations": 0}),
        ("GRD032", {"followers": 0}),
        ("GRD017", {}),
        ("GRD017", {"batches": 0, "all": True}),
        ("GRD018", {}),
        ("GRD019", {}),
        ("GRD020", {}),
        ("GRD020", {"world": 2}),
        ("GRD021", {}),
        ("GRD021", {"all": True}),
    ],
)
def test_not_applicable(code: str, fields: dict[str, Any]) -> None:
    assert findings(process(**fields))[code].status is Status.SKIP


@pytest.mark.parametrize(
    ("fields", "ended", "status", "word"),
    [
        ({"exit_code": 0}, "exit", Status.PASS, "exit code 0"),
        ({"exit_code": 1}, "exit", Status.FAIL, "exit code 1 after 300 steps"),
        ({"exit_code": 134}, "", Status.FAIL, "SIGABRT"),
        ({"exit_code": 137}, "", Status.FAIL, "SIGKILL"),
        ({"exit_code": 255}, "exit", Status.FAIL, "exit code 255 after"),
        ({"exit_code": 143}, "", Status.UNKNOWN, "SIGTERM"),
        ({"exit_code": 1, "signal": "SIGTERM"}, "exit", Status.UNKNOWN, "SIGTERM"),
        ({"exit_code": 130}, "exit", Status.NOTE, "Ctrl-C"),
        ({"exit_code": 143, "stopped": True}, "exit", Status.SKIP, "--stop"),
        ({}, "exit", Status.SKIP, "did not start"),
        ({}, "", Status.UNKNOWN, "no end was recorded"),
    ],
)
def test_how_the_training_ended(
    fields: dict[str, Any], ended: str, status: Status, word: str
) -> None:
    guard = Guarded(processes=(process(ended=ended),), **fields)
    found = {each.check.code: each for each in examine(CHECKS, facts(guard))}["GRD022"]
    assert found.status is status
    assert word in found.verdict.summary


def test_a_training_that_a_signal_ended_early_is_not_ready() -> None:
    few = process(ended="exit", steps=7)
    assert few.counts.steps == 7
    for code, error in ((130, None), (1, raised("SignalException", "Process 9 got signal: 15"))):
        guard = Guarded(processes=(msgspec.structs.replace(few, error=error),), exit_code=code)
        found = examine(CHECKS, facts(guard))
        (end,) = (each for each in found if each.check.code == "GRD022")
        assert end.status is Status.UNKNOWN
        assert Report(facts(guard), found, "fail").outcome is Outcome.UNKNOWN


def raised(error: str, message: str, moment: int = 0) -> GuardError:
    return GuardError(error=error, message=message, moment=moment)


STALL = {"rank": 1, "step": 40, "seconds": 700.0, "usual": 2.0, "where": "all_reduce (d.py:7)"}


@pytest.mark.parametrize(
    ("stalls", "exit_code", "status", "word"),
    [
        ((), 0, Status.PASS, "without a long pause"),
        (({"resumed": True},), 0, Status.NOTE, "then it went on"),
        (({"resumed": True}, {}), 137, Status.WARN, "in all_reduce (d.py:7)"),
        (({}, {"rank": 2, "seconds": 690.0}), 1, Status.WARN, "rank 1 wrote nothing for 700 s"),
        (({"usual": 0.0, "where": ""},), 1, Status.WARN, "(usual: not known)"),
    ],
)
def test_a_rank_without_a_step_for_long(
    stalls: tuple[dict[str, Any], ...], exit_code: int | None, status: Status, word: str
) -> None:
    observed = tuple(GuardStall(**STALL | stall) for stall in stalls)
    guard = Guarded(processes=(process(),), exit_code=exit_code, stalls=observed, watched=3)
    found = {each.check.code: each for each in examine(CHECKS, facts(guard))}["GRD023"]
    assert found.status is status
    assert word in found.verdict.summary


def test_a_pace_that_nobody_watched_is_not_judged() -> None:
    guard = Guarded(processes=(process(),), exit_code=0)
    found = {each.check.code: each for each in examine(CHECKS, facts(guard))}["GRD023"]
    assert found.status is Status.SKIP


def ending(*errors: GuardError) -> Finding:
    """GRD022 of a training, each process of which ended with an error."""
    ranks = tuple(process(rank, error=error) for rank, error in enumerate(errors))
    examined = examine(CHECKS, facts(Guarded(processes=ranks, exit_code=1)))
    return next(each for each in examined if each.check.code == "GRD022")


def test_the_error_that_ended_the_training_has_the_causes_that_explain_proposes() -> None:
    first = raised("ValueError", "optimizer got an empty parameter list", moment=1)
    found = ending(raised("RuntimeError", "Connection reset by peer", moment=2), first)
    message = f"{first.error}: {first.message}"
    assert message in found.verdict.summary
    assert found.verdict.causes == tuple(row.id for row in with_message(message) if row.fix)
    assert found.headline_fix == BY_ID["empty-parameter-list"].fix


def test_an_error_of_no_cause_is_named_and_the_log_has_more() -> None:
    found = ending(raised("Odd", "nobody knows"))
    assert "Odd: nobody knows" in found.verdict.summary
    assert found.verdict.causes == ()
    assert "doctor triage" in found.headline_fix


def test_a_word_of_hardware_in_an_error_of_the_code_condemns_no_machine() -> None:
    assert ending(raised("RuntimeError", "the player's GPU is lost")).owner is not Owner.MACHINE


@pytest.mark.parametrize("code", ["GRD005", "GRD007", "GRD013"])
def test_weights_that_are_nan_are_not_weights_that_move(code: str) -> None:
    assert findings(process(0, alarm("GRD002")))[code].status is Status.UNKNOWN


def test_the_first_failure_of_any_rank_is_reported() -> None:
    found = findings(
        process(0, alarm("GRD001", "warn", step=1), world=3),
        process(1, alarm("GRD001", step=9, text="later"), world=3),
        process(2, alarm("GRD001", step=8, text="nan", count=4), world=3, origin="the batch (x)"),
    )["GRD001"]
    assert found.verdict.summary == (
        "step 8, rank 2 and 1 more: nan; the batch (x); at least 4 times"
    )


@pytest.mark.parametrize(
    ("code", "cause", "word"),
    [
        ("GRD005", "rounding", "fp32"),
        ("GRD005", "gradient", "param.grad"),
        ("GRD006", "ended", "num_processes"),
        ("GRD001", "scaled", "bf16"),
        ("GRD011", "no-step", "gradient_accumulation_steps"),
        ("GRD011", "remade", "once"),
        ("GRD001", "diverged", "learning rate"),
        ("GRD002", "empty", "clamp"),
        ("GRD003", "unregistered", "ModuleList"),
        ("GRD015", "rate-low", "Raise"),
        ("GRD028", "kept", "cycle"),
        ("GRD029", "broadcast", "squeeze"),
        ("GRD030", "mode", "max"),
        ("GRD031", "frozen", "eval()"),
        ("GRD003", "term", "detach"),
        ("GRD003", "copy", "functional_call"),
        ("GRD012", "other-pass", "zero_grad()"),
        ("GRD014", "unbounded", "sign"),
        ("GRD016", "zeros", "teacher"),
        ("GRD001", "summed", "mean"),
        ("GRD002", "constant", "isfinite"),
        ("GRD029", "targets", "255"),
        ("GRD029", "ratio", "once"),
        ("GRD030", "replayed", "load_state_dict"),
        ("GRD030", "groups", "max_lr"),
        ("GRD032", "decay", "tau"),
    ],
)
def test_the_cause_selects_the_fix(code: str, cause: str, word: str) -> None:
    assert word in findings(process(0, alarm(code, cause=cause)))[code].fix


def test_the_facts_survive_a_file() -> None:
    original = facts(Guarded(processes=(process(0, alarm("GRD001")),)))
    assert decode(encode(original)) == original
