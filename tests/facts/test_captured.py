"""Facts of real hardware: a healthy machine gets one warning, its sick states the right remedy."""

from __future__ import annotations

import captured
import pytest
from reports import judged

from doctor.collect.attention_trial import cudnn_not_tried
from doctor.facts.facts import decode, encode
from doctor.facts.load import Attention
from doctor.job.job import Chosen
from doctor.judge.check import Status
from doctor.report.report import Outcome

PASSED = {
    "DRV001", "DRV002", "TOR001", "TOR002", "TOR003", "TOR004", "GPU001", "GPU002", "GPU003",
    "GPU004", "GPU005", "GPU006", "NUM001", "NUM002", "NUM004", "NUM006", "MEM002", "MEM003",
    "DSK001", "DSK002", "SMK001", "SMK002", "SMK003", "SMK004",
}  # fmt: skip
"""What a healthy machine passes. A later check may lack its fact here."""


def test_a_real_healthy_machine_is_ready_without_a_warning() -> None:
    report = judged(captured.h100())
    statuses = {finding.check.code: finding.status for finding in report.findings}
    problems = [finding for finding in report.findings if finding.is_problem]
    assert problems == []
    assert statuses["NUM003"] is Status.NOTE
    assert {code for code, status in statuses.items() if status is Status.PASS} >= PASSED
    assert report.outcome is Outcome.READY


def test_the_facts_of_a_real_run_are_read_and_written_unchanged() -> None:
    assert decode(encode(captured.h100())) == captured.h100()


def test_the_real_run_tried_the_attention_kernels_that_the_rules_choose() -> None:
    """What cuDNN was not tried with on the GPU is what the rules leave out for these facts."""
    facts = captured.h100()
    attention = facts.attention
    assert isinstance(attention, Attention)
    tried = {f"{each.case}/{each.dtype}/{each.backend}": each.refused for each in attention.trials}
    left_out = {name for name, why in tried.items() if why and why.startswith("not tried")}
    assert left_out == set(cudnn_not_tried(facts, Chosen("bf16", "capability 9.0")))
    failed = {(each.case, each.backend): set(each.nonfinite) for each in attention.trials
              if each.nonfinite}  # fmt: skip
    assert failed == {
        ("very negative logits, mask", "cudnn"): {"dq"},
        ("very negative logits", "cudnn"): {"dq"},
    }


@pytest.mark.parametrize(
    ("state", "code", "command"),
    [
        ("allocator option", "GPU001", "unset PYTORCH_CUDA_ALLOC_CONF"),
        ("forced PTX", "TOR003", "unset CUDA_FORCE_PTX_JIT"),
        ("UVM node replaced", "DRV001", "sudo nvidia-modprobe -u -c 0"),
    ],
)
def test_a_sick_state_of_the_same_machine_gets_the_remedy_that_ends_it(
    state: str, code: str, command: str
) -> None:
    report = judged(captured.sick()[state])
    failures = [each for each in report.findings if each.status is Status.FAIL]
    assert [each.check.code for each in failures] == [code]
    assert command in failures[0].commands
    assert report.outcome is Outcome.FIX
