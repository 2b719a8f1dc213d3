"""What looks like a fault in a log and is meant, beside its faulty twin."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from logs import curve, findings, problems, read, with_curves

from doctor.judge.check import Status


def rows(count: int, row: Callable[[int], str]) -> str:
    return "\n".join(map(row, range(count))) + "\n"


def staged(at: int) -> str:
    """The loss of four tasks, each harder than the one before."""
    loss = (0.05 + 0.12 * (at // 60)) * (1 + 3 * math.exp(-(at % 60) / 6)) + at % 7 / 2000
    return f"update {at} loss {loss:.4f}"


RISES = rows(240, staged)
WEIGHTED = rows(200, lambda at: f"update {at} loss {0.05 + at * at / 2000:.4f}")


@pytest.mark.parametrize("check", ["loss-spike", "loss-divergence"])
@pytest.mark.parametrize(
    "first", ["curriculum: mazes of 5, 7, 9 and 11 cells", "unfreezing the backbone"]
)
def test_a_loss_that_rises_by_stages_is_a_note(check: str, first: str) -> None:
    assert problems(read(log=RISES))["loss-spike"] is Status.FAIL
    staged_run = findings(read(log=f"{first}\n{RISES}"))[check]
    assert staged_run.status in (Status.NOTE, Status.PASS)


def test_a_loss_that_rises_while_an_evaluation_improves_is_a_note() -> None:
    better = rows(240, lambda at: f"{staged(at)} val_acc {0.2 + at / 400:.4f}")
    worse = rows(240, lambda at: f"{staged(at)} val_acc {0.9 - at / 400:.4f}")
    assert problems(read(log=better)) == {}
    assert problems(read(log=worse))["loss-spike"] is Status.FAIL


def test_the_level_of_a_loss_whose_weights_change_shows_nothing() -> None:
    assert problems(read(log=WEIGHTED))["loss-divergence"] is Status.FAIL
    for first in ("self-adaptive weights of residuals", "multi-task with learned uncertainty"):
        assert problems(read(log=f"{first}\n{WEIGHTED}")) == {}


def test_a_loss_that_is_often_zero_has_no_shape() -> None:
    kept = [0.0 if at > 40 and at % 3 else 0.2 * math.exp(-at / 60) for at in range(200)]
    kept[180] = 0.9
    assert "loss-spike" not in problems(with_curves(curve("loss", kept)))
    sound = [0.2 + 0.3 * math.exp(-at / 60) + at % 5 / 400 for at in range(190)]
    assert "loss-spike" in problems(with_curves(curve("loss", sound + [3.0] * 10)))


def test_epochs_that_only_evaluate_have_no_rate() -> None:
    trained = rows(31, lambda at: f"epoch {at} loss {2 - at / 40:.3f} lr {1e-3 - at * 1e-5:.6f}")
    evaluated = rows(10, lambda at: f"epoch {at + 31} (evaluation only) loss 1.2 lr 0.000000")
    spent = rows(10, lambda at: f"epoch {at + 31} loss 1.2 lr 0.000000")
    assert problems(read(log=trained + evaluated)) == {}
    assert problems(read(log=trained + spent))["learning-rate-zero"] is Status.FAIL


def at_length(length: str) -> str:
    """Samples of twice the length take twice the time."""
    return rows(
        160,
        lambda at: (
            f"step {at} loss {3 - at / 90:.3f} {length.format(512 << at // 40)} "
            f"samples/s {120 / (1 << at // 40):.1f}"
        ),
    )


def test_a_throughput_of_samples_may_fall_where_they_become_longer() -> None:
    assert problems(read(log=at_length("seqlen: {}"))) == {}
    assert problems(read(log=at_length("host {}"))) == {"throughput-falling": Status.WARN}
    tokens = rows(160, lambda at: f"step {at} loss 1.{99 - at // 2:02d} {4000 + at % 9:,} tok/s")
    assert problems(read(log=tokens)) == {}
    halved = rows(100, lambda at: f"step {at} loss 2.{999 - at} | {(9000, 2000)[at > 50]} tok/s |")
    resized = rows(
        24, lambda at: f"step {at} loss 2.{99 - at} img/s: {(990, 480)[at > 11] + at % 5}.7"
    )
    assert problems(read(log=resized)) == {}
    assert problems(read(log=halved)) == {"throughput-falling": Status.WARN}
    assert problems(read(log=f"unfreezing the encoder\n{halved}")) == {}


def test_a_plateau_beside_evaluations_that_became_better_is_none() -> None:
    def log(scores: list[float]) -> str:
        lines = (
            f"epoch {at} loss {2.3 + math.sin(at * at) / 500:.4f} val_acc {s:.3f}"
            for at, s in enumerate(scores)
        )
        return "Namespace(dropout=0.8, lr=0.001)\n" + "\n".join(lines) + "\n"

    good = [0.72 * (1 - math.exp(-(at + 1) / 4)) for at in range(60)]
    assert problems(read(log=log(good))) == {}
    guessing = [0.1 + at % 3 / 500 for at in range(60)]
    both = {"loss-plateau": Status.WARN, "evaluation-stands-still": Status.WARN}
    assert problems(read(log=log(guessing))) == both


FALLS = [2.5 * math.exp(-at / 9) + 0.05 for at in range(60)]


@pytest.mark.parametrize(
    ("scores", "found"),
    [
        ([10.0 + (at % 4 == 3) / 50 for at in range(60)], True),  # chance, with exceptions
        ([0.0] * 40 + [0.02 * at for at in range(20)], False),  # begins late
        ([0.875 - (at % 4 == 3) / 40 for at in range(60)], False),  # a small set, and good
        ([70.0 + at / 2 for at in range(60)], False),
        ([60.5 + at for at in range(60)], True),  # more than all
        ([60.0 + at for at in range(60)], False),  # counts of hits
        ([860.0 + at for at in range(60)], False),
        ([(at + 1) / 60 for at in range(60)], False),
    ],
)
def test_scores_that_cannot_be_or_do_not_follow(scores: list[float], found: bool) -> None:
    log = with_curves(curve("loss", FALLS), curve("score:val_acc", scores))
    assert problems(log) == ({"evaluation-stands-still": Status.WARN} if found else {})


def test_a_low_score_without_a_loss_of_the_training_is_not_judged() -> None:
    scores = curve("score:val_acc", [10.0 + (at % 4 == 3) / 50 for at in range(60)])
    assert problems(with_curves(scores)) == {}


def test_more_than_all_is_seen_behind_a_sign_of_per_cent() -> None:
    log = read(log=rows(30, lambda at: f"epoch {at} | train acc 97.1% | val acc {90 + at}.20%"))
    assert problems(log) == {"evaluation-stands-still": Status.WARN}


@pytest.mark.parametrize(
    "row",
    [
        "Test set: Average loss: 0.{0}, Accuracy: {0}/10000 (98%)",
        "val acc: {} / 1000",
        "val acc: {} of 1000",
        "val recall: {} images",
        "val top1 acc: {}.5 / 1000",
        "val success_rate: 0.4 test map: {} validation iou: 0.5 val top-1: 512",
    ],
)
def test_counts_of_hits_are_no_shares(row: str) -> None:
    assert problems(read(log=rows(30, lambda at: row.format(90 + at)))) == {}


def test_steps_without_targets_are_others_than_a_margin_that_is_kept() -> None:
    def log(empty: Callable[[int], bool], first: str = "model: Qwen2.5-7B") -> str:
        return f"{first}\n" + rows(
            130,
            lambda at: (
                f"{{'loss': {0.0 if empty(at) else 1.5 - at / 200}, "
                f"'grad_norm': {0.0 if empty(at) else 2.5}, 'learning_rate': 1e-05}}"
            ),
        )

    assert problems(read(log=log(lambda at: at % 3 == 1))) == {"loss-plateau": Status.WARN}
    for first in ("margin: 0.3", "model: resnet50", "model: Qwen2.5-7B\nloss_type: hinge"):
        assert problems(read(log=log(lambda at: at % 3 == 1, first))) == {}
    assert problems(read(log=log(lambda at: at > 70 and at % 3 == 1))) == {}
    assert problems(read(log=log(lambda at: at == 9))) == {}


SPAWNS = """Traceback (most recent call last):
  File "/w/train.py", line 26, in main
    trainer.fit(model)
  File "/usr/lib/python3.11/multiprocessing/reduction.py", line 60, in dump
    ForkingPickler(file, protocol).dump(obj)
AttributeError: Can't pickle local object 'main.<locals>.collate'
Traceback (most recent call last):
  File "<string>", line 1, in <module>
  File "/usr/lib/python3.11/multiprocessing/{module}", line 122, in {function}
    self = reduction.pickle.load(from_parent)
EOFError: Ran out of input
"""


def test_a_spawned_child_that_gets_too_little_is_a_consequence() -> None:
    text = SPAWNS.format(module="spawn.py", function="spawn_main")
    assert "Can't pickle" in findings(read(log=text))["uncaught-exception"].verdict.summary
    other = SPAWNS.format(module="spawn.py", function="load_cache")
    assert problems(read(log=other)) == {"checkpoint-damaged": Status.FAIL}


def test_the_rank_of_torch_goes_before_the_one_on_the_node() -> None:
    failed = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    assert read(log=f"[default5]: [rank21]: {failed}").events[0].rank == 21
    assert read(log=f"[default5]: {failed}").events[0].rank == 5


KERNEL = "Flash Attention 2 only supports torch.float16 and torch.bfloat16 dtypes"


def test_a_warning_about_the_dtype_of_a_model_is_no_failure() -> None:
    warned = read(log=f"{KERNEL}, but the current dtype in LlamaForCausalLM is torch.float32.\n")
    assert problems(warned) == {}
    raised = read(log=f"ValueError: {KERNEL}\n")
    assert problems(raised) == {"attention-unsupported": Status.FAIL}


ENDED = (
    "slurmstepd: error: *** JOB 5 ON n9 CANCELLED AT 2026-10-14T08:00:12 DUE TO TIME LIMIT ***\n"
)


@pytest.mark.parametrize(
    ("head", "between", "lost"),
    [
        ("save_steps=5000 logging_steps=10", "", True),
        ("save_steps=100 logging_steps=10", "", False),
        ("save_steps=5000 logging_steps=10", "Saving model checkpoint to out/a\n", False),
        ("logging_steps=10", "", False),
    ],
)
def test_a_run_that_ends_before_its_first_checkpoint_begins_anew(
    head: str, between: str, lost: bool
) -> None:
    trained = rows(30, lambda at: f"{{'loss': {3 - at / 40}, 'epoch': {at / 100}}}")
    found = findings(read(log=f"{head}\n{trained}{between}{ENDED}"))["scheduler-ended"]
    assert found.status is Status.FAIL
    assert ("the first checkpoint was due at step 5000" in found.verdict.summary) is lost
    assert (found.verdict.retry == "fix") is lost


def curves(text: str) -> dict[str, list[float]]:
    return {each.name: [float(value) for value in each.values] for each in read(log=text).curves}


def test_rows_whose_metrics_have_no_names() -> None:
    found = curves("Epoch: [0] [50/90]  loss: 2.5  data: 0.01  max mem: 11264\nmax mem: 9\n")
    assert found["device_memory"] == [11.0]
    found = curves("step 5 | loss 3.1 | 23,110 tok/s\nstep 6 | loss 3.0 | 412.5 images/sec\n")
    assert found["throughput"] == [23110.0]
    assert found["speed"] == [412.5]
    found = curves("step: 5  loss: 3.1  memory: 9.0GiB  tps: 3,640  mfu: 39%\n")
    assert found["throughput"] == [3640.0]
    found = curves("Train: loss 0.41 acc@1 61.2  Val: loss 0.5 acc@1 55.5\n")
    assert found["score:val acc@1"] == [55.5]
    assert "latent_kl" in curves("iter 10 elbo 88.1 rec 80.2 kl 7.91\n")
    assert "latent_kl" not in curves("iter 10 reward 0.2 kl 7.91\n")


def test_json_lines_that_begin_with_settings_are_a_log_that_states_them() -> None:
    rows_of = rows(40, lambda at: f'{{"epoch": {at}, "train_loss": {2.304 + at % 3 / 1000}}}')
    log = read(log=f'{{"event": "args", "opt": "adam", "lr": 0.1}}\n{rows_of}')
    assert {each.name for each in log.stated} >= {"optimizer", "learning_rate"}
    assert read(log=rows_of).files[0].kind == "json-lines"


def test_a_rate_that_is_scaled_beyond_what_is_stated_counts() -> None:
    def log(scale: float) -> str:
        lost = [
            10.9,
            9.1,
            8.2,
            7.6,
            7.4,
            *[7.5 + 2.9 * (1 - math.exp(-at / 9)) for at in range(90)],
        ]
        lines = [
            f"step {at} loss {value:.3f} lr {3e-4 * scale:.5f}" for at, value in enumerate(lost)
        ]
        return "AdamW\nmodel: gpt 1.3B\nbase_lr=0.0003\n" + "\n".join(lines) + "\n"

    assert problems(read(log=log(64))) == {"loss-divergence": Status.WARN}
    assert problems(read(log=log(1))) == {}


PROBED = (
    "Traceback (most recent call last):\n"
    '  File "/opt/site-packages/xformers/__init__.py", line 57, in {}\n'
    "    import triton  # noqa\n"
    "ModuleNotFoundError: No module named 'triton'\n"
)
RAISED = (
    'Traceback (most recent call last):\n  File "train.py", line 9, in <module>\n    train()\n'
    "RuntimeError: CUDA error: device-side assert triggered\n"
)


@pytest.mark.parametrize(
    ("notice", "first"),
    [
        (PROBED.format("_is_triton_available"), "device-side-assert"),
        (PROBED.format("<module>"), "import-failed"),
        (
            "A matching Triton is not available, some optimizations will not be enabled.\n"
            "Error caught was: No module named 'triton'\n",
            "device-side-assert",
        ),
    ],
)
def test_a_package_that_was_only_asked_for_is_no_first_cause(notice: str, first: str) -> None:
    assert findings(read(log=notice + RAISED))[first].status is Status.FAIL
    if first != "import-failed":
        assert Status.FAIL not in problems(read(log=notice)).values()


SUMMARY = "{'train_runtime': 119.8, 'train_loss': 1.2, 'epoch': 2.5}\n"


def test_a_wait_until_the_limit_after_the_end_is_a_failure_and_a_teardown_is_none() -> None:
    waited = (
        "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2778, "
        "OpType=_ALLGATHER_BASE, Timeout(ms)=1800000) ran for 1801649 milliseconds\n"
    )
    found = findings(read(log=SUMMARY + waited))["nccl-timeout"]
    assert found.status is Status.FAIL
    assert "The training had ended" in found.fix
    assert "The training had ended" not in findings(read(log=waited))["nccl-timeout"].fix
    ended = "Segmentation fault (core dumped)\n"
    assert Status.FAIL not in problems(read(log=SUMMARY + ended)).values()


def test_a_run_without_images_names_their_directory() -> None:
    found = findings(read(log="0 train images with repeating.\n0 reg images.\n"))
    assert "10_cat" in found["no-batches-to-train"].fix
    found = findings(read(log="390 train images with repeating.\n0 reg images.\n"))
    assert found["no-batches-to-train"].status is Status.PASS
