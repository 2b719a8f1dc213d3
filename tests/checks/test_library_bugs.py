"""NUM006: each known bug is named where its failure was seen, and only there."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_parts import smoke, stopped

from doctor._util.records import Ended, Unknown
from doctor.checks.numerics.library_bugs import BUGS, LIBRARY_BUGS, LibraryBug
from doctor.facts.interpreter import Libraries, Torch, TorchGpu
from doctor.facts.load import AllReduce, Load, Peers
from doctor.facts.machine import Driver
from doctor.facts.own_model import Compiled, OwnModel
from doctor.facts.views import JobGpu, JobGpus
from doctor.judge.check import Status, Verdict
from doctor.judge.sources import SOURCES

OK = Ended(how="ok")


def judge(
    version: str, cuda: str | None, newest: int | None, capability: tuple[int, int], **steps: Any
) -> Verdict:
    view = TorchGpu(index=0, uuid=None, name="GPU", capability=capability, memory_total=1)
    driver = Driver(nvml=OK, cuda=OK, cuda_version=newest)
    known: dict[str, Any] = {"smoke": None, "load": None, "peers": None, "own": None}
    known |= {"libraries": None, **steps}
    return LIBRARY_BUGS.judge(
        torch=Torch(version=version, cuda=cuda),
        driver=driver if newest else Unknown(reason="not read"),
        job_gpus=JobGpus(gpus=(JobGpu(torch=view),), by="torch"),
        **known,
    )


def on(bug: LibraryBug, version: str = "", **steps: Any) -> Verdict:
    cuda = bug.cuda[0] if bug.cuda else "12.8"
    newest = (bug.driver_before or 13010) - 10
    mapped = Libraries(loaded=(f"/opt/conda/lib/{bug.loaded or 'libcublas.so.12'}.27",))
    steps = {"libraries": mapped, **steps}
    return judge(version or bug.torch[0], cuda, newest, bug.capability[1], **steps)


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.source)
def test_a_bug_is_named_where_a_step_failed_with_its_error(bug: LibraryBug) -> None:
    assert bug.source in SOURCES
    assert on(bug).status is Status.PASS
    assert bug.library in on(bug).summary
    assert on(bug, smoke=smoke()).status is Status.PASS
    for text in bug.errors:
        failed = stopped("forward", Ended(how="error", detail=f"RuntimeError: {text} when calling"))
        verdict = on(bug, smoke=failed)
        assert verdict.status is Status.WARN
        assert bug.source in verdict.sources
        assert bug.fix in (verdict.fix or "")
        assert bug.source not in on(bug, bug.torch[1], smoke=failed).sources
    other = stopped("forward", Ended(how="error", detail="CUDA error: misaligned address"))
    assert on(bug, smoke=other).status is Status.PASS


def test_the_bug_of_a_library_needs_that_library() -> None:
    bug = next(bug for bug in BUGS if bug.loaded)
    assert (
        bug.library not in on(bug, libraries=Libraries(loaded=("/lib/libcublas.so.13.4",))).summary
    )
    assert bug.library not in on(bug, libraries=None).summary


@pytest.mark.parametrize(("cudnn", "is_named"), [(91002, True), (91300, True), (91500, False)])
def test_conv3d_of_torch_2_9_is_named_with_the_cudnn_that_has_it(
    cudnn: int, is_named: bool
) -> None:
    verdict = LIBRARY_BUGS.judge(
        torch=Torch(version="2.9.1+cu128", cuda="12.8", cudnn=cudnn),
        driver=Unknown(reason="not read"),
        job_gpus=JobGpus(
            gpus=(
                JobGpu(
                    torch=TorchGpu(
                        index=0, uuid=None, name="GPU", capability=(9, 0), memory_total=1
                    )
                ),
            ),
            by="torch",
        ),
        smoke=None,
        load=None,
        peers=None,
        own=None,
        libraries=None,
    )
    assert verdict.status is Status.PASS
    assert ("17 times the memory" in verdict.summary) is is_named


REFUSED = Ended(how="error", detail="CUBLAS_STATUS_INVALID_VALUE")


@pytest.mark.parametrize(
    "steps",
    [
        {"load": (Load(device="cuda:0", uuid=None, name="GPU", ended=REFUSED),)},
        {"peers": Peers(reductions=(AllReduce(backend="nccl", p2p=True, ended=REFUSED, ranks=2),))},
        {"own": OwnModel(description="m", built=REFUSED)},
        {"own": OwnModel(description="m", built=OK, smoke=stopped("forward", REFUSED))},
        {"own": OwnModel(description="m", built=OK, compiled=Compiled(ended=REFUSED))},
    ],
)
def test_every_step_counts(steps: dict[str, Any]) -> None:
    assert judge("2.10.0+cu128", "12.8", 12080, (9, 0), **steps).status is Status.WARN


@pytest.mark.parametrize(
    ("version", "cuda", "newest", "capability"),
    [
        ("2.10.0", "13.0", 13000, (9, 0)),
        ("2.10.0", None, 13000, (9, 0)),
        ("2.11.0", "12.8", 12080, (9, 0)),
    ],
)
def test_other_versions_do_not_have_it(
    version: str, cuda: str | None, newest: int, capability: tuple[int, int]
) -> None:
    failed = stopped("forward", REFUSED)
    assert judge(version, cuda, newest, capability, smoke=failed).status is Status.PASS


def test_a_driver_that_was_not_read_names_no_bug_of_old_drivers() -> None:
    failed = stopped("forward", Ended(how="error", detail="CUDA_ERROR_INVALID_IMAGE"))
    assert judge("2.13.0", "12.6", None, (10, 0), smoke=failed).status is Status.PASS
    assert judge("2.13.0", "12.6", 12090, (10, 0), smoke=failed).status is Status.WARN


def test_a_version_that_cannot_be_compared_is_unknown() -> None:
    assert judge("not a version", "12.8", 12080, (9, 0)).status is Status.UNKNOWN
