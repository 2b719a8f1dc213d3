"""What began a failure: a resume, a phase, a divergence, a limit; and what resembles it."""

from __future__ import annotations

import math

import pytest
from logs import findings, problems, read

from doctor.errors.causes import BY_ID
from doctor.errors.fitted import fitted
from doctor.errors.match import with_message
from doctor.facts.log import Log
from doctor.judge.check import Finding, Status

LEARNED = [9.8 * 0.97**at + 2 + at % 3 / 100 for at in range(110)]
FORGOTTEN = LEARNED[:40]
RESUMES = "resuming from out/ckpt_last.pt\n"


def losses(first: int, values: list[float], each: str = "iter {} loss {:.4f}\n") -> str:
    return "".join(each.format(first + at, value) for at, value in enumerate(values))


def failures(log: Log) -> list[str]:
    return [slug for slug, each in findings(log).items() if each.status is Status.FAIL]


def resumed(says: str, after: list[float]) -> Log:
    return read(log=losses(1, LEARNED) + RESUMES + says + "\n" + losses(111, after))


@pytest.mark.parametrize(
    "says",
    [
        "load_state_dict(strict=False): missing 149 unexpected 149",
        "missing keys: 149, unexpected keys: 149",
        "loaded with 12 missing and 14 unexpected keys",
        "missing_keys=149 unexpected_keys=149",
        "Missing key(s): 7; Unexpected key(s): 7",
    ],
)
def test_keys_of_other_names_are_the_one_cause_of_a_loss_that_is_lost(says: str) -> None:
    log = resumed(says, FORGOTTEN)
    assert failures(log) == ["loss-lost-at-resume"]
    assert "prefix" in (findings(log)["loss-lost-at-resume"].fix or "")
    assert problems(resumed(says, LEARNED[-40:])) == {}


@pytest.mark.parametrize(
    "says",
    [
        "missing 0 unexpected 0",
        "<All keys matched successfully>",
        "loaded adapter: missing 291 unexpected 0",
        "0 missing and 0 unexpected keys",
        "step counter restored",
    ],
)
def test_without_such_keys_a_lost_loss_warns_and_is_no_spike(says: str) -> None:
    log = resumed(says, FORGOTTEN)
    found = problems(log)
    assert list(found) == ["loss-lost-at-resume"]
    assert failures(log) == []
    assert problems(resumed(says, LEARNED[-40:])) == {}


def test_a_smaller_jump_at_a_resume_has_the_remedy_of_a_resume() -> None:
    level = [2.4 + at % 3 / 100 for at in range(60)]
    jump, before = [4.6] * 30, losses(1, LEARNED + level)
    said = findings(read(log=before + RESUMES + losses(171, jump)))["loss-spike"]
    assert said.status is Status.FAIL
    assert "where the run was resumed" in said.verdict.summary
    assert "state of the optimizer" in (said.fix or "")
    late = RESUMES + losses(171, level[:20] + jump)
    for elsewhere in (losses(171, jump), late):
        found = findings(read(log=before + elsewhere))["loss-spike"]
        assert found.status is Status.FAIL
        assert "resumed" not in found.verdict.summary


CLOCK = "2025-05-20 19:{:02}:10 INFO step {} loss 2.5\n"
RUNS = "".join(CLOCK.format(at, at) for at in range(9, 30))
LIMIT = "slurmstepd: error: *** JOB 7 CANCELLED AT 2025-05-21T18:52:39 DUE TO PREEMPTION ***\n"


def ended(last: str) -> Finding:
    text = f"{RUNS}2025-05-20 19:30:15 INFO {last}\n{LIMIT}"
    return findings(read(log=text))["scheduler-ended"]


@pytest.mark.parametrize(
    ("last", "word"),
    [
        ("step 6200: running evaluation on 512 samples", "evaluation"),
        ("***** Running Evaluation *****", "evaluation"),
        ("Validating:   0%|          | 0/64 [00:00<?, ?it/s]", "evaluation"),
        ("start validation", "evaluation"),
        ("evaluating on the dev set", "evaluation"),
        ("Saving checkpoint to /ckpt/step_6000", "checkpoint"),
        ("loading shard 17 of data", "mount"),
    ],
)
def test_a_run_that_hung_names_what_it_did_last(last: str, word: str) -> None:
    found = ended(last)
    assert last in found.verdict.summary
    assert word in (found.fix or "").split("py-spy")[0]
    assert not found.verdict.retry


@pytest.mark.parametrize(
    "last",
    [
        "evaluation finished, accuracy 0.81",
        "saved checkpoint to /ckpt/step_6000",
        "validation loss 2.31",
        "step 30 loss 2.5",
        "Evaluating: 100%|##########| 64/64",
    ],
)
def test_a_phase_that_was_over_is_not_where_it_hung(last: str) -> None:
    found = ended(last)
    assert "stood still" not in (found.fix or "").replace("when it stands still", "")
    assert "nvidia-smi" in (found.fix or "")
    assert found.verdict.retry == "again"


LEVEL = [2.1 + at % 4 / 50 for at in range(32)]
RISES = [2.9, 3.5, 4.3, 5.0, 5.7, 6.4, 7.1]
OVERFLOW = "[deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {}, reducing to {}\n"
FALLS_TO_ONE = "".join(OVERFLOW.format(2**at, 2 ** (at - 1)) for at in range(15, 0, -1))
MINIMUM = (
    "Traceback (most recent call last):\n"
    '  File "t.py", line 3, in step\n    raise Exception(\n'
    "Exception: Current loss scale already at minimum - cannot decrease scale anymore.\n"
)


def test_a_loss_that_rose_before_the_overflows_is_said_first() -> None:
    log = read(log=losses(1, LEVEL + RISES) + FALLS_TO_ONE + MINIMUM)
    found = findings(log)["scaler-collapse"]
    assert "from step 33 on, before any gradient overflowed" in found.verdict.summary
    assert (found.fix or "").startswith("The loss rose before that")
    mixed = losses(1, LEVEL) + OVERFLOW.format(32768, 16384) + losses(33, RISES)
    found = findings(read(log=mixed + FALLS_TO_ONE + MINIMUM))["scaler-collapse"]
    assert "before any gradient overflowed" not in found.verdict.summary


def test_a_run_that_stopped_at_nan_fails_once() -> None:
    stop, nan = "Loss is nan, stopping training\n", [math.nan] * 2
    found = findings(read(log=losses(1, LEVEL + nan) + stop))
    assert found["loss-nonfinite"].status is Status.FAIL
    assert found["stopped-at-nan"].status is Status.NOTE
    # no curve shows it, or the line names ranks
    assert findings(read(log=losses(1, LEVEL) + stop))["stopped-at-nan"].status is Status.FAIL
    ranks = "AssertionError: Rank 1: found NaN in local grad norm in backward pass. Device: 3\n"
    found = findings(read(log=losses(1, LEVEL + nan) + ranks))
    assert found["stopped-at-nan"].status is Status.FAIL


def test_overflows_of_a_fused_optimizer_are_calibration_until_they_collapse() -> None:
    line = "[Rank 0] Overflow detected. Skipping step. Attempted loss scale: {}, reducing to {}\n"
    some = losses(1, LEVEL) + line.format(65536, 32768) + losses(33, LEVEL)
    assert findings(read(log=some))["scaler-collapse"].status is Status.PASS
    assert [each.name for each in read(log=some).harmless] == ["first-overflows"]
    found = findings(read(log=losses(1, LEVEL) + line.format(1, 1) + MINIMUM))
    assert found["scaler-collapse"].status is Status.FAIL


@pytest.mark.parametrize("after", [LEVEL[:7], [2.3] * 5, [6.0, *LEVEL[:6]], [], [2.0, 1.9, 1.8]])
def test_a_collapse_without_a_rise_keeps_its_own_remedy(after: list[float]) -> None:
    log = read(log=losses(1, LEVEL + after) + FALLS_TO_ONE + MINIMUM)
    found = findings(log)["scaler-collapse"]
    assert found.status is Status.FAIL
    assert (found.fix or "").startswith("Train in bf16")


@pytest.mark.parametrize(
    "text",
    [
        "(raylet) 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 crashed",
        "(raylet) 10 Workers (tasks / actors) killed due to memory pressure (OOM), 0 crashed",
        "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
        "Task was killed due to the node running low on memory.",
        "Memory on the node (IP: 10.0.1.17, ID: 6a) where the task (pid=18513, memory used=27.1GB) "
        "was running was 118.6GB / 124.3GB (0.95), which exceeds the threshold of 0.95.",
    ],
)
def test_rays_monitor_of_memory_is_not_the_kernel(text: str) -> None:
    found = findings(read(log=text + "\n"))["killed-sigkill"]
    assert found.status is Status.FAIL
    assert "ray-killed-for-memory" in found.verdict.causes
    assert "dmesg" not in " ".join((found.fix or "", *found.commands))
    assert (found.fix or "").startswith(fitted(BY_ID["ray-killed-for-memory"], text).fix)


@pytest.mark.parametrize(
    "text",
    [
        "(raylet) 0 Workers (tasks / actors) killed due to memory pressure (OOM), 3 crashed",
        "Started a local Ray instance.",
        "(raylet) Spilled 2300 MiB, 25 objects, write throughput 900 MiB/s.",
        "memory usage threshold is 0.95",
        "node memory: 64 GB",
    ],
)
def test_a_node_with_memory_is_no_failure(text: str) -> None:
    assert "killed-sigkill" not in problems(read(log=text + "\n"))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("step 3 loss 2.1 name=w, pid=18513, memory used=27.14GB", "host_memory"),
        ("step 3 loss 2.1 worker memory: 27.14GB", "host_memory"),
        ("step 3 loss 2.1 container memory usage: 27 GB", "host_memory"),
        ("step 3 loss 2.1 memory used: 27.14GB", "device_memory"),
        ("step 3 loss 2.1 gpu memory: 27.14GB", "device_memory"),
    ],
)
def test_the_memory_of_a_process_is_that_of_the_host(text: str, name: str) -> None:
    assert {each.name for each in read(log=text + "\n").curves} == {"loss", name}


LOADED = "Global shape mismatch for loaded {} and expected {} tensor for key {}"


@pytest.mark.parametrize(
    "text",
    [
        LOADED.format(
            "(torch.Size([32000, 4096]))",
            "((32256, 4096))",
            "model.embedding.word_embeddings.weight",
        ),
        LOADED.format("((32000, 4096))", "((32256, 4096))", "output_layer.weight"),
        "Size mismatch between saved torch.Size([32000, 512]) and current: torch.Size([32256, 512])"
        " for model.embed_tokens.weight",
        "Size mismatch between saved torch.Size([32000, 8]) and current: torch.Size([32256, 8]) "
        "for tok_embeddings.weight",
        "Size mismatch between saved torch.Size([32000, 8]) and current: torch.Size([32256, 8]) "
        "for lm_head.weight",
    ],
)
def test_another_vocabulary_is_no_run_to_resume(text: str) -> None:
    row = fitted(with_message(text)[0], text)
    assert row.id == "checkpoint-of-other-keys"
    assert "32000 rows of embeddings, this run makes 32256" in row.fix
    assert "tokenizer that it was saved with" in row.fix


@pytest.mark.parametrize(
    "key", ["embedding.position_embeddings.weight", "layers.0.mlp.fc1.weight", "norm.weight"]
)
def test_other_sizes_are_of_another_configuration(key: str) -> None:
    text = LOADED.format("((1024, 768))", "((512, 768))", key)
    fix = fitted(with_message(text)[0], text).fix
    assert fix.startswith("For a new run name")


def test_only_a_loss_that_nobody_named_is_the_default_one() -> None:
    text = "`loss_type={}` was set in the config but it is unrecognized. Using the default loss"
    assert with_message(text.format("None"))[0].role == "harmless"
    assert "default-loss-chosen" not in {each.id for each in with_message(text.format("ForRank"))}


@pytest.mark.parametrize(
    ("text", "outlook"),
    [
        ("step 1 loss 2.3\n./run.sh: line 3: 12345 Killed    python train.py\n", ""),
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=8.0. Killed\n", "fix"),
    ],
    ids=["by-somebody", "for-its-memory"],
)
def test_what_a_restart_of_a_killed_process_brings_is_known_with_its_reason(
    text: str, outlook: str
) -> None:
    assert findings(read(log=text))["killed-sigkill"].verdict.retry == outlook
