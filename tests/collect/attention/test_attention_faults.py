"""Attention kernels that are wrong, crash or hang, planted in torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import command
import pytest
from attention_trials import (
    CHOSEN,
    WRONG_DQ,
    Interpret,
    attention_in,
    attention_of,
    by_key,
    judged,
    on_cpu,
    shimmed,
)
from shims import clock_stopped_until

from doctor._util.records import Unknown
from doctor.checks.numerics import attention as checks
from doctor.collect import attention_trial
from doctor.collect.attention_trial import try_attention
from doctor.collect.child_messages import Answer
from doctor.collect.children import Children
from doctor.collect.torch_child import TorchChild
from doctor.facts.facts import decode
from doctor.facts.load import Attention
from doctor.judge.check import Owner, Status
from doctor.judge.engine import examine

pytestmark = pytest.mark.slow

NAN_DV = "v = v * 1; v.register_hook(lambda gradient: gradient * float('nan'))"

WRONG_OUTPUT = "v = v * 1.02"

SEGFAULT = "os.kill(os.getpid(), signal.SIGSEGV)"

HANG = "time.sleep(600)"

RAISE = "raise RuntimeError('No execution plans support the graph')"

ONE_IN_FOUR_HIDDEN = "masked and k.shape[2] == 192 and float(attn_mask.float().mean()) == 0.75"
"""The condition of the case "boolean mask"."""

HANG_SECONDS = 0.5
"""From when it hangs."""


class FirstProcessHangs(TorchChild):
    """Its first request is the one that hangs; those that follow get their usual time."""

    hangs = Path()
    """Exists from then on."""

    def request(self, seconds: float, *arguments: Any, **request: Any) -> Answer:
        if self.hangs.exists():
            return super().request(seconds, *arguments, **request)
        with clock_stopped_until(self.hangs.exists):
            return super().request(HANG_SECONDS, *arguments, **request)


@pytest.mark.parametrize(
    ("fault", "condition", "status", "text"),
    [
        (WRONG_DQ, "True", Status.FAIL, "dq off by 0.5"),
        (WRONG_OUTPUT, "backend == 'flash'", Status.FAIL, "output off by 0.02"),
        (NAN_DV, "backend == 'flash' and is_causal", Status.FAIL, "not finite: dv"),
        (RAISE, "backend == 'flash' and is_causal", Status.FAIL, "No execution plans"),
        (RAISE, "backend == 'math' and is_causal and not dropout_p", Status.PASS, "by default"),
        (WRONG_DQ, "backend == 'math'", Status.WARN, "math (not the default)"),
        (WRONG_DQ, "backend == 'flash' and masked", Status.WARN, "boolean mask"),
        (NAN_DV, "backend == 'flash' and float(q.max()) > 200", Status.WARN, "very negative"),
        (WRONG_DQ, "dtype == torch.float16", Status.WARN, "fp16"),
    ],
)
def test_a_kernel_that_is_wrong_is_found(
    fault: str,
    condition: str,
    status: Status,
    text: str,
    interpret: Interpret,
    children: Children,
) -> None:
    quick = condition in ("True", "backend == 'flash'")
    facts = on_cpu(interpret(shimmed(fault, condition)), quick=quick)
    finding = judged(facts, attention_of(children, facts))
    assert finding.status is status, finding.verdict.summary
    assert text in finding.verdict.summary


def test_a_wrong_gradient_fails_a_whole_run_though_the_smoke_step_trains(
    interpret: Interpret, tmp_path: Path
) -> None:
    wrong = shimmed(WRONG_DQ, "backend == 'flash'")
    python, facts = interpret(wrong), tmp_path / "facts.json"
    flags = ("--device", "cpu", "--format", "json", "--python", python, "--save-facts", facts)
    done = command.doctor("run", *flags)
    assert done.returncode == 1, done.stderr
    findings = {each["code"]: each for each in json.loads(done.stdout)["findings"]}
    assert findings["NUM003"]["status"] == "fail"
    assert findings["NUM003"]["commands"] == ["torch.backends.cuda.enable_flash_sdp(False)"]
    assert all(findings[f"SMK00{n}"]["status"] == "pass" for n in (1, 2, 3, 4))
    assert isinstance(decode(facts.read_bytes()).attention, Attention)


def test_a_crash_loses_one_trial_and_the_rest_goes_on(
    interpret: Interpret, children: Children
) -> None:
    condition = f"backend == 'flash' and dtype == torch.bfloat16 and {ONE_IN_FOUR_HIDDEN}"
    facts = on_cpu(interpret(shimmed(SEGFAULT, condition)))
    attention = attention_of(children, facts)
    assert attention.cut_short == ""
    assert len(attention.trials) == (len(attention.cases) + 1) * 4
    assert len(by_key(attention)) == len(attention.trials)
    dead = [trial for trial in attention.trials if not trial.ended.ok]
    assert [(t.case, t.dtype, t.backend) for t in dead] == [("boolean mask", "bf16", "flash")]
    assert dead[0].ended.how == "signal"
    assert "SIGSEGV" in dead[0].ended.detail
    assert attention.defaults["boolean mask/bf16"] == "flash"
    assert judged(facts, attention).status is Status.WARN


def test_a_crash_of_the_default_kernel_fails(interpret: Interpret, children: Children) -> None:
    facts = on_cpu(interpret(shimmed(SEGFAULT, "backend == 'flash' and is_causal")))
    finding = judged(facts, attention_of(children, facts))
    assert finding.status is Status.FAIL
    assert "SIGSEGV" in finding.verdict.summary


def test_crash_after_crash_comes_to_an_end(
    interpret: Interpret, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_trial, "DEATHS", 1)
    facts = on_cpu(interpret(shimmed(SEGFAULT)))
    attention = attention_of(children, facts)
    assert len([trial for trial in attention.trials if trial.ended.how == "signal"]) == 2
    assert attention.cut_short.startswith("left out after 2 processes")
    assert judged(facts, attention).status is Status.FAIL


def test_a_hang_is_cut_off_and_the_rest_goes_on(
    interpret: Interpret, children: Children, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    hangs = tmp_path / "hangs"
    monkeypatch.setattr(FirstProcessHangs, "hangs", hangs)
    condition = "backend == 'math' and dtype == torch.bfloat16 and is_causal and not dropout_p"
    facts = on_cpu(interpret(shimmed(f"open({str(hangs)!r}, 'w'); {HANG}", condition)))
    attention = attention_of(children, facts, FirstProcessHangs)
    hung = [trial for trial in attention.trials if not trial.ended.ok]
    assert [(t.case, t.backend, t.ended.how) for t in hung] == [("causal", "math", "timeout")]
    assert "inside causal/bf16/math" in hung[0].ended.detail
    assert len(attention.trials) == (len(attention.cases) + 1) * 4
    assert judged(facts, attention).status is Status.WARN


def test_an_error_that_sticks_to_the_process_loses_one_trial(
    interpret: Interpret, children: Children
) -> None:
    sticky = """
    trial = probe("attention.attention_trial")
    broken = []

    def synchronize(device):
        if broken:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    trial.synchronize = synchronize
    """
    fault = "broken.append(1)\n            synchronize(None)"
    condition = f"backend == 'flash' and dtype == torch.bfloat16 and {ONE_IN_FOUR_HIDDEN}"
    facts = on_cpu(interpret(shimmed(fault, condition) + sticky))
    attention = attention_of(children, facts)
    bad = [trial for trial in attention.trials if not trial.ended.ok]
    assert [(t.case, t.dtype, t.backend) for t in bad] == [("boolean mask", "bf16", "flash")]
    assert "illegal memory access" in bad[0].ended.detail
    assert len(attention.trials) == (len(attention.cases) + 1) * 4
    assert judged(facts, attention).status is Status.WARN


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("CUDA error: uncorrectable ECC error encountered", Status.FAIL),
        ("CUDA out of memory. Tried to allocate 1.00 GiB", Status.UNKNOWN),
        ("a message that nobody has seen before", Status.UNKNOWN),
    ],
)
def test_an_error_of_the_reference(
    text: str, status: Status, interpret: Interpret, children: Children
) -> None:
    """An error of the GPU is no reason to leave a case out in silence."""
    broken = f"""
    cases = probe("attention.attention_cases")

    def reference(case, tensors):
        raise RuntimeError({text!r})

    cases.reference = reference
    """
    facts = on_cpu(interpret(broken), quick=True)
    finding = judged(facts, attention_of(children, facts))
    assert finding.status is status, finding.verdict.summary
    assert text in finding.verdict.summary
    assert (finding.owner is Owner.MACHINE) == (status is Status.FAIL)


def test_the_rest_is_left_out_when_time_is_up(
    warm: TorchChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_trial, "ALL_SECONDS", 0.0)
    attention = attention_in(warm, on_cpu())
    assert attention.cut_short == "time was up before causal/bf16"
    assert not attention.trials
    finding = judged(on_cpu(), attention)
    assert finding.status is Status.UNKNOWN
    assert "time was up" in finding.verdict.summary


def test_no_backend_is_tried_after_the_deadline(interpret: Interpret, children: Children) -> None:
    late = "time.perf_counter = lambda: 1e12"
    attention = attention_of(children, on_cpu(interpret(shimmed(late, "backend == 'flash'"))))
    assert [(trial.case, trial.backend) for trial in attention.trials] == [("causal", "flash")]
    assert attention.cut_short == "time was up before causal/bf16/mem_efficient"


def test_quick_tries_the_jobs_precision_alone_and_not_for_long(
    warm: TorchChild, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = attention_in(warm, on_cpu(quick=True))
    assert {trial.dtype for trial in attention.trials} == {"bf16"}
    assert judged(on_cpu(), attention).status is Status.PASS
    monkeypatch.setattr(attention_trial, "QUICK_SECONDS", 0.0)
    assert attention_in(warm, on_cpu(quick=True)).cut_short == "time was up before causal/bf16"


def test_a_probe_that_tells_nonsense(interpret: Interpret, children: Children) -> None:
    nonsense = """
    wire.send(answer={})
    for _ in wire.requests():
        for note in ({"cases": 5}, {"trial": {"backend": 1}}, {"group": 3, "default": 4},
                     {"lowest_lse": "x"}, {"lowest_lse": [1]}, {"default": None}, {}):
            wire.send(note=note)
        wire.send(answer={"cut_short": 7})
    """
    facts = on_cpu(interpret(nonsense))
    interpreter = facts.interpreter
    assert not isinstance(interpreter, Unknown)
    child = TorchChild(children, interpreter.path)
    attention = try_attention(child, facts, "cpu", CHOSEN, lambda stage: None)
    child.end()
    assert isinstance(attention, Unknown)
    (finding,) = examine(checks.CHECKS, facts.with_(attention=attention))
    assert finding.status is Status.UNKNOWN
