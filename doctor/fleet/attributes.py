"""What of a node is compared with the others: topic, name and how its facts spell the value.

None: it was not read. Each value is text; long ones become hashes in `doctor.fleet.summary`.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from doctor._util.records import Unknown
from doctor._util.units import GIB, gib
from doctor.checkpoint.records import Checkpoint
from doctor.facts.data import Data
from doctor.facts.facts import Facts
from doctor.facts.fleet import Topic
from doctor.facts.host import Host
from doctor.facts.interpreter import Interpreter, Torch
from doctor.facts.machine import Driver, Gpu
from doctor.hardware.vendors import NVIDIA

Value = tuple[Topic, str, str | None]
HASHED = "sha256:"
OWN = frozenset({*NVIDIA.visible, "NVIDIA_VISIBLE_DEVICES", "LD_LIBRARY_PATH"})
"""Variables that differ between healthy nodes, or are compared as a hash elsewhere."""
LIBRARIES = {"nvidia-nccl": "NCCL", "nvidia-cudnn": "cuDNN", "nvidia-nvshmem": "NVSHMEM"}
"""Beginnings of distributions that have a name of their own in the report."""
SHM = "/dev/shm"  # noqa: S108 - a mount, in which nothing is written
FABRIC = {0: "none", 1: "not started", 2: "in progress", 3: "complete"}
"""NVML's states."""
STEP = GIB
"""Sizes of memory are compared in these steps: kernels reserve a little more or less."""


def values(facts: Facts) -> Iterator[Value]:
    """Everything that is compared, as far as it was read."""
    yield from _hardware(facts)
    yield from _software(facts)
    if isinstance(facts.host, Host):
        yield from _variables(facts.host)
        yield from _network(facts.host)
        yield from _limits(facts.host)
    yield from _files(facts)


def digest(text: str) -> str:
    """A short name of a long text: equal texts have equal ones."""
    return HASHED + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _hardware(facts: Facts) -> Iterator[Value]:
    gpus = facts.gpus if isinstance(facts.gpus, tuple) else ()
    if gpus:
        yield "hardware", "GPUs", _counted(gpu.name for gpu in gpus)
        yield "hardware", "GPU memory", _of_gpus([_memory(gpu) for gpu in gpus])
        yield "hardware", "power limit", _of_gpus([_watts(gpu) for gpu in gpus])
        yield "hardware", "VBIOS", _of_gpus([gpu.vbios for gpu in gpus])
        yield "hardware", "MIG", _of_gpus([_switch(gpu.mig) for gpu in gpus])
        yield "hardware", "ECC", _of_gpus([_switch(gpu.ecc) for gpu in gpus])
        yield "hardware", "NVLink fabric", _of_gpus([_fabric(gpu) for gpu in gpus])
        yield "hardware", "PCI addresses", "\n".join(sorted(gpu.address for gpu in gpus))
    if isinstance(host := facts.host, Host):
        yield "hardware", "processors", None if host.cpus is None else f"{host.cpus}"
        yield "hardware", "memory", None if host.memory_total is None else _rounded(host)
        yield "hardware", "architecture", host.arch or None


def _software(facts: Facts) -> Iterator[Value]:
    if isinstance(driver := facts.driver, Driver):
        yield "software", "driver", driver.version
        yield "software", "CUDA of the driver", _cuda(driver.cuda_version)
    if isinstance(torch := facts.torch, Torch):
        yield "software", "torch", torch.version
        yield "software", "CUDA of torch", torch.cuda
        yield "software", "ROCm of torch", torch.hip
        yield "software", "cuDNN of torch", None if torch.cudnn is None else str(torch.cudnn)
    if isinstance(python := facts.interpreter, Interpreter):
        yield "software", "Python", python.version or None
        for package in python.packages:
            name, _, version = package.partition("==")
            if name.rpartition("-cu")[0] in LIBRARIES:
                yield "software", LIBRARIES[name.rpartition("-cu")[0]], version
        if python.installed is not None:
            yield "software", "packages", "\n".join(sorted(python.installed))
    if isinstance(facts.host, Host):
        yield "software", "kernel", facts.host.release or None
    yield "software", "doctor", facts.doctor


def _variables(host: Host) -> Iterator[Value]:
    for name, value in host.env.items():
        if name not in OWN:
            yield "variables", name, value


def _network(host: Host) -> Iterator[Value]:
    if host.hcas is None:
        return
    ports = [hca for hca in host.hcas if hca.state]
    active = [hca for hca in ports if hca.state == "ACTIVE"]
    yield "network", "InfiniBand or RoCE adapters", _names(hca.name for hca in host.hcas)
    yield "network", "active ports", f"{len(active)}"
    yield "network", "port rates", _counted(hca.rate for hca in active) if active else "none"
    yield "network", "link layers", _names({hca.link_layer for hca in active})
    yield "network", "firmware", _names({hca.firmware for hca in host.hcas if hca.firmware})


def _limits(host: Host) -> Iterator[Value]:
    for name, limit in (host.limits or {}).items():
        yield "limits", f"ulimit {name}", "unlimited" if limit is None else str(limit)
    yield "limits", SHM, None if host.shm_total is None else gib(host.shm_total)
    if host.cgroup is not None:
        memory, cpus = host.cgroup_memory_limit, host.cgroup_cpus
        yield "limits", "cgroup memory", "no limit" if memory is None else gib(memory)
        yield "limits", "cgroup processors", "no limit" if cpus is None else f"{cpus:g}"


def _files(facts: Facts) -> Iterator[Value]:
    if isinstance(checkpoint := facts.checkpoint, Checkpoint):
        yield from _checkpoint(checkpoint)
    elif isinstance(checkpoint, Unknown) and facts.job.checkpoint:
        yield "files", facts.job.checkpoint, "could not be read"
    if isinstance(data := facts.data, Data):
        yield from _data(data)
    for place in facts.places if isinstance(facts.places, tuple) else ():
        if place.named and place.filesystem is not None:
            yield "files", f"file system of {place.path}", place.filesystem


def _checkpoint(checkpoint: Checkpoint) -> Iterator[Value]:
    files, contents = checkpoint.files, checkpoint.contents
    size = f"{files.bytes:,} bytes in {files.count} files"
    yield "files", checkpoint.path, size
    yield "files", f"tensors of {checkpoint.path}", digest(repr((contents.tensors, contents.roles)))
    if checkpoint.tokenizer is not None:
        tokenizer = checkpoint.tokenizer
        shape = (tokenizer.files, tokenizer.pad, tokenizer.pad_id, tokenizer.vocabulary)
        yield "files", f"tokenizer of {checkpoint.path}", digest(repr((*shape, tokenizer.largest)))


def _data(data: Data) -> Iterator[Value]:
    """Rows of files and datasets, and the lengths of those that were read to their end. Ranks of a
    loader have other rows each.
    """
    for split in data.splits:
        if split.kind == "loader":
            continue
        name = f"{split.name} of {data.target}"
        yield "files", f"rows of {name}", None if split.total is None else f"{split.total:,}"
        if split.ended == "complete" and split.lengths is not None:
            yield "files", f"lengths in {name}", digest(repr(split.lengths))


def classed(facts: Facts) -> str:
    """The hardware that rates depend on, in one line; "" where no GPU was read.

    Driver and software are none of it: a node that is slow because of its driver is found so.
    """
    gpus = facts.gpus if isinstance(facts.gpus, tuple) else ()
    if not gpus or not all(gpu.name for gpu in gpus):
        return _other_gpus(facts)
    parts = [
        _counted(gpu.name for gpu in gpus),
        _of_gpus([_memory(gpu) for gpu in gpus]),
        _of_gpus([_watts(gpu) for gpu in gpus]),
        "MIG" if any(gpu.mig for gpu in gpus) else "",
    ]
    return ", ".join(filter(None, parts))


def _other_gpus(facts: Facts) -> str:
    """GPUs that torch alone knows, such as those of AMD."""
    gpus = facts.job_gpus
    if isinstance(gpus, Unknown) or not gpus.gpus:
        return ""
    return _counted(gpu.name for gpu in gpus.gpus)


def _counted(names: Iterator[str]) -> str:
    """ "8 × NVIDIA H200"."""
    return ", ".join(f"{count} × {name}" for name, count in sorted(Counter(names).items()))


def _of_gpus(texts: list[str | None]) -> str | None:
    """One value where all GPUs have it, else each with its number of GPUs; None: one is unread."""
    known = [text for text in texts if text is not None]
    if len(known) < len(texts):
        return None
    return known[0] if len(set(known)) == 1 else _counted(iter(known))


def _names(names: Iterator[str] | set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _memory(gpu: Gpu) -> str | None:
    return None if gpu.memory_total is None else gib(gpu.memory_total)


def _watts(gpu: Gpu) -> str | None:
    return None if gpu.power_limit is None else f"{gpu.power_limit / 1000:g} W"


def _switch(on: bool | None) -> str | None:
    return None if on is None else "on" if on else "off"


def _fabric(gpu: Gpu) -> str | None:
    return None if gpu.fabric is None else FABRIC.get(gpu.fabric, f"state {gpu.fabric}")


def _rounded(host: Host) -> str:
    return f"{round((host.memory_total or 0) / STEP)} GiB"


def _cuda(version: int | None) -> str | None:
    return None if version is None else f"{version // 1000}.{version % 1000 // 10}"
