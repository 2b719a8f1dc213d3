"""The checks of a rehearsal, on facts made for each verdict."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rehearsal_facts import (
    CHECKS,
    CONTINUED,
    DISK,
    GROWS,
    HEALTHY,
    RANK,
    RESUMED,
    RUN,
    SAVED,
    STOPPED,
    agreed,
    changed,
    facts,
    findings,
    hangs,
    in_grace,
    lost,
    named,
    resumed,
    state_in,
    uneven,
    waits,
    with_continued,
    with_rank,
    with_run,
    with_stop,
)

from doctor._util.records import Unknown
from doctor.facts.facts import decode, encode
from doctor.facts.guard import Guarded, GuardedProcess, GuardError
from doctor.facts.rehearsal import (
    RehearsedStage,
)
from doctor.facts.rehearsal_resume import Lost, SampleOrder
from doctor.facts.rehearsal_runs import (
    KeptGraphs,
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


@pytest.mark.parametrize(
    ("checkpoints", "status"),
    [
        ((named("a.pt"),), Status.WARN),
        ((named("a.pt"), named("b.pt")), Status.PASS),  # a copy of the best, or slots in turn
        ((state_in("a.pt"), named("best.pt")), Status.WARN),  # weights alone beside it
        ((state_in("a.pt"), state_in("best.pt")), Status.PASS),
    ],
)
def test_a_save_in_place_is_one_that_leaves_none(checkpoints: Any, status: Status) -> None:
    names = tuple(each.path for each in checkpoints)
    run = with_run(checkpoints=checkpoints, overwritten=names)
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
        (
            "RHS011",
            "optimizer",
            {"kept_optimizer": True},
            "is empty",
            "optimizer.load_state_dict()",
        ),
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


@pytest.mark.parametrize("what", ["torch.save", "torch.distributed.checkpoint.save"])
def test_only_a_distributed_checkpoint_has_its_own_remedy(what: str) -> None:
    lost = Lost(kind="optimizer", names=("a.weight",), of=6, fresh=True)
    found = resumed(lost, kept_optimizer=True)
    saved = (msgspec.structs.replace(found.runs[0].saved[0], what=what),)
    runs = (msgspec.structs.replace(found.runs[0], saved=saved), *found.runs[1:])
    fix = findings(msgspec.structs.replace(found, runs=runs))["RHS011"].verdict.fix or ""
    assert ("get_state_dict()" in fix) is (what != "torch.save")


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


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("caught", [False, True])
def test_a_traceback_before_torch_names_the_users_line(observed: bool, caught: bool) -> None:
    tail: tuple[str, ...] = (
        "Traceback (most recent call last):",
        '  File "/a/train.py", line 7, in <module>',
        "    main()",
        '  File "utils/track.py", line 30, in update',
        "    self.data[key] = value",
        '  File "/v/lib/python3.12/site-packages/pandas/core.py", line 9, in __setitem__',
        "ValueError: assignment destination is read-only",
    )
    tail += ("OSError: no GPU",) if caught else ()
    fields: dict[str, Any] = {} if observed else {"ranks": ()}
    found = findings(with_run(code=1, tail=tail, **fields))["RHS003"]
    named = "at utils/track.py:30: ValueError" in found.verdict.summary
    assert named is not (observed or caught)
    assert ("track.py" in found.verdict.summary) is named


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("./ckpt/last0.pt", True),
        ("/a/doctor-rehearsal/doctor-rehearsal-1/outputs/stop/ckpt/last0.pt", True),
        ("/models/ckpt/last0.pt", False),  # elsewhere
        ("ckpt/vocabulary.json", False),
        ("data/train.bin", False),
        ("a.pt", False),
    ],
)
def test_a_resume_that_looks_for_another_name_than_was_saved(missing: str, named: bool) -> None:
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{missing}'"
    saved = (msgspec.structs.replace(DISK, path="ckpt/last_0.pt"),)
    stopped = msgspec.structs.replace(STOPPED, checkpoints=saved)
    continued = msgspec.structs.replace(CONTINUED, code=1, ranks=(), tail=(error,))
    found = findings(changed(runs=(RUN, stopped, continued), resumed=None))["RHS009"]
    assert ("what was saved is ckpt/last_0.pt" in found.verdict.summary) is named
    assert ("the path of the checkpoint in one place" in (found.verdict.fix or "")) is named
