"""Cards under load, alone and together: what they told, and machines where something is wrong."""

from __future__ import annotations

from typing import Any

import msgspec

from doctor._util.records import Ended
from doctor.facts.facts import Facts
from doctor.facts.load import AllReduce, Load, PeerCopy, Peers, Watched
from doctor.facts.machine import Gpu

OK = Ended(how="ok", seconds=1.7)
RATES = {
    "NVIDIA H100 80GB HBM3": {"bf16": 730e12, "tf32": 373e12, "fp32": 51e12},
    "NVIDIA H200": {"bf16": 790e12, "tf32": 410e12, "fp32": 51e12},
    "NVIDIA A100-SXM4-80GB": {"bf16": 262e12, "tf32": 131e12, "fp32": 19.1e12},
    "NVIDIA GeForce RTX 4090": {"bf16": 160e12, "tf32": 83e12, "fp32": 80e12},
}
"""Near the figures that were published: bf16 as measured by others, fp32 near the data sheets."""
MEMORY = {"NVIDIA H200": 4.3e12, "NVIDIA H100 80GB HBM3": 2.9e12, "NVIDIA A100-SXM4-80GB": 1.7e12}
LINKS = {"NVIDIA A100-SXM4-80GB": (4, 16), "NVIDIA GeForce RTX 4090": (4, 16)}
LANE = {4: 1.6e9, 5: 3.4e9}
"""Bytes per second that a pinned copy reaches on one lane."""


def link(gpu: Gpu) -> tuple[int, int]:
    return LINKS.get(gpu.name, (5, 16))


def loaded(gpu: Gpu, **fields: Any) -> Load:
    """The card as fast as it should be."""
    generation, lanes = link(gpu)
    known: dict[str, Any] = {
        "device": f"cuda:{gpu.index}",
        "uuid": gpu.uuid,
        "name": gpu.name,
        "ended": OK,
        "matmul": RATES[gpu.name],
        "size": 8192,
        "copy": MEMORY.get(gpu.name, 0.92e12),
        "to_device": LANE[generation] * lanes,
        "from_device": LANE[generation] * lanes,
        "products": 100,
        "differing": 0,
        "seconds": 1.6,
    }
    return Load(**known | fields)


def quiet(gpu: Gpu, **fields: Any) -> Watched:
    """A run in which nothing happened; a GeForce has no memory errors to count."""
    known: dict[str, Any] = {
        "samples": 74,
        "mask": 0x4,
        "temperature": 58,
        "uncorrected": 0,
        "corrected": 0,
        "remapped_rows": 0,
        "pcie_replays": 0,
        "xids": (),
        "link": link(gpu),
        "link_max": link(gpu),
        "unread": {name: "Not Supported (3)" for name in ("nvlink_errors", "nvlinks_down")},
    }
    if gpu.ecc is None:
        uncounted = ("uncorrected", "corrected", "remapped_rows")
        known |= dict.fromkeys(uncounted)
        known["unread"] |= dict.fromkeys(uncounted, "Not Supported (3)")
    return Watched(uuid=gpu.uuid, **known | fields)


def copies(ended: Ended = OK, wrong: int | None = 0) -> tuple[PeerCopy, ...]:
    rate = None if wrong is None else 240e9
    return tuple(
        PeerCopy(source=a, target=b, ended=ended, wrong=wrong, rate=rate)
        for a, b in ((0, 1), (1, 0))
    )


def reduction(*, p2p: bool = True, ended: Ended = OK) -> AllReduce:
    rate, wrong = (180e9, 0) if ended.ok else (None, None)
    return AllReduce(backend="nccl", p2p=p2p, ended=ended, ranks=2, wrong=wrong, rate=rate)


def broken_p2p() -> Facts:
    """Two GeForce cards whose driver says that they reach each other, behind an IOMMU."""
    from recorded_parts import RTX4090, TORCH_2_15, job, machine, smoke

    pair = (RTX4090, msgspec.structs.replace(RTX4090, index=1, uuid=RTX4090.uuid[:-1] + "1"))
    hung = Ended(how="timeout", detail="rank 0: no answer in 30 s inside all_reduce", seconds=30.0)
    stuck = Ended(how="timeout", detail="no answer in 10 s inside cuMemsetD32_v2", seconds=10.0)
    return machine(
        *pair,
        torch=TORCH_2_15,
        job=job(gpus=2),
        load=tuple(map(loaded, pair)),
        siblings=(smoke(device="cuda:1"),),
        peers=Peers(
            copies=copies(stuck, None)[:1],
            reductions=(reduction(ended=hung), reduction(p2p=False)),
        ),
    )


def two_a100() -> Facts:
    from recorded_parts import A100, TORCH_2_15, job, machine, smoke

    pair = (A100, msgspec.structs.replace(A100, index=1, uuid=A100.uuid[:-1] + "1"))
    links = {"nvlink_errors": 0, "nvlinks_down": 0, "unread": {}}
    return machine(
        *pair,
        torch=TORCH_2_15,
        job=job(gpus=2),
        load=tuple(map(loaded, pair)),
        watched=tuple(quiet(gpu, **links) for gpu in pair),
        siblings=(smoke(device="cuda:1"),),
        peers=Peers(copies=copies(), reductions=(reduction(),)),
    )


def machines() -> dict[str, Facts]:
    """Name of the file -> its facts."""
    from recorded_parts import A100, H100, H200, TORCH_2_9, TORCH_2_15, machine

    slow = loaded(H200, matmul={"bf16": 410e12, "tf32": 215e12, "fp32": 30e12}, to_device=24e9)
    narrow = quiet(H200, mask=0x4 | 0x40, temperature=88, link=(5, 8))
    hung = Ended(how="timeout", detail="no answer in 60 s inside bf16 matmul", seconds=60.0)
    return {
        "slow_card": machine(H200, torch=TORCH_2_15, load=(slow,), watched=(narrow,)),
        "wrong_product": machine(A100, torch=TORCH_2_9, load=(loaded(A100, differing=12),)),
        "xid_during_run": machine(
            H100,
            torch=TORCH_2_15,
            load=(loaded(H100),),
            watched=(quiet(H100, xids=(94,), uncorrected=1, corrected=17),),
        ),
        "load_hangs": machine(
            H100, torch=TORCH_2_15, load=(loaded(H100, ended=hung, matmul={}, differing=None),)
        ),
        "broken_p2p": broken_p2p(),
        "two_a100": two_a100(),
    }
