"""Symptoms are found by what people say, in their words, and not in what programs print."""

from __future__ import annotations

import csv
import re

import pytest
from error_index import messages
from pasted_errors import answer
from paths import TESTS

from doctor.cli.explain.name import explain
from doctor.errors.cause import Cause
from doctor.errors.causes import CAUSES
from doctor.errors.match import with_message
from doctor.errors.words import FAMILIES, is_said, symptoms

with (TESTS / "corpus" / "said_symptoms.csv").open(encoding="utf-8", newline="") as _file:
    SAID = [
        pytest.param(
            row["text"],
            row["cause"],
            marks=[
                pytest.mark.xfail(
                    strict=True, reason="no phrase of it is in the text, or not near enough"
                )
            ]
            if row["missed"]
            else [],
        )
        for row in csv.DictReader(_file)
    ]
ROWS = [row for row in CAUSES if row.words]


@pytest.mark.parametrize(("text", "cause"), SAID)
def test_what_people_say_has_its_symptom_and_a_question_without_a_fault_none(
    text: str, cause: str
) -> None:
    found = with_message(text, symptoms=True)
    assert (found[0].id if found else "") == cause


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_a_symptom_comes_first_for_its_examples(row: Cause) -> None:
    for example in row.examples:
        assert with_message(example, symptoms=True)[0].id == row.id, example


def test_a_phrase_names_families_that_exist_and_has_two_groups_or_rare_words() -> None:
    for row in ROWS:
        for phrase in row.words:
            named = re.findall(r"@(\w+)", phrase)
            assert set(named) <= set(FAMILIES), phrase
            assert len(phrase) >= 6, phrase


def test_groups_stand_in_any_order_and_an_arrow_asks_for_one() -> None:
    for text in ("the loss is nan after step 3", "after step 3: nan as the loss"):
        assert symptoms(text)[0][1].id == "loss-becomes-nan"
    for text, cause in (
        ("validation loss is lower than training loss", "validation-better-than-training"),
        ("training loss is lower than validation loss", ""),
    ):
        assert next((row.id for _, row in symptoms(text)), "") == cause


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: the loss is nan after step 3",
        "{'loss': 0.0, 'grad_norm': nan}",
        "step 10 loss: 0.0 grad_norm: 0.0",
        "[rank0]: training hangs at the first step",
        "WARNING[XFORMERS]: xFormers can't load CUDA extensions, GPU kernels are not available",
        "torch._dynamo.exc.FailOnRecompileLimitHit: recompiling every call makes it slow",
        "FailOnRecompileLimitHit: recompiling every call makes it slow",
        "Exception: training hangs at the first step",
        "GPU 0 has a total capacity of 23.64 GiB of which 1.21 GiB is free, memory grows",
    ],
)
def test_what_a_program_prints_is_not_said(text: str) -> None:
    assert not is_said(text)
    assert not [row for row in with_message(text, symptoms=True) if row.words]


def test_messages_of_the_corpora_lead_with_no_symptom() -> None:
    for row in messages():
        found = with_message(row["message"], symptoms=True)
        assert not found or not found[0].words, row["message"]


def test_a_symptom_in_words_is_answered_without_the_metrics_in_it() -> None:
    given = answer("binary classifier stuck at loss 0.693 no matter what")
    assert given.names[0] == "loss-at-logarithm-of-classes"
    assert "nothing wrong" not in given.first


def test_a_symptom_says_more_than_the_message_within_it() -> None:
    told = with_message("CUDA out of memory during evaluation, training fits", symptoms=True)
    assert [row.id for row in told[:2]] == ["memory-at-evaluation", "gpu-full-or-in-use"]
    whole = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB in evaluation"
    assert with_message(whole, symptoms=True)[0].id == "cuda-oom"


def test_a_rank_of_number_0_is_no_gradient_of_0() -> None:
    for rank in ("0: 182", "3: 17 18"):
        line = f"Parameter indices which did not receive grad for rank {rank}"
        assert with_message(line, symptoms=True)[0].id == "collective-mismatch"
    assert not symptoms("the gradient norm of rank 0 is 0.8, that of rank 1 as well")


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("the loss is stuck at 1.0", "loss-does-not-fall"),
        ("the test accuracy is 1.0", "accuracy-too-good"),
        ("GPU usage is stuck around 12%", "gpu-not-busy"),
        ("GPU usage is stuck at 100%", "training-hangs"),
        ("the training is stuck at step 12", "training-hangs"),
    ],
)
def test_a_value_that_is_stuck_is_no_program_that_hangs(text: str, cause: str) -> None:
    assert with_message(text, symptoms=True)[0].id == cause


def test_a_watchdog_that_reports_a_collective_is_not_stuck() -> None:
    collective = (
        "[rank1]: Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
        "OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600031 milliseconds before timing out."
    )
    stuck = "[rank1]: ProcessGroupNCCL's watchdog got stuck for 480 seconds without progress"
    assert with_message(stuck)[0].id == "watchdog-stuck"
    both = answer(f"{collective}\n\n{stuck}")
    assert both.names == ("nccl-timeout",)
    assert "It is not a collective" not in both.first


UNDECIDED = "Words alone decide nothing."


def test_what_words_suggest_is_a_question_with_a_command_and_no_finding() -> None:
    asked = explain("the loss explodes and then it is zero")
    assert asked.startswith(f"{UNDECIDED} It could be one of these 2, or none:\n\n  | the loss")
    assert asked.count("Is it this? ") == asked.count("What can decide it:\n  $ doctor ") == 2
    assert "Fix: " not in asked
    assert "Fix owner" not in asked
    message = explain("RuntimeError: element 0 of tensors does not require grad")
    assert UNDECIDED not in message
    assert "Fix: " in message


def test_a_message_beside_a_symptom_stays_known() -> None:
    asked = explain("CUDA out of memory during evaluation, training fits")
    assert asked.startswith(UNDECIDED)
    first, _, message = asked.partition("\n\ngpu-full-or-in-use\n")
    assert "Is it this? " in first
    assert "Is it this? " not in message
    assert "Fix: " in message


def test_a_longer_text_whose_best_symptom_is_far_names_nothing() -> None:
    text = (
        "So the plan was to let it guess the next value of each sensor from what it had seen "
        "till then, and the loss hardly improved in all the nights that it was on."
    )
    assert symptoms(text)
    assert not with_message(text, symptoms=True)
