"""Schedules that begin anew, ranks that are alike or slow, divergences below 0, samples lost."""

from __future__ import annotations

import pytest
from logs import curve, findings, problems, read, with_curves
from msgspec.structs import replace

from doctor.facts.log import Curve
from doctor.judge.check import Status


def rates(*values: float, first: int = 100, note: str = "") -> str:
    """A log with these learning rates; the loss falls."""
    lines = [
        f"step {first + 10 * at} loss: {3 - at / 50:.3f} lr: {value:.3e}"
        for at, value in enumerate(values)
    ]
    middle = len(lines) // 2
    return "\n".join((*lines[:middle], *([note] if note else []), *lines[middle:])) + "\n"


WARM = [1e-4 * at / 10 for at in range(1, 11)]
HELD = [1e-4] * 20
COSINE = [1e-4 * (1 - at / 20) + 1e-6 for at in range(20)]


@pytest.mark.parametrize(
    "text",
    [
        rates(*HELD, 0.0, *WARM, *HELD),
        rates(*HELD, 1e-6, *WARM, *HELD[:3]),
        rates(*COSINE[:8], *WARM[:-1], *HELD),
        rates(*COSINE[:15], *COSINE[:15], note="Resuming from checkpoint-250 (global step 250)"),
    ],
)
def test_a_schedule_that_begins_anew(text: str) -> None:
    assert "schedule-begins-anew" in problems(read(log=text))


@pytest.mark.parametrize(
    "text",
    [
        rates(*WARM, *HELD, *COSINE),
        rates(*COSINE, *COSINE, *COSINE),  # restarts of a cosine
        rates(*HELD, *[1e-5] * 20, *[1e-6] * 20),  # steps of a tenth
        rates(*WARM, *HELD) + rates(*WARM, *HELD),  # a second run: the steps go back
        rates(*COSINE[:15], *COSINE[15:], note="Resuming from checkpoint-250 (global step 250)"),
        rates(*(WARM + WARM[::-1]) * 3),  # a triangle
        "lr re-warmed\n" + rates(*HELD, 1e-6, *WARM, *HELD),
        "cosine with warm restarts\n"
        + rates(*COSINE[:15], *COSINE[:15], note="Resuming from checkpoint-250 (global step 250)"),
    ],
)
def test_schedules_that_go_on(text: str) -> None:
    assert "schedule-begins-anew" not in problems(read(log=text))


def losses(alike: bool, head: str = "") -> str:
    rows = (
        f"[it {at}] "
        + " ".join(f"r{r} {4 - at / 9 + (0 if alike else r / 99):.4f}" for r in range(4))
        for at in range(8)
    )
    return head + "\n".join(rows) + "\n"


def test_losses_that_are_equal_on_all_ranks() -> None:
    assert "ranks-alike" in problems(read(log=losses(alike=True)))
    assert "ranks-alike" not in problems(read(log=losses(alike=False)))
    split = "using world size: 4, tensor-model-parallel size: 4\n"
    assert "ranks-alike" not in problems(read(log=losses(alike=True, head=split)))


def table(slow: tuple[int, ...], unit: str = "forward-compute (ms)") -> str:
    rows = (
        f"  node{node}: "
        + " ".join(f"r{r}={4900 if r in slow else 3000 + r}" for r in range(8 * node, 8 * node + 8))
        for node in range(3)
    )
    return f"per-rank {unit}:\n" + "\n".join(rows) + "\nend\n"


def test_a_group_of_slow_ranks_in_a_table() -> None:
    found = findings(read(log=table((20, 21, 22, 23))))["rank-slower"]
    assert found.status is Status.WARN
    assert "4 ranks, the last of them 23" in found.verdict.summary
    assert "rank-slower" in problems(read(log=table((5,))))
    assert "rank-slower" not in problems(read(log=table(())))
    assert "rank-slower" not in problems(read(log=table((20,), "GEMM TFLOP/s")))


def test_a_divergence_below_zero() -> None:
    falls = [-0.5 * at for at in range(30)]
    assert "policy-kl-negative" in problems(with_curves(curve("policy_kl", falls)))
    noise = [(-1) ** at * 0.01 for at in range(30)]
    assert "policy-kl-negative" not in problems(with_curves(curve("policy_kl", noise)))
    back = [-3.0 + at / 10 for at in range(30)]
    assert "policy-kl-negative" not in problems(with_curves(curve("policy_kl", back)))


SKIPPED = "WARNING converter: Skipping this abnormal example.\n"
MAPPED = "Map: 100%|####| 10000/10000 [00:01<00:00, 99.3 examples/s]\n"


def test_samples_that_are_skipped_until_few_are_left() -> None:
    few, most = "  Num examples = 1,184\n", "  Num examples = 9,950\n"
    assert "samples-left-out" in problems(read(log=MAPPED + 4 * SKIPPED + few))
    assert "samples-left-out" not in problems(read(log=MAPPED + 4 * SKIPPED + most))
    assert "samples-left-out" not in problems(read(log=MAPPED + few))  # packed


def test_a_step_that_is_broken_down() -> None:
    waits = "data_wait {:.1f}s forward+backward 7.6s optimizer 1.2s\n"
    assert "waits-for-data" in problems(read(log=4 * waits.format(104.8)))
    assert "waits-for-data" not in problems(read(log=4 * waits.format(0.3)))
    assert "waits-for-data" not in problems(read(log=waits.format(104.8)))  # the first one


def test_a_gpu_that_is_hardly_busy() -> None:
    text = "gpu util: {} % at step {}\n"
    idle = "".join(text.format(7 + at % 3, at) for at in range(9))
    assert "waits-for-data" in problems(read(log=idle))
    busy = "".join(text.format(61 + at % 9, at) for at in range(9))
    assert "waits-for-data" not in problems(read(log=busy))


def test_a_nan_that_is_padded() -> None:
    sound = "".join(f"step: {at:2}  loss: {9 - at / 9:7.4f}  memory: 47.11GiB\n" for at in range(9))
    lost = "".join(f"step: {at:2}  loss:     nan  memory: 47.11GiB\n" for at in range(9, 20))
    assert "loss-nonfinite" in problems(read(log=sound + lost))
    assert "loss-nonfinite" not in problems(read(log=sound))


def steps(first: int, *losses: float) -> str:
    return "".join(f"step {first + at} loss: {loss:.4f}\n" for at, loss in enumerate(losses))


FALLS = [4 - at / 20 for at in range(40)]
RESUMES = "Resuming from checkpoint runs/last.ckpt (step 40)\n"


def test_a_loss_that_is_lost_where_a_run_is_resumed() -> None:
    lost = steps(1, *FALLS) + RESUMES + steps(41, *FALLS)
    found = findings(read(log=lost))["loss-lost-at-resume"]
    assert found.status is Status.WARN
    again = steps(1, *FALLS) + RESUMES + steps(41, *(2 - at / 40 for at in range(40)))
    assert findings(read(log=again))["loss-lost-at-resume"].status is Status.PASS
    bump = steps(1, *FALLS) + RESUMES + steps(41, 2.6, 2.4, *(2 - at / 40 for at in range(40)))
    assert "loss-lost-at-resume" not in problems(read(log=bump))
    other = steps(1, *FALLS) + steps(1, *FALLS)  # a second run
    assert "loss-lost-at-resume" not in problems(read(log=other))


FILTERED = "Filter: 100%|####| 50000/50000 [00:10<00:00, 5000 examples/s]\n"


def test_a_filter_that_leaves_few_samples() -> None:
    assert "samples-left-out" in problems(read(log=FILTERED + "  Num examples = 312\n"))
    assert "samples-left-out" not in problems(read(log=FILTERED + "  Num examples = 41,200\n"))
    packed = "sample_packing: true\n" + FILTERED + "  Num examples = 1,312\n"
    assert "samples-left-out" not in problems(read(log=packed))


def lines_of_ranks(slow: float) -> str:
    return "".join(
        f"[rank{rank}]: step {at} loss: {3 - at / 50:.3f} step_time: "
        f"{slow if rank == 5 else 0.4 + at / 1000:.3f}s\n"
        for at in range(0, 100, 10)
        for rank in range(8)
    )


def test_a_rank_that_is_slow_in_lines_of_its_own() -> None:
    found = findings(read(log=lines_of_ranks(0.62)))["rank-slower"]
    assert found.status is Status.WARN
    assert "rank 5" in found.verdict.summary
    assert "rank-slower" not in problems(read(log=lines_of_ranks(0.42)))


def processes(stated: int, count: int, apart: float, says: str = "Num processes: {}") -> str:
    head = "".join(f"{rank}: {says.format(stated)}\n" for rank in range(count))
    return head + "".join(
        f"{rank}: step {at} loss {3.2 - at / 50 + apart * rank:.4f} lr 1e-4\n"
        for at in range(1, 30)
        for rank in range(count)
    )


@pytest.mark.parametrize(
    ("stated", "count", "apart", "is_told"),
    [(1, 4, 0.0, True), (4, 4, 0.0, False), (1, 4, 0.01, False), (1, 1, 0.0, False)],
)
def test_processes_that_know_nothing_of_each_other(
    stated: int, count: int, apart: float, is_told: bool
) -> None:
    found = findings(read(log=processes(stated, count, apart)))["ranks-alike"]
    assert (found.status is Status.WARN) is is_told
    assert ("torchrun" in found.fix) is is_told


@pytest.mark.parametrize(
    "says",
    [
        "INFO [parallel_state.py:1134] rank 0 in world size {0}: world_size={0}",
        "INFO vLLM config: tensor_parallel_size=1, world_size={}",
        "INFO engine config: world_size={}",
    ],
)
def test_an_engine_beside_each_rank_has_a_world_of_its_own(says: str) -> None:
    assert "ranks-alike" not in problems(read(log=processes(1, 4, 0.0, says)))
    own = processes(1, 4, 0.0, "trainer world_size={}")
    assert "ranks-alike" in problems(read(log=own))


RISING = curve("reward", [0.3 + at / 300 for at in range(60)])


@pytest.mark.parametrize(
    ("name", "bad", "good"),
    [
        (
            "rollout_gap",
            [0.001 * 1.1**at for at in range(60)],
            [0.004 + at / 9000 for at in range(60)],
        ),
        (  # weights that do not reach the sampler: it begins well, and is far off after ten steps
            "rollout_gap",
            [0.002 + 0.012 * at for at in range(60)],
            [0.03 + at / 2000 for at in range(60)],
        ),
        ("rollout_gap", [0.4 + 0.01 * (at % 5) for at in range(60)], [0.1 for _ in range(60)]),
        (
            "cut_off_share",
            [min(0.98, at / 60) for at in range(60)],
            [min(0.4, at / 60) for at in range(60)],
        ),
    ],
)
def test_what_goes_wrong_while_the_rewards_rise(
    name: str, bad: list[float], good: list[float]
) -> None:
    assert "rewards-alike" in problems(with_curves(RISING, curve(name, bad)))
    assert "rewards-alike" not in problems(with_curves(RISING, curve(name, good)))


FLAT_REWARD = curve("reward", [0.41 + 0.02 * ((at * 7) % 5 - 2) for at in range(150)])
SOLVED = curve("reward", [0.966 + 0.015 * ((at * 7) % 5 - 2) for at in range(150)])
AT_HIGHEST = curve("reward", [8.0 - (at % 9 == 0) for at in range(150)])
ABOVE_ONE = curve("reward", [0.966 + 0.3 * ((at * 7) % 5 - 2) for at in range(150)])
BETTER = curve("reward", [0.3 + at / 300 + 0.02 * ((at * 7) % 5 - 2) for at in range(150)])
ADAPTER = "GRPOConfig(learning_rate=5e-07, num_generations=8)\nLoraConfig(r=8, lora_alpha=16)\n"


@pytest.mark.parametrize(
    ("reward", "stated", "is_told"),
    [
        (FLAT_REWARD, ADAPTER, True),
        (FLAT_REWARD, ADAPTER.replace("5e-07", "1e-05"), False),
        (FLAT_REWARD, ADAPTER.partition("\n")[0], False),  # all weights: a usual rate
        (SOLVED, ADAPTER, False),
        (AT_HIGHEST, ADAPTER, False),
        (ABOVE_ONE, ADAPTER, True),
        (BETTER, ADAPTER, False),
    ],
)
def test_rewards_that_stand_are_a_warning_with_a_rate_that_is_too_low(
    reward: Curve, stated: str, is_told: bool
) -> None:
    log = replace(with_curves(reward), stated=read(log=stated).stated)
    found = findings(log)["rewards-alike"]
    assert (found.status is Status.WARN) is is_told
    assert ("rate-below-usual" in found.verdict.causes) is is_told


def test_rewards_that_are_all_alike_are_not_for_want_of_a_rate() -> None:
    alike = curve("reward_spread", [0.0] * 40)
    log = replace(with_curves(FLAT_REWARD, alike), stated=read(log=ADAPTER).stated)
    found = findings(log)["rewards-alike"]
    assert found.status is Status.FAIL
    assert "rate-below-usual" not in found.verdict.causes


def test_an_evaluation_that_is_never_finite_leaves_the_other_checks_alone() -> None:
    rows = "".join(
        f"{{'loss': {2 - (at % 3) / 100}, 'step': {at}}}\n{{'eval_loss': nan, 'step': {at}}}\n"
        for at in range(40)
    )
    found = findings(read(log=rows))
    assert found["evaluation-stands-still"].status is Status.FAIL
    assert not [each for each in found.values() if "raised an error" in each.verdict.summary]


@pytest.mark.parametrize(
    ("line", "status"), [("resuming from last.ckpt (step 9)", Status.WARN), ("", Status.PASS)]
)
def test_a_schedule_that_begins_anew_at_a_low_rate_needs_a_line_that_says_so(
    line: str, status: Status
) -> None:
    rates = [1e-4, 9e-5, 8e-5, 7e-5, 6e-5, 5e-5, 4e-5, 3e-5, 1e-6, 1e-5, 2e-5, 3e-5, 4e-5, 5e-5]
    rows = [f"step {at} loss {3 - at / 20:.3f} lr {rate:.2e}" for at, rate in enumerate(rates, 2)]
    rows.insert(8, line)
    log = read(log="\n".join(rows) + "\n")
    assert findings(log)["schedule-begins-anew"].status is status


SLOWED = "GPU1 clocks_event_reasons.active=0x0000000000000048 (HW Slowdown, HW Thermal Slowdown)"


@pytest.mark.parametrize(
    ("line", "is_named"),
    [
        (SLOWED, True),
        ("GPU1 clocks_event_reasons.active=0x0000000000000004 (SW Power Cap)", False),
        ("GPU1 clocks_event_reasons.active=0x0000000000000000 (None)", False),
        ("        HW Thermal Slowdown       : Not Active", False),
    ],
)
def test_a_gpu_that_lowers_its_clock_explains_a_falling_throughput(
    line: str, is_named: bool
) -> None:
    rows = [
        f"step {at} | loss {4 - at / 60:.3f} | {100 if at < 60 else 40}.5 samples/s"
        for at in range(1, 121)
    ]
    rows.insert(50, line)
    found = findings(read(log="\n".join(rows) + "\n"))["throughput-falling"]
    assert found.status is Status.WARN
    assert ("gpu-lowers-clock" in found.verdict.summary) is is_named
    assert problems(read(log="\n".join((*rows[:50], line, *rows[51:59])) + "\n")) == {}


FRESH = "resuming: loaded model from exp/step-34000.pt\nresuming: 'optimizer' not in checkpoint"


@pytest.mark.parametrize(
    ("between", "share", "is_named"),
    [(FRESH, 0.4, True), (FRESH, 0.9, False), ("an evaluation", 0.4, False)],
)
def test_a_checkpoint_without_optimizer_begins_the_schedule_anew(
    between: str, share: float, is_named: bool
) -> None:
    rates = [3e-4 * 0.95**at for at in range(12)]
    again = [rates[-1] * share * (1 + at / 2) for at in range(6)]
    rows = [f"step {at} loss {3 - at / 20:.3f} lr {rate:.2e}" for at, rate in
            enumerate((*rates, *again), 2)]  # fmt: skip
    rows.insert(12, between)
    found = findings(read(log="\n".join(rows) + "\n"))["schedule-begins-anew"]
    assert (found.status is Status.WARN) is is_named
    assert ("optimizer-begins-anew" in found.verdict.summary) is is_named


def test_a_resumption_after_the_first_one_is_looked_at_too() -> None:
    begins = "Resuming training from out\n"
    lost = begins + steps(1, *FALLS) + begins + steps(41, *FALLS)
    assert "loss-lost-at-resume" in problems(read(log=lost))
    kept = begins + steps(1, *FALLS) + begins + steps(41, *(2 - at / 40 for at in range(40)))
    assert "loss-lost-at-resume" not in problems(read(log=kept))


@pytest.mark.parametrize(
    ("row", "grows"),
    [
        ("step {0} loss {1} mem {2} GB\n", True),
        ("step {0} | seq_len: {3} | loss {1} | mem {2} GB\n", False),
        ("step {0} loss {1} mem {2} GB\n[curriculum] length is now {3}\n", False),
    ],
)
def test_memory_that_grows_with_the_samples_is_none_that_is_kept(row: str, grows: bool) -> None:
    log = "".join(
        row.format(at, 3 - at / 60, 20 * (1 + at // 40), 512 * (1 + at // 40)) for at in range(120)
    )
    assert ("memory-keeps-growing" in problems(read(log=log))) is grows


@pytest.mark.parametrize(
    ("row", "rates"),
    [
        ("step {0} loss {1:.4f} tok/s 88000", []),
        ("step {0} acc {1:.4f} samples/s 88000 loss: 1", []),
        ("step {0} loss: {1:.4f} img/s: 5100", [5100.0]),
        ("step {0} loss {1:.4f} | 23,110 tok/s | 41 GB", [23110.0]),
        ("step {0} loss {1:.4f} 9.5 samples/s", [9.5]),
        ("step {0} loss {1:.4f} (23110 tok/s)", [23110.0]),
    ],
)
def test_a_unit_may_be_the_name_of_what_follows(row: str, rates: list[float]) -> None:
    log = read(log="\n".join(row.format(at, 4 - at / 60) for at in range(120)) + "\n")
    names = ("throughput", "speed")
    assert [each.values[0] for each in log.curves if each.name in names] == rates


WATCHDOG = (
    "[rank{0}]:[E617 18:40:12 ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught collective "
    "operation timeout: WorkNCCL(SeqNum=4012, OpType={1}, NumelIn={2}, NumelOut={2}, "
    "Timeout(ms)=600000) ran for 600012 milliseconds before timing out.\n"
)


@pytest.mark.parametrize(("alone", "told"), [(0, True), (2, False)])
def test_rank_0_alone_in_another_collective_evaluates_or_saves(alone: int, told: bool) -> None:
    kinds = (("BROADCAST", 512), ("ALLREDUCE", 7087872))
    log = "".join(WATCHDOG.format(rank, *kinds[rank != alone]) for rank in range(4))
    found = findings(read(log=log))["nccl-timeout"]
    assert f"rank {alone} is elsewhere" in found.verdict.summary
    assert ("Rank 0 works alone" in (found.verdict.fix or "")) is told
