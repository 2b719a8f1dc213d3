"""Settings and warnings that explain a failure, and are nothing where nothing failed."""

from __future__ import annotations

import pytest
from logs import findings, problems, read

from doctor.checks.log.classes import BY_SLUG, CONDITIONS
from doctor.checks.log.curves import CHECKS
from doctor.errors.causes import BY_ID
from doctor.judge.check import Finding, Status

STEPS = "".join(f"step {step} loss: {3 - step / 100:.2f}\n" for step in range(1, 6))
NAN = "".join(f"step {step} loss: nan\n" for step in range(1, 9))
REFUSED = (
    "n2:1:2 [0] misc/socket.cc:484 NCCL WARN socketStartConnect: Connect to 172.17.0.1 failed\n"
)
UNCAUGHT = (
    'Traceback (most recent call last):\n  File "train.py", line 3, in <module>\n'
    "InternalError: Graph execution error:\n"
)
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def only_failure(**files: str) -> Finding:
    (found,) = (each for each in findings(read(**files)).values() if each.status is Status.FAIL)
    return found


@pytest.mark.parametrize("id", [id for id, row in CONDITIONS.items() if not row.code])
def test_a_condition_alone_is_no_problem_and_explains_what_exists(id: str) -> None:
    row = CONDITIONS[id]
    for example in row.examples:
        assert problems(read(log=f"{example}\n{STEPS}")) == {}
    assert set(row.explains) <= {*BY_ID, *BY_SLUG, *(check.slug for check in CHECKS)}


@pytest.mark.parametrize(
    ("id", "failure"),
    [
        ("answer-template-not-found", NAN),
        ("bridge-chosen", REFUSED),
        ("loopback-chosen", REFUSED),
        ("no-batch-formed", "ZeroDivisionError: division by zero\n"),
        ("host-memory-nearly-full", "launch.py: exits with return code = -9\n"),
        ("link-went-down", "ncclRemoteError: A call failed possibly due to a network error\n"),
        ("saved-at-that-time", "slurmstepd: error: Detected 1 oom_kill event in StepId=9.0.\n"),
        (
            "started-without-srun",
            "DistStoreError: Timed out after 1801 seconds waiting for clients. 4/8 clients "
            "joined.\nINFO end\n",
        ),
        (
            "factor-is-zero",
            9 * "{'loss': 0.6931, 'grad_norm': 0.0, 'learning_rate': 1e-06}\n",
        ),
        ("layers-in-fp8", NAN),
    ],
)
def test_a_condition_before_a_failure_is_its_reason_and_after_it_none(
    id: str, failure: str
) -> None:
    row = CONDITIONS[id]
    found = only_failure(log=f"{row.examples[0]}\n{failure}")
    assert row.fix in found.fix
    assert f"({id})" in found.verdict.summary
    assert any(place.message == id for place in found.places)
    assert row.fix not in only_failure(log=f"{failure}{row.examples[0]}\n").fix


def test_a_setting_explains_a_failure() -> None:
    text = "clip_grad ....... 0.0\n" + STEPS + NAN
    fix = only_failure(log=text).fix
    assert "Clip the gradient norm" in fix
    settings = "clip_grad ....... 1.0\nlr_warmup_iters ....... 2000\nmax_grad_norm=0.5\n"
    assert "Clip the gradient norm at" not in only_failure(log=settings + STEPS + NAN).fix


def test_a_library_that_xla_misses_explains_its_error() -> None:
    row = CONDITIONS["libdevice-not-found"]
    assert row.fix in only_failure(log=f"{row.examples[1]}\n{UNCAUGHT}").fix
    assert row.fix not in only_failure(log=UNCAUGHT).fix


def test_a_warning_is_settled_by_the_line_that_says_so() -> None:
    warned = "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"
    done = "model.enable_input_require_grads() called\n"
    assert findings(read(log=warned + STEPS))["none-requires-grad"].status is Status.WARN
    assert findings(read(log=done + warned + STEPS))["none-requires-grad"].status is Status.WARN
    assert findings(read(log=warned + done + STEPS))["none-requires-grad"].status is Status.NOTE


def test_checkpointing_without_gradients_is_a_note_where_all_trains() -> None:
    warned = "UserWarning: None of the inputs have requires_grad=True. Gradients will be None\n"

    def status(norm: str, fall: float = 0.1, before: str = "") -> Status:
        rows = "".join(
            f"{{'loss': {3 - fall * at:.2f}, 'grad_norm': {norm}}}\n" for at in range(20)
        )
        return findings(read(log=before + warned + rows))["none-requires-grad"].status

    assert status("2.1") is Status.NOTE
    assert status("0.0") is Status.WARN
    assert status("2.1", fall=0.001) is Status.WARN
    adapter = "trainable params: 8,388,608 || all params: 8,038,649,856 || trainable%: 0.1\n"
    assert status("2.1", before=adapter) is Status.WARN


@pytest.mark.parametrize("value", ["^lo,docker0", "eth0", "lo,eth0"])
def test_another_interface_is_no_loopback(value: str) -> None:
    text = f"NCCL INFO NCCL_SOCKET_IFNAME set by environment to {value}\n"
    assert "loopback-chosen" not in only_failure(log=text + REFUSED).verdict.summary


def test_a_warm_up_longer_than_the_run_is_named() -> None:
    rows = "".join(
        f"{{'loss': {3 - at / 20:.2f}, 'learning_rate': {at}e-08}}\n" for at in range(1, 30)
    )
    total = "Total optimization steps = 290\n"
    found = findings(read(log=f"{total}warmup_steps=5000\n{rows}"))["learning-rate-zero"]
    assert found.status is Status.WARN
    assert "warm-up-too-long" in found.verdict.causes
    for warm in ("warmup_steps=100\n", ""):
        found = findings(read(log=total + warm + rows))["learning-rate-zero"]
        assert found.status is Status.PASS


def test_a_passing_condition_ends_when_the_training_goes_on() -> None:
    port, lost = CONDITIONS["link-went-down"], "ncclRemoteError: A call failed\n"
    assert port.fix in only_failure(log=f"{port.examples[0]}\n{lost}").fix
    assert port.fix not in only_failure(log=f"{port.examples[0]}\n{STEPS}{lost}").fix


def at(minute: int, text: str) -> str:
    return (
        f"2026-01-{1 + minute // 1440:02d} {minute % 1440 // 60:02d}:{minute % 60:02d}:00 {text}\n"
    )


@pytest.mark.parametrize(
    ("minutes", "hung"),
    [(1400, True), (17 * 60 + 7, True), (3, False), (120, False), (10, False)],
)
def test_a_run_that_stood_still_before_it_was_ended_hung(minutes: int, hung: bool) -> None:
    """Whole hours may be of two time zones."""
    steps = "".join(at(step, f"step {step} loss: {3 - step / 50:.2f}") for step in range(20))
    time = at(19 + minutes, "").strip().replace(" ", "T")
    text = f"slurmstepd: error: *** JOB 1 ON n1 CANCELLED AT {time} DUE TO TIME LIMIT ***\n"
    finding = only_failure(log=steps + text)
    assert ("nothing was logged for" in finding.verdict.summary) is hung
    assert ("hung" in finding.fix) is hung


@pytest.mark.parametrize("end", ["Training finished.\n", "{'train_runtime': 10.1}\n"])
def test_what_ends_a_run_that_had_ended_well_is_a_note_and_another_error_is_none(end: str) -> None:
    assert problems(read(log=f"{STEPS}{end}KeyboardInterrupt\n")) == {}
    assert problems(read(log=f"{STEPS}{end}Segmentation fault (core dumped)\n")) == {}
    full = "OSError: [Errno 28] No space left on device\n"
    assert set(problems(read(log=f"{STEPS}{end}{full}"))) == {"disk-full"}
    epoch = "epoch 1: training finished, validating\n"
    assert set(problems(read(log=f"{STEPS}{epoch}KeyboardInterrupt\n"))) == {"interrupted"}


@pytest.mark.parametrize("end", ["KeyboardInterrupt\n", "Received 15 death signal\n"])
def test_who_stops_a_run_that_learns_nothing_is_not_the_cause(end: str) -> None:
    rewards = "".join(
        f"step:{step} - critic/rewards/mean:0.0 - pg_loss:0.0\n" for step in range(20)
    )
    assert only_failure(log=rewards + end).check.slug == "rewards-alike"
    assert only_failure(log=STEPS + end).check.slug in ("interrupted", "killed-sigterm")


def test_a_step_that_srun_cancels_follows_from_the_task_that_failed() -> None:
    cancelled = "slurmstepd: error: *** STEP 7.0 ON n1 CANCELLED AT 2026-01-01T00:00:00{} ***\n"
    assert only_failure(log=REFUSED + cancelled.format("")).check.slug == "nccl-error"
    assert only_failure(log=cancelled.format("")).check.slug == "scheduler-ended"
    limit = cancelled.format(" DUE TO TIME LIMIT")
    assert only_failure(log=REFUSED + limit).check.slug == "scheduler-ended"


def stack(*functions: str) -> str:
    frames = "".join(f'  File "a.py", line 1, in {name}\n    x()\n' for name in functions)
    return f"Traceback (most recent call last):\n{frames}{OOM}"


@pytest.mark.parametrize(
    ("functions", "word"),
    [
        (("train", "evaluation_loop", "forward"), "preprocess_logits_for_metrics"),
        (("training_step", "generate"), "max_new_tokens"),
        (("train", "step", "_init_group"), "8-bit"),
        (("main", "from_pretrained", "_load_pretrained_model"), "weights alone"),
        (("train", "forward", "cross_entropy"), "logits"),
        (("train", "save_model", "state_dict"), "SHARDED_STATE_DICT"),
        (("train", "forward"), "micro-batch"),
    ],
)
def test_the_part_of_the_program_that_needs_the_memory_gives_the_remedy(
    functions: tuple[str, ...], word: str
) -> None:
    assert word in only_failure(log=stack(*functions)).fix


def test_where_many_steps_fitted_one_batch_or_a_leak_is_looked_for() -> None:
    steps = "".join(f"step {step} loss: 1.5\n" for step in range(20))
    assert "20 steps were logged before it" in findings(read(log=steps + OOM))["cuda-oom"].fix
    assert "were logged before it" not in findings(read(log=STEPS + OOM))["cuda-oom"].fix


FULL = (
    "[rank{}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU {} has "
    "a total capacity of 79.15 GiB of which 1.00 GiB is free. Process 7 has 60.00 GiB memory in "
    "use. Including non-PyTorch memory, this process has 18.00 GiB memory in use.\n"
)


def test_ranks_that_fill_one_gpu_are_told_to_use_their_own() -> None:
    assert (
        "3 ranks allocate on GPU 0"
        in only_failure(log="".join(FULL.format(rank, 0) for rank in range(3))).fix
    )
    own = "".join(FULL.format(rank, rank) for rank in range(3))
    assert "Another process" in only_failure(log=own).fix


def test_a_file_that_rank_0_has_lies_on_another_node() -> None:
    missing = "[rank{}]: FileNotFoundError: [Errno 2] No such file or directory: '/data/a.npy'\n"
    others = "".join(missing.format(rank) for rank in range(8, 12))
    assert "4 ranks from 8 on" in only_failure(log=others).fix
    assert "rank 0 does not" not in only_failure(log=missing.format(0) + others).fix


def test_a_process_that_the_launcher_ended_is_no_cause() -> None:
    raised = (
        "[rank7]: Traceback (most recent call last):\n"
        '[rank7]:   File "train.py", line 3, in main\n'
        "[rank7]: FileExistsError: [Errno 17] File exists: '/000010_locals'\n"
    )
    ended = (
        "[rank: 7] Child process with PID 37 terminated with code 1. Forcefully terminating all "
        "other processes to avoid zombies\n"
    )
    found = only_failure(log=raised + ended + "Killed\n")
    assert found.check.slug == "uncaught-exception"
    assert "clean_stale_shared_memory" in found.fix
    assert only_failure(log=raised + "Killed\n").check.slug == "killed-sigkill"


def test_a_worker_that_dies_after_the_last_validation_is_no_failure() -> None:
    died = "(raylet) A worker died or was killed while executing a task by an unexpected error.\n"
    ends = "(TaskRunner pid=9) 'Final validation metrics: {'val-core/reward/mean@1': 0.68}'\n"
    assert "actor-died" not in problems(read(log=STEPS + ends + died))
    assert "actor-died" in problems(read(log=STEPS + died))


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("n1:9:9 [0] transport/nvls.cc:598 NCCL WARN Cuda failure 1 'invalid argument'", "reset"),
        (
            "n1 NET/IB : Got completion from peer 10.2.7.4<448> with status=12 opcode=0 len=0 "
            "vendor err 129 (Recv) localGid fe80::eaeb:d3ff remoteGids fe80::966d hca mlx5_0",
            "show_gids",
        ),
        (
            "n1 NET/IB : Got completion from peer 10.2.7.4<448> with status=12 opcode=0 len=0 "
            "vendor err 129 (Recv) localGid ::ffff:10.2.7.1 remoteGids ::ffff:10.2.7.4 hca mlx5_0",
            "error counters",
        ),
        (
            "n36 [rank43]: Traceback (most recent call last):\n"
            'n36 [rank43]:   File "train.py", line 2, in main\n'
            "n36 [rank43]: ImportError: /nfs/u/.triton/cache/5K/launcher.so: cannot stat shared "
            "object: Stale file handle",
            "TRITON_CACHE_DIR",
        ),
    ],
)
def test_a_line_has_the_remedy_of_its_form(line: str, word: str) -> None:
    assert word in only_failure(log=line + "\n").fix
