from __future__ import annotations

from typing import Any

import msgspec
import pytest
import recorded
import recorded_attention
import recorded_parts
from packaging.version import Version

from doctor._util.records import Ended, Unknown
from doctor.checks.numerics import attention
from doctor.checks.numerics.attention_bugs import BUGS, Bug
from doctor.checks.numerics.attention_order import CUDNN, EFFICIENT, first_backend
from doctor.checks.numerics.attention_others import with_others
from doctor.facts.cudnn_stacks import not_worth_trying
from doctor.facts.load import Attention, Implementation
from doctor.facts.machine import Cuda, Host, Torch, TorchGpu
from doctor.facts.training import Settings
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Precision, Target, TargetKind
from doctor.judge.check import Owner, Status, Verdict, ok
from doctor.judge.engine import examine
from doctor.judge.sources import SOURCES
from doctor.judge.switches import CALLS, VARIABLES, Switch

CALL = CALLS[Switch.CUDNN_SDP]
VARIABLE = VARIABLES[Switch.CUDNN_SDP].removesuffix("=1")

H100, B200, B300, THOR, A100, T4 = (9, 0), (10, 0), (10, 3), (11, 0), (8, 0), (7, 5)
CUDNN_FIRST, FLASH_FIRST = (3, 1, 2, 0, 4), (1, 2, 0, 3, 4)


def gpus(*capabilities: tuple[int, int] | None) -> JobGpus:
    return JobGpus(
        gpus=tuple(
            JobGpu()
            if found is None
            else JobGpu(
                torch=TorchGpu(index=i, uuid=None, name="GPU", capability=found, memory_total=1)
            )
            for i, found in enumerate(capabilities)
        ),
        by="torch",
    )


def judge(
    version: str,
    cudnn: int | None,
    *capabilities: tuple[int, int] | None,
    order: tuple[int, ...] | None = None,
    enabled: dict[str, bool] | None = None,
    env: dict[str, str] | None = None,
    cuda: str | None = "13.0",
    host: Host | Unknown | None = None,
    trial: Attention | Unknown | None = None,
    precision: Precision = "bf16",
) -> Verdict:
    torch = Torch(version=version, cuda=cuda, cudnn=cudnn)
    seen = Cuda(started=Ended(how="ok"), sdp_priority=order)
    return attention.SDPA.judge(
        torch=torch,
        cuda=seen if order else None,
        job_gpus=gpus(*capabilities),
        host=host or Host(system="Linux", env=env or {}),
        settings=Settings(sdp_enabled=enabled or {}),
        attention=trial,
        chosen=Chosen(precision, "asked"),
        target=Target("nvidia", "asked"),
    )


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "cuda", "sources"),
    [
        ("2.5.0", 90100, H100, "12.4", {"pytorch-139298", "pytorch-140930"}),
        ("2.5.1", 90100, H100, "12.4", set()),
        ("2.5.0", 90100, A100, "12.4", set()),
        ("2.6.0", 90100, H100, "12.4", set()),
        ("2.9.1+cu128", 91002, H100, "12.8", set()),
        ("2.10.0", 91002, H100, "12.8", set()),
        ("2.11.0+cu130", 91900, H100, "13.0", {"pytorch-196678"}),
        ("2.12.0", 92000, H100, "13.0", {"pytorch-196678"}),
        ("2.13.0", 92000, H100, "13.0", {"pytorch-196678"}),
        ("2.14.1", 92400, H100, "13.0", {"pytorch-196678"}),
        ("2.14.1", 92600, H100, "13.0", set()),
        ("2.15.0", 92600, H100, "13.2", set()),
        ("2.15.0a0+1234.nv26.10", 92500, H100, "13.2", {"pytorch-196678"}),
        ("2.11.0rc3", 91900, H100, "13.0", {"pytorch-196678"}),
        ("2.11.0", 91900, B200, "13.0", set()),
        ("2.13.0", 92000, B300, "13.0", set()),
        ("2.13.0", 92401, B200, "13.0", set()),
        ("2.14.1", 92400, B200, "13.0", set()),
        ("2.13.0", 92000, THOR, "13.0", set()),
        ("2.13.0", 92000, A100, "13.0", set()),
        ("2.13.0", 92000, (12, 0), "13.0", set()),
        ("2.13.0", 92000, T4, "13.0", set()),
    ],
)
def test_the_table_by_the_rule(
    version: str, cudnn: int, capability: tuple[int, int], cuda: str, sources: set[str]
) -> None:
    verdict = judge(version, cudnn, capability, cuda=cuda)
    assert verdict.status is (Status.WARN if sources else Status.PASS)
    assert set(verdict.sources) == sources


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.source)
def test_every_bug_matches_and_its_remedy_names_the_condition(bug: Bug) -> None:
    off = {"flash": False} if bug.backend == EFFICIENT else {}
    order = CUDNN_FIRST if bug.backend == CUDNN else FLASH_FIRST
    cudnn = bug.cudnn[0] if bug.cudnn else 92000
    verdict = judge(bug.torch[0], cudnn, bug.capability[0], order=order, enabled=off)
    assert (bug.source in verdict.sources) is bug.training
    if bug.training:
        assert verdict.status is Status.WARN
        assert bug.symptom in verdict.summary
        assert attention._issue(bug.source) in verdict.summary
        assert verdict.fix is not None
        assert bug.condition in verdict.fix
        assert bug.fix in verdict.fix
    assert bug.source in SOURCES
    in_fp32 = judge(
        bug.torch[0], cudnn, bug.capability[0], order=order, enabled=off, precision="fp32"
    )
    assert (bug.source in in_fp32.sources) is bug.fp32
    fixed = judge(bug.torch[1], cudnn, bug.capability[0], order=order, enabled=off)
    assert bug.symptom not in fixed.summary


@pytest.mark.parametrize(
    ("case", "wrong", "status"),
    [
        ("causal", False, Status.UNKNOWN),
        ("boolean mask", False, Status.UNKNOWN),
        ("boolean mask", True, Status.WARN),
    ],
)
def test_a_killed_trial_shows_nothing_about_its_kernel(
    case: str, wrong: bool, status: Status
) -> None:
    killed = Ended(how="signal", detail="SIGKILL inside a call", code=9)
    faults: dict[recorded_attention.Key, dict[str, Any]] = {
        (case, "bf16", "flash" if case == "causal" else "mem_efficient"): {
            "ended": killed,
            "errors": {},
        }
    }
    if wrong:
        faults["no mask", "bf16", "math"] = {"errors": {"dq": 0.5}}
    trial = recorded_attention.attention(faults=faults)
    verdict = judge("2.13.0", 92000, A100, order=FLASH_FIRST, trial=trial)
    assert verdict.status is status
    if status is Status.UNKNOWN:
        assert "killed from outside" in verdict.summary


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.source)
def test_cudnn_is_tried_wherever_a_case_can_show_a_known_bug(bug: Bug) -> None:
    triggered = {case.name for case in recorded_attention.cases() if case.trigger == bug.source}
    if bug.backend != CUDNN or bug.cudnn is None:
        return
    for capability in bug.capability:
        for cudnn in bug.cudnn:
            left_out = set(not_worth_trying(bug.torch[0], cudnn, capability))
            assert not left_out & (triggered | set(bug.cases))


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "left_out"),
    [
        ("2.13.0+cu130", 92000, H100, {"one query", "dropout"}),
        ("2.13.0+cu130", 92000, B200, {"dropout"}),
        ("2.15.0", 92501, H100, {"dropout"}),
        ("2.5.0", 90100, H100, {"dropout"}),
        ("2.8.0", 91200, A100, {"one query"}),
        ("2.9.1", 91200, A100, {"one query", "dropout"}),
        ("2.13.0", None, B200, {"dropout"}),
        ("2.13.0", 92000, None, {"dropout"}),
        ("a fork", 91200, None, {"one query"}),
        ("a fork", None, None, set()),
    ],
)
def test_cases_that_cudnn_is_not_tried_with(
    version: str, cudnn: int | None, capability: tuple[int, int] | None, left_out: set[str]
) -> None:
    assert set(not_worth_trying(version, cudnn, capability)) == left_out


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "issue"),
    [
        ("2.11.0", 91900, B200, "pytorch#193893"),
        ("2.15.0", 92600, H100, "cudnn-frontend#1072"),
    ],
)
def test_a_bug_outside_of_training_is_named_on_a_pass(
    version: str, cudnn: int, capability: tuple[int, int], issue: str
) -> None:
    verdict = judge(version, cudnn, capability)
    assert verdict.status is Status.PASS
    assert issue in verdict.summary


def test_the_observed_order_wins_over_the_rule() -> None:
    assert judge("2.11.0", 91900, H100).status is Status.WARN
    seen = judge("2.11.0", 91900, H100, order=FLASH_FIRST)
    assert seen.status is Status.PASS
    assert "flash first (observed)" in seen.summary
    built_anew = judge("2.9.1", 91002, H100, order=CUDNN_FIRST, cuda="12.8")
    assert built_anew.status is Status.WARN
    assert "pytorch-169849" in built_anew.sources


def test_the_remedy_is_true_for_the_version() -> None:
    old = judge("2.5.0", 90100, H100, cuda="12.4")
    assert old.commands == (CALL,)
    assert old.fix is not None
    assert VARIABLE not in old.fix
    assert "2.5.1" in old.fix
    new = judge("2.11.0", 91900, H100)
    assert new.commands == (CALL, f"export {VARIABLE}=1")
    assert new.fix is not None
    assert "torch 2.15" in new.fix
    efficient = judge("2.13.0", 92000, A100, enabled={"flash": False})
    assert efficient.commands == ()
    assert efficient.fix is not None
    assert ".contiguous()" in efficient.fix


def test_cudnn_attention_that_is_switched_off_passes_and_says_so() -> None:
    by_call = judge("2.11.0", 91900, H100, enabled={"cudnn": False, "flash": True})
    assert by_call.status is Status.PASS
    assert "switched off" in by_call.summary
    by_variable = judge("2.11.0", 91900, H100, env={VARIABLE: "1"})
    assert by_variable.status is Status.PASS
    assert VARIABLE in by_variable.summary


def test_the_variable_does_nothing_before_2_10() -> None:
    assert judge("2.5.0", 90100, H100, env={VARIABLE: "1"}, cuda="12.4").status is Status.WARN


@pytest.mark.parametrize(
    ("version", "cudnn", "capability", "cuda"),
    [
        ("2.13.0", None, H100, "13.0"),  # cuDNN decides
        ("2.13.0", 92000, None, "13.0"),  # the GPU decides
        ("2.9.1", 91002, H100, "13.0"),  # whether cuDNN comes first there is not known
        ("not a version", 92000, H100, "13.0"),
    ],
)
def test_unknown_where_what_matters_was_not_read(
    version: str, cudnn: int | None, capability: tuple[int, int] | None, cuda: str
) -> None:
    assert judge(version, cudnn, capability, cuda=cuda).status is Status.UNKNOWN


def test_unread_is_no_matter_where_it_does_not_decide() -> None:
    assert judge("2.13.0", None, A100).status is Status.PASS
    assert judge("2.13.0", None, H100, order=FLASH_FIRST).status is Status.PASS
    assert judge("2.15.0", 92600, None).status is Status.PASS
    dark = Unknown(reason="no /proc")
    assert judge("2.13.0", 92000, H100, host=dark).status is Status.UNKNOWN
    assert judge("2.13.0", 92000, H100, host=dark, order=CUDNN_FIRST).status is Status.WARN


def test_no_gpu_and_no_cuda() -> None:
    assert judge("2.13.0", 92000).status is Status.UNKNOWN
    assert judge("2.13.0+cpu", None, H100, cuda=None).status is Status.SKIP


def test_one_gpu_of_several_suffices() -> None:
    assert judge("2.11.0", 91900, A100, H100).status is Status.WARN


@pytest.mark.parametrize(
    ("version", "cuda", "cudnn", "capability", "first"),
    [
        ("2.4.1", "12.1", 90100, H100, 1),
        ("2.5.0", "12.4", 90100, H100, 3),
        ("2.5.0", "12.4", 90100, A100, 1),
        ("2.8.0", "12.8", 91002, B200, 1),
        ("2.9.1", "12.8", 91002, H100, 1),
        ("2.9.1", "13.0", 91300, H100, None),
        ("2.9.1", "12.9", 91002, H100, None),
        ("2.9.1", "12.9", 91002, A100, 1),
        ("2.10.0", "12.8", 91002, H100, 1),
        ("2.10.0", "12.8", 91600, H100, 3),
        ("2.10.0", "13.0", 91500, H100, 1),
        ("2.12.0", "12.8", 92000, (10, 1), 1),
        ("2.12.0", "13.0", 92000, (10, 1), 3),
        ("2.15.0", "13.2", 92600, B300, 3),
        ("2.15.0", "13.2", 92600, THOR, 1),
    ],
)
def test_who_comes_first_by_default(
    version: str, cuda: str, cudnn: int, capability: tuple[int, int], first: int | None
) -> None:
    torch = Torch(version=version, cuda=cuda, cudnn=cudnn)
    host = Host(system="Linux")
    assert first_backend(Version(version), torch, {}, None, host, capability) == first


def test_versions_are_spelled_as_people_know_them() -> None:
    assert "cuDNN 9.19.0" in judge("2.11.0", 91900, H100).summary
    assert "cuDNN 8.9.2" in judge("2.2.2", 8902, H100, cuda="12.1").summary
    assert "cuDNN unread" in judge("2.13.0", None, A100).summary


def test_the_order_seen_on_the_first_gpu_is_not_that_of_another_kind() -> None:
    for pair in (
        (recorded_parts.RTX4090, recorded_parts.H100),
        (recorded_parts.H100, recorded_parts.RTX4090),
    ):
        second = msgspec.structs.replace(pair[1], index=1, uuid="GPU-11111111-0000")
        facts = recorded_parts.machine(pair[0], second, torch=recorded_parts.TORCH_2_11)
        (finding,) = examine(attention.CHECKS, facts)
        assert finding.status is Status.WARN


# What the trial observed

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
    assert attention.AVOID["boolean mask"] in only_masks.fix
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
    assert attention.AVOID["fully masked row"] in row.fix


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
    assert attention.AVOID[case] in both.fix


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
        assert attention.AVOID["very negative logits"] not in (verdict.fix or "")


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
