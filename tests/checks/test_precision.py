from __future__ import annotations

import pytest

from doctor._util.records import Ended, Unknown
from doctor.checks.numerics import environment, precision
from doctor.checks.numerics.tf32 import TF32
from doctor.collect.host import RECORDED
from doctor.facts.host import Host
from doctor.facts.interpreter import Torch, TorchGpu
from doctor.facts.load import Load
from doctor.facts.training import Settings
from doctor.facts.views import JobGpu, JobGpus
from doctor.job.job import Chosen, Job, Precision, Target, TargetKind, choose_precision
from doctor.judge.check import Status, Verdict

LINUX = Host(system="Linux")
DARK = Unknown(reason="the driver hangs")


def gpus(*capabilities: tuple[int, int], name: str = "NVIDIA card") -> JobGpus:
    seen = [
        TorchGpu(index=i, uuid=None, name=name, capability=found, memory_total=1)
        for i, found in enumerate(capabilities)
    ]
    return JobGpus(gpus=tuple(JobGpu(torch=gpu) for gpu in seen), by="torch")


def fits(
    asked: str,
    kind: TargetKind = "nvidia",
    *capabilities: tuple[int, int],
    host: Host | Unknown = LINUX,
    recipe: str | None = None,
    version: str = "2.13.0",
) -> Verdict:
    job = Job(precision=asked, recipe=recipe)  # type: ignore[arg-type]
    target, seen = Target(kind, "test"), gpus(*capabilities)
    macos = host.macos if isinstance(host, Host) else None
    chosen = choose_precision(job, target, seen.lowest_capability, macos)
    assert chosen is not None
    return precision.FITS.judge(
        job=job,
        target=target,
        chosen=chosen,
        job_gpus=seen,
        host=host,
        torch=Torch(version=version),
    )


@pytest.mark.parametrize(
    ("asked", "capability", "status"),
    [
        ("auto", (8, 0), Status.PASS),
        ("bf16", (9, 0), Status.PASS),
        ("auto", (12, 0), Status.PASS),
        ("fp16", (7, 5), Status.PASS),
        ("fp16", (7, 0), Status.PASS),
        ("auto", (6, 1), Status.PASS),
        ("fp32", (6, 1), Status.PASS),
        ("auto", (7, 5), Status.PASS),
        ("auto", (7, 0), Status.PASS),
        ("fp16", (8, 0), Status.WARN),
        ("fp16", (6, 1), Status.WARN),
        ("fp32", (9, 0), Status.WARN),
        ("fp32", (7, 0), Status.WARN),
        ("bf16", (7, 5), Status.FAIL),
        ("bf16", (6, 0), Status.FAIL),
    ],
)
def test_precision_fits_gpu(asked: str, capability: tuple[int, int], status: Status) -> None:
    verdict = fits(asked, "nvidia", capability)
    assert verdict.status is status
    assert f"{capability[0]}.{capability[1]}" in verdict.summary


def test_the_weakest_gpu_decides() -> None:
    verdict = fits("bf16", "nvidia", (8, 6), (7, 5))
    assert verdict.status is Status.FAIL
    assert "GPU 1" in verdict.summary
    assert "8.0 required" in verdict.summary


def test_pure_bf16_is_bf16() -> None:
    assert fits("auto", "nvidia", (7, 5), recipe="pure-bf16").status is Status.FAIL


def test_auto_on_turing_chooses_a_scaler_and_says_so() -> None:
    assert "GradScaler" in fits("auto", "nvidia", (7, 5)).summary


def test_mixed_gpus_can_be_limited_to_the_newer_ones() -> None:
    views = (
        TorchGpu(index=i, uuid=f"GPU-{i}", name="card", capability=found, memory_total=1)
        for i, found in enumerate([(8, 6), (6, 1), (8, 6)])
    )
    seen = JobGpus(gpus=tuple(JobGpu(torch=view) for view in views), by="torch")

    def judged(asked: str) -> Verdict:
        job, target = Job(precision=asked), Target("nvidia", "test")  # type: ignore[arg-type]
        chosen = choose_precision(job, target, (6, 1), None)
        assert chosen is not None
        return precision.FITS.judge(
            job=job, target=target, chosen=chosen, job_gpus=seen, host=LINUX, torch=DARK
        )

    assert judged("bf16").status is Status.FAIL
    assert judged("bf16").commands == ("export CUDA_VISIBLE_DEVICES=GPU-0,GPU-2",)
    assert judged("auto").status is Status.PASS
    assert "CUDA_VISIBLE_DEVICES=GPU-0,GPU-2" in judged("auto").summary


@pytest.mark.parametrize(
    ("version", "asked", "status"),
    [
        ("2.1.2+cu121", "fp16", Status.FAIL),
        ("2.2.2", "fp16", Status.FAIL),
        ("2.3.0", "fp16", Status.PASS),
        ("2.1.2", "bf16", Status.PASS),
        ("2.1.2", "fp32", Status.PASS),
    ],
)
def test_fp16_on_the_cpu_needs_torch_2_3(version: str, asked: str, status: Status) -> None:
    assert fits(asked, "cpu", version=version).status is status


def test_the_texts_name_what_misleads() -> None:
    assert "since torch 2.3" in precision.FITS.why
    assert "_amp_foreach_non_finite_check_and_unscale_cuda" in precision.FITS.why
    assert "GradScaler" in precision.FITS.why
    assert "is_bf16_supported()" in precision.FITS.fix


@pytest.mark.parametrize("asked", ["auto", "bf16", "fp16", "fp32"])
def test_anything_runs_on_the_cpu(asked: str) -> None:
    assert fits(asked, "cpu").status is Status.PASS


@pytest.mark.parametrize(
    ("asked", "status"),
    [("auto", Status.PASS), ("bf16", Status.PASS), ("fp16", Status.PASS), ("fp32", Status.PASS)],
)
def test_rocm_without_the_gpus_is_not_judged_by_them(asked: str, status: Status) -> None:
    assert fits(asked, "rocm").status is status


@pytest.mark.parametrize(
    ("name", "capability", "native"),
    [
        ("AMD Instinct MI300X", (9, 4), True),
        ("AMD Instinct MI250X / MI250", (9, 0), True),
        ("AMD Instinct MI210", (9, 0), True),
        ("AMD Radeon RX 7900 XTX", (11, 0), True),
        ("AMD Radeon RX 9070 XT", (12, 0), True),
        ("AMD Instinct MI100", (9, 0), False),
        ("AMD Instinct MI60 / MI50", (9, 0), False),
        ("AMD Radeon VII", (9, 0), False),
        ("AMD Radeon RX 6900 XT", (10, 3), False),
        ("AMD Radeon Graphics", (9, 0), None),
    ],
)
def test_bf16_of_amd_gpus(name: str, capability: tuple[int, int], native: bool | None) -> None:
    def status(asked: str) -> Status:
        job, target = Job(precision=asked), Target("rocm", "test")  # type: ignore[arg-type]
        chosen = choose_precision(job, target, capability)
        assert chosen is not None
        seen = gpus(capability, name=name)
        return precision.FITS.judge(
            job=job, target=target, chosen=chosen, job_gpus=seen, host=LINUX, torch=DARK
        ).status

    assert status("auto") is Status.PASS
    assert status("bf16") is (Status.WARN if native is False else Status.PASS)
    assert status("fp16") is (Status.WARN if native else Status.PASS)


@pytest.mark.parametrize(
    ("asked", "macos", "status"),
    [
        ("auto", (14, 0), Status.PASS),
        ("bf16", (15, 2), Status.PASS),
        ("auto", (13, 6), Status.PASS),
        ("fp32", (15, 0), Status.PASS),
        ("bf16", (13, 6), Status.WARN),
        ("bf16", None, Status.UNKNOWN),
    ],
)
def test_mps(asked: str, macos: tuple[int, int] | None, status: Status) -> None:
    assert fits(asked, "mps", host=Host(system="Darwin", macos=macos)).status is status


@pytest.mark.parametrize(("version", "status"), [("2.5.1", "warn"), ("2.6.0", "pass")])
def test_mps_has_bf16_autocast_since_2_6(version: str, status: str) -> None:
    seen = Host(system="Darwin", macos=(15, 0))
    assert fits("bf16", "mps", host=seen, version=version).status == status
    assert fits("fp32", "mps", host=seen, version=version).status is Status.PASS


def test_mps_without_a_host_is_unknown() -> None:
    assert fits("bf16", "mps", host=Unknown(reason="no /proc")).status is Status.UNKNOWN


def test_precision_on_gpus_nobody_could_read() -> None:
    known = {
        "job": Job(precision="bf16"),
        "target": Target("nvidia", ""),
        "host": LINUX,
        "torch": DARK,
    }
    chosen = Chosen("bf16", "--precision bf16")
    verdict = precision.FITS.judge(**known, chosen=chosen, job_gpus=DARK)
    assert (verdict.status, "the driver hangs" in verdict.summary) == (Status.UNKNOWN, True)
    nameless = JobGpus(gpus=(JobGpu(),), by="environment")
    verdict = precision.FITS.judge(**known, chosen=chosen, job_gpus=nameless)
    assert verdict.status is Status.UNKNOWN


def tf32(
    seen: JobGpus | Unknown,
    on: bool | None = False,
    *,
    asked: Precision = "fp32",
    env: dict[str, str] | None = None,
    host: Host | Unknown | None = None,
    settings: Settings | Unknown | None = None,
    load: tuple[Load, ...] | Unknown | None = None,
) -> Verdict:
    return TF32.judge(
        chosen=Chosen(asked, "test"),
        settings=settings or Settings(tf32_matmul=on),
        load=load,
        job_gpus=seen,
        host=host or Host(system="Linux", env=env or {}),
    )


H100 = gpus((9, 0), name="NVIDIA H100 80GB HBM3")


def test_a_bf16_job_needs_no_tf32() -> None:
    assert tf32(H100, asked="bf16").status is Status.PASS
    assert tf32(DARK, asked="fp16").status is Status.PASS
    overridden = tf32(H100, asked="bf16", env={"NVIDIA_TF32_OVERRIDE": "0"})
    assert overridden.status is Status.PASS
    assert "NVIDIA_TF32_OVERRIDE=0" in overridden.summary


def test_tf32_on_passes() -> None:
    assert tf32(H100, True).status is Status.PASS


def test_tf32_off_gives_a_line_that_works_in_every_torch() -> None:
    verdict = tf32(H100)
    assert verdict.status is Status.WARN
    assert TF32.commands == ('torch.set_float32_matmul_precision("high")',)
    assert "your script may set it" in verdict.summary


@pytest.mark.parametrize(
    ("name", "capability", "gain"),
    [
        ("NVIDIA A100-SXM4-80GB", (8, 0), "up to 8x"),
        ("NVIDIA H200", (9, 0), "up to 8x"),
        ("NVIDIA GeForce RTX 4090", (8, 9), "about 1x"),
        ("NVIDIA GeForce RTX 5090", (12, 0), "about 1x"),
        ("NVIDIA RTX A6000", (8, 6), "up to 2x"),
        ("NVIDIA L40S", (8, 9), "up to 2x"),
        ("NVIDIA Graphics Device", (8, 9), "no figure"),
    ],
)
def test_the_gain_of_tf32_depends_on_the_gpu(
    name: str, capability: tuple[int, int], gain: str
) -> None:
    assert gain in tf32(gpus(capability, name=name)).summary


def loaded(tf32: float, fp32: float) -> tuple[Load, ...]:
    rates = {"bf16": 600e12, "tf32": tf32, "fp32": fp32}
    ended = Ended(how="ok")
    return (Load(device="cuda:0", uuid=None, name="card", ended=ended, matmul=rates, size=8192),)


@pytest.mark.parametrize(
    ("name", "load", "status", "text"),
    [
        ("NVIDIA H100 80GB HBM3", loaded(350e12, 50e12), Status.WARN, "7.0x"),
        ("NVIDIA GeForce RTX 4090", loaded(84e12, 80e12), Status.PASS, "1.1x"),
        ("NVIDIA GeForce RTX 4090", loaded(97e12, 80e12), Status.WARN, "97.0 and 80.0"),
        ("NVIDIA L40S", Unknown(reason="hung"), Status.WARN, "up to 2x"),
        ("NVIDIA L40S", (), Status.WARN, "up to 2x"),
    ],
)
def test_a_measured_ratio_decides(
    name: str, load: tuple[Load, ...] | Unknown, status: Status, text: str
) -> None:
    verdict = tf32(gpus((8, 9), name=name), load=load)
    assert verdict.status is status
    assert text in verdict.summary
    forbidden = tf32(gpus((8, 9), name=name), load=load, env={"NVIDIA_TF32_OVERRIDE": "0"})
    assert forbidden.status is Status.WARN


@pytest.mark.parametrize(("on", "status"), [(True, Status.PASS), (False, Status.WARN)])
def test_what_the_users_code_set_counts(on: bool, status: Status) -> None:
    settings = Settings(when="after the model's code", tf32_matmul=on)
    verdict = tf32(H100, not on, settings=settings)
    assert verdict.status is status
    assert "after your code ran" in verdict.summary
    assert "your script may set it" not in verdict.summary


def test_below_ampere_there_is_no_tf32() -> None:
    assert tf32(gpus((7, 5))).status is Status.SKIP


def test_the_override_is_named_although_torch_reads_on() -> None:
    verdict = tf32(H100, True, env={"NVIDIA_TF32_OVERRIDE": "0"})
    assert verdict.status is Status.WARN
    assert verdict.commands == ("unset NVIDIA_TF32_OVERRIDE",)
    assert tf32(H100, True, env={"NVIDIA_TF32_OVERRIDE": "1"}).status is Status.PASS


@pytest.mark.parametrize("value", ["0", "1"])
def test_the_cublas_override_is_named(value: str) -> None:
    verdict = tf32(H100, value == "1", env={"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": value})
    assert verdict.status is Status.WARN
    assert f"TORCH_ALLOW_TF32_CUBLAS_OVERRIDE={value}" in verdict.summary


def test_tf32_unknown() -> None:
    assert tf32(H100, None).status is Status.UNKNOWN
    assert tf32(DARK).status is Status.UNKNOWN
    assert tf32(H100, settings=Unknown(reason="no torch")).status is Status.UNKNOWN
    assert tf32(H100, host=Unknown(reason="no /proc")).status is Status.UNKNOWN
    assert tf32(JobGpus(gpus=(JobGpu(),), by="environment")).status is Status.UNKNOWN


def clean(kind: TargetKind = "nvidia", **env: str) -> Verdict:
    host = Host(system="Linux", env=env)
    return environment.CLEAN.judge(host=host, target=Target(kind, "test"))


def test_a_clean_environment_passes() -> None:
    assert clean().status is Status.PASS
    assert clean(CUDA_VISIBLE_DEVICES="0", LD_LIBRARY_PATH="/opt/lib").status is Status.PASS


@pytest.mark.parametrize("leftover", environment.LEFTOVERS, ids=lambda row: row.name)
def test_every_leftover_is_recorded_and_reported_with_its_effect(
    leftover: environment.Leftover,
) -> None:
    assert leftover.name in RECORDED
    verdict = clean(**{leftover.name: "1"})
    assert verdict.status is Status.WARN
    assert f"{leftover.name}=1" in verdict.summary
    assert leftover.effect in verdict.summary
    assert verdict.commands == (f"unset {leftover.name}",)
    assert clean(**{leftover.name: ""}).status is Status.PASS


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUDA_LAUNCH_BLOCKING", "0"),
        ("NCCL_DEBUG", "WARN"),
        ("TORCH_DISTRIBUTED_DEBUG", "OFF"),
        ("TORCHDYNAMO_DISABLE", "0"),
    ],
)
def test_values_that_do_nothing_are_fine(name: str, value: str) -> None:
    assert clean(**{name: value}).status is Status.PASS


def test_several_leftovers_are_one_warning() -> None:
    verdict = clean(CUDA_LAUNCH_BLOCKING="1", NCCL_P2P_DISABLE="1")
    assert verdict.commands == ("unset CUDA_LAUNCH_BLOCKING NCCL_P2P_DISABLE",)


def test_a_long_value_is_cut_and_stays_on_one_line() -> None:
    summary = clean(TORCH_LOGS="a\n" + "b" * 5000).summary
    assert len(summary) < 250
    assert "\n" not in summary


def test_cuda_variables_do_nothing_to_a_job_on_the_cpu() -> None:
    assert clean("cpu", CUDA_LAUNCH_BLOCKING="1").status is Status.PASS
    assert clean("cpu", TORCHDYNAMO_DISABLE="1").status is Status.WARN
