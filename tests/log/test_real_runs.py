"""What public logs of whole jobs showed: runs that were appended, and what is no failure."""

from __future__ import annotations

import pytest
from logs import findings, problems, read

from doctor.errors.memory_numbers import describe_oom
from doctor.judge.check import Finding, Status

OOM = (
    "RuntimeError: CUDA out of memory. Tried to allocate {} (GPU 0; {} total capacity; {} already "
    "allocated; {} free; {} reserved in total by PyTorch)"
)
DRIVER = (
    "/env/torch/cuda/__init__.py:141: UserWarning: CUDA initialization: The NVIDIA driver on your "
    "system is too old (found version 11040). Update it\n  return torch._C._cuda() > 0\ncpu\n"
)
ENDED = (
    "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2020-08-20T10:43:31 DUE TO TIME LIMIT ***\n"
)


def ended(error: str, program: str = "train.py", prefix: str = "") -> str:
    """The traceback with which a process of a program ends."""
    lines = (
        "Traceback (most recent call last):",
        f'  File "{program}", line 9, in <module>',
        "    main()",
        f'  File "{program}", line 5, in main',
        "    step(batch)",
        error,
    )
    return "".join(f"{prefix}{line}\n" for line in lines)


def first(text: str) -> Finding:
    return next(each for each in findings(read(log=text)).values() if each.status is Status.FAIL)


SHAPES = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (8x4 and 5x2)"
EXITED = "returned non-zero exit status 1."
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'data/train.json'"


RUNPY = '  File "/usr/lib/python3.8/runpy.py", line 194, in _run_module_as_main\n    return f()\n'


def test_of_runs_in_one_file_the_last_one_counts() -> None:
    log = ended(SHAPES) + "Loaded module: python3\n" + ended("KeyError: 'x'") + ended(MISSING)
    found = problems(read(log=log))
    assert found == {"file-missing": Status.FAIL}
    earlier = findings(read(log=log))["shape-mismatch"]
    assert earlier.status is Status.NOTE
    assert "earlier run" in earlier.verdict.summary
    by_name = [each.replace(":\n", f":\n{RUNPY}", 1) for each in (ended(SHAPES), ended(MISSING))]
    assert problems(read(log="".join(by_name))) == {"file-missing": Status.FAIL}


@pytest.mark.parametrize(
    "log",
    [
        ended(SHAPES)
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + ended(MISSING),
        ended(SHAPES, prefix="[rank0]: ") + ended(MISSING, prefix="[rank1]: "),
        ended(SHAPES, program="prepare.py") + ended(MISSING),
        ended(SHAPES)
        + ended(
            "torch.distributed.DistBackendError: NCCL error in: a.cpp:1, unhandled system error"
        ),
        ended(SHAPES)
        + ended(SHAPES)
        + ended(
            f"subprocess.CalledProcessError: Command '['a']' {EXITED}", program="/bin/torchrun"
        ),
    ],
    ids=["chained", "ranks", "programs", "consequence", "launcher"],
)
def test_one_run_has_one_first_cause(log: str) -> None:
    assert problems(read(log=log)).get("shape-mismatch") is Status.FAIL


def test_ranks_of_a_launcher_are_one_run() -> None:
    account = "".join(
        f"{line}\n"
        for line in (
            "Root Cause (first observed failure):",
            "[0]:",
            "  time      : 2023-10-17_00:38:34",
            "  rank      : 0 (local_rank: 0)",
            "  exitcode  : 1 (pid: 31937)",
            "====",
        )
    )
    log = read(log=ended(SHAPES) + ended(MISSING) + ended(SHAPES) + account)
    assert not [each for each in log.events if each.recovered]
    assert [each.count for each in log.events if each.name == "shape-mismatch"] == [2]


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        (("576.00 MiB", "22.17 GiB", "3.47 GiB", "153.81 MiB", "4.20 GiB"), "other-process"),
        (("90.00 MiB", "1.93 GiB", "922.92 MiB", "88.31 MiB", "1.06 GiB"), "fragmentation"),
        (("2.00 GiB", "22.17 GiB", "9.00 GiB", "1.00 GiB", "20.00 GiB"), "fragmentation"),
        (("2.00 GiB", "22.17 GiB", "20.00 GiB", "1.00 GiB", "20.50 GiB"), "full"),
    ],
)
def test_memory_that_others_hold_goes_before_pieces(numbers: tuple[str, ...], kind: str) -> None:
    described = describe_oom(OOM.format(*numbers))
    assert described is not None
    assert described.kind == kind
    assert "expandable_segments" not in described.fix  # torch before 2.1 refuses it


def test_a_program_that_went_on_without_its_gpu_fails_by_itself() -> None:
    error = "AttributeError: 'tuple' object has no attribute 'a'"
    found = problems(read(log=DRIVER + ended(error)))
    assert found == {"uncaught-exception": Status.FAIL, "driver-too-old": Status.WARN}


@pytest.mark.parametrize(
    "after",
    [
        "",
        ended("RuntimeError: No CUDA GPUs are available"),
        ended("AssertionError: this needs a GPU"),
        ended("ValueError: fp16 mixed precision requires another device"),
    ],
)
def test_the_driver_counts_where_the_gpu_is_missed(after: str) -> None:
    assert first(DRIVER + after).check.slug == "driver-too-old"


def silent_for_days(line: str) -> str:
    start = "".join(
        f"2020-08-18 11:18:{second:02}.1: I core.cc:44] {line.format(second)}\n"
        for second in range(20)
    )
    return start + ENDED.replace("slurm", "2020-08-20 10:43:31.1: slurm")


def test_a_file_without_steps_proves_no_hang() -> None:
    fix = first(silent_for_days("opened library {}")).fix or ""
    assert "other file" in fix
    assert not fix.startswith("The run hung")


@pytest.mark.parametrize("line", ["step {} loss 2.5", "step {} loss: 2.1 lr: 1e-4"])
def test_a_run_that_logged_steps_hung(line: str) -> None:
    assert (first(silent_for_days(line)).fix or "").startswith("The run hung")


def test_a_loss_scale_of_0_is_a_setting_until_there_was_another() -> None:
    setting = "float16_config ... enabled=True loss_scale=0.0 initial_scale_power=16\n"
    steps = "".join(f"step {at} loss: {3 - at / 9:.3f} loss scale: 512\n" for at in range(4))
    assert problems(read(log=setting + steps)) == {}
    scales = [1024, 1024, 0.5, 0.5]
    fallen = "".join(
        f"step {at} loss: 2.{at} loss scale: {each}\n" for at, each in enumerate(scales)
    )
    assert problems(read(log=fallen))["scaler-collapse"] is Status.FAIL


def test_a_rate_that_no_step_moves_is_no_fault_beside_a_collapsed_scale() -> None:
    row = "{{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 0.0, 'epoch': 0.0{}}}\n"
    zero = "".join(map(row.format, range(9)))
    minimum = "Exception: Current loss scale already at minimum - cannot decrease scale anymore."
    assert "learning-rate-zero" not in problems(read(log=zero + ended(minimum)))
    moving = zero.replace("'loss': 0.0", "'loss': 2.5").replace("norm': 0.0", "norm': 1.5")
    assert problems(read(log=moving))["learning-rate-zero"] is Status.FAIL


def test_what_a_program_skips_is_no_failure() -> None:
    error = "Attempting to deserialize object on CUDA device 7 but torch.cuda.device_count() is 6."
    assert problems(read(log=f"[skip] Failed to load a.ckpt: {error}\nSaved results\n")) == {}
    assert problems(read(log=ended(f"RuntimeError: {error}"))) == {"cuda-unavailable": Status.FAIL}


def test_code_about_nan_is_no_value() -> None:
    assert problems(read(log="   2223  # if loss is nan or inf simply add the average\n" * 3)) == {}
    assert problems(read(log="".join(f"step {at}: loss is nan\n" for at in range(9)))) != {}


def test_a_refused_command_line_is_named() -> None:
    usage = "usage: train.py [-h] [--fp16 FP16]\ntrain.py: error: "
    found = first(usage + "argument --fp16: Truthy value expected: got s\n")
    assert "command" in (found.fix or "")
    assert problems(read(log="see train.py: error: handling is in the docs\n")) == {}
    assert problems(read(log=usage + "argument -x: expected one argument\n" + "step\n" * 60)) == {}


def test_make_says_that_its_command_was_killed() -> None:
    killed = " 75%|##  | 30/40 [00:08<00:02]make: *** [Makefile:22: m] Killed\n"
    assert first(killed).check.slug == "killed-sigkill"
    assert problems(read(log="make: *** [Makefile:22: m] Error 1\n")) == {}


def test_a_program_that_a_library_starts_is_to_be_installed() -> None:
    start = "FileNotFoundError: [Errno 2] No such file or directory: "
    assert "install" in (first(ended(f"{start}'git-lfs'")).fix or "").lower()
    for path in ("'data/git-lfs'", "'git-lfs.txt'", "'/opt/gcc/data'"):
        assert "ls -ld" in (first(ended(start + path)).fix or "")


NOT_ACTIVATED = "CondaError: Run 'conda init' before 'conda activate'\n"
IMPORT = "ModuleNotFoundError: No module named 'jsonlines'"


@pytest.mark.parametrize(
    "line",
    [
        NOT_ACTIVATED,
        "/var/spool/slurmd/job5/slurm_script: line 12: activate: No such file or directory\n",
    ],
)
def test_a_package_is_missing_where_no_environment_was_activated(line: str) -> None:
    found = first(line + ended(IMPORT))
    assert found.check.slug == "import-failed"
    assert "conda activate NAME" in (found.verdict.fix or "")
    assert "conda activate NAME" not in (first(ended(IMPORT) + line).verdict.fix or "")
    assert "conda activate NAME" not in (first(line + ended(SHAPES)).verdict.fix or "")
    assert problems(read(log=line + "step 1 loss 2.5\nstep 2 loss 2.4\n")) == {}


def test_a_data_set_that_is_not_found_is_a_path() -> None:
    assert first(ended("Exception: Dataset not found.")).check.slug == "file-missing"
    for line in (
        "WARNING Dataset not found, downloading it",
        "Dataset not found in cache",
        "found",
    ):
        assert problems(read(log=line + "\n")) == {}


def test_a_run_that_was_started_again_after_a_ctrl_c_is_not_interrupted() -> None:
    stopped = ended("KeyboardInterrupt")
    assert problems(read(log=stopped + "Test: [430/1814] Batch 0.409\n" * 200)) == {}
    assert problems(read(log=stopped + "terminated worker\n" * 20)) == {"interrupted": Status.FAIL}
    ranks = "".join(f"[rank{rank}]: stopping\n" for rank in range(4)) * 50
    assert problems(read(log=stopped + ranks)) == {"interrupted": Status.FAIL}
    assert problems(read(log=ended(SHAPES) + "Test: [430/1814]\n" * 200)) != {}


ACCOUNT = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2023-10-17_00:38:34\n"
    "  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 31937)\n====\n"
)
QUIETLY = "Fetching the next part of the data\n" * 600


def test_a_job_that_was_appended_below_a_launchers_account_is_another_one() -> None:
    failed = ended(SHAPES) + ACCOUNT
    assert problems(read(log=failed + QUIETLY)) == {}
    assert problems(read(log=failed + QUIETLY + ENDED)) == {"scheduler-ended": Status.FAIL}


@pytest.mark.parametrize(
    "after", ["closing\n" * 90, QUIETLY + ended(MISSING), QUIETLY + ended(MISSING) + ACCOUNT]
)
def test_what_follows_the_account_closely_is_of_the_same_job(after: str) -> None:
    assert problems(read(log=ended(SHAPES) + ACCOUNT + after))["shape-mismatch"] is Status.FAIL
