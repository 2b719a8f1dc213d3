"""Whether the weights, the optimizer's state and the host's memory suffice."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import recorded
from memory_facts import DARK, B, gpus_of, job_gpu, total, vram

from doctor._util.records import Unknown
from doctor._util.units import GIB, MIB
from doctor.checkpoint.records import Checkpoint, Contents, Files, ModelConfig
from doctor.checks import memory
from doctor.facts.facts import Facts
from doctor.facts.host import Host
from doctor.facts.interpreter import TorchGpu
from doctor.facts.machine import Gpu, Slice
from doctor.facts.memory.plan import WIDTH, Plan, draw, plan_of
from doctor.facts.memory.training import Size, model_size, state_width
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Job, Target, TargetKind
from doctor.judge.check import Status, Verdict
from doctor.judge.sources import SOURCES


def checkpoint(parameters: int, size: int | None = None, largest: int | None = None) -> Checkpoint:
    size = size or 2 * parameters
    return Checkpoint(
        path="model",
        layout="sharded",
        files=Files(count=2, bytes=size, largest=largest or size // 2),
        contents=Contents(tensors=10, parameters=parameters),
    )


def test_bytes_per_parameter() -> None:
    assert total(Job(), "bf16") == 100 * (4 + 4 + 8 + 2)
    assert total(Job(recipe="amp"), "fp16") == 100 * (4 + 4 + 8 + 2)
    assert total(Job(), "fp32") == 100 * (4 + 4 + 8)
    assert total(Job(recipe="pure-bf16"), "bf16") == 100 * (2 + 2 + 4)
    assert total(Job(), "bf16", trainable=10) == 10 * 18 + 90 * 2
    assert total(Job(recipe="pure-bf16"), "bf16", trainable=10) == 10 * 8 + 90 * 2
    assert total(Job(), "fp32", trainable=10) == 10 * 16 + 90 * 4


@pytest.mark.parametrize(
    ("memory_total", "recipe", "status"),
    [
        (30 * B, None, Status.PASS),  # 1B x 18 bytes = 18 GB, 22.5 GB with 20 % left
        (22_600_000_000, "amp", Status.PASS),
        (22_400_000_000, "amp", Status.WARN),
        (19 * B, None, Status.WARN),
        (17 * B, None, Status.WARN),  # does not fit, but the recipe was assumed
        (17 * B, "amp", Status.FAIL),
        (17 * B, "pure-bf16", Status.PASS),
        (7 * B, "pure-bf16", Status.FAIL),
    ],
)
def test_vram_fits(memory_total: int, recipe: str | None, status: Status) -> None:
    verdict = vram(Job(params=B, recipe=recipe), gpus_of(memory_total))  # type: ignore[arg-type]
    assert verdict.status is status
    assert ("assumed" in verdict.summary) is (recipe is None)


def test_the_table_of_bytes_is_in_the_remedy() -> None:
    verdict = vram(Job(params=8 * B, recipe="amp"), gpus_of(80 * GIB))
    assert verdict.status is Status.FAIL
    assert verdict.fix is not None
    table = verdict.fix.splitlines()[1:]
    assert table == [
        "Bytes of this training:",
        "  trained weights (fp32): 4 B x 8B = 29.8 GiB",
        "  gradients (fp32): 4 B x 8B = 29.8 GiB",
        "  Adam moments (2 x fp32): 8 B x 8B = 59.6 GiB",
        "  autocast copies (bf16): 2 B x 8B = 14.9 GiB",
        "  sum: 134.1 GiB, activations not counted",
    ]


def test_shards_divide() -> None:
    job = Job(params=8 * B, recipe="amp", shards=4)
    assert vram(job, gpus_of(80 * GIB, 80 * GIB, 80 * GIB, 80 * GIB)).status is Status.PASS
    tight = vram(Job(params=8 * B, recipe="amp", shards=2), gpus_of(80 * GIB))
    assert tight.status is Status.WARN
    assert tight.fix is not None
    assert "per GPU, over 2 shards: 67.1 GiB" in tight.fix


def test_adapters_count_frozen_weights_once() -> None:
    adapters = Job(params=8 * B, trainable=40 * 10**6, recipe="amp")
    assert vram(adapters, gpus_of(24 * GIB)).status is Status.PASS


def test_the_gpu_with_the_least_room_decides() -> None:
    seen = JobGpus(gpus=(job_gpu(80 * B, 0, 0), job_gpu(80 * B, 70 * B, 1)), by="torch")
    verdict = vram(Job(params=B, recipe="amp"), seen)
    assert verdict.status is Status.FAIL
    assert "GPU 1" in verdict.summary


def test_what_is_used_there_may_be_unread() -> None:
    verdict = vram(Job(params=B), gpus_of(80 * B, used=None))
    assert verdict.status is Status.PASS
    assert "not read" in verdict.summary


def test_a_slice_is_judged_by_its_own_memory() -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="H100", memory_total=80 * B, memory_used=0)
    part = Slice(uuid="MIG-0", memory_total=10 * B, memory_used=0)
    seen = JobGpus(gpus=(JobGpu(nvml=gpu, slice=part),), by="torch")
    assert vram(Job(params=B, recipe="amp"), seen).status is Status.FAIL


def test_an_integrated_gpu_shares_the_hosts_memory() -> None:
    gpu = TorchGpu(
        index=0, uuid=None, name="GB10", capability=(12, 1), memory_total=128 * B, integrated=True
    )
    seen = JobGpus(gpus=(JobGpu(torch=gpu),), by="torch")
    job = Job(params=4 * B, recipe="amp")
    roomy = Host(system="Linux", memory_available=110 * B)
    assert vram(job, seen, host=roomy).status is Status.PASS
    full = Host(system="Linux", memory_available=50 * B)
    verdict = vram(job, seen, host=full)
    assert verdict.status is Status.FAIL
    assert "shares it" in verdict.summary
    assert vram(job, seen).status is Status.UNKNOWN, "MemAvailable was not read"


def test_nvml_that_knows_of_no_memory_means_an_integrated_gpu() -> None:
    gpu = Gpu(index=0, uuid="GPU-0", name="GB10", unread={"memory_total": "Not Supported"})
    seen = JobGpus(gpus=(JobGpu(nvml=gpu),), by="environment")
    host = Host(system="Linux", memory_available=110 * B)
    assert vram(Job(params=B), seen, host=host).status is Status.PASS


@pytest.mark.parametrize("kind", ["cpu", "mps"])
def test_without_a_gpu_the_hosts_memory_counts(kind: TargetKind) -> None:
    job = Job(params=B, recipe="amp")
    for available, status in ((40 * B, Status.PASS), (20 * B, Status.WARN), (9 * B, Status.FAIL)):
        host = Host(system="Linux", memory_available=available)
        assert vram(job, DARK, kind=kind, host=host).status is status


def test_a_cgroup_limit_is_room_too() -> None:
    host = Host(
        system="Linux",
        memory_available=500 * B,
        cgroup="v2",
        cgroup_memory_limit=16 * B,
        cgroup_memory_used=4 * B,
    )
    verdict = vram(Job(params=B, recipe="amp"), DARK, kind="cpu", host=host)
    assert verdict.status is Status.FAIL
    assert "cgroup limit" in verdict.summary


def test_the_size_comes_from_the_checkpoint() -> None:
    verdict = vram(Job(), gpus_of(80 * B), model=checkpoint(B))
    assert verdict.status is Status.PASS
    assert "--checkpoint" in verdict.summary
    both = model_size(Job(params=2 * B), checkpoint(B))
    assert isinstance(both, Size)
    assert both.parameters == 2 * B


def test_vram_skips_without_a_size_and_is_unknown_without_the_rest() -> None:
    assert vram(Job(), gpus_of(80 * B)).status is Status.SKIP
    assert vram(Job(), DARK, precision=None).status is Status.SKIP
    job = Job(params=B)
    assert vram(job, DARK).status is Status.UNKNOWN
    assert vram(job, gpus_of(None)).status is Status.UNKNOWN
    assert vram(job, JobGpus(gpus=(), by="torch")).status is Status.UNKNOWN
    assert vram(job, gpus_of(80 * B), precision=None).status is Status.UNKNOWN
    assert vram(Job(), gpus_of(80 * B), model=Unknown(reason="a pickle")).status is Status.UNKNOWN


def test_packed_weights_tell_no_size() -> None:
    packed = msgspec.structs.replace(checkpoint(1), model=ModelConfig(quantized=True))
    assert vram(Job(), gpus_of(80 * B), model=packed).status is Status.UNKNOWN


def host_memory(
    host: Host,
    job: Job | None = None,
    seen: JobGpus | Unknown = DARK,
    model: Checkpoint | None = None,
    kind: TargetKind = "cpu",
) -> Verdict:
    return memory.HOST.judge(
        host=host,
        job=job or Job(),
        target=Target(kind, "test"),
        job_gpus=seen,
        checkpoint=model,
    )


def linux(
    available: int | None = 100 * B,
    limit: int | None = None,
    used: int | None = None,
    cpus: int | None = 16,
    share: float | None = None,
) -> Host:
    return Host(
        system="Linux",
        memory_available=available,
        cgroup="v2",
        cgroup_memory_limit=limit,
        cgroup_memory_used=used,
        cpus=cpus,
        cgroup_cpus=share,
    )


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (linux(), Status.PASS),
        (linux(available=15 * B), Status.WARN),
        (linux(available=7 * B), Status.FAIL),
        (linux(limit=50 * B, used=1 * B), Status.PASS),
        (linux(limit=50 * B, used=38 * B), Status.WARN),
        (linux(limit=50 * B, used=45 * B), Status.FAIL),
        (linux(limit=12 * B), Status.WARN),
        (linux(available=None), Status.UNKNOWN),
    ],
)
def test_host_memory_holds_the_checkpoint(host: Host, status: Status) -> None:
    """16 GB in files of 8 GB."""
    assert host_memory(host, model=checkpoint(8 * B)).status is status


@pytest.mark.parametrize(
    ("host", "gpus", "status"),
    [
        (linux(cpus=16), 8, Status.PASS),
        (linux(cpus=15), 8, Status.WARN),
        (linux(cpus=96, share=8.0), 4, Status.PASS),
        (linux(cpus=96, share=7.5), 4, Status.WARN),
        (linux(cpus=None), 1, Status.UNKNOWN),
    ],
)
def test_cores_for_each_gpu(host: Host, gpus: int, status: Status) -> None:
    seen = gpus_of(*[80 * B] * gpus)
    assert host_memory(host, seen=seen, kind="nvidia").status is status
    assert host_memory(host, Job(gpus=gpus), DARK, kind="nvidia").status is status


def test_cores_for_gpus_that_nobody_counted() -> None:
    verdict = host_memory(linux(), kind="nvidia")
    assert verdict.status is Status.UNKNOWN
    assert verdict.summary.endswith("pass --gpus N or --device cpu")
    with_gpus = msgspec.structs.replace(linux(), nvidia_devices=8)
    assert host_memory(with_gpus, kind="nvidia").summary.endswith("pass --gpus N")


@pytest.mark.parametrize(("steal", "named"), [(None, False), (0.04, False), (0.12, True)])
def test_steal_time_is_a_word_beside_the_cores_and_no_verdict(
    steal: float | None, named: bool
) -> None:
    host = msgspec.structs.replace(linux(cpus=16), steal=steal)
    verdict = host_memory(host, seen=gpus_of(80 * B), kind="nvidia")
    assert verdict.status is Status.PASS
    assert ("gave 12% of their time to others" in verdict.summary) is named


def test_a_job_on_the_cpu_needs_no_cores_for_gpus() -> None:
    assert host_memory(linux(cpus=1)).status is Status.PASS


def test_both_problems_are_reported() -> None:
    verdict = host_memory(linux(7 * B, cpus=1), Job(gpus=2), model=checkpoint(8 * B), kind="nvidia")
    assert verdict.status is Status.FAIL
    assert "7.5 GiB" in verdict.summary  # the largest file
    assert "2 GPUs" in verdict.summary


def shm(size: int | None, gpus: int | None, kind: TargetKind = "nvidia") -> Verdict:
    return memory.SHM.judge(
        host=Host(system="Linux", shm_total=size),
        job=Job(gpus=gpus),
        target=Target(kind, "test"),
        job_gpus=DARK,
    )


@pytest.mark.parametrize(
    ("size", "gpus", "status"),
    [
        (GIB, 8, Status.PASS),
        (24 * GIB, 1, Status.PASS),
        (GIB - 1, 8, Status.WARN),
        (65 * MIB, 2, Status.WARN),
        (64 * MIB, 1, Status.WARN),
        (64 * MIB, None, Status.WARN),
        (64 * MIB, 2, Status.FAIL),
        (0, 2, Status.FAIL),
        (None, 2, Status.SKIP),
    ],
)
def test_shm(size: int | None, gpus: int | None, status: Status) -> None:
    assert shm(size, gpus).status is status


def test_shm_on_the_cpu_is_for_data_workers() -> None:
    assert shm(64 * MIB, None, "cpu").status is Status.WARN


def test_visible_gpus_count_where_the_job_does_not_say() -> None:
    verdict = memory.SHM.judge(
        host=Host(system="Linux", shm_total=64 * MIB),
        job=Job(),
        target=Target("nvidia", "test"),
        job_gpus=gpus_of(80 * B, 80 * B),
    )
    assert verdict.status is Status.FAIL


def test_sources_resolve() -> None:
    for check in memory.CHECKS:
        assert set(check.sources) <= SOURCES.keys()


@pytest.mark.parametrize(
    ("optimizer", "per_parameter"),
    [
        ("adamw", 8),
        ("adamw-8bit", 2),
        ("adafactor", 0),
        ("sgd", 0),
        ("sgd-momentum", 4),
        ("lion", 4),
        ("lion-8bit", 1),
    ],
)
def test_the_optimizers_state(optimizer: Any, per_parameter: int) -> None:
    assert total(Job(optimizer=optimizer), "bf16") == 100 * (4 + 4 + 2 + per_parameter)
    assert state_width(Job(optimizer=optimizer)) == per_parameter
    assert (
        optimizer.removesuffix("w")
        in vram(Job(params=B, optimizer=optimizer), gpus_of(80 * B)).summary.casefold()
    )


def memory_bar(facts: Facts) -> tuple[tuple[str, float], ...]:
    found = plan_of(facts)
    return found.bar if isinstance(found, Plan) else ()


def test_the_bar_adds_up_to_what_is_free() -> None:
    facts = recorded.machines()["as_agreed"]
    bar = dict(memory_bar(facts))
    assert list(bar) == ["weights", "gradients", "optimizer", "activations", "free"]
    gpu = facts.job_gpus
    assert isinstance(gpu, JobGpus)
    card_ = gpu.gpus[0]
    assert sum(bar.values()) == (card_.memory_total or 0) - (card_.memory_used or 0)
    drawn, legend = draw(memory_bar(facts)).splitlines()
    assert drawn.startswith("  [wwww")
    assert drawn.endswith(".]")
    assert len(drawn) == 2 + 2 + WIDTH
    assert "weights 15.1 GiB, gradients" in legend


def test_a_bar_that_does_not_fit_has_nothing_free() -> None:
    facts = recorded.machines()["as_agreed"]
    large = facts.with_(job=msgspec.structs.replace(facts.job, trainable=None, seq_len=65536))
    bar = dict(memory_bar(large))
    assert bar["free"] == 0
    assert bar["activations"] > bar["weights"] / 10
    assert memory_bar(recorded.machines()["nothing_readable"]) == ()
    assert memory_bar(recorded.machines()["h200_torch2.11"]) == ()
