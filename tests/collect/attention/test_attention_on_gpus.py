"""The attention trial over several GPUs of one model: real processes on the CPU stand for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import preloaded
import pytest
import recorded
import shims

from doctor.checks.numerics import attention as checks
from doctor.collect.attention import adopt, try_on_gpus
from doctor.collect.attention_trial import Records, cudnn_not_tried
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.collect.workers import Worker
from doctor.facts.facts import Facts
from doctor.facts.load import Attention
from doctor.job.job import Chosen, Precision
from doctor.judge.check import Finding, Status
from doctor.judge.engine import examine

pytestmark = pytest.mark.slow

BF16 = Chosen("bf16", "asked")
WRONG_WITHOUT_MASK = """
def spoil(torch):
    functional = torch.nn.functional
    plain = functional.scaled_dot_product_attention
    def wrong(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, **more):
        if attn_mask is not None:
            v = v * 1.02
        return plain(q, k, v, attn_mask, dropout_p, is_causal, **more)
    wrong.__doc__ = plain.__doc__
    functional.scaled_dot_product_attention = wrong
"""


class Counting(TorchChild):
    """Counts the trials that its process enters."""

    trials: Counter[tuple[str, str, str]]

    def request(self, *arguments: Any, on_note: Any = None, **fields: Any) -> Answer:
        self.trials = getattr(self, "trials", Counter())

        def count(note: dict[str, Any]) -> None:
            if "trial" in note:
                trial = note["trial"]
                self.trials[trial["case"], trial["dtype"], trial["backend"]] += 1
            on_note(note)

        return super().request(*arguments, on_note=count, **fields)


@pytest.fixture(scope="module")
def children() -> Iterator[Children]:
    made = Children()
    yield made
    made.interrupt()


@pytest.fixture(scope="module")
def first(children: Children) -> Iterator[Counting]:
    child = Counting(children, preloaded.python())
    yield child
    child.end()


def facts() -> Facts:
    return recorded.machines()["cpu_only"].with_(attention=None)


def tried(first: Counting, *others: Counting) -> Attention:
    first.trials = Counter()
    workers = [Worker("cpu", None, "", child) for child in others]
    found = try_on_gpus(first, facts(), "cpu", BF16, lambda stage: None, workers)
    assert isinstance(found, Attention)
    return found


def judged(attention: Attention) -> Finding:
    (finding,) = examine(checks.CHECKS, facts().with_(attention=attention))
    return finding


def test_the_cases_are_dealt_and_none_is_missing(first: Counting, children: Children) -> None:
    alone = tried(first)
    every = set(first.trials)
    other = Counting(children, preloaded.python())
    both = tried(first, other)
    other.end()
    keys = [(trial.case, trial.dtype, trial.backend) for trial in both.trials]
    assert set(keys) == every
    assert len(keys) == len(every)
    causal = {
        ("causal", "bf16", backend) for backend in ("flash", "mem_efficient", "cudnn", "math")
    }
    assert set(first.trials) & set(other.trials) == causal
    assert max(first.trials.values()) == max(other.trials.values()) == 1
    assert both.defaults == alone.defaults
    assert set(both.lowest_lse) == set(alone.lowest_lse)
    finding = judged(both)
    assert finding.status is Status.PASS
    assert "causal attention also on cpu, the other cases on one" in finding.verdict.summary


def test_what_another_gpu_has_wrong_is_repeated_on_the_first(
    first: Counting, children: Children, tmp_path: Path
) -> None:
    broken = Counting(children, shims.python(tmp_path, WRONG_WITHOUT_MASK))
    attention = tried(first, broken)
    broken.end()
    wrong = {key for key in broken.trials if key[0] == "boolean mask" and key[2] == "flash"}
    assert wrong
    assert wrong <= set(first.trials)
    assert all(trial.ended.ok and not trial.nonfinite for trial in attention.trials)
    finding = judged(attention)
    assert finding.status is Status.FAIL
    assert "correct on cpu with the same software" in finding.verdict.summary


def test_a_gpu_of_another_model_tries_the_first_case_alone(
    first: Counting, children: Children
) -> None:
    other = Counting(children, preloaded.python())
    workers = [Worker("cpu", None, "another model", other)]
    first.trials = Counter()
    attention = try_on_gpus(first, facts(), "cpu", BF16, lambda stage: None, workers)
    other.end()
    assert isinstance(attention, Attention)
    assert {case for case, _, _ in other.trials} == {"causal"}
    assert len(first.trials) == len(attention.trials) == (len(attention.cases) + 1) * 4
    assert "the other cases" not in judged(attention).verdict.summary


def test_a_gpu_that_dies_leaves_its_part_to_the_first(
    first: Counting, children: Children, tmp_path: Path
) -> None:
    dying = Counting(children, str(tmp_path / "absent"))
    attention = tried(first, dying)
    assert len(first.trials) == len(attention.trials)
    assert attention.cut_short == ""
    assert judged(attention).status is Status.UNKNOWN  # causal attention was not tried there


@pytest.mark.parametrize(
    ("machine", "precision", "left_out"),
    [
        ("h200_torch2.11", "bf16", {"causal/fp16", "one query/bf16", "dropout/bf16"}),
        ("h200_torch2.11", "fp16", {"causal/bf16", "one query/fp16", "dropout/fp16"}),
        ("h200_torch2.11", "fp32", {"causal/fp16", "one query/bf16", "dropout/bf16"}),
        ("titan_rtx_bf16", "fp16", set()),
        ("mi300_rocm", "bf16", set()),
    ],
)
def test_what_cudnn_is_not_tried_with(
    machine: str, precision: Precision, left_out: set[str]
) -> None:
    reasons = cudnn_not_tried(recorded.machines()[machine], Chosen(precision, "asked"))
    assert set(reasons) == {f"{group}/cudnn" for group in left_out}
    assert all(reasons.values())


def test_a_trial_of_the_first_gpu_is_never_replaced() -> None:
    attention = recorded.machines()["h200_torch2.11"].attention
    assert isinstance(attention, Attention)
    records = Records()
    bad = [trial for trial in attention.trials if trial.nonfinite]
    assert bad
    adopt(records, attention)
    assert not [trial for trial in records.trials if trial in bad]
    good = [trial for trial in attention.trials if trial not in bad]
    assert records.trials == good
    adopt(records, msgspec.structs.replace(attention, trials=tuple(good[:3])))
    assert records.trials == good
