"""Errors of a rehearsal by where they were raised, and healthy runs that resemble them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rehearsal_facts import (
    HEALTHY,
    RANK,
    agreed,
    attempt,
    changed,
    findings,
    lost,
    resumed,
    with_run,
    with_stop,
)

from doctor.facts.rehearsal_runs import FailedCall, KeptGraphs, SavedFile, Waiting
from doctor.judge.check import Status

PICKLE = "AttributeError: Can't pickle local object 'run.<locals>.<lambda>'"


ZERO, CAT = "RuntimeError: zero-dimensional tensor", "cannot be concatenated"
UNEQUAL = "RuntimeError: stack expects each tensor to be equal size, but got [1] and [2]"


def failed(**fields: Any) -> FailedCall:
    given = {"rank": 0, "step": 5, "what": "torch.save", "path": "/o/a.pt", "error": PICKLE}
    return FailedCall(**{**given, **fields})


PICKLED = SavedFile(step=5, what="open", path="/o/a.pkl")


def rank(**fields: Any) -> Any:
    return (msgspec.structs.replace(RANK, **fields),)


def remedy(rehearsal: Any, code: str) -> str:
    found = findings(rehearsal)[code]
    return found.verdict.fix or found.check.fix or ""


def test_an_object_that_cannot_be_pickled_is_named() -> None:
    failure = failed(entry="['scheduler'], of class LambdaLR")
    found = findings(with_run(code=1, ranks=rank(error=PICKLE), failures=(failure,)))
    for code in ("RHS003", "RHS006"):
        assert found[code].status is Status.FAIL
        assert "state['scheduler'], of class LambdaLR" in (found[code].verdict.fix or "")


def test_a_directory_that_is_missing_at_the_save() -> None:
    error = "RuntimeError: Parent directory /o/mlp does not exist."
    found = with_run(code=1, ranks=rank(error=error), failures=(failed(error=error),))
    assert "os.makedirs" in remedy(found, "RHS003")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"failures": (failed(thread=True),), "checkpoints": ()}, Status.FAIL),
        ({"failures": (failed(thread=True),)}, Status.NOTE),
        ({"failures": (failed(repeated=True),)}, Status.PASS),
        ({"failures": (failed(),), "checkpoints": (), "saved": (PICKLED,)}, Status.NOTE),
        ({"failures": (failed(what="thread"),)}, Status.PASS),
    ],
)
def test_a_save_that_fails_where_nobody_looks(fields: Any, status: Status) -> None:
    assert findings(with_run(**fields))["RHS006"].status is status


def test_a_refused_write_is_no_failed_save() -> None:
    error = "OSError: [Errno 30] Read-only file system: '/data/a.pt'"
    write = attempt(kind="write", what="torch.save", path="/data/a.pt")
    run = with_run(failures=(failed(path="/data/a.pt", error=error),)).runs
    assert findings(changed(runs=run, attempts=(write,)))["RHS006"].status is Status.PASS


@pytest.mark.parametrize(
    ("path", "status"), [("/data/out", Status.UNKNOWN), ("/data/other", Status.FAIL)]
)
def test_the_error_of_a_refused_write_is_reported_once(path: str, status: Status) -> None:
    error = "OSError: [Errno 30] Read-only file system: 'out'"
    write = attempt(kind="write", what="os.mkdir", path=path)
    runs = with_run(code=1, ranks=rank(error=error)).runs
    found = findings(changed(runs=runs, attempts=(write,)))["RHS003"]
    assert found.status is status
    assert ("see RHS001" in found.verdict.summary) is (status is Status.UNKNOWN)


@pytest.mark.parametrize(
    ("still", "called", "named"),
    [
        (60.0, "get of queue.py", True),
        (2.0, "get of queue.py", False),
        (60.0, "", False),
        (60.0, "run of subprocess.py", False),
    ],
)
def test_a_thread_that_ended_before_the_run_stood_still(
    still: float, called: str, named: bool
) -> None:
    dead = failed(what="thread", error="KeyError: 'label'", place="/a/t.py:24", thread=True)
    cut = {"code": None, "cut": "deadline", "still": still, "failures": (dead,)}
    waiting = (Waiting(rank=0, place="/a/t.py:30", called=called),)
    found = findings(with_run(**cut, waiting=waiting))["RHS003"]
    assert ("at /a/t.py:24: KeyError: 'label'" in found.verdict.summary) is named
    assert found.status is (Status.FAIL if named else Status.WARN)


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"place": "/a/t.py:9 in __getitem__", "error": "IndexError: index 9"}, "Let __len__"),
        ({"place": "/a/t.py:9", "error": "IndexError: index 9"}, ""),
        ({"place": "/a/t.py:9 in __getitem__", "error": "KeyError: 9"}, "Let __len__"),
        ({"place": "/a/t.py:9 in __getitem__", "error": "KeyError: 'label'"}, ""),
        ({"evaluating": 8, "error": "OverflowError: number too small to fit"}, "Replace -100"),
        ({"error": "OverflowError: number too small to fit in target type"}, ""),
        ({"evaluating": 8, "error": "OverflowError: math range error"}, ""),
        ({"evaluating": 8, "error": f"{ZERO} (at position 5) {CAT}"}, "squeeze(-1)"),
        ({"evaluating": 8, "error": f"{ZERO} (at position 0) {CAT}"}, ""),
        ({"evaluating": 8, "in_loader": True, "error": UNEQUAL}, "Resize, crop or pad"),
        ({"evaluating": 8, "error": UNEQUAL}, "Count what is right"),
        (
            {"evaluating": 8, "error": "RuntimeError: Sizes of tensors must match except in 0"},
            "Count what is right",
        ),
        (
            {
                "evaluating": 8,
                "in_model": True,
                "error": "RuntimeError: Sizes of tensors must match except in 0",
            },
            "",
        ),
        ({"error": "RuntimeError: Sizes of tensors must match except in dimension 0"}, ""),
        (
            {"evaluating": 8, "error": "ValueError: inhomogeneous shape after 1 dimensions."},
            "predictions[0]",
        ),
        (
            {"evaluating": 8, "generating": True, "error": "IndexError: index out of range"},
            "max_new_tokens together",
        ),
    ],
)
def test_the_place_of_an_error_chooses_the_remedy(fields: Any, word: str) -> None:
    fix = remedy(with_run(code=1, ranks=rank(**fields)), "RHS003")
    remedies = ("Let __len__", "Count what is right", "predictions[0]", "max_new_tokens together",
                "Replace -100", "squeeze(-1)", "Resize, crop or pad")  # fmt: skip
    assert [each for each in remedies if each in fix] == [word] * bool(word)


@pytest.mark.parametrize(
    ("error", "saved", "status", "word"),
    [
        ("NameError: name 'step' is not defined", False, Status.WARN, "Fix the error"),
        ("TypeError: stop() takes 1 positional argument", False, Status.WARN, "two arguments"),
        ("TypeError: can only concatenate str", False, Status.WARN, "Fix the error"),
        ("RuntimeError: [gloo] Connection closed by peer", False, Status.WARN, "no collective"),
        ("NameError: name 'log' is not defined", True, Status.PASS, ""),
        ("KeyboardInterrupt: ", False, Status.NOTE, "Nothing"),
        ("RuntimeError: preempted", False, Status.NOTE, "Nothing"),
    ],
)
def test_a_handler_that_ends_with_an_error(
    error: str, saved: bool, status: Status, word: str
) -> None:
    ranks = rank(error=error, handler="stop", place="/a/t.py:7")
    found = findings(with_stop(ranks=ranks, code=1, saved_after_signal=saved))["RHS008"]
    assert found.status is status
    assert word in (found.verdict.fix or "")


NO_GRAD = "RuntimeError: element 0 of tensors does not require grad"
HALF = "RuntimeError: mat1 and mat2 must have the same dtype, but got Float and Half"


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"error": NO_GRAD, "grad_off": True}, "set_grad_enabled(False)"),
        ({"error": NO_GRAD}, ""),
        ({"error": "ValueError: no", "grad_off": True}, ""),
        ({"error": HALF, "dtypes": "float32, now float16"}, "Convert a copy"),
        ({"error": HALF}, ""),
        ({"error": "ValueError: no", "dtypes": "float32, now bfloat16"}, ""),
    ],
)
def test_what_changed_since_the_last_step_chooses_the_remedy(fields: Any, word: str) -> None:
    fix = remedy(with_run(code=1, ranks=rank(**fields)), "RHS003")
    remedies = ("set_grad_enabled(False)", "Convert a copy")
    assert [each for each in remedies if each in fix] == [word] * bool(word)


@pytest.mark.parametrize("sampled", [True, False])
def test_a_sampler_with_the_rank_of_another(sampled: bool) -> None:
    fix = remedy(agreed(distinct=1, data_parallel=True, sampled=sampled), "RHS014")
    assert ("rank=dist.get_rank()" in fix) is sampled


def test_a_handler_that_returned_is_named() -> None:
    late = {"cut": "grace", "code": None, "stopped_at": 5, "saved_after_signal": False}
    named = remedy(with_stop(handled_by="on_term", **late), "RHS008")
    assert "Read what on_term() sets" in named
    assert "Read what" not in remedy(with_stop(**late), "RHS008")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"differ_from": 1, "unaveraged": 2}, "model.module(batch)"),
        ({"differ_from": 1, "rates": (0.001, 0.002)}, "the same learning rate"),
        ({"differ_from": 4, "unaveraged": 2}, "Change weights only"),
        ({"differ_from": 1}, "Change weights only"),
        ({"differ_from": 1, "unaveraged": 2, "unwrapped": True}, "a loss with weights of its own"),
    ],
)
def test_what_parts_replicas_chooses_the_remedy(fields: Any, word: str) -> None:
    given = {"replicated": True, "count": 2, "names": ("a", "b"), **fields}
    assert word in remedy(agreed(**given), "RHS013")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"unaveraged": 2, "exchanged": 3}, "of biases, norms"),
        ({"unaveraged": 2}, "Wrap the model"),
        ({"exchanged": 3}, "Wrap the model"),
    ],
)
def test_gradients_that_are_averaged_in_part(fields: Any, word: str) -> None:
    given = {"replicated": False, "differ_from": 1, "count": 2, "names": ("a", "b"), **fields}
    assert word in remedy(agreed(**given), "RHS013")


@pytest.mark.parametrize(
    ("parts", "fields", "word"),
    [
        (("head.weight",), {"missed_keys": ("head.weight",)}, "as of a head"),
        (("0.lora_A.default.weight",), {}, "PeftModel.from_pretrained"),
        (("head.weight",), {"missed_keys": ("a",), "extra_keys": ("b",)}, "strict=True"),
    ],
)
def test_fresh_weights_have_the_remedy_of_their_names(parts: Any, fields: Any, word: str) -> None:
    state = lost("weights", names=parts, count=1, of=9, fresh=True)
    assert word in remedy(resumed(state, **fields), "RHS010")


def test_a_scaler_alone() -> None:
    scaler = lost("scaler", before="[8192.0, 0]", after="[1024.0, 0]")
    assert "scaler.load_state_dict()" in remedy(resumed(scaler), "RHS011")
    both = resumed(scaler, lost("optimizer", count=3, of=3, fresh=True))
    assert "scaler.load_state_dict()" not in remedy(both, "RHS011")


@pytest.mark.parametrize("oldest", [True, False])
def test_the_oldest_checkpoint(oldest: bool) -> None:
    found = resumed(saved_step=4, newest_step=12, taken="a-4.pt", passed_over="a-12.pt",
                    oldest=oldest)  # fmt: skip
    assert ("[-1] and not [0]" in remedy(found, "RHS009")) is oldest
    assert findings(found)["RHS009"].status is Status.FAIL


@pytest.mark.parametrize(
    ("nodes", "status"),
    [
        ((58, 113, 168, 223), Status.WARN),
        ((58, 58, 58, 58), Status.PASS),
        ((58, 113, 40, 95), Status.PASS),
        ((20_000, 20_000, 20_000, 20_000), Status.PASS),
        ((58, 60, 61, 62), Status.PASS),
    ],
)
def test_graphs_that_hang_together(nodes: tuple[int, ...], status: Status) -> None:
    looks = tuple(KeptGraphs(step=5 * n, graphs=1, nodes=each) for n, each in enumerate(nodes, 1))
    assert findings(with_run(ranks=rank(kept=looks)))["RHS004"].status is status


@pytest.mark.parametrize("takes_output", [True, False])
def test_a_line_that_writes_elsewhere_is_named(takes_output: bool) -> None:
    write = attempt(
        kind="write", what="torch.save", path="/data/a.pt", place="/a/t.py:3", holds_run=True
    )
    found = findings(changed(attempts=(write,), takes_output=takes_output))["RHS001"]
    assert found.status is Status.FAIL
    assert ("/a/t.py:3 writes elsewhere" in (found.verdict.fix or "")) is takes_output
    assert "at /a/t.py:3" in found.verdict.summary


def test_the_healthy_one_is_silent() -> None:
    assert not [f for f in findings(HEALTHY).values() if f.status in (Status.FAIL, Status.WARN)]
