"""Verdicts on what the attention trial observed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import recorded
import recorded_attention
import recorded_parts
from attention_judges import A100, CALL, CUDNN_FIRST, FLASH_FIRST, H100, VARIABLE, judge
from packaging.version import Version

from doctor._util.records import Ended, Unknown
from doctor.checks.numerics import attention, attention_remedies
from doctor.checks.numerics.attention_others import with_others
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch, TorchGpu
from doctor.facts.load import Attention, Implementation
from doctor.facts.own_model import OwnModel, Trend
from doctor.facts.training import Settings
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Precision, Target, TargetKind
from doctor.judge.check import Owner, Status, Verdict, ok
from doctor.judge.engine import examine
from doctor.judge.sources import SOURCES
from doctor.judge.switches import Switch

CUDNN_TRIAL = recorded_attention.attention(first="cudnn")

NAN = recorded_attention.nan_in_dq()


def observed(trial: Attention | Unknown, **fields: Any) -> Verdict:
    """On an H100 with torch 2.15, where no known bug matches, unless `fields` say otherwise."""
    known = {"order": CUDNN_FIRST} | fields
    return judge("2.15.0", 92600, H100, trial=trial, **known)


def broken(case: str, dtype: str, backend: str, **fields: Any) -> Attention:
    return recorded_attention.attention(first="cudnn", faults={(case, dtype, backend): fields})


def on_another(device: str = "cuda:1", cut_short: str = "", **fault: Any) -> Attention:
    """The first case on another GPU, with `fault` in its flash trial."""
    first = msgspec.structs.replace(CUDNN_TRIAL, device=device, cut_short=cut_short)
    trials = [t for t in first.trials if (t.case, t.dtype) == ("causal", "bf16")]
    done = [msgspec.structs.replace(t, **fault) if t.backend == "flash" else t for t in trials]
    return msgspec.structs.replace(first, trials=() if cut_short else tuple(done))


@pytest.mark.parametrize(
    ("fault", "status", "owner", "part"),
    [
        ({}, Status.PASS, None, "causal attention also on cuda:1"),
        ({"errors": {"dq": 0.3}}, Status.FAIL, Owner.MACHINE, "correct on cuda:0"),
        ({"nonfinite": {"dk": 4}}, Status.FAIL, Owner.MACHINE, "not finite: dk"),
        ({"ended": Ended(how="error", detail="RuntimeError: odd")}, Status.FAIL, None, "odd"),
        ({"ended": Ended(how="error", detail="CUDA error: uncorrectable ECC error encountered")},
         Status.FAIL, Owner.MACHINE, "ECC"),
        ({"ended": Ended(how="signal", detail="SIGKILL")}, Status.UNKNOWN, None, "MEM002"),
        ({"cut_short": "the process ended"}, Status.UNKNOWN, None, "not completed on cuda:1"),
    ],
)  # fmt: skip
def test_another_gpu_that_computes_something_else(
    fault: dict[str, Any], status: Status, owner: Owner | None, part: str
) -> None:
    trial = msgspec.structs.replace(CUDNN_TRIAL, others=(on_another(**fault),))
    verdict = judge("2.15.0", 92600, H100, H100, trial=trial, order=CUDNN_FIRST)
    assert verdict.status is status
    assert (verdict.owner is Owner.MACHINE) is (owner is Owner.MACHINE)
    assert part in verdict.summary


def test_a_kernel_that_is_wrong_on_another_model_is_no_broken_gpu() -> None:
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA L4")
    models = tuple(
        JobGpu(torch=TorchGpu(index=n, uuid=None, name=name, capability=(9, 0), memory_total=1))
        for n, name in enumerate(names)
    )
    trial = msgspec.structs.replace(CUDNN_TRIAL, others=(on_another(errors={"dq": 0.3}),))
    verdict = with_others(
        ok("x"), trial, Version("2.15.0"), "bf16", JobGpus(gpus=models, by="torch")
    )
    assert (verdict.status, verdict.owner) == (Status.FAIL, None)
    assert "different models" in (verdict.fix or "")


def test_what_is_wrong_on_every_gpu_is_no_fault_of_one() -> None:
    wrong = {"errors": {"dq": 0.3}}
    first = broken("causal", "bf16", "flash", **wrong)
    verdict = observed(msgspec.structs.replace(first, others=(on_another(**wrong),)))
    assert verdict.owner is not Owner.MACHINE
    fp32 = observed(
        msgspec.structs.replace(CUDNN_TRIAL, others=(on_another(**wrong),)), precision="fp32"
    )
    assert fp32.status is Status.PASS


def test_correct_kernels_pass_and_the_summary_names_what_was_tested() -> None:
    verdict = observed(CUDNN_TRIAL)
    assert verdict.status is Status.PASS
    assert "cudnn by default; 58 trials of cudnn, flash, math, mem_efficient" in verdict.summary
    assert "31%" in verdict.summary


DIED = Ended(how="signal", detail="SIGSEGV inside causal/bf16/cudnn", code=11)

HUNG = Ended(how="timeout", detail="no answer in 30 s inside causal/bf16/cudnn", seconds=30.0)

TAKEN = Ended(how="error", detail="CUDA error: CUDA-capable device(s) is/are busy or unavailable")

RAISED = Ended(how="error", detail="RuntimeError: No execution plans support the graph")

STUCK = Ended(how="error", detail="AcceleratorError: CUDA error: an illegal memory access")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"errors": {"output": 2e-3, "dq": 0.5}}, "dq off by 0.5 (at most 0.01)"),
        ({"errors": {"output": "nan"}, "nonfinite": {"output": 7}}, "output (7 values)"),
        ({"errors": {"dv": "inf"}}, "dv off by inf"),
        ({"nonfinite": {"dk": 1}}, "not finite: dk (1 values)"),
        ({"ended": DIED, "errors": {}}, "SIGSEGV"),
        ({"ended": HUNG, "errors": {}}, "no answer in 30 s"),
        ({"ended": RAISED, "errors": {}}, "No execution plans"),
        ({"ended": STUCK, "errors": {}}, "illegal memory access"),
    ],
)
def test_a_fault_fails_only_for_the_attention_of_the_job(fields: dict[str, Any], text: str) -> None:
    serious = observed(broken("causal", "bf16", "cudnn", **fields))
    assert serious.status is Status.FAIL
    assert text in serious.summary
    assert serious.commands == (CALL, f"export {VARIABLE}=1")
    assert serious.switches_off == (Switch.CUDNN_SDP,)

    raised = fields.get("ended") == RAISED
    elsewhere = Status.PASS if raised else Status.WARN
    assert observed(broken("causal", "bf16", "flash", **fields)).status is elsewhere
    assert observed(broken("causal", "fp16", "cudnn", **fields)).status is elsewhere
    only_masks = observed(broken("boolean mask", "bf16", "cudnn", **fields))
    assert only_masks.status is Status.WARN
    assert only_masks.fix
    assert attention_remedies.AVOID["boolean mask"] in only_masks.fix
    assert observed(broken("causal", "fp16", "cudnn", **fields), precision="fp16").status is (
        Status.FAIL
    )


def test_math_is_suspected_for_ordinary_shapes_alone() -> None:
    """Before torch 2.5 its rows that see nothing are NaN: that is no broken installation."""
    nan: dict[str, Any] = {"nonfinite": {"dk": 4}}
    ordinary = observed(broken("causal", "bf16", "math", **nan))
    assert ordinary.fix
    assert "reinstall torch" in ordinary.fix
    row = observed(broken("fully masked row", "bf16", "math", **nan))
    assert row.status is Status.WARN
    assert row.fix
    assert "reinstall torch" not in row.fix
    assert attention_remedies.AVOID["fully masked row"] in row.fix


def test_no_switch_is_the_remedy_where_math_fails_as_well() -> None:
    """The math backend takes the place of one that is off: before torch 2.5 on the CPU."""
    nan: dict[str, Any] = {"nonfinite": {"dk": 4}}
    case = "fully masked row"
    one = observed(broken(case, "bf16", "cudnn", **nan))
    assert one.commands
    faults = {(case, "bf16", backend): nan for backend in ("cudnn", "math")}
    both = observed(recorded_attention.attention(first="cudnn", faults=faults))
    assert both.status is Status.WARN
    assert (both.commands, both.switches_off) == ((), ())
    assert both.fix
    assert attention_remedies.AVOID[case] in both.fix


def test_the_gates() -> None:
    for dtype, gate in (("bf16", 1e-2), ("fp16", 2e-3)):
        for error, status in ((gate, Status.PASS), (gate * 1.01, Status.FAIL)):
            trial = broken("causal", dtype, "cudnn", errors={"dk": error})
            assert observed(trial, precision=dtype).status is status


def test_kernels_in_half_precision_do_not_concern_a_job_in_fp32() -> None:
    wrong = broken("causal", "bf16", "cudnn", errors={"dq": 1})
    verdict = observed(wrong, precision="fp32")
    assert verdict.status is Status.PASS
    assert "dq off by 1" in verdict.summary
    suspected = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=NAN, precision="fp32")
    assert suspected.status is Status.PASS
    well = observed(CUDNN_TRIAL, precision="fp32")
    assert well.status is Status.PASS
    assert "fp32" in well.summary


def test_a_bug_that_is_observed_and_suspected_is_reported_once() -> None:
    verdict = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=NAN)
    assert verdict.status is Status.WARN
    assert "dq (45056 values)" in verdict.summary
    assert "pytorch#196678" in verdict.summary
    assert "suspected" not in verdict.summary
    assert verdict.sources == ("pytorch-196678",)
    assert verdict.fix
    assert "torch 2.15" in verdict.fix
    assert verdict.commands == (CALL, f"export {VARIABLE}=1")


@pytest.mark.parametrize(
    ("mask", "seen", "status"),
    [
        ("padding", None, Status.WARN),
        ("none", None, Status.WARN),
        (None, True, Status.WARN),
        ("causal", True, Status.NOTE),
        ("causal", None, Status.NOTE),
        (None, False, Status.NOTE),
        (None, None, Status.NOTE),
    ],
)
@pytest.mark.parametrize("trial", [NAN, None], ids=["tried", "by the table"])
def test_a_bug_of_masks_warns_where_the_job_can_trigger_it(
    mask: Any, seen: bool | None, status: Status, trial: Attention | None
) -> None:
    own = OwnModel(description="model", built=Ended(how="ok"), trend=Trend(masked_attention=seen))
    verdict = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=trial,
                    job=Job(attention_mask=mask), own=own)  # fmt: skip
    assert verdict.status is status
    assert "pytorch#196678" in verdict.summary
    assert (Switch.CUDNN_SDP in verdict.switches_off) is (status is Status.WARN)


def test_a_bug_of_masks_that_the_trial_excludes_is_no_note() -> None:
    verdict = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=CUDNN_TRIAL, job=Job())
    assert verdict.status is Status.PASS
    assert "not reproduced by the trial on this GPU, which triggers it" in verdict.summary


def test_wrong_numbers_with_a_mask_stay_a_warning_where_no_bug_is_known() -> None:
    trial = broken("boolean mask", "bf16", "mem_efficient", errors={"dq": 0.5})
    assert observed(trial, job=Job()).status is Status.WARN
    on_2_15 = judge("2.15.0", 92600, H100, order=CUDNN_FIRST, trial=NAN, job=Job())
    assert on_2_15.status is Status.WARN


def test_a_suspected_bug_that_the_trial_does_not_reproduce_passes_and_is_reported() -> None:
    verdict = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=CUDNN_TRIAL)
    assert verdict.status is Status.PASS
    assert "suspected NaN in the gradient of the queries alone (pytorch#196678)" in verdict.summary


def without(trial: Attention, case: str) -> Attention:
    trials = tuple(each for each in trial.trials if case not in each.case)
    return msgspec.structs.replace(trial, trials=trials)


@pytest.mark.parametrize(
    "trial",
    [
        without(CUDNN_TRIAL, "very negative"),
        msgspec.structs.replace(CUDNN_TRIAL, lowest_lse={}),
        msgspec.structs.replace(
            CUDNN_TRIAL, lowest_lse=dict.fromkeys(CUDNN_TRIAL.lowest_lse, -88.0)
        ),
    ],
    ids=["not tested", "not measured", "not low enough"],
)
def test_a_suspected_bug_that_was_not_triggered_stays(trial: Attention) -> None:
    verdict = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=trial)
    assert verdict.status is Status.WARN
    assert "pytorch#196678" in verdict.summary
    assert verdict.fix
    assert "log-sum-exp" in verdict.fix


def test_a_bug_that_training_does_not_trigger_is_a_note() -> None:
    verdict = judge("2.12.0", 92000, H100, order=CUDNN_FIRST, trial=CUDNN_TRIAL)
    assert verdict.status is Status.PASS
    assert "pytorch#190321" in verdict.summary
    assert "pytorch#196678" in verdict.summary


def test_an_intermittent_bug_of_training_stays_suspected_after_a_good_trial() -> None:
    verdict = judge("2.9.1", 91002, H100, order=CUDNN_FIRST, trial=CUDNN_TRIAL)
    assert verdict.status is Status.WARN
    assert verdict.sources == ("pytorch-169849",)


def test_a_trial_on_one_kind_of_gpu_clears_no_other_kind() -> None:
    verdict = judge("2.11.0", 91900, A100, H100, trial=CUDNN_TRIAL)
    assert verdict.status is Status.WARN


def test_a_backend_that_the_users_code_turned_off_passes() -> None:
    off = {"cudnn": False, "flash": True}
    verdict = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, enabled=off, trial=NAN)
    assert verdict.status is Status.PASS
    assert "cudnn (switched off)" in verdict.summary
    assert "flash by default" in verdict.summary
    flash_too = broken("causal", "bf16", "flash", errors={"dq": 0.3})
    assert observed(flash_too, enabled=off).status is Status.FAIL


def test_cudnn_that_the_environment_puts_last_passes() -> None:
    last = msgspec.structs.replace(NAN, defaults=recorded_attention.attention().defaults)
    env = {VARIABLE: "1"}
    verdict = judge("2.11.0", 91900, H100, order=FLASH_FIRST, env=env, trial=last)
    assert verdict.status is Status.PASS
    assert "cudnn (put last)" in verdict.summary
    unaided = judge("2.11.0", 91900, H100, order=FLASH_FIRST, trial=last)
    assert unaided.status is Status.WARN
    assert "cudnn (not the default)" in unaided.summary


@pytest.mark.parametrize(
    "changes",
    [
        {"trials": (), "cut_short": "left out after 4 processes were lost"},
        {"trials": (), "defaults": {}},
        {"defaults": dict.fromkeys(CUDNN_TRIAL.defaults, "overrideable")},
    ],
)
def test_a_trial_that_does_not_cover_ordinary_attention_is_unknown(
    changes: dict[str, Any],
) -> None:
    assert observed(msgspec.structs.replace(CUDNN_TRIAL, **changes)).status is Status.UNKNOWN


def test_if_the_default_is_not_reported_every_tested_backend_counts() -> None:
    well = observed(msgspec.structs.replace(CUDNN_TRIAL, defaults={}))
    assert well.status is Status.PASS
    bad = broken("causal", "bf16", "flash", errors={"dq": 0.5})
    assert observed(msgspec.structs.replace(bad, defaults={})).status is Status.WARN


def test_all_backends_switched_off_is_unknown() -> None:
    off = dict.fromkeys(("flash", "mem_efficient", "cudnn", "math"), False)
    verdict = observed(CUDNN_TRIAL, enabled=off)
    assert verdict.status is Status.UNKNOWN


def test_a_trial_that_did_not_run_is_unknown_if_no_known_bug_matches() -> None:
    failed = Unknown(reason="the process ended: exit status 3")
    assert observed(failed).status is Status.UNKNOWN
    suspected = judge("2.11.0", 91900, H100, order=CUDNN_FIRST, trial=failed)
    assert suspected.status is Status.WARN
    assert "the process ended" in suspected.summary


OWN = recorded_attention.case("your shape", 4, 32, 32, 2048, 2048, 128, causal=True, job=True)


def test_the_shape_that_the_user_named() -> None:
    listed = (*recorded_attention.cases(), OWN)
    bad: dict[str, Any] = {("your shape", "bf16", "cudnn"): {"nonfinite": {"dk": 3}}}
    made = recorded_attention.attention(first="cudnn", cases=listed, faults=bad)
    assert observed(made).status is Status.FAIL
    assert observed(recorded_attention.attention(first="cudnn", cases=listed)).status is Status.PASS
    left_out = msgspec.structs.replace(OWN, left_out=True, note="left out: too much")
    lacking = msgspec.structs.replace(CUDNN_TRIAL, cases=(*CUDNN_TRIAL.cases, left_out))
    verdict = observed(lacking)
    assert verdict.status is Status.UNKNOWN
    assert "left out: too much" in verdict.summary
    noted = msgspec.structs.replace(OWN, note="compared on 8 of 128 heads")
    listed = (*recorded_attention.cases(), noted)
    verdict = observed(recorded_attention.attention(first="cudnn", cases=listed))
    assert "your shape: compared on 8 of 128 heads" in verdict.summary


def test_before_torch_2_5_the_math_backend_is_tested_for_finiteness_alone() -> None:
    off = broken("very negative logits", "bf16", "math", errors={"output": 0.3})
    assert judge("2.4.1", 90100, A100, trial=off).status is Status.PASS
    assert judge("2.6.0", 90100, A100, trial=off).status is Status.WARN


@pytest.mark.parametrize(("version", "status"), [("2.4.1", Status.PASS), ("2.6.0", Status.WARN)])
def test_before_torch_2_5_flash_on_the_cpu_rounds_too(version: str, status: Status) -> None:
    faults: dict[str, Any] = {
        ("very negative logits", "fp16", "flash"): {"errors": {"output": 0.018}}
    }
    trial = recorded_attention.attention("cpu", faults=faults)
    verdict = on_cpu(trial, version)
    assert verdict.status is status
    if status is Status.WARN:
        assert attention_remedies.AVOID["very negative logits"] not in (verdict.fix or "")


@pytest.mark.parametrize(("version", "status"), [("2.1.2", Status.UNKNOWN), ("2.3.0", Status.FAIL)])
def test_fp16_that_torch_lacks_on_the_cpu_is_left_to_num001(version: str, status: Status) -> None:
    lacking = Ended(how="error", detail="\"baddbmm_with_gemm\" not implemented for 'Half'")
    faults: dict[str, Any] = {("causal", "fp16", "flash"): {"ended": lacking, "errors": {}}}
    trial = recorded_attention.attention("cpu", faults=faults)
    assert on_cpu(trial, version, "fp16").status is status
    assert on_cpu(trial, version, "bf16").status is Status.PASS


def on_cpu(trial: Attention, version: str, precision: Precision = "bf16") -> Verdict:
    return attention.SDPA.judge(
        torch=Torch(version=version),
        cuda=None,
        job_gpus=Unknown(reason="the job does not want an NVIDIA GPU"),
        host=Host(system="Linux"),
        settings=Settings(),
        attention=trial,
        chosen=Chosen(precision, "asked"),
        target=Target("cpu", "asked"),
        job=Job(),
        own=None,
    )


def implementations(*tried: Implementation) -> Attention:
    return msgspec.structs.replace(CUDNN_TRIAL, implementations=tried)


@pytest.mark.parametrize(
    ("tried", "status"),
    [
        (Implementation(name="sdpa", ended=Ended(how="ok"), error=5e-3, grad_error=6e-3), "pass"),
        (Implementation(name="sdpa", ended=Ended(how="ok"), error=5e-3, grad_error=0.4), "warn"),
        (Implementation(name="sdpa", ended=Ended(how="ok"), error="nan"), "warn"),
        (Implementation(name="flash_attention_2", ended=RAISED), "warn"),
        (Implementation(name="flash_attention_2", ended=TAKEN), "pass"),
        (Implementation(name="import transformers", ended=RAISED), "pass"),
    ],
)
def test_implementations_of_transformers(tried: Implementation, status: str) -> None:
    verdict = observed(implementations(tried))
    assert verdict.status == status
    assert (tried.name in verdict.summary) == (status == "warn")


@pytest.mark.parametrize("kind", ["cpu", "rocm", "mps"])
def test_without_nvidia_the_trial_alone_is_judged(kind: TargetKind) -> None:
    def elsewhere(trial: Attention | Unknown | None) -> Status:
        return attention.SDPA.judge(
            torch=Torch(version="2.13.0+cpu"),
            cuda=None,
            job_gpus=Unknown(reason="the job does not want an NVIDIA GPU"),
            host=Host(system="Linux"),
            settings=Settings(),
            attention=trial,
            chosen=Chosen("bf16", "asked"),
            target=Target(kind, "asked"),
            job=Job(),
            own=None,
        ).status

    wrong: dict[str, Any] = {("causal", "bf16", "flash"): {"errors": {"dq": 0.5}}}
    assert elsewhere(recorded_attention.attention("cpu")) is Status.PASS
    assert elsewhere(recorded_attention.attention("cpu", faults=wrong)) is Status.FAIL
    assert elsewhere(None) is Status.SKIP
    assert elsewhere(Unknown(reason="it died")) is Status.UNKNOWN


def test_a_strangers_facts_break_nothing() -> None:
    odd = recorded_attention.case("causal", 1, 1, 1, 1, 1, 1, trigger="no-such-source")
    trials = (*broken("causal", "bf16", "cudnn", nonfinite={"dq": 1}).trials,)
    strange = msgspec.structs.replace(CUDNN_TRIAL, cases=(odd,), trials=trials)
    facts = recorded_parts.machine(
        recorded_parts.H100, torch=recorded_parts.TORCH_2_15, attention=strange
    )
    (finding,) = examine(attention.CHECKS, facts)
    assert finding.status is Status.WARN
    assert all(id in SOURCES for id in finding.sources)


@pytest.mark.parametrize("name", ["h200_torch2.11", *recorded_attention.machines()])
def test_every_remedy_that_switches_a_backend_is_a_call_that_torch_has(name: str) -> None:
    import torch

    facts = recorded.machines()[name]
    (finding,) = examine(attention.CHECKS, facts)
    for command in finding.commands:
        if command.startswith("torch."):
            call = command.partition("(")[0].removeprefix("torch.backends.cuda.")
            assert callable(getattr(torch.backends.cuda, call))
