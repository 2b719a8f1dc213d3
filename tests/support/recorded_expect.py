"""Machines of which something was expected: delivered, not delivered, not readable."""

from __future__ import annotations

from doctor._util.records import Ended, Unknown
from doctor.facts.facts import Facts
from doctor.facts.training import ModelShape
from doctor.job.expect import Expect


def machines() -> dict[str, Facts]:
    """Name -> facts."""
    # recorded names this module, so its building blocks are taken when they are there
    from recorded import unread
    from recorded_parts import GB, GIB, H100, PLACES, TORCH_2_15, gpu, host, job, machine, place

    wanted = Expect(
        gpu="H100",
        count=2,
        memory="80GB",
        driver=">=570",
        torch="2.15",
        cuda="13",
        shm="32GB",
        host_memory="256GB",
        cpus=16,
        disk={"/data": "1TB"},
    )
    pair = (H100, gpu("NVIDIA H100 80GB HBM3", (9, 0), H100.memory_total or 0, index=1))
    other = gpu("NVIDIA A100-SXM4-40GB", (8, 0), 40 * GIB)
    disk = place("expected", "/data")
    silent = Ended(how="timeout", detail="no answer in 8 s inside statvfs", seconds=8.0)
    llama = ModelShape(
        file="/data/llama",
        layers=32,
        hidden=4096,
        heads=32,
        intermediate=14336,
        gated=True,
        vocabulary=128_256,
    )
    lora = job(
        gpus=2,
        params=8_030_000_000,
        trainable=42_000_000,
        recipe="amp",
        batch_size=2,
        seq_len=4096,
        checkpointing=True,
    )
    dark = unread()
    return {
        "as_agreed": machine(
            *pair,
            torch=TORCH_2_15,
            job=lora,
            expect=wanted,
            shape=llama,
            places=(*PLACES, disk),
        ),
        "not_as_agreed": machine(
            other,
            torch=TORCH_2_15,
            expect=Expect(**_fields(wanted, torch="<2.15", cuda="12", driver="570")),
            host=host(
                nvidia_devices=1,
                shm_total=8 * GIB,
                memory_total=128 * GIB,
                memory_available=120 * GIB,
                cpus=8,
            ),
            places=(*PLACES, place("expected", "/data", total=500 * GB, free=200 * GB)),
        ),
        "agreed_and_unread": dark.with_(
            job=job(),
            expect=wanted,
            places=(place("expected", "/data", looked=silent, free=None, total=None),),
            shape=Unknown(reason="config.json: no answer in 8 s"),
        ),
    }


def _fields(expect: Expect, **changes: str) -> dict[str, object]:
    return {name: getattr(expect, name) for name in expect.__struct_fields__} | changes
