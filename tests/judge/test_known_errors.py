"""Every error that the table knows, in every stage: the verdict is RETURN for hardware alone."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
import recorded_attention
import recorded_own
from error_texts import TEXTS
from recorded_load import copies, loaded, reduction, two_a100
from recorded_parts import STAGES, stopped

from doctor._util.records import Ended, Unknown
from doctor.catalog import CHECKS
from doctor.errors.cause import Cause
from doctor.facts.facts import Facts
from doctor.facts.interpreter import Cuda, Libraries
from doctor.facts.load import Implementation, Peers
from doctor.facts.machine import Driver
from doctor.facts.training import Stage
from doctor.judge.check import Owner, Status
from doctor.judge.engine import examine
from doctor.judge.known_errors import KILLED, PATTERNS, find_cause
from doctor.report.report import Outcome, Report

BASE = two_a100()
replace = msgspec.structs.replace
BY_CAUSE = {pattern.id: pattern for pattern in PATTERNS}
ROWS = [(pattern, text) for pattern in PATTERNS for text in TEXTS[pattern.id]]


def kernel(ended: Ended) -> Facts:
    assert isinstance(BASE.cuda, Cuda)
    first, *others = BASE.cuda.gpus
    gpus = (replace(first, kernel=ended), *others)
    return BASE.with_(cuda=replace(BASE.cuda, gpus=gpus))


def started(ended: Ended) -> Facts:
    nothing = Unknown(reason=f"torch sees no GPU to train on: {ended.detail}")
    cuda = Cuda(started=ended)
    return BASE.with_(cuda=cuda, smoke=nothing, siblings=(), load=nothing, peers=nothing)


def smoke(stage: str) -> Callable[[Ended], Facts]:
    return lambda ended: BASE.with_(smoke=stopped(stage, ended))


def sibling(ended: Ended) -> Facts:
    return BASE.with_(siblings=(replace(stopped("forward", ended), device="cuda:1"),))


def load(ended: Ended) -> Facts:
    assert isinstance(BASE.gpus, tuple)
    first, second = BASE.gpus
    failed = loaded(second, ended=ended, matmul={}, differing=None)
    return BASE.with_(load=(loaded(first), failed))


def copying(ended: Ended) -> Facts:
    """The call that performs the copy returns the error."""
    detail = ended.detail if ended.how == "signal" else f"cuMemcpyDtoH_v2: {ended.detail}"
    peers = Peers(copies=copies(replace(ended, detail=detail), None), reductions=(reduction(),))
    return BASE.with_(peers=peers)


def opening(ended: Ended) -> Facts:
    """A call before the copy returns the error."""
    return BASE.with_(peers=Peers(copies=copies(ended, None), reductions=(reduction(),)))


def all_reduce(ended: Ended) -> Facts:
    sums = (reduction(ended=ended), reduction(p2p=False, ended=ended))
    return BASE.with_(peers=Peers(copies=copies(), reductions=sums))


def all_reduce_with_p2p(ended: Ended) -> Facts:
    sums = (reduction(ended=ended), reduction(p2p=False))
    return BASE.with_(peers=Peers(copies=copies(), reductions=sums))


def nvml(ended: Ended) -> Facts:
    assert isinstance(BASE.driver, Driver)
    driver = replace(BASE.driver, nvml=_inside(ended, "nvmlInit"))
    return BASE.with_(driver=driver, gpus=Unknown(reason=ended.detail))


def cuda_init(ended: Ended) -> Facts:
    assert isinstance(BASE.driver, Driver)
    return BASE.with_(driver=replace(BASE.driver, cuda=_inside(ended, "cuInit")))


def libraries(ended: Ended) -> Facts:
    assert isinstance(BASE.libraries, Libraries)
    return BASE.with_(libraries=replace(BASE.libraries, used=ended))


def attention(case: str, backend: str, *, on_other: bool = False) -> Callable[[Ended], Facts]:
    """The default backend's trial of a case ends so, on the first GPU or on the other."""

    def inject(ended: Ended) -> Facts:
        fault = {(case, "bf16", backend): {"ended": ended, "errors": {}}}
        first = recorded_attention.attention(faults={} if on_other else fault)
        other = recorded_attention.attention("cuda:1", faults=fault if on_other else {})
        return BASE.with_(attention=replace(first, others=(other,)))

    return inject


def _inside(ended: Ended, call: str) -> Ended:
    return (
        replace(ended, detail=f"{ended.detail} inside {call}") if ended.how == "signal" else ended
    )


JUDGED_BY: dict[str, tuple[str, Callable[[Ended], Facts]]] = {
    "kernel": ("TOR003", kernel),
    "torch.cuda.init": ("GPU001", started),
    **{stage: ("SMK001", smoke(stage)) for stage in STAGES},
    "another GPU's smoke step": ("SMK001", sibling),
    "load": ("GPU006", load),
    "copy": ("GPU007", copying),
    "before the copy": ("GPU007", opening),
    "all-reduce": ("GPU008", all_reduce),
    "all-reduce with P2P": ("GPU008", all_reduce_with_p2p),
    "NVML": ("DRV001", nvml),
    "cuInit": ("DRV001", cuda_init),
    "libraries": ("TOR004", libraries),
    "attention": ("NUM003", attention("causal", "flash")),
    "attention with a mask": ("NUM003", attention("boolean mask", "mem_efficient")),
    "attention on another GPU": ("NUM003", attention("causal", "flash", on_other=True)),
}


def ended_with(pattern: Cause, text: str) -> Ended:
    signal = text.startswith("SIG")
    return Ended(how="signal" if signal else "error", detail=text)


def test_every_row_has_examples_that_find_it() -> None:
    assert set(BY_CAUSE) == set(TEXTS)
    assert len(BY_CAUSE) == len(PATTERNS)
    for pattern, text in ROWS:
        assert find_cause(ended_with(pattern, text)) is pattern, text
        assert pattern.fix
        assert pattern.owner is not Owner.JOB


def test_only_hardware_and_its_fabric_condemn_the_machine() -> None:
    machine = {pattern.id for pattern in PATTERNS if pattern.owner is Owner.MACHINE}
    assert machine == {"gpu-at-fault", "fabric-not-ready"}


def test_the_base_is_ready() -> None:
    assert Report(BASE, examine(CHECKS, BASE)).outcome is Outcome.READY


@pytest.mark.slow
@pytest.mark.parametrize("stage", JUDGED_BY)
def test_a_text_in_a_stage_gets_the_owner_of_its_row(stage: str) -> None:
    code, inject = JUDGED_BY[stage]
    for pattern, text in ROWS:
        facts = inject(ended_with(pattern, text))
        report = Report(facts, examine(CHECKS, facts))
        (judged,) = (each for each in report.findings if each.check.code == code)
        hardware = pattern.owner is Owner.MACHINE
        assert (report.outcome is Outcome.RETURN) is hardware, text
        assert judged.status in (Status.FAIL, Status.WARN, Status.UNKNOWN), text
        if judged.status is Status.FAIL:
            assert judged.owner is pattern.owner, text
        if hardware:
            assert judged.status is Status.FAIL, text


UNCLEAR = (
    Ended(how="error", detail="RuntimeError: a message that nobody has seen before"),
    Ended(how="signal", detail="SIGKILL inside a call"),
    Ended(how="budget", detail="cut off by --budget"),
)
RECORDED = [
    (stage, ended)
    for stage, (code, _) in JUDGED_BY.items()
    for ended in UNCLEAR
    if not (code == "SMK001" and ended.how == "budget")  # such a smoke step is not recorded
]


@pytest.mark.parametrize(("stage", "ended"), RECORDED)
def test_what_nobody_knows_never_condemns_the_machine(stage: str, ended: Ended) -> None:
    code, inject = JUDGED_BY[stage]
    facts = inject(ended)
    report = Report(facts, examine(CHECKS, facts))
    assert report.outcome is not Outcome.RETURN
    (judged,) = (each for each in report.findings if each.check.code == code)
    assert judged.status is not Status.PASS


def test_a_killed_process_is_no_failure_of_the_gpu() -> None:
    for stage in ("kernel", "load", "copy", "NVML", "cuInit"):
        code, inject = JUDGED_BY[stage]
        findings = examine(CHECKS, inject(ended_with(KILLED, "SIGKILL")))
        assert [each.status for each in findings if each.check.code == code] == [Status.UNKNOWN]


def test_hardware_that_two_gpus_report_differently_returns_the_machine() -> None:
    """Whichever comes first: the error of a broken GPU outweighs one of the environment."""
    assert isinstance(BASE.gpus, tuple)
    broken = Ended(how="error", detail="CUDA error: uncorrectable ECC error encountered")
    mixed = Ended(how="error", detail="cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH")
    for ends in ((broken, mixed), (mixed, broken)):
        loads = tuple(
            loaded(gpu, ended=ended, matmul={}, differing=None)
            for gpu, ended in zip(BASE.gpus, ends, strict=True)
        )
        facts = BASE.with_(load=loads)
        assert Report(facts, examine(CHECKS, facts)).outcome is Outcome.RETURN


def test_hardware_that_fails_under_transformers_condemns_the_machine() -> None:
    outcomes = {}
    for text in ("CUDA error: uncorrectable ECC error encountered", "CUDA error: invalid argument"):
        failed = (Implementation(name="sdpa", ended=error(text)),)
        trial = replace(recorded_attention.attention(), implementations=failed)
        facts = BASE.with_(attention=trial)
        outcomes[text] = Report(facts, examine(CHECKS, facts)).outcome
    assert [*outcomes.values()] == [Outcome.RETURN, Outcome.READY]


def own_step(detail: str) -> Facts:
    """A step of the user's training that raises."""
    stages = (*recorded_own.smoke().stages[:1], Stage(name="forward", ended=error(detail)))
    smoke = recorded_own.smoke(stages=stages, steps=(), parameters=())
    return BASE.with_(own=recorded_own.own(smoke=smoke))


def own_build(detail: str) -> Facts:
    return BASE.with_(own=recorded_own.own(built=error(detail), smoke=None))


def error(detail: str) -> Ended:
    return Ended(how="error", detail=detail)


@pytest.mark.parametrize("at", [own_step, own_build])
@pytest.mark.parametrize(
    ("detail", "outcome"),
    [
        ("ValueError: the label came back as None", Outcome.FIX),
        ("RuntimeError: GPU is lost", Outcome.FIX),
        ("RuntimeError: the system not yet initialized: call init() first", Outcome.FIX),
        ("KeyError: 'uncorrectable ECC'", Outcome.FIX),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", Outcome.RETURN),
        ("AcceleratorError: CUDA error: system not yet initialized", Outcome.RETURN),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", Outcome.FIX),
    ],
)
def test_a_message_of_the_users_code_does_not_condemn_the_machine(
    at: Callable[[str], Facts], detail: str, outcome: Outcome
) -> None:
    facts = at(detail)
    findings = examine(CHECKS, facts)
    (step,) = [each for each in findings if each.check.code == "SMK005"]
    assert step.status is Status.FAIL
    assert (step.owner is Owner.MACHINE) == (outcome is Outcome.RETURN)
    assert Report(facts, findings).outcome is outcome
