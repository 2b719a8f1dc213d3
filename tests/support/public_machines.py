"""Real machines that others published and that work, as facts: tests/machines/public/*.jsonl.

`reports.jsonl` is from threads whose trouble lies elsewhere, labelled before any check judged them:
`why` says what the thread is about. `captures.jsonl` is what `nvidia-smi -q -x` printed on NVIDIA's
own nodes; cuInit is taken to answer there. A key that is missing was not printed. GPU code and
cuDNN of a published wheel come from the doctor's table of wheels, capabilities from GPUs' names.
"""

from __future__ import annotations

import json
import re
from typing import Any

from paths import MACHINES

from doctor._util.records import Ended, Unknown
from doctor._util.units import MIB
from doctor.checks.gpu.link import LANE
from doctor.checks.torch_build import wheels
from doctor.checks.torch_build.wheel_table import WHEELS
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import Cuda, Interpreter, Torch, TorchGpu
from doctor.facts.load import Load, Watched
from doctor.facts.machine import Driver, Gpu, Slice
from doctor.hardware.find import find
from doctor.hardware.product import TERA
from doctor.job.job import Job
from doctor.job.run_options import RunOptions

OK = Ended(how="ok")
UNREAD = Unknown(reason="not in the report")
QUESTIONS = (
    "compute_mode", "ecc", "uncorrected", "corrected", "remap_pending", "remap_failed",
    "retired_pages_pending", "recovery_action", "memory_total", "memory_used",
)  # fmt: skip


def rows(name: str) -> list[dict[str, Any]]:
    """The machines of "reports" or "captures"."""
    text = (MACHINES / "public" / f"{name}.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def facts_of(row: dict[str, Any]) -> Facts:
    """One row as facts; whatever it does not say is Unknown or None."""
    names = [name for name, count in row["gpus"] for _ in range(count)]
    nvidia, read = "hip" not in row, "driver" in row
    torch, nvml = "torch" in row, row.get("nvml", {})
    gpus = tuple(_gpu(row, index, name) for index, name in enumerate(names)) if nvidia else ()
    views = tuple(_view(row, index, name) for index, name in enumerate(names))
    return Facts(
        origin=f"recorded by others: {row['source']}",
        job=Job(),
        options=RunOptions(smoke=False, quick=True),
        host=Host(
            system="Linux",
            release=row.get("kernel", ""),
            arch=row.get("arch", "x86_64" if torch else ""),
            pci_listed=False,
            device_nodes=("/dev/dxg",) if row.get("wsl") else (),
            cpus=row.get("cpus"),
        ),
        driver=(_driver(row) if read else UNREAD) if nvidia else None,
        gpus=(gpus if read else UNREAD) if nvidia else None,
        interpreter=Interpreter(
            path="python", chosen="the report's", version=row.get("python", ""), importing=OK
        ),
        torch=_torch(row) if torch else UNREAD,
        cuda=Cuda(started=OK, gpus=views) if torch else UNREAD,
        libraries=UNREAD,
        places=UNREAD,
        watched=tuple(_watched(gpu, nvml) for gpu in gpus) if nvml else None,
    )


def with_load(facts: Facts) -> Facts:
    """A capture with a load that is invented: as fast as others measured and its link allows."""
    assert isinstance(facts.watched, tuple)
    assert isinstance(facts.gpus, tuple)
    loads = []
    for gpu, watched in zip(facts.gpus, facts.watched, strict=True):
        generation, width = watched.link or (1, 1)
        copies = 0.8 * LANE[generation] * width * 1e9
        known = find(gpu.name)
        measured, peak = known and known.product.measured, known and known.bf16
        rate = measured[0] * TERA if measured else 0.7 * peak if peak else 1e14
        loads.append(
            Load(device=f"cuda:{gpu.index}", uuid=gpu.uuid, name=gpu.name, ended=OK,
                 matmul={"bf16": rate}, to_device=copies, from_device=copies,
                 products=100, differing=0)
        )  # fmt: skip
    return facts.with_(load=tuple(loads))


def _capability(row: dict[str, Any], name: str) -> tuple[int, int] | None:
    return tuple(row["capability"]) if "capability" in row else wheels.capability_of(name)


def _driver(row: dict[str, Any]) -> Driver:
    newest = wheels.Driver.read(row["driver"]).newest_cuda
    number = newest[0] * 1000 + newest[1] * 10 if newest else None
    return Driver(nvml=OK, cuda=OK, version=row["driver"], cuda_version=number)


def _gpu(row: dict[str, Any], index: int, name: str) -> Gpu:
    nvml = dict(row.get("nvml", {}))
    for field, key in (("memory_total", "memory_mib"), ("memory_used", "used_mib")):
        nvml[field] = nvml[key] * MIB if key in nvml else None
    answers: dict[str, Any] = {field: nvml.get(field) for field in QUESTIONS}
    reason = "Not Supported" if "nvml" in row else UNREAD.reason
    slices = tuple(Slice(uuid=f"MIG-{i}", name=kind) for i, kind in enumerate(row.get("mig", ())))
    return Gpu(
        index=index,
        uuid=f"GPU-{index}",
        name=name,
        capability=_capability(row, name),
        processes=nvml.get("processes"),
        mig=nvml.get("mig") or bool(slices) or None,
        slices=slices,
        unread={field: reason for field, answer in answers.items() if answer is None},
        **answers,
    )


def _view(row: dict[str, Any], index: int, name: str) -> TorchGpu:
    """As torch sees it. The memory was not printed, and neither was what AMD's capability is."""
    return TorchGpu(
        index=index,
        uuid=None if "hip" in row else "MIG-0" if "mig" in row else f"GPU-{index}",
        name=name,
        capability=_capability(row, name) or (0, 0),
        memory_total=0,
        integrated=row.get("integrated", False),
        kernel=OK if row.get("ran") else None,
    )


def _torch(row: dict[str, Any]) -> Torch:
    """A release is the published wheel; a nightly or somebody's own build is not."""
    match = re.fullmatch(r"(\d+)\.(\d+)\.\d+(\+cu\d+)?", row["torch"])
    release = (int(match[1]), int(match[2])) if match else None
    kind = release, row.get("cuda"), row.get("arch", "x86_64")
    fits = [w for w in WHEELS if (w.torch, f"{w.cuda[0]}.{w.cuda[1]}", w.platform) == kind]
    cudnn = None
    if fits and fits[0].cudnn:
        major, minor, patch = map(int, fits[0].cudnn.split(".")[:3])
        cudnn = major * (10000 if major >= 9 else 1000) + minor * 100 + patch
    archs = tuple(row.get("archs", fits[0].codes if fits else ()))
    return Torch(version=row["torch"], cuda=row.get("cuda"), hip=row.get("hip"), archs=archs,
                 cudnn=row.get("cudnn", cudnn))  # fmt: skip


def _watched(gpu: Gpu, nvml: dict[str, Any]) -> Watched:
    """One look at an idle GPU: its clocks and its link."""
    link, most = tuple(nvml["link"]), tuple(nvml["link_max"])
    return Watched(uuid=gpu.uuid, samples=1, mask=nvml["clocks_mask"], link=link, link_max=most)
