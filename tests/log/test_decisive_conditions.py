"""Lines that decide between causes of one message, and look-alikes that do not."""

from __future__ import annotations

import pytest
from logs import findings, read

from doctor.errors.causes import BY_ID
from doctor.errors.fitted import fitted
from doctor.errors.match import with_message
from doctor.judge.check import Finding, Status

ENDED = "ValueError: Total available GPUs 8.0 is less than total desired GPUs 16\n"
UNREGISTERED = "KeyError: 'TopdownPose is not in the model registry.'\n"
KILLED = "slurmstepd: error: Detected 1 oom_kill event in StepId=9.0.\n"
WORKERS = (
    "UserWarning: This DataLoader will create 8 worker processes in total. Our suggested max "
    "number of worker in current system is 1\n"
)
WAITS = "".join(f"Epoch: [0][{n}] Time 8.0 Data 7.5 Loss {7 - n / 10:.2f}\n" for n in range(20))


def failing(text: str) -> Finding:
    (found,) = (
        each
        for each in findings(read(log=text)).values()
        if each.status in (Status.FAIL, Status.WARN)
    )
    return found


@pytest.mark.parametrize(
    ("line", "failure", "word"),
    [
        ("INFO scripts.py:1152 -- Local node IP: 172.17.0.1\n", ENDED, "--node-ip-address"),
        ("Failed to connect to GCS at address 10.0.0.5:6379 within 5 s\n", ENDED, "ray status"),
        ("Map (num_proc=512):   3%|#    | 1200/40000 [00:01<00:40]\n", KILLED, "num_proc"),
        (WORKERS, WAITS, "--cpus-per-task"),
        (
            "[encode] img_1.jpg latent mean nan std nan\n",
            "".join(f"step {n} loss: nan\n" for n in range(9)),
            "VAE in fp32",
        ),
    ],
)
def test_a_line_before_a_failure_decides_its_cause(line: str, failure: str, word: str) -> None:
    assert word in failing(line + failure).fix
    without = failing(failure)
    assert failing(line + failure).fix != without.fix


@pytest.mark.parametrize(
    ("line", "failure"),
    [
        ("INFO scripts.py:1152 -- Local node IP: 10.0.0.7\n", ENDED),
        ("Map (num_proc=8):   3%|#    | 1200/40000 [00:01<00:40]\n", KILLED),
        ("Failed to import mmpose.models, please check the location\n", UNREGISTERED),
        (
            "latents cached to /data/nancy/latents.pt\n",
            "".join(f"step {n} loss: nan\n" for n in range(9)),
        ),
    ],
)
def test_a_look_alike_decides_nothing(line: str, failure: str) -> None:
    if "latents" in line:
        line = "latents cached to /data/nancy/latents.pt\n"
    assert failing(line + failure).fix == failing(failure).fix


def test_warnings_about_workers_alone_are_nothing() -> None:
    steps = "".join(f"step {n} loss: {3 - n / 100:.2f}\n" for n in range(30))
    assert not [
        each
        for each in findings(read(log=WORKERS + steps)).values()
        if each.status in (Status.FAIL, Status.WARN)
    ]


@pytest.mark.parametrize(
    ("text", "id", "word"),
    [
        (
            "EFA internal error: (4112) Failure to post internal receive buffers",
            "locked-memory-limit",
            "ulimit -l",
        ),
        (
            "n1:8:9 [0] transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",
            "device-number-too-high",
            "--gpu-bind=none",
        ),
        (
            "RuntimeError: CUDA error: invalid device ordinal",
            "device-number-too-high",
            "LOCAL_RANK",
        ),
        ("OSError: [Errno 38] Function not implemented", "file-locks-missing", "flock"),
        (
            "AssertionError: tensor_model_parallel_size value from checkpoint (4) is not equal to "
            "the input argument value (8).",
            "checkpoint-of-other-keys",
            "--use-checkpoint-args",
        ),
        (
            "ValueError: Expected y_min for bbox (0.1, -1e-09, 0.2, 0.3, 1) to be in the range "
            "[0.0, 1.0], got -1e-09.",
            "labels-or-boxes-invalid",
            "Clip",
        ),
        (
            "AssertionError: Error in memory profiling. Initial free memory 66.3 GiB, current free "
            "memory 68.9 GiB.",
            "memory-freed-while-profiling",
            "Start again",
        ),
        (
            "OSError: [Errno 12] Cannot allocate memory",
            "host-out-of-memory",
            "FI_EFA_USE_HUGE_PAGE",
        ),
        (
            "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms "
            "while trying to connect to (127.0.1.1, 29500).",
            "rendezvous-timeout",
            "/etc/hosts",
        ),
    ],
)
def test_a_message_names_its_cause_first(text: str, id: str, word: str) -> None:
    first = with_message(text)[0]
    assert first.id == id
    assert word in fitted(BY_ID[id], text).fix


def test_other_addresses_are_no_loopback() -> None:
    text = (
        "torch.distributed.DistNetworkError: The client socket has timed out after 60000ms while "
        "trying to connect to (10.0.0.1, 29500)."
    )
    assert "/etc/hosts" not in fitted(BY_ID["rendezvous-timeout"], text).fix


def test_an_evaluation_of_averaged_weights_is_no_part_of_the_others() -> None:
    text = "".join(
        f"Train: {n} Loss: {3 - n / 20:.3f} LR: 1e-3\nTest: [ 1/1] Loss: {2 - n / 20:.3f}\n"
        "Test (EMA): [ 1/1] Loss: 6.900\n"
        for n in range(20)
    )
    (curve,) = (each for each in read(log=text).curves if each.name == "eval_loss")
    assert curve.values == tuple(round(2 - n / 20, 3) for n in range(20))
