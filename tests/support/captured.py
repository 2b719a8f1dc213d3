"""Machines whose facts the doctor recorded on hardware: tests/machines/captured.

Names of the host, directories and UUIDs are replaced. The sick states are those that the same
machine was brought into; their reports alone were kept, so the sections that differ are made from
the texts of those reports.
"""

from __future__ import annotations

from functools import cache

import msgspec
from paths import MACHINES

from doctor._util.records import Ended, Unknown
from doctor.facts.facts import Facts, decode
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda
from doctor.facts.machine import Driver

NO_OPTION = "ValueError: Unrecognized key 'foo' in CUDA allocator config."
NO_IMAGE = "AcceleratorError: CUDA error: no kernel image is available for execution on the device"
NO_CUDA = (
    "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. "
    "changing env variable CUDA_VISIBLE_DEVICES after program start. Setting the available devices "
    "to be zero."
)
UNKNOWN_ERROR = "cuInit: CUDA_ERROR_UNKNOWN (999), unknown error"


def error(detail: str, code: int | None = None) -> Ended:
    return Ended(how="error", detail=detail, code=code)


@cache
def h100() -> Facts:
    """An H100 with torch 2.11 whose cuDNN attention gives NaN for some shapes; all else is well."""
    return decode((MACHINES / "captured" / "h100_torch2.11.json").read_bytes())


def sick() -> dict[str, Facts]:
    """The same machine with a variable set or a device node replaced, by state."""
    facts = h100()
    driver, cuda = facts.driver, facts.cuda
    assert isinstance(driver, Driver)
    assert isinstance(cuda, Cuda)
    gpu = msgspec.structs.replace(cuda.gpus[0], kernel=error(NO_IMAGE))
    unusable = {"/dev/nvidia-uvm": "belongs to device 1, the driver's is 511"}
    failed = msgspec.structs.replace(
        driver, cuda=error(UNKNOWN_ERROR, 999), unusable_nodes=unusable
    )
    return {
        "allocator option": without_cuda(
            _with_variable(facts, "PYTORCH_CUDA_ALLOC_CONF", "foo:bar"), NO_OPTION
        ),
        "forced PTX": _with_variable(facts, "CUDA_FORCE_PTX_JIT", "1").with_(
            cuda=msgspec.structs.replace(cuda, gpus=(gpu,)),
            **dict.fromkeys(
                ("libraries", "smoke", "attention", "load"),
                Unknown(reason=f"left out: no kernel runs on cuda:0: {NO_IMAGE}"),
            ),
        ),
        "UVM node replaced": without_cuda(facts.with_(driver=failed), NO_CUDA),
    }


def without_cuda(facts: Facts, why: str) -> Facts:
    """torch does not start CUDA for this reason."""
    unread = Unknown(reason=f"torch sees no GPU to train on: {why}")
    return facts.with_(
        cuda=Cuda(started=error(why)),
        **dict.fromkeys(("libraries", "smoke", "attention"), unread),
        watched=None,
        load=None,
    )


def _with_variable(facts: Facts, name: str, value: str) -> Facts:
    assert isinstance(facts.host, Host)
    return facts.with_(
        host=msgspec.structs.replace(facts.host, env={**facts.host.env, name: value})
    )
