"""The remedy of a first cause names what the log says: the cache, the address, the environment."""

from __future__ import annotations

import pytest
from logs import curve, findings, read, with_curves

from doctor.judge.check import Finding, Status

TRACEBACK = "Traceback (most recent call last):\n"
PACKAGES = "/env/lib/python3.12/site-packages"


def failure(text: str) -> Finding:
    return next(each for each in findings(read(log=text)).values() if each.status is Status.FAIL)


def raised(exception: str, *frames: str) -> str:
    lines = "".join(f'  File "{frame}", line 7, in run\n    run()\n' for frame in frames)
    return f"{TRACEBACK}{lines}{exception}\n"


QUOTA = "OSError: [Errno 122] Disk quota exceeded"


@pytest.mark.parametrize(
    ("frame", "variable"),
    [
        (f"{PACKAGES}/triton/runtime/cache.py", "TRITON_CACHE_DIR"),
        (f"{PACKAGES}/torch/_inductor/codecache.py", "TORCHINDUCTOR_CACHE_DIR"),
        (f"{PACKAGES}/torch/utils/cpp_extension.py", "TORCH_EXTENSIONS_DIR"),
        (f"{PACKAGES}/huggingface_hub/file_download.py", "HF_HOME"),
        (f"{PACKAGES}/datasets/arrow_writer.py", "HF_DATASETS_CACHE"),
        (f"{PACKAGES}/torch/hub.py", "TORCH_HOME"),
        (f"{PACKAGES}/wandb/sdk/internal.py", "WANDB_DIR"),
    ],
)
def test_a_full_disk_names_the_cache_of_the_frame(frame: str, variable: str) -> None:
    for text in (QUOTA, "OSError: [Errno 28] No space left on device"):
        fix = failure(raised(text, "/home/a/train.py", frame)).fix or ""
        assert variable in fix.split(". ")[0]
    cut = f"{QUOTA}\n\nDuring handling of the above exception, another exception occurred:\n\n"
    assert variable in (failure(cut + raised(QUOTA, "/home/a/train.py", frame)).fix or "")


def test_a_full_disk_elsewhere_names_no_cache() -> None:
    frame = f"{PACKAGES}/torch/serialization.py"
    found = failure(raised(QUOTA, "/home/a/train.py", frame))
    assert "export" not in (found.fix or "")
    assert "quota -s" in found.commands[0]
    space = failure(raised("OSError: [Errno 28] No space left on device", frame))
    assert "quota" not in (space.fix or "")


def refused(asking: str) -> str:
    pool = "HTTPConnectionPool(host='node7', port=8097): Max retries exceeded with url: /main"
    return (
        raised("ConnectionRefusedError: [Errno 111] Connection refused",
               f"{PACKAGES}/urllib3/connection.py")
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + raised(f"requests.exceptions.ConnectionError: {pool} (Caused by NewConnectionError('<x>: "
                 "Failed to establish a new connection: [Errno 111] Connection refused'))",
                 "/home/a/train.py", asking, f"{PACKAGES}/requests/adapters.py")
    )  # fmt: skip


def test_a_refused_connection_names_the_address_and_who_asks() -> None:
    fix = failure(refused(f"{PACKAGES}/visdom/__init__.py")).fix or ""
    assert fix.startswith("Start what is to listen at node7:8097, which visdom asks for")
    fix = failure(refused("/home/a/plots.py")).fix or ""
    assert fix.startswith("Start what is to listen at node7:8097, or correct that address")
    bare = raised("ConnectionRefusedError: [Errno 111] Connection refused", "/home/a/train.py")
    assert "around it" in (failure(bare).fix or "")


def test_an_environment_of_another_name_is_no_missing_activation() -> None:
    missing = raised("ModuleNotFoundError: No module named 'numpy'", "/home/a/train.py")
    named = "EnvironmentNameNotFound: Could not find conda environment: gpu\n\n" + missing
    fix = failure(named).fix or ""
    assert fix.startswith("Correct the name: conda finds no environment gpu.")
    assert "conda env list" in fix
    assert "conda.sh" not in fix
    shell = "CondaError: Run 'conda init' before 'conda activate'\n" + missing
    assert "conda.sh" in (failure(shell).fix or "")


def test_a_variable_of_slurm_is_not_set_by_torchrun() -> None:
    of_slurm = failure(raised("KeyError: 'SLURM_NTASKS'", "/home/a/train.py"))
    assert "srun" in (of_slurm.fix or "").split(". ")[0]
    assert not any("torchrun" in each for each in of_slurm.commands)
    assert "torchrun" in (failure(raised("KeyError: 'LOCAL_RANK'", "/home/a/train.py")).fix or "")


OUT = (
    "RuntimeError: CUDA out of memory. Tried to allocate {request} (GPU 0; 11.00 GiB total "
    "capacity; 5.50 GiB already allocated; 2.00 GiB free; 8.80 GiB reserved in total by PyTorch)"
)


def test_a_large_request_needs_a_smaller_batch_and_no_allocator() -> None:
    large = failure(raised(OUT.format(request="2.90 GiB"), "/home/a/embed.py")).fix or ""
    assert large.startswith("A smaller batch")
    assert "no_grad" in large
    assert "ALLOC_CONF" not in large
    small = failure(raised(OUT.format(request="400.00 MiB"), "/home/a/embed.py")).fix or ""
    assert small.startswith("Set PYTORCH_CUDA_ALLOC_CONF")


@pytest.mark.parametrize(
    ("message", "required"),
    [
        ("NotImplementedError: Please use HDF reader for matlab v7.3 files", False),
        ("ValueError: please use the reader for archives of version 2.1", False),
        ("ImportError: please install numpy==1.26.4", True),
        ("ImportError: Please use a newer transformers, version 4.50.1", True),
        ("ImportError: please use torch>=2.1 for this", True),
    ],
)
def test_the_version_of_a_format_is_not_that_of_a_package(message: str, required: bool) -> None:
    finding = failure(raised(message, "/home/a/train.py"))
    assert ("version-required" in finding.verdict.causes) == required


def test_a_failing_server_of_the_tracker_is_no_wrong_key() -> None:
    line = "wandb: ERROR Error while calling W&B API: {} (<Response [{}]>)\n"
    steps = "".join(f"step {at} loss {2 - at / 9:.2f}\n" for at in range(6))
    server = findings(read(log=line.format("context deadline exceeded", 500) + steps))["wandb-auth"]
    assert server.status is Status.PASS
    denied = findings(read(log=line.format("permission denied", 403) + steps))["wandb-auth"]
    assert "WANDB_API_KEY" in (denied.fix or "")


def test_a_flat_loss_is_not_told_by_a_first_value_that_is_an_exception() -> None:
    values = [1.5, *([14.0, 14.1, 13.9, 14.0] * 30)]
    summary = findings(with_curves(curve("loss", values)))["loss-plateau"].verdict.summary
    assert "mostly 14 in its first third, 14 in its last" in summary
    usual = findings(with_curves(curve("loss", values[1:])))["loss-plateau"].verdict.summary
    assert "14 at first, 14 at last" in usual


def test_steps_in_thousands_are_steps() -> None:
    text = "".join(
        f"step:{at} loss:{2 - i / 99:.3f}\n" for i, at in enumerate(("200", "1K", "1.5K", "50K"))
    )
    assert read(log=text).curves[0].steps == (200, 1000, 1500, 50000)
