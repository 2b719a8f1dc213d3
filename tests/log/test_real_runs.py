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


def steps(count: int) -> str:
    return "".join(f"step {at} loss: {2.5 - at / 100:.3f} lr: 0.0001\n" for at in range(count))


def test_what_ended_an_earlier_run_is_a_note_where_steps_follow() -> None:
    log = read(log=ended(SHAPES) + steps(9) + ended(MISSING))
    assert problems(log) == {"file-missing": Status.FAIL}
    assert findings(log)["shape-mismatch"].status is Status.NOTE


@pytest.mark.parametrize(
    "between", ["", "stage 2\nloading last.pt\n", "saving the final model\n" * 200]
)
def test_without_steps_between_them_the_first_failure_counts(between: str) -> None:
    log = steps(5) + ended(SHAPES) + between + ended(MISSING)
    assert problems(read(log=log)) == {"shape-mismatch": Status.FAIL}


def test_a_loop_of_crashes_is_one_event() -> None:
    log = read(log=ended(SHAPES) * 5000)
    assert [(each.name, each.count, each.recovered) for each in log.events] == [
        ("shape-mismatch", 5000, False)
    ]
    assert not log.omitted


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


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("assert torch.cuda.is_available()", "AssertionError"),
        ("local = rank % torch.cuda.device_count()", "ZeroDivisionError: integer modulo by zero"),
        ("name = torch.cuda.get_device_name(0)", "IndexError: list index out of range"),
        ("step(batch)", "ValueError: No accelerator found"),
    ],
)
def test_the_driver_counts_where_the_code_asks_for_the_gpu(code: str, error: str) -> None:
    assert first(DRIVER + ended(error).replace("step(batch)", code)).check.slug == "driver-too-old"


@pytest.mark.parametrize(
    ("program", "slug"),
    [
        ("/data/gpu-user/train.py", "uncaught-exception"),
        ("/env/cuda12/lib/site-packages/app/main.py", "uncaught-exception"),
        ("/env/lib/site-packages/torch/cuda/random.py", "driver-too-old"),
    ],
)
def test_the_place_of_a_file_asks_for_no_gpu(program: str, slug: str) -> None:
    failed = "train.py" if "site-packages" in program else program
    log = DRIVER + ended("KeyError: 'a'", program=failed).replace(
        f'"{failed}", line 5', f'"{program}", line 5'
    )
    assert first(log).check.slug == slug


def test_no_training_went_on_after_a_warning_that_a_failure_follows() -> None:
    warned = findings(read(log=DRIVER + ended("AttributeError: 'tuple' has no a")))[
        "driver-too-old"
    ]
    assert "names no GPU" in warned.verdict.summary
    assert "went on" not in warned.verdict.summary
    went_on = findings(read(log=DRIVER + steps(9)))["driver-too-old"]
    assert "training went on after it" in went_on.verdict.summary


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


def test_a_loss_scale_that_is_0_in_each_row_is_no_setting() -> None:
    row = "step {} loss: {:.3f} loss_scale: 0.0 lr: 0.0001\n"
    still = "".join(row.format(at, 2.5 + at % 3 / 100) for at in range(40))
    assert problems(read(log=still))["scaler-collapse"] is Status.FAIL
    falls = "".join(row.format(at, 2.5 - at / 20) for at in range(40))
    assert problems(read(log=falls)) == {}
    assert findings(read(log=falls))["scaler-collapse"].status is Status.NOTE
    late = still + "".join(
        f"step {at} loss: 2.4 loss_scale: 512 lr: 0.0001\n" for at in range(40, 50)
    )
    assert "scaler-collapse" not in problems(read(log=late))
    setting = "float16_config ... loss_scale=0.0 initial_scale_power=16\n" * 16
    assert problems(read(log=setting + steps(9))) == {}


def test_a_rate_that_no_step_moves_is_no_fault_beside_a_collapsed_scale() -> None:
    row = "{{'loss': 0.0, 'grad_norm': 0.0, 'learning_rate': 0.0, 'epoch': 0.0{}}}\n"
    zero = "".join(map(row.format, range(9)))
    minimum = "Exception: Current loss scale already at minimum - cannot decrease scale anymore."
    assert "learning-rate-zero" not in problems(read(log=zero + ended(minimum)))
    moving = zero.replace("'loss': 0.0", "'loss': 2.5").replace("norm': 0.0", "norm': 1.5")
    assert problems(read(log=moving))["learning-rate-zero"] is Status.FAIL


@pytest.mark.parametrize(
    ("line", "slug"),
    [
        ("Skipping batch 3: CUDA out of memory. Tried to allocate 2.00 GiB", "cuda-oom"),
        ("Skipping validation: CUDA error: device-side assert triggered", "device-side-assert"),
        ("Skipped: NCCL error: unhandled system error", "nccl-error"),
    ],
)
def test_what_a_program_skips_is_overcome_by_steps_alone(line: str, slug: str) -> None:
    assert problems(read(log=steps(5) + f"{line}\n" * 5)) == {slug: Status.FAIL}


def test_a_checkpoint_that_is_skipped_hinders_no_training() -> None:
    skipped = "Skipping resume: [Errno 2] No such file or directory: '/ckpt/last.pt'\n"
    assert problems(read(log=skipped + steps(9))) == {}


def test_code_about_nan_is_no_value() -> None:
    assert problems(read(log="   2223  # if loss is nan or inf simply add the average\n" * 3)) == {}
    assert problems(read(log="".join(f"step {at}: loss is nan\n" for at in range(9)))) != {}


def test_a_refused_command_line_is_named() -> None:
    usage = "usage: train.py [-h] [--fp16 FP16]\ntrain.py: error: "
    found = first(usage + "argument --fp16: Truthy value expected: got s\n")
    assert "command" in (found.fix or "")
    both = first(usage + "argument --bf16: not allowed with argument --fp16\n")
    assert (both.fix or "").startswith("Remove one of the two")
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
IMPORT = "ModuleNotFoundError: No module named 'transformers'"


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


@pytest.mark.parametrize(
    "after",
    [
        ended("ModuleNotFoundError: No module named 'utils'"),
        ended("ModuleNotFoundError: No module named 'torch._dynamo.old'"),
        ended("ImportError: cannot import name 'AdamW' from 'transformers' (/env/t/__init__.py)"),
        "step 0 loss: 2.5 lr: 0.1\nstep 1 loss: 2.4 lr: 0.1\n" + ended(IMPORT),
    ],
)
def test_an_import_may_fail_for_another_reason_than_an_environment(after: str) -> None:
    found = first(NOT_ACTIVATED + after)
    assert found.check.slug == "import-failed"
    assert "conda activate NAME" not in (found.verdict.fix or "")


def test_a_data_set_that_is_not_found_is_a_path() -> None:
    assert first(ended("Exception: Dataset not found.")).check.slug == "file-missing"
    for line in (
        "WARNING Dataset not found, downloading it",
        "Dataset not found in cache",
        "found",
    ):
        assert problems(read(log=line + "\n")) == {}


AGAIN = "".join(f"wandb:  {each}\n" for each in ("loss 0.4", "train/loss 0.3", "grad_norm 1.2"))


@pytest.mark.parametrize("size", [0, 9000], ids=["small", "scanned"])
@pytest.mark.parametrize("prefix", ["", "[rank0]: "])
def test_values_that_are_printed_again_at_the_end_are_no_steps(size: int, prefix: str) -> None:
    again = AGAIN.replace("wandb", f"{prefix}wandb") * 3
    log = "loading the data, part after part\n" * size + steps(9) + ended(SHAPES)
    assert problems(read(log=log + again)) == {"shape-mismatch": Status.FAIL}
    assert problems(read(log=log + steps(9) + again)) == {}


@pytest.mark.parametrize(
    "after", ["", "terminated worker\n" * 20, "wandb: accuracy/3 \u2581\u2582\u2583\n" * 300]
)
def test_what_is_printed_below_a_ctrl_c_is_no_run(after: str) -> None:
    log = steps(5) + ended("KeyboardInterrupt") + after
    assert problems(read(log=log)) == {"interrupted": Status.FAIL}


def test_a_training_that_was_started_again_after_a_ctrl_c_is_not_interrupted() -> None:
    assert problems(read(log=ended("KeyboardInterrupt") + steps(20))) == {}


ACCOUNT = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2023-10-17_00:38:34\n"
    "  rank      : 0 (local_rank: 0)\n  exitcode  : 1 (pid: 31937)\n====\n"
)
QUIETLY = "Evaluating: 3/700 [00:03]\n" * 600


@pytest.mark.parametrize(
    "after",
    ["", "closing\n" * 90, QUIETLY, QUIETLY + ENDED, QUIETLY + ended(MISSING) + ACCOUNT],
)
def test_no_number_of_lines_below_a_launchers_account_makes_another_job(after: str) -> None:
    assert problems(read(log=ended(SHAPES) + ACCOUNT + after))["shape-mismatch"] is Status.FAIL
