from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import recorded

from doctor._util.records import Ended, Unknown
from doctor._util.units import GIB, MIB
from doctor.checkpoint.records import Checkpoint, Contents, Files, ModelConfig
from doctor.checks import memory
from doctor.collect.children import Children
from doctor.facts.facts import Facts
from doctor.facts.machine import Gpu, Host, Slice, TorchGpu
from doctor.facts.memory.activations import REST, estimated, measured
from doctor.facts.memory.plan import WIDTH, Plan, draw, plan_of
from doctor.facts.memory.training import Size, model_size, state_width, training_parts
from doctor.facts.own_model import MemoryPoint, OwnModel
from doctor.facts.training import ModelShape
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Precision, Target, TargetKind
from doctor.judge.check import Status, Verdict
from doctor.judge.sources import SOURCES

DARK = Unknown(reason="the driver hangs")
B = 10**9


def card(total: int | None, used: int | None = 0, index: int = 0) -> JobGpu:
    return JobGpu(
        nvml=Gpu(
            index=index, uuid=f"GPU-{index}", name="card", memory_total=total, memory_used=used
        )
    )


def cards(*totals: int | None, used: int | None = 0) -> JobGpus:
    found = tuple(card(total, used, index) for index, total in enumerate(totals))
    return JobGpus(gpus=found, by="torch")


def checkpoint(parameters: int, size: int | None = None, largest: int | None = None) -> Checkpoint:
    size = size or 2 * parameters
    return Checkpoint(
        path="model",
        layout="sharded",
        files=Files(count=2, bytes=size, largest=largest or size // 2),
        contents=Contents(tensors=10, parameters=parameters),
    )


def vram(
    job: Job,
    seen: JobGpus | Unknown,
    *,
    asked: Precision | None = "bf16",
    kind: TargetKind = "nvidia",
    model: Checkpoint | Unknown | None = None,
    host: Host | Unknown | None = None,
    shape: ModelShape | Unknown | None = None,
    own: OwnModel | Unknown | None = None,
) -> Verdict:
    return memory.VRAM.judge(
        job=job,
        target=Target(kind, "test"),
        chosen=Chosen(asked, "test") if asked else Unknown(reason="no capability"),
        job_gpus=seen,
        checkpoint=model,
        host=host or Host(system="Linux"),
        shape=shape,
        own=own,
    )


def total(job: Job, asked: Precision, trainable: int | None = None) -> float:
    parts = training_parts(job, asked, Size(100, 100 if trainable is None else trainable, ""))
    return sum(part.bytes for part in parts)


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
    verdict = vram(Job(params=B, recipe=recipe), cards(memory_total))  # type: ignore[arg-type]
    assert verdict.status is status
    assert ("assumed" in verdict.summary) is (recipe is None)


def test_the_table_of_bytes_is_in_the_remedy() -> None:
    verdict = vram(Job(params=8 * B, recipe="amp"), cards(80 * GIB))
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
    assert vram(job, cards(80 * GIB, 80 * GIB, 80 * GIB, 80 * GIB)).status is Status.PASS
    tight = vram(Job(params=8 * B, recipe="amp", shards=2), cards(80 * GIB))
    assert tight.status is Status.WARN
    assert tight.fix is not None
    assert "per GPU, over 2 shards: 67.1 GiB" in tight.fix


def test_adapters_count_frozen_weights_once() -> None:
    assert vram(Job(params=8 * B, trainable=40 * 10**6, recipe="amp"), cards(24 * GIB)).status is (
        Status.PASS
    )


def test_the_gpu_with_the_least_room_decides() -> None:
    seen = JobGpus(gpus=(card(80 * B, 0, 0), card(80 * B, 70 * B, 1)), by="torch")
    verdict = vram(Job(params=B, recipe="amp"), seen)
    assert verdict.status is Status.FAIL
    assert "GPU 1" in verdict.summary


def test_what_is_used_there_may_be_unread() -> None:
    verdict = vram(Job(params=B), cards(80 * B, used=None))
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
    verdict = vram(Job(), cards(80 * B), model=checkpoint(B))
    assert verdict.status is Status.PASS
    assert "--checkpoint" in verdict.summary
    both = model_size(Job(params=2 * B), checkpoint(B))
    assert isinstance(both, Size)
    assert both.parameters == 2 * B


def test_vram_skips_without_a_size_and_is_unknown_without_the_rest() -> None:
    assert vram(Job(), cards(80 * B)).status is Status.SKIP
    assert vram(Job(), DARK, asked=None).status is Status.SKIP
    job = Job(params=B)
    assert vram(job, DARK).status is Status.UNKNOWN
    assert vram(job, cards(None)).status is Status.UNKNOWN
    assert vram(job, JobGpus(gpus=(), by="torch")).status is Status.UNKNOWN
    assert vram(job, cards(80 * B), asked=None).status is Status.UNKNOWN
    assert vram(Job(), cards(80 * B), model=Unknown(reason="a pickle")).status is Status.UNKNOWN


def test_packed_weights_tell_no_size() -> None:
    packed = msgspec.structs.replace(checkpoint(1), model=ModelConfig(quantized=True))
    assert vram(Job(), cards(80 * B), model=packed).status is Status.UNKNOWN


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
    seen = cards(*[80 * B] * gpus)
    assert host_memory(host, seen=seen, kind="nvidia").status is status
    assert host_memory(host, Job(gpus=gpus), DARK, kind="nvidia").status is status


def test_cores_for_gpus_that_nobody_counted() -> None:
    verdict = host_memory(linux(), kind="nvidia")
    assert verdict.status is Status.UNKNOWN
    assert verdict.summary.endswith("pass --gpus N or --device cpu")
    with_gpus = msgspec.structs.replace(linux(), nvidia_devices=8)
    assert host_memory(with_gpus, kind="nvidia").summary.endswith("pass --gpus N")


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
        job_gpus=cards(80 * B, 80 * B),
    )
    assert verdict.status is Status.FAIL


def test_sources_resolve() -> None:
    for check in memory.CHECKS:
        assert set(check.sources) <= SOURCES.keys()


LLAMA_8B = ModelShape(
    file="model",
    layers=32,
    hidden=4096,
    heads=32,
    intermediate=14336,
    gated=True,
    vocabulary=128_256,
)


def kept(**fields: Any) -> float:
    job = Job(**{"batch_size": 1, "seq_len": 1024} | fields)
    found = estimated(job, "bf16", LLAMA_8B)
    assert found is not None
    return found.bytes


def test_the_estimate_is_the_papers_for_a_plain_layer_but_for_norms_and_attention() -> None:
    """34 bytes for s*b*h, of which 15 are attention and norms; a feed-forward part of 4h is 19."""
    plain = ModelShape(
        file="", layers=1, hidden=100, heads=4, intermediate=400, gated=False, vocabulary=0
    )
    job = Job(batch_size=2, seq_len=10, recipe="pure-bf16")
    found = estimated(job, "bf16", plain)
    assert found is not None
    assert found.bytes == 2 * 10 * 100 * (19 + REST["16 bit"])
    eager = estimated(job, "bf16", msgspec.structs.replace(plain, attention="eager"))
    assert eager is not None
    assert eager.bytes - found.bytes == 5 * 4 * 10 * 10 * 2
    short = estimated(msgspec.structs.replace(job, checkpointing=True), "bf16", plain)
    assert short is not None
    assert short.bytes == 2 * 10 * 100 * 2 + found.bytes


def test_activations_grow_with_batch_and_length_and_shrink_with_checkpointing() -> None:
    assert kept(batch_size=4) == 4 * kept()
    assert kept(seq_len=4096) == 4 * kept()
    assert kept(checkpointing=True) < kept() / 4
    assert kept(recipe="pure-bf16") < kept()


@pytest.mark.parametrize("missing", ["batch_size", "seq_len", "shape"])
def test_nothing_is_estimated_from_half_of_it(missing: str) -> None:
    fields = {"batch_size": 1, "seq_len": 1024} | ({missing: None} if missing != "shape" else {})
    for shape in (None, DARK) if missing == "shape" else (LLAMA_8B,):
        assert estimated(Job(**fields), "bf16", shape) is None  # type: ignore[arg-type]


def autograd_keeps(layers: int, *, amp: bool) -> int:
    """Bytes that the forward pass of a small Llama saves, its weights' copies left out."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=128,
    )
    model = LlamaForCausalLM(config).to(torch.float32 if amp else torch.bfloat16)
    weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    found: dict[int, int] = {}
    alive = []

    def pack(tensor: Any) -> Any:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            found[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    ids = torch.zeros(4, 64, dtype=torch.long)
    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
        model(input_ids=ids, labels=ids)
    copies = 2 * sum(p.numel() for p in model.parameters() if p.dim() == 2) if amp else 0
    return sum(found.values()) - copies


@pytest.mark.parametrize("amp", [True, False])
@pytest.mark.slow
def test_the_estimate_of_a_layer_is_what_autograd_keeps_of_it(amp: bool) -> None:
    measured_bytes = (autograd_keeps(4, amp=amp) - autograd_keeps(2, amp=amp)) / 2
    shape = ModelShape(
        file="", layers=1, hidden=128, heads=4, intermediate=352, gated=True, vocabulary=0
    )
    job = Job(batch_size=4, seq_len=64, recipe="amp" if amp else "pure-bf16")
    found = estimated(job, "bf16", shape)
    assert found is not None
    assert found.bytes == pytest.approx(measured_bytes, rel=0.12)


def test_an_estimate_joins_the_sum_and_only_warns() -> None:
    job = Job(params=B, recipe="amp", batch_size=8, seq_len=2048)
    verdict = vram(job, cards(80 * B), shape=LLAMA_8B)
    assert verdict.status is Status.WARN
    assert "batch 8 of 2,048 tokens" in verdict.summary
    assert verdict.fix is not None
    assert verdict.fix.startswith(memory.SMALLER_STEP)
    assert vram(job, cards(80 * B)).status is Status.PASS
    small = msgspec.structs.replace(job, checkpointing=True, batch_size=1)
    assert vram(small, cards(80 * B), shape=LLAMA_8B).status is Status.PASS
    too_much = vram(job, cards(17 * B), shape=LLAMA_8B)
    assert too_much.status is Status.FAIL
    assert too_much.fix is not None
    assert too_much.fix.startswith(memory.VRAM.fix)


def ran(*points: tuple[int, int | None, int], **fields: Any) -> OwnModel:
    measured_points = tuple(
        MemoryPoint(batch=batch, length=length, peak_bytes=peak) for batch, length, peak in points
    )
    known: dict[str, Any] = {
        "description": "train.py:make",
        "built": Ended(how="ok"),
        "parameters": B,
    }
    return OwnModel(points=measured_points, **known | fields)


def test_a_measured_peak_beats_the_estimate() -> None:
    own = ran((1, 2048, 20 * B), (2, 2048, 22 * B))
    job = Job(recipe="amp", batch_size=8, seq_len=2048)
    verdict = vram(job, cards(80 * B), shape=LLAMA_8B, own=own)
    assert verdict.status is Status.PASS
    assert "31.7 GiB" in verdict.summary  # 34e9 bytes
    assert "estimated" not in verdict.summary
    assert vram(job, cards(36 * B), own=own).status is Status.WARN
    assert vram(job, cards(33 * B), own=own).status is Status.FAIL
    assumed = msgspec.structs.replace(job, recipe=None)
    assert vram(assumed, cards(33 * B), own=own).status is Status.FAIL


def test_another_length_is_scaled_and_named() -> None:
    found = measured(Job(batch_size=4, seq_len=4096), ran((1, 1024, 20 * B), (2, 1024, 21 * B)))
    assert found is not None
    assert found.bytes == 16 * B
    assert found.peak == 35 * B
    assert "of 1,024 tokens, scaled to 4,096" in found.basis


def test_shards_divide_the_state_and_not_the_activations() -> None:
    own = ran((1, 2048, 20 * B), (2, 2048, 22 * B))
    job = Job(params=B, recipe="amp", batch_size=8, shards=9)
    assert "14.9 GiB required" not in vram(job, cards(80 * B), own=own).summary
    assert vram(job, cards(21 * B), own=own).status is Status.PASS  # 18/9 + 16, of 90 %


@pytest.mark.parametrize(
    "own",
    [
        None,
        DARK,
        ran(),
        ran((1, 2048, 20 * B), (2, 1024, 20 * B)),
        ran((1, 2048, 20 * B)),
        ran((1, 2048, 20 * B), (2, 2048, 22 * B), whole=False),
        OwnModel(description="x", built=Ended(how="ok"), points=DARK),
    ],
)
def test_points_that_tell_nothing_of_the_job(own: OwnModel | Unknown | None) -> None:
    assert measured(Job(batch_size=8, seq_len=2048), own) is None


def test_one_point_at_the_jobs_own_batch_is_enough() -> None:
    found = measured(Job(batch_size=1), ran((1, 2048, 20 * B)))
    assert found is not None
    assert found.peak == 20 * B
    assert measured(Job(batch_size=1, seq_len=4096), ran((1, 2048, 20 * B))) is None


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
        in vram(Job(params=B, optimizer=optimizer), cards(80 * B)).summary.casefold()
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


def config(folder: Path, **fields: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(fields))
    return folder


LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 176,
    "vocab_size": 100,
    "hidden_act": "silu",
}


def look(path: Path) -> dict[str, Any]:
    children = Children()
    try:
        return children.run_probe("shape", str(path), seconds=30).answer or {}
    finally:
        children.interrupt()


def test_the_shape_is_read_from_config_json(tmp_path: Path) -> None:
    told = look(config(tmp_path, **LLAMA))["shape"]
    shape = msgspec.convert(told, ModelShape)
    assert (shape.layers, shape.hidden, shape.intermediate, shape.gated) == (2, 64, 176, True)
    (tmp_path / "vision").mkdir()
    assert look(config(tmp_path / "vision", text_config=LLAMA))["shape"]["hidden"] == 64
    (tmp_path / "gpt2").mkdir()
    told = look(config(tmp_path / "gpt2", n_embd=8, n_layer=1, n_head=2, vocab_size=10))["shape"]
    assert (told["intermediate"], told["gated"]) == (32, False)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({**LLAMA, "num_experts": 8}, "mixture of experts"),
        ({**LLAMA, "is_encoder_decoder": True}, "encoder"),
        ({**LLAMA, "hidden_size": "64"}, "no hidden_size"),
        ({**LLAMA, "vocab_size": -1}, "no vocab_size"),
        ({}, "no num_hidden_layers"),
    ],
)
def test_a_shape_that_is_not_a_plain_decoders(
    fields: dict[str, Any], said: str, tmp_path: Path
) -> None:
    assert said in look(config(tmp_path, **fields))["reason"]


def test_a_config_that_is_not_there_or_not_readable(tmp_path: Path) -> None:
    assert look(tmp_path)["absent"] is True
    assert look(tmp_path / "nothing")["absent"] is True
    (tmp_path / "config.json").write_text("[1")
    assert look(tmp_path) == {}
