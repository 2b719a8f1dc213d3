"""What the checks of a rehearsal say of what begins anew, is left behind, or is one rank's alone,
each with healthy facts beside it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from rehearsal_facts import (
    HEALTHY,
    RANK,
    changed,
    findings,
    lost,
    resumed,
    with_rank,
    with_run,
    with_stop,
)

from doctor.facts.rehearsal import Rehearsal
from doctor.facts.rehearsal_resume import SampleOrder
from doctor.judge.check import Status

ANEW = lost("number", names=("Beta.calls",), before="0.55", after="0.05", step=5)


def evaluates(**fields: Any) -> Rehearsal:
    """A rank whose evaluation has other fields."""
    done = (msgspec.structs.replace(each, **fields) for each in RANK.evaluations)
    return with_rank(evaluations=tuple(done))


def one_handler(*, saves: bool) -> Rehearsal:
    """Stopped on two ranks, of which one has a handler."""
    return with_stop(handled_by="on_term", unhandled=(1,), saved_after_signal=saves)


def longer(error: str, before: int = 0) -> Rehearsal:
    """Rank 0 fails in an evaluation that rank 1 has left, or in one that is after it."""
    done = RANK.evaluations[:before]
    one = msgspec.structs.replace(RANK, evaluations=done, evaluating=4, error=error, world=2)
    return with_run(code=1, ranks=(one, msgspec.structs.replace(RANK, rank=1, world=2)))


def ordered(**fields: Any) -> Rehearsal:
    """Other samples than without the stop."""
    return resumed(order=SampleOrder(steps=8, samples=256, **fields))


def counted(name: str, after: str) -> Rehearsal:
    """A schedule's counter is another, and no rate."""
    return resumed(lost("schedule", names=(name,), before="4", after=after))


def endless(turns: int) -> Rehearsal:
    """--budget ends an evaluation."""
    rank = msgspec.structs.replace(RANK, evaluating=4, turns=turns, ended=False)
    return with_run(cut="deadline", code=None, ranks=(rank,))


def by_handler(**fields: Any) -> Rehearsal:
    """The resume counts from 0, after a save on the signal."""
    state = msgspec.structs.replace(HEALTHY.resumed, saved_step=6, newest_step=6, steps=12,
                                    expected_steps=6)  # fmt: skip
    run, stopped, continued = HEALTHY.runs
    stopped = msgspec.structs.replace(stopped, saved_after_signal=True, **fields)
    return changed(runs=(run, stopped, continued), resumed=state)


@pytest.mark.parametrize(
    ("code", "rehearsal", "status", "word"),
    [
        (
            "RHS010",
            resumed(ANEW),
            Status.WARN,
            "is 0.05, as at the first step; without the stop it",
        ),
        ("RHS010", resumed(ANEW, steps=12), Status.PASS, "are as after step 4"),  # RHS009 fails
        # samples that are sorted by length, and begin anew: see RHS019
        ("RHS010", resumed(ANEW, first_batch=True, order=None), Status.PASS, "as after step 4"),
        (
            "RHS010",
            resumed(ANEW, order=SampleOrder(steps=8, samples=256, anew=True)),
            Status.PASS,
            "as after step 4",
        ),
        ("RHS010", resumed(lost("loose", fresh=True)), Status.FAIL, "trained tensors of no module"),
        ("RHS009", resumed(steps=12, expected_steps=8), Status.FAIL, "counted from 0"),
        (
            "RHS009",
            resumed(steps=10, epoch_steps=2),
            Status.WARN,
            "epoch of 2 steps that had ended",
        ),
        (
            "RHS009",
            resumed(steps=10),
            Status.PASS,
            "goes on",
        ),  # the save is in the middle of an epoch
        ("RHS009", resumed(epoch_steps=2), Status.PASS, "goes on"),
        ("RHS009", resumed(steps=10, epoch_steps=2, newest_step=6), Status.NOTE, "from step 4"),
        ("RHS009", resumed(newest_step=8, beside_best="last.pt"), Status.WARN, "last.pt has an"),
        ("RHS009", resumed(newest_step=8), Status.NOTE, "although step 8 was saved"),
        ("RHS009", resumed(beside_best="last.pt"), Status.PASS, "goes on"),
        ("RHS019", resumed(first_batch=True, order=None, position="data"), Status.WARN, "'data'"),
        ("RHS019", resumed(first_batch=True, order=None), Status.NOTE, "begin anew"),
        ("RHS012", counted("ReduceLROnPlateau", "0"), Status.WARN, "begin anew"),
        ("RHS012", counted("ReduceLROnPlateau", "3"), Status.NOTE, "the rate is the same"),
        ("RHS012", counted("ConstantLR", "0"), Status.NOTE, "the rate is the same"),
        ("RHS019", ordered(skipped=4, again=96), Status.WARN, "each step takes 4"),
        ("RHS019", ordered(skipped=0, again=96, left_out=96), Status.NOTE, "other samples"),
        ("RHS019", resumed(order=None, position="data"), Status.SKIP, "no loader"),
        (
            "RHS006",
            with_run(emptied="a", emptied_at=4, never_kept=True, checkpoints=()),
            Status.FAIL,
            "none is left",
        ),
        # the last one is removed where the training is complete
        (
            "RHS006",
            with_run(emptied="a", emptied_at=4, checkpoints=()),
            Status.WARN,
            "the only checkpoint",
        ),
        ("RHS006", with_run(emptied="a", emptied_at=4), Status.WARN, "the only checkpoint"),
        ("RHS006", with_run(checkpoints=()), Status.NOTE, "not read it"),
        (
            "RHS005",
            evaluates(averaged="(EMA.shadow)"),
            Status.WARN,
            "leaves the weights of the average",
        ),
        ("RHS005", with_rank(outputs="Lit.outputs", outputs_kept=18), Status.NOTE, "18 after 1"),
        ("RHS008", one_handler(saves=False), Status.WARN, "nothing does on rank 1"),
        ("RHS008", one_handler(saves=True), Status.PASS, "was saved"),
        ("RHS008", with_stop(saved_after_signal=False, handled_by="stop"), Status.NOTE, "without"),
        ("RHS003", longer("gloo: Timed out"), Status.FAIL, "which rank 1 has left after 2 calls"),
        (
            "RHS003",
            longer("ValueError: no such label"),
            Status.FAIL,
            "exit code 1 after 12",
        ),
    ],
)
def test_a_check_says(code: str, rehearsal: Rehearsal, status: Status, word: str) -> None:
    finding = findings(rehearsal)[code]
    assert finding.status is status
    assert word in finding.verdict.summary


@pytest.mark.parametrize(
    ("handler", "word"), [("on_term", "saved on the signal"), ("", "Save the step")]
)
def test_the_step_of_a_save_on_the_signal(handler: str, word: str) -> None:
    verdict = findings(by_handler(handled_by=handler))["RHS009"].verdict
    assert verdict.status is Status.FAIL
    assert word in (verdict.fix or "")


@pytest.mark.parametrize(
    ("names", "word"),
    [(("EarlyStopping.counter", "EarlyStopping.best"), "restore_callback_states"),
     (("EarlyStopping.counter", "Norm.mean"), "register_buffer"), (("tau",), "register_buffer")],
)  # fmt: skip
def test_the_remedy_for_what_begins_anew(names: tuple[str, ...], word: str) -> None:
    verdict = findings(resumed(lost("attribute", names=names)))["RHS010"].verdict
    assert word in (verdict.fix or "")


@pytest.mark.parametrize(
    ("name", "word"),
    [("base_model.model.classifier.weight", "modules_to_save"),
     ("base_model.model.q.lora_A.default.weight", "PeftModel.from_pretrained"),
     ("classifier.weight", "strict=True")],
)  # fmt: skip
def test_the_remedy_for_weights_beside_an_adapter(name: str, word: str) -> None:
    weights = lost("weights", names=(name,), fresh=True)
    assert word in (findings(resumed(weights))["RHS010"].verdict.fix or "")


@pytest.mark.parametrize(("epoch_steps", "named"), [(4, True), (3, False), (0, False)])
def test_the_number_of_the_first_epoch_is_no_step(epoch_steps: int, named: bool) -> None:
    found = findings(resumed(steps=12, expected_steps=8, epoch_steps=epoch_steps))["RHS009"]
    assert found.status is Status.FAIL
    assert ("epoch + 1" in (found.verdict.fix or "")) is named
