"""Rules over the curves of a training."""

from __future__ import annotations

import json
import math
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import curve, findings, problems, read, with_curves
from paths import TESTS

from doctor._util.records import Unknown
from doctor.checks.log import series
from doctor.checks.log.curves import CHECKS
from doctor.facts.log import Curve
from doctor.facts.stated import Setting
from doctor.judge.check import Check, Status

NAN, INF = math.nan, math.inf


def falling(points: int = 200, noise: float = 0.05, seed: int = 0) -> list[float]:
    chance = random.Random(seed)
    return [0.5 + 2.0 * math.exp(-step / 60) + chance.gauss(0, noise) for step in range(points)]


def loss(values: list[float]) -> Curve:
    return curve("loss", values)


def decay(points: int = 100) -> list[float]:
    return [1e-4 * (1 - step / points) for step in range(points)] + [0.0]


GOOD = (
    loss(falling()),
    curve("grad_norm", [1.0] * 200),
    curve("learning_rate", [0.0, 5e-5, *decay()]),
    curve("loss_scale", [65536.0, 32768.0, 16384.0] + [16384.0] * 50),
    curve("throughput", [1000.0] * 60),
    curve("reward", [0.1 + step / 200 for step in range(120)], "rl.log"),
    curve("reward_spread", [0.3] * 120, "rl.log"),
    curve("eval_loss", [1.0 - step / 50 for step in range(20)]),
    curve("score:eval_f1", [0.5 + step / 100 for step in range(20)]),
    curve("latent_kl", [3.0 + step / 10 for step in range(30)]),
    curve("device_memory", [9.0, 11.0, *[12.0] * 28]),
    curve("samples_left_out", [0.1]),
    curve("slowest_rank", [3.0, 1.0, 3.0, 2.0]),
    curve("slowest_by", [1.5, 1.4, 1.5, 1.4]),
    curve("value_loss", [9.0 - step / 10 for step in range(20)], "rl.log"),
    curve("explained_variance", [0.1 + step / 40 for step in range(20)], "rl.log"),
    curve("clipped_share", [0.2] * 20, "rl.log"),
    curve("discriminator_loss", [1.3] * 30),
    curve("generator_loss", [0.9] * 30),
    curve("data_time", [0.01] * 30),
    curve("iteration_time", [0.5] * 30),
    curve("ranks_alike", [0.0] * 9),
    curve("policy_kl", [step / 1000 - 0.01 for step in range(60)], "rl.log"),
)
RISING = [0.9 + n / 40 for n in range(50)]
BAD = {
    "ranks-alike": ([curve("ranks_alike", [1.0] * 9)], Status.WARN),
    "schedule-begins-anew": (
        [curve("learning_rate", [1e-4] * 20 + [0.0] + [1e-5 * at for at in range(1, 11)])],
        Status.WARN,
    ),
    "policy-kl-negative": ([curve("policy_kl", [-0.5 * at for at in range(30)])], Status.WARN),
    "collapsed": ((curve("latent_kl", [3.0 * 0.5**n for n in range(40)]),), Status.WARN),
    "memory-keeps-growing": ((curve("host_memory", [20.0 + n for n in range(40)]),), Status.WARN),
    "samples-left-out": ((curve("samples_left_out", [0.98]),), Status.WARN),
    "rank-slower": (
        (curve("slowest_rank", [5.0] * 6), curve("slowest_by", [1.9] * 6)),
        Status.WARN,
    ),
    "value-function-fails": (
        (curve("value_loss", [8e5] * 6), curve("explained_variance", [6e-8] * 6)),
        Status.WARN,
    ),
    "evaluation-stands-still": ((curve("score:eval_f1", [0.4123] * 6),), Status.WARN),
    "discriminator-won": (
        (
            curve("discriminator_loss", [1.3] * 10 + [0.001] * 30),
            curve("generator_loss", [0.9] * 10 + [9.0] * 30),
        ),
        Status.WARN,
    ),
    "waits-for-data": (
        (curve("data_time", [0.4] * 30), curve("iteration_time", [0.5] * 30)),
        Status.WARN,
    ),
    "loss-zero-gradnorm-nan": (
        (loss([2.0, 0.0, 0.0]), curve("grad_norm", [1.0, NAN, NAN])),
        Status.FAIL,
    ),
    "loss-nonfinite": ((loss([2.0, 1.9, NAN]),), Status.FAIL),
    "gradient-nonfinite": (
        (loss(falling(30)), curve("grad_norm", [1.0] * 5 + [INF] * 25)),
        Status.FAIL,
    ),
    "loss-spike": ((loss([*falling(197, 0.01), 1.0, 1.0, 0.98]),), Status.WARN),
    "loss-divergence": ((loss(falling(160) + [0.6 + 0.05 * n for n in range(60)]),), Status.FAIL),
    "loss-plateau": ((loss([2.0] * 100),), Status.WARN),
    "learning-rate-zero": ((curve("learning_rate", [0.0] * 5),), Status.FAIL),
    "rewards-alike": ((curve("reward_spread", [0.0] * 30),), Status.FAIL),
    "evaluation-rises": (
        (loss(falling(60, 0.0)), curve("eval_loss", [1.0 - n / 50 for n in range(10)] + RISING)),
        Status.WARN,
    ),
    "throughput-falling": ((curve("throughput", [100.0] * 60 + [40.0] * 60),), Status.WARN),
}


SUMMED, RESUMED = "loss-summed", "loss-lost-at-resume"
"""They take a line beside the curves: see the tests of their own."""
HELD = [min(0.9, 0.1 + step / 100) for step in range(120)]


def test_every_rule_over_curves_has_a_bad_example() -> None:
    assert {check.slug for check in CHECKS} == set(BAD) | {SUMMED, RESUMED}


@pytest.mark.parametrize(
    "check",
    [check for check in CHECKS if check.slug not in (SUMMED, RESUMED)],
    ids=lambda check: check.slug,
)
def test_a_rule_passes_complains_and_is_unknown(check: Check) -> None:
    curves, status = BAD[check.slug]
    assert findings(with_curves(*GOOD))[check.slug].status is Status.PASS
    bad = findings(with_curves(*curves))[check.slug]
    assert bad.status is status
    assert bad.fix
    assert findings(Unknown(reason="gone"))[check.slug].status is Status.UNKNOWN
    assert findings(with_curves())[check.slug].status is Status.SKIP


def test_a_healthy_training_gets_no_warning() -> None:
    assert problems(with_curves(*GOOD)) == {}


@pytest.mark.parametrize("seed", range(5))
def test_noise_alone_is_no_spike(seed: int) -> None:
    assert problems(with_curves(loss(falling(800, 0.08, seed)))) == {}


@pytest.mark.parametrize(
    ("curves", "slugs"),
    [
        ((loss(falling(10)),), set()),  # too short to judge
        ((loss([2.0, NAN, 1.9, 1.8]),), {"loss-nonfinite"}),  # recovered: a warning
        ((loss([0.0] * 30),), set()),  # GRPO
        ((loss(falling(40)), curve("grad_norm", [INF] * 4 + [1.0] * 36)), set()),  # calibration
        ((curve("loss_scale", [2.0 ** (16 - n) for n in range(12)] + [32.0] * 20),), set()),
        ((curve("loss_scale", [8.0, 4.0, 2.0, 1.0, 0.5]),), {"scaler-collapse"}),
        ((curve("loss_scale", [-1.0] * 49),), set()),  # Megatron with DeepSpeed: there is none
        (
            (curve("loss_scale", [65536.0] * 60 + [2.0 ** (16 - n) for n in range(1, 13)]),),
            {"scaler-collapse"},
        ),
        ((curve("learning_rate", [0.0]),), set()),  # the first step of a warm-up
        ((curve("learning_rate", [1e-4] * 30 + [0.0] * 30),), {"learning-rate-zero"}),
        ((curve("grad_norm", [NAN, NAN, NAN]),), {"gradient-nonfinite"}),
        ((curve("grad_norm", [NAN, NAN, INF, INF, INF, *[1.0] * 40]),), set()),  # calibration
        ((curve("grad_norm", [*[1.0] * 40, INF, *[1.0] * 40]),), set()),  # the scale grew
        ((loss([0.69, 0.65, 0.61]), curve("learning_rate", [0.0] * 3)), set()),  # "lr: 0."
        ((curve("step_time", [6000.0] * 60 + [13000.0] * 60),), {"throughput-falling"}),
        ((loss(falling(60, 0.0)), curve("eval_loss", [1.0, 0.8, 0.7, 0.71, 0.72, 0.73])), set()),
        ((loss([1.0] * 60), curve("eval_loss", [0.9] * 3 + RISING)), {"loss-plateau"}),
        ((loss([2.0] * 30), curve("grad_norm", [0.0] * 30)), {"loss-plateau"}),
        ((curve("reward", [0.0] * 30),), {"rewards-alike"}),
        ((curve("reward", [0.0] * 5), curve("reward_spread", [0.0] * 5)), set()),  # too few
        ((curve("reward", [0.0] * 8 + [0.1] * 30), curve("reward_spread", [0.2] * 38)), set()),
        ((curve("reward", HELD + [0.9 - n / 60 for n in range(50)]),), {"rewards-alike"}),
        ((loss([0.0, 0.001] * 60 + [0.01] * 80), curve("reward", HELD)), set()),  # of a policy
    ],
)
def test_what_is_normal_and_what_is_not(curves: tuple[Curve, ...], slugs: set[str]) -> None:
    assert set(problems(with_curves(*curves))) == slugs


@pytest.mark.parametrize(
    ("curves", "status"),
    [
        ((curve("value_loss", [5.0, 4.0, INF]),), Status.FAIL),
        ((curve("value_loss", [5.0] * 10 + [9e9] * 10),), Status.WARN),
        ((curve("value_loss", [8e5] * 6), curve("explained_variance", [0.6] * 6)), Status.PASS),
        ((curve("value_loss", [0.5] * 6), curve("explained_variance", [0.0] * 6)), Status.PASS),
        ((curve("value_loss", [8e5] * 3), curve("explained_variance", [0.0] * 3)), Status.SKIP),
        ((curve("clipped_share", [0.9] * 6),), Status.WARN),
        ((curve("clipped_share", [0.2] * 6),), Status.SKIP),
    ],
)
def test_the_value_function(curves: tuple[Curve, ...], status: Status) -> None:
    assert findings(with_curves(*curves))["value-function-fails"].status is status


@pytest.mark.parametrize(
    ("name", "values", "status"),
    [
        ("score:eval_accuracy", [0.0] * 5, Status.WARN),
        ("score:map50", [0.0] * 4, Status.NOTE),  # as in the first evaluations of a detector
        ("score:map50", [0.0], Status.NOTE),
        ("score:map50", [0.0, 0.001], Status.SKIP),
        ("score:val_wer", [0.0, 0.0], Status.SKIP),
        ("score:map50", [0.0, 0.0, 0.0, 0.0, 0.1], Status.PASS),
        ("score:eval_accuracy", [0.5] * 8, Status.PASS),  # two decimals: a few samples
        ("score:val auc", [0.5] * 8, Status.WARN),  # of one answer to everything
        ("score:val_auc", [0.5008, 0.4999, 0.5002, 0.4997, 0.5005], Status.WARN),
        ("score:val_auc", [0.5, 0.504, 0.509, 0.514, 0.52], Status.PASS),
        ("score:bbox_map", [0.002], Status.NOTE),
        ("score:bbox_map", [0.002, 0.001, 0.002, 0.002] * 4, Status.WARN),
        ("score:bbox_map", [0.0005 * n for n in range(16)], Status.PASS),  # from scratch
        ("score:bbox_map", [0.001] * 8 + [0.0015] * 8, Status.NOTE),
        ("score:auc", [0.493, 0.496, 0.499, 0.503, 0.506, 0.509], Status.PASS),
        ("score:auc", [0.509, 0.503, 0.499, 0.496, 0.5, 0.493], Status.WARN),
        ("score:eval_accuracy", [0.998] * 8, Status.NOTE),  # at its ceiling
        ("score:val_wer", [1.0] * 6, Status.WARN),
        ("score:val_wer", [0.0] * 6, Status.PASS),
        ("eval_loss", [1.8734] * 6, Status.WARN),
        ("eval_loss", [1.9] * 6, Status.PASS),
    ],
)
def test_evaluations_that_stand_still(name: str, values: list[float], status: Status) -> None:
    assert findings(with_curves(curve(name, values)))["evaluation-stands-still"].status is status


def test_a_class_that_is_never_predicted_is_seen_beside_the_accuracy() -> None:
    slug, accuracy = (
        "evaluation-stands-still",
        curve("score:val_accuracy", [0.8, 0.8, 0.7, 0.9, 0.8]),
    )
    recall = curve("score:val_recall", [0.0, 0.0, 0.4, 0.3, 0.0])
    assert "never predicted" in findings(with_curves(accuracy, recall))[slug].verdict.summary
    assert findings(with_curves(recall))[slug].status is Status.PASS
    learns = curve("score:val_recall", [0.0, 0.0, 0.0, 0.3, 0.4])
    assert findings(with_curves(accuracy, learns))[slug].status is Status.PASS


def test_an_evaluation_before_the_first_step_is_no_reading() -> None:
    before = curve("score:val accuracy", [0.0])
    after = [
        Curve(
            name="loss", path="train.log", steps=(1, 2), values=(0.7, 0.5), lines=(9, 10), points=2
        )
    ]
    assert findings(with_curves(before, *after))["evaluation-stands-still"].status is Status.SKIP


def test_no_evaluation_is_blamed_where_the_training_is_not_finite() -> None:
    log = with_curves(curve("loss", [math.nan] * 6), curve("score:map50", [0.0] * 6))
    assert problems(log) == {"loss-nonfinite": Status.FAIL}


def test_a_schedule_is_not_blamed_where_no_gradient_is_finite() -> None:
    log = with_curves(
        loss([4.3, 4.4] * 12),
        curve("grad_norm", [math.inf] * 24),
        curve("learning_rate", [0.0] * 24),
    )
    assert problems(log) == {"gradient-nonfinite": Status.FAIL}


@pytest.mark.parametrize(
    ("stated", "status"),
    [
        ("load_best_model_at_end=True\n", Status.NOTE),
        ("EarlyStopping(patience=3)\n", Status.NOTE),
        ("load_best_model_at_end=False\n", Status.WARN),
    ],
)
def test_an_evaluation_that_rises_is_a_note_where_the_best_one_is_taken(
    stated: str, status: Status
) -> None:
    held = curve("eval_loss", [1.0, 0.5, 0.8, 0.9, 1.0, 0.9, 1.1])
    held = msgspec.structs.replace(held, steps=(3, 8, 14, 20, 26, 32, 38))
    log = with_curves(loss([0.9**n for n in range(40)]), held)
    log = msgspec.structs.replace(log, stated=read(log=stated).stated)
    found = findings(log)["evaluation-rises"]
    assert found.status is status
    assert "ends at 1.1" in found.verdict.summary


def test_overfitting_is_named_where_the_first_evaluation_is_like_the_training() -> None:
    trained = loss([1.2, 1.1, 1.05, *(1.0 * 0.9**n for n in range(40))])
    held = curve("eval_loss", [1.04, 1.1, 1.2, 1.4, 1.7, 1.9, 2.0])
    held = msgspec.structs.replace(held, steps=(3, 8, 14, 20, 26, 32, 38))
    assert "best evaluation" in (findings(with_curves(trained, held))["evaluation-rises"].fix or "")


ENTROPY = curve("policy_entropy", [1.2 * 0.8**n for n in range(60)])


@pytest.mark.parametrize(
    ("slug", "curves", "status"),
    [
        ("collapsed", (ENTROPY, curve("reward", [0.2, 0.21] * 30)), Status.WARN),
        ("collapsed", (ENTROPY, curve("reward", [n / 60 for n in range(60)])), Status.PASS),
        ("collapsed", (ENTROPY,), Status.PASS),  # no rewards that could stand still
        ("collapsed", (curve("codebook_usage", [40.0] * 10 + [1.0] * 30),), Status.WARN),
        ("collapsed", (curve("codebook_usage", [0.4] * 40),), Status.PASS),
        ("collapsed", (curve("latent_kl", [0.0001] * 5),), Status.SKIP),
        (
            "memory-keeps-growing",
            (curve("device_memory", [9.0 + n for n in range(40)]),),
            Status.WARN,
        ),
        (
            "memory-keeps-growing",
            (curve("device_memory", [9.0 + n / 50 for n in range(40)]),),
            Status.PASS,
        ),
        ("memory-keeps-growing", (curve("host_memory", [9.0 * n for n in range(9)]),), Status.SKIP),
        ("samples-left-out", (curve("samples", [1.0]),), Status.WARN),
        ("samples-left-out", (curve("samples", [800.0]),), Status.SKIP),
        ("samples-left-out", (curve("samples_left_out", [0.4]),), Status.PASS),
        (
            "rank-slower",
            (curve("slowest_rank", [5.0] * 6), curve("slowest_by", [1.05] * 6)),
            Status.PASS,
        ),
        (
            "rank-slower",
            (curve("slowest_rank", [5.0] * 2), curve("slowest_by", [2.0] * 2)),
            Status.SKIP,
        ),
        ("evaluation-stands-still", (curve("eval_loss", [NAN] * 3),), Status.FAIL),
        ("scaler-collapse", (curve("skipped_steps", [10.0] * 12),), Status.FAIL),
        ("scaler-collapse", (curve("skipped_steps", [2.0] + [0.0] * 30),), Status.PASS),
    ],
)
def test_what_falls_or_grows(slug: str, curves: tuple[Curve, ...], status: Status) -> None:
    found = findings(with_curves(*curves))
    if slug == "scaler-collapse" and status is Status.PASS:
        assert slug not in problems(with_curves(*curves))
    else:
        assert found[slug].status is status


def test_a_rate_that_is_spent_early() -> None:
    rate = curve("learning_rate", [0.1 * 0.9**n for n in range(120)])
    stands = loss([max(1.2, 2.3 - n / 30) for n in range(120)])
    falls = loss([2.3 - n / 60 for n in range(120)])
    assert findings(with_curves(rate, stands))["learning-rate-zero"].status is Status.WARN
    assert findings(with_curves(rate, falls))["learning-rate-zero"].status is Status.PASS


def test_a_policy_that_has_left_its_reference() -> None:
    reward = curve("reward", [0.4 + n / 100 for n in range(60)])
    far = curve("policy_kl", [0.001 * 1.2**n for n in range(60)])
    near = curve("policy_kl", [0.001 * 1.08**n for n in range(60)])
    assert findings(with_curves(reward, far))["rewards-alike"].status is Status.WARN
    assert findings(with_curves(reward, near))["rewards-alike"].status is Status.PASS


ONE_DIGIT = [round(2e-5 * (1 - n / 120), 6) for n in range(120)]


@pytest.mark.parametrize(
    ("curves", "slugs"),
    [
        ((curve("learning_rate", ONE_DIGIT),), set()),  # below the printed digits
        ((curve("learning_rate", [2.4e-5, 1.8e-5, 1.2e-5, 6e-6, 0.0]),), set()),  # one per epoch
        ((curve("learning_rate", [8.5e-5, 5e-5, 1.5e-5, 0.0, 0.0]),), set()),  # cosine, and 1 more
        ((curve("learning_rate", [1e-5, 0.0]),), set()),
        ((curve("learning_rate", [1e-4, 1e-4, 1e-4, 0.0, 0.0]),), {"learning-rate-zero"}),
        ((curve("learning_rate", [1e-4, 0.0, 1e-4] * 20),), set()),  # restarts: a note
        ((curve("discriminator_loss", [0.7] * 30), curve("generator_loss", [1.5] * 30)), set()),
        ((curve("discriminator_loss", [0.001] * 30),), set()),  # no generator beside it
        ((curve("data_time", [9.0] * 30), curve("iteration_time", [0.5] * 30)), set()),  # no pair
        ((curve("data_time", [0.2] * 30), curve("step_time", [0.5] * 30)), set()),  # a note
        ((curve("data_time", [0.4] * 30),), set()),
        ((loss([10.82] * 79 + [10.83]), curve("learning_rate", [1e-2] * 80)), {"loss-plateau"}),
        ((loss([0.693] * 79 + [0.694]),), set()),  # ln 2: a discriminator
        ((loss([0.693] * 80), curve("learning_rate", [1e-4] * 80)), {"loss-plateau"}),
        (
            (loss([0.693] * 79 + [0.694]), curve("learning_rate", [1e-4] * 80)),
            {"loss-plateau"},
        ),
        ((loss([3.1, 2.9, 3.3, 3.0] * 5),), {"loss-plateau"}),  # each epoch begins anew
        ((loss([3.1, 2.9, 3.3, 3.0] * 2),), set()),
        ((loss([3.0, 3.1] * 10),), set()),  # two values: printed with one digit
        (
            (loss([0.6931, 0.6932] * 10), curve("preference_margin", [0.0] * 20)),
            {"loss-plateau"},
        ),
        ((loss([1.9, 1.95] * 20), curve("grad_norm", [0.0] * 40)), {"loss-plateau"}),
        ((loss(falling(60)), curve("grad_norm", [0.0] * 60)), set()),  # it learns: not reported
    ],
)
def test_what_is_beside_a_curve(curves: tuple[Curve, ...], slugs: set[str]) -> None:
    assert set(problems(with_curves(*curves))) == slugs


def test_an_evaluation_that_never_improves_is_not_called_overfitting_alone() -> None:
    rising = curve("eval_loss", [4.0 + n / 10 for n in range(20)])
    finding = findings(with_curves(loss([4.0 * 0.8**n for n in range(20)]), rising))
    assert finding["evaluation-rises"].status is Status.WARN
    assert "class_to_idx" in (finding["evaluation-rises"].fix or "")
    assert finding["first-cause"].status is Status.PASS


def test_a_warm_up_that_does_not_end_is_told() -> None:
    rates = curve("learning_rate", [n * 1e-7 for n in range(1, 31)])
    finding = findings(with_curves(loss([2.303] * 29 + [2.302]), rates))["loss-plateau"]
    assert finding.status is Status.NOTE
    assert "scheduler.step()" in (finding.fix or "")
    rates = curve("learning_rate", [n * 1e-7 for n in range(1, 29)] + [29e-7] * 2)
    finding = findings(with_curves(loss([2.303] * 29 + [2.302]), rates))["loss-plateau"]
    assert "still rises" not in finding.verdict.summary


def test_what_changed_while_the_rewards_fell_is_told() -> None:
    reward = [0.2 + n / 100 for n in range(30)] + [max(0.01, 0.5 - n / 20) for n in range(20)]
    beside = curve("policy_entropy", [1.0] * 30 + [0.01] * 20)
    finding = findings(with_curves(curve("reward", reward), beside))["rewards-alike"]
    assert (finding.status, "entropy" in finding.verdict.summary) == (Status.WARN, True)


@pytest.mark.parametrize(("norm", "learns"), [(0.0, False), (0.02, True)])
def test_a_loss_of_zero_is_harmless_only_with_gradients(norm: float, learns: bool) -> None:
    curves = (loss([0.0] * 30), curve("grad_norm", [norm] * 30))
    finding = findings(with_curves(*curves))["loss-plateau"]
    assert finding.status is (Status.SKIP if learns else Status.FAIL)
    rewarded = findings(with_curves(*curves, curve("reward", [0.5] * 30)))["loss-plateau"]
    assert "max_completion_length" not in (finding.fix or "") + (rewarded.fix if learns else "")
    assert learns or "NaN" in finding.fix


def test_a_loss_that_is_never_finite_has_no_shape() -> None:
    rules = findings(with_curves(loss([NAN] * 30)))
    assert rules["loss-plateau"].status is Status.SKIP
    assert "SDXL" in rules["loss-nonfinite"].fix


def test_a_spike_that_stays_is_a_failure_and_its_harbinger_is_named() -> None:
    values = [1.0 + 0.01 * (n % 3) for n in range(100)] + [4.0] * 30
    norms = [1.0] * 90 + [5.0] * 40
    spike = findings(with_curves(loss(values), curve("grad_norm", norms)))["loss-spike"]
    assert spike.status is Status.FAIL
    assert "gradient norm rose before" in spike.verdict.summary
    assert spike.places[0].line == 101


def test_the_remedy_after_nan_names_what_the_log_has() -> None:
    """Without a learning rate none is spoken of as one that moved; the first sentence acts."""
    losses = loss([2.0, 1.9, NAN, NAN, NAN])
    fix = findings(with_curves(losses))["loss-nonfinite"].fix
    assert fix.startswith("Go back to the last checkpoint without NaN")
    assert "scaler" not in fix
    fixed = curve("learning_rate", [1e-5] * 5)
    assert "scaler" in findings(with_curves(losses, fixed))["loss-nonfinite"].fix


def test_a_single_row_is_not_taken_for_the_start_of_a_run() -> None:
    row = "{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 1.2e-05, 'epoch': 2.31}\n"
    one = findings(read(log=row))["loss-zero-gradnorm-nan"]
    assert one.status is Status.FAIL
    assert "start again" not in one.fix
    assert "at step 1" not in one.verdict.places[0].text
    assert "start again" in findings(read(log=row * 6))["loss-zero-gradnorm-nan"].fix
    first = "{'loss': 1.07, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 0.0}\n"
    for before, said in ((first, True), (first.replace(" 0.0,", " 1e-5,"), False)):
        fix = findings(read(log=before + row * 6))["loss-zero-gradnorm-nan"].fix
        assert ("start again" in fix) is said


def test_the_remedy_after_nan_depends_on_whether_the_optimizer_stepped() -> None:
    bad = (loss([2.0, 0.0, 0.0, 0.0]), curve("grad_norm", [1.0, NAN, NAN, NAN]))
    frozen = curve("learning_rate", [1e-5, 1e-5, 1e-5, 1e-5])
    moving = curve("learning_rate", [1e-5, 2e-5, 3e-5, 4e-5])
    slug = "loss-zero-gradnorm-nan"
    assert "intact" in findings(with_curves(*bad, frozen))[slug].fix
    assert "are lost" in findings(with_curves(*bad, moving))[slug].fix
    assert "without NaN" in findings(with_curves(*bad))[slug].fix
    still = curve("learning_rate", [1e-5] * 4)
    assert "does not show" in findings(with_curves(*bad, still))[slug].fix
    after = curve("learning_rate", [1e-5, 1e-5, 2e-5, 2e-5])
    rates = curve("learning_rate", [1e-5, 2e-5])
    early = with_curves(loss([80.0, 0.0]), curve("grad_norm", [NAN, NAN]), rates)
    assert "are lost" in findings(early)[slug].fix
    exploded = findings(with_curves(loss([2.0, 1.35e29, NAN])))["loss-nonfinite"]
    assert "it was 1.35e+29 just before" in exploded.verdict.summary
    assert "are lost" in findings(with_curves(*bad, after))[slug].fix


@pytest.mark.parametrize(("second", "word"), [(3, "the data"), (2, "different steps")])
def test_nan_in_two_logs_of_one_seed_is_compared(second: int, word: str) -> None:
    values = [2.0] * 5
    first_run, second_run = list(values), list(values)
    first_run[3] = second_run[second] = NAN
    log = with_curves(curve("loss", first_run, "a.log"), curve("loss", second_run, "b.log"))
    assert word in findings(log)["loss-nonfinite"].verdict.summary


def test_nan_in_one_of_two_logs_is_not_compared() -> None:
    log = with_curves(curve("loss", [2.0, NAN, NAN], "a.log"), curve("loss", [2.0] * 3, "b.log"))
    found = findings(log)["loss-nonfinite"]
    assert found.status is Status.FAIL
    assert "both logs" not in found.verdict.summary
    assert "different steps" not in found.verdict.summary


SHAPE = ("loss-spike", "loss-divergence", "loss-plateau", "throughput-falling")


@pytest.mark.parametrize("slug", SHAPE)
def test_below_20_points_nothing_is_said_of_the_shape(slug: str) -> None:
    (name, values), status = (
        {
            "loss-spike": ("loss", [*[1.0, 1.01] * 9, 9.0]),
            "loss-divergence": ("loss", [2.0, 1.0, 0.5, *[4.0 + n for n in range(16)]]),
            "loss-plateau": ("loss", [2.0 + 0.001 * (n % 2) for n in range(19)]),
            "rewards-alike": ((curve("reward_spread", [0.0] * 30),), Status.FAIL),
            "evaluation-rises": (
                (
                    loss(falling(60, 0.0)),
                    curve("eval_loss", [1.0 - n / 50 for n in range(10)] + RISING),
                ),
                Status.WARN,
            ),
            "throughput-falling": ("throughput", [100.0] * 9 + [40.0] * 10),
        }[slug],
        Status.SKIP,
    )
    assert len(values) == 19
    found = findings(with_curves(curve(name, values)))[slug]
    assert found.status is status
    assert "fewer than 20" in found.verdict.summary


def test_a_curve_that_fails_is_named_where_no_line_does() -> None:
    found = findings(with_curves(loss([2.0, 1.9, NAN])))["first-cause"]
    assert found.status is Status.PASS
    assert "LOG091" in found.verdict.summary
    assert findings(with_curves(*GOOD))["first-cause"].status is Status.UNKNOWN


@given(st.lists(st.floats(0.01, 1e6), max_size=120))
def test_rules_accept_any_finite_values(values: list[float]) -> None:
    series.spikes(values)
    series.diverged(values)
    series.is_flat(values)
    series.fell(values, 0.7)
    findings(with_curves(loss(values), curve("grad_norm", values)))


def every_tenth(name: str, values: list[float]) -> Curve:
    logged = curve(name, values)
    return msgspec.structs.replace(logged, steps=tuple(10 * step for step in logged.steps))


@pytest.mark.parametrize(
    ("curves", "status"),
    [
        ((curve("grad_norm", [NAN] * 6),), Status.WARN),  # perhaps the scaler's first steps
        ((every_tenth("grad_norm", [NAN] * 6),), Status.FAIL),  # 60 steps are none
        ((curve("grad_norm", [NAN] * 17),), Status.FAIL),
        ((curve("grad_norm", [*[NAN] * 5, *[1.0] * 20]),), Status.NOTE),
        ((curve("grad_norm", [*[1.0] * 20, NAN, NAN]),), Status.WARN),
        ((curve("grad_norm", [*[1.0] * 20, *[NAN] * 10]),), Status.FAIL),
    ],
)
def test_a_gradient_norm_that_is_not_finite_is_never_acquitted(
    curves: tuple[Curve, ...], status: Status
) -> None:
    rate = curve("learning_rate", [1e-4 / step for step in range(1, 60)])
    assert findings(with_curves(*curves))["gradient-nonfinite"].status is status
    assert findings(with_curves(*curves, rate))["gradient-nonfinite"].status is status


def test_the_earliest_value_that_is_not_finite_is_named() -> None:
    log = with_curves(loss([2.0, 2.0, 1.9, NAN]), curve("grad_norm", [1.0, NAN, NAN, NAN]))
    assert "nan from step 2 on" in findings(log)["loss-nonfinite"].verdict.summary


@pytest.mark.parametrize(
    "text",
    [
        "{\n 'loss': 2.3,\n 'grad_norm': nan}\n{\n 'loss': 0.0,\n 'grad_norm': nan}\n",
        "training loss is 0.0 and grad_norm nan\n",
    ],
)
def test_a_loss_of_zero_and_its_norm_are_read_over_lines_and_in_words(text: str) -> None:
    assert problems(read(log=text)) == {"loss-zero-gradnorm-nan": Status.FAIL}


def test_values_that_are_none_of_the_training_are_not_judged() -> None:
    assert problems(read(log="best_val_loss inf\niou/class_17 nan\n")) == {}


REAL = [json.loads(line) for line in (TESTS / "corpus" / "curves.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("points", [20, 40, 100, 400])
def test_real_noisy_trainings_get_no_warning(points: int) -> None:
    assert len(REAL) >= 30
    found = {run["name"]: problems(with_curves(loss(run["loss"][:points]))) for run in REAL}
    assert {name: each for name, each in found.items() if each} == {}


@pytest.mark.parametrize("sigma", [0.3, 1.0])
@pytest.mark.parametrize("points", [40, 400])
def test_stationary_noise_gets_no_warning(sigma: float, points: int) -> None:
    """A small part of benchmarks/curves/noise.py; seeds are fixed."""
    for seed in range(20):
        chance = random.Random(seed)
        values = [chance.lognormvariate(0, sigma) for _ in range(points)]
        squared = [chance.gammavariate(0.5, 2) for _ in range(points)]
        assert problems(with_curves(loss(values))) == {}
        assert problems(with_curves(loss(squared))) == {}


@pytest.mark.parametrize("sigma", [0.02, 0.3])
def test_a_divergence_is_found_in_noise(sigma: float) -> None:
    chance = random.Random(1)
    down = [(0.5 + 2 * math.exp(-at / 60)) * chance.lognormvariate(0, sigma) for at in range(300)]
    up = [0.5 * 20 ** min(1.0, at / 50) * chance.lognormvariate(0, sigma) for at in range(100)]
    assert "loss-divergence" in problems(with_curves(loss(down + up)))
    assert findings(with_curves(loss(down[::8] + up[::8])))["loss-divergence"].status in (
        Status.NOTE,
        Status.PASS,
    )


LOST = [10 - 4 * step / 30 for step in range(30)] + [6.4, 6.8, 7.2] + [7.6] * 40
"""A cross-entropy that ends at that of the words' frequencies."""


def test_a_loss_that_is_lost_diverges_where_the_gradient_norm_exploded() -> None:
    norm, calm = [2.0] * 28 + [20.0, 40.0, 60.0, 80.0] + [0.4] * 41, [2.0] * 73
    rate = curve("learning_rate", [3e-3] * 73)
    found = findings(with_curves(loss(LOST), curve("grad_norm", norm), rate))["loss-divergence"]
    assert found.status is Status.FAIL
    assert "80" in found.verdict.summary
    assert "0.003, its highest value" in found.verdict.summary
    assert problems(with_curves(loss(LOST), curve("grad_norm", calm), rate)) == {}
    recovered = LOST[:33] + [6.4 - step / 100 for step in range(40)]
    assert problems(with_curves(loss(recovered), curve("grad_norm", norm), rate)) == {}


def test_a_constant_loss_fails_where_no_gradient_arrives() -> None:
    frozen = with_curves(loss([2.0] * 30), curve("grad_norm", [0.0] * 30))
    assert problems(frozen) == {"loss-plateau": Status.FAIL}
    assert problems(with_curves(loss([2.0] * 30))) == {"loss-plateau": Status.WARN}


@pytest.mark.parametrize(("level", "guessed"), [(0.693, True), (2.3026, True), (0.701, False)])
def test_a_loss_at_the_level_of_guessing_is_named_so(level: float, guessed: bool) -> None:
    found = findings(with_curves(loss([level, level + 1e-4, level - 1e-4] * 20)))["loss-plateau"]
    assert found.status is (Status.WARN if level > 2 else Status.NOTE)
    assert ("guessing" in found.verdict.summary) is guessed


STEADY = [1.9, 1.88, 1.9, 1.82, 1.84]
EARLY = [2.2, 3.0, 4.3, 5.2, 6.1, 7.0, 8.4]
NORMS = [1.9, 2.1, 2.6, 2.4, 2.1, 68.0, 301.0, 295.0, 207.0, 156.0, 285.0]


@pytest.mark.parametrize(
    ("values", "norms", "status"),
    [
        (STEADY + EARLY + [7.5] * 90, NORMS + [2.0] * 91, Status.FAIL),
        (STEADY + EARLY + [1.7] * 90, NORMS + [2.0] * 91, Status.PASS),  # it came back
        (STEADY + EARLY + [7.5] * 90, [2.0] * 102, Status.PASS),  # another objective, say
        ([1.9] * 102, NORMS + [2.0] * 91, Status.PASS),  # the norm alone
    ],
)
def test_a_loss_that_an_early_explosion_ruined_diverged(
    values: list[float], norms: list[float], status: Status
) -> None:
    found = findings(with_curves(loss(values), curve("grad_norm", norms)))["loss-divergence"]
    assert found.status is status
    if status is Status.FAIL:
        assert "from step 6 on" in found.verdict.summary


def gaining(rise: float) -> list[float]:
    chance = random.Random(3)
    return [0.13 + rise * step / 60 + chance.gauss(0, 0.003) for step in range(60)]


@pytest.mark.parametrize(
    ("shares", "rise", "status"),
    [
        ([1.0] * 60, 0.0, Status.WARN),
        ([1.0] * 60, 0.1, Status.PASS),  # a base model that writes on learns all the same
        ([1.0] * 30 + [0.4] * 30, 0.0, Status.PASS),
        ([], 0.0, Status.PASS),
    ],
)
def test_completions_that_are_all_cut_off_are_told_where_no_reward_rises(
    shares: list[float], rise: float, status: Status
) -> None:
    curves = (curve("reward", gaining(rise)), curve("cut_off_share", shares))
    assert findings(with_curves(*curves))["rewards-alike"].status is status


ACCUMULATION = "  Gradient Accumulation steps = {}\n"


def evaluated(factor: float) -> str:
    rows = []
    for step in range(1, 41):
        level = 1.4 + 1 / step
        rows.append(f"{{'loss': {factor * level:.4f}, 'epoch': {step / 40}}}\n")
        if step % 10 == 0:
            rows.append(f"{{'eval_loss': {level:.4f}, 'epoch': {step / 40}}}\n")
    return "".join(rows)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (ACCUMULATION.format(16) + evaluated(16.0), Status.WARN),
        (ACCUMULATION.format(16) + evaluated(1.0), Status.PASS),
        (ACCUMULATION.format(16) + evaluated(5.0), Status.PASS),  # a loss of several parts
        (ACCUMULATION.format(1) + evaluated(1.0), Status.SKIP),
        (evaluated(16.0), Status.SKIP),
        (ACCUMULATION.format(16) + evaluated(16.0)[:600], Status.SKIP),
    ],
)
def test_a_loss_that_is_summed_over_the_accumulated_steps_is_told(
    text: str, status: Status
) -> None:
    found = findings(read(log=text))["loss-summed"]
    assert found.status is status
    assert status is not Status.WARN or "num_items_in_batch" in found.fix


def stated(name: str, number: int) -> Setting:
    return Setting(name=name, text=str(number), number=float(number), path="train.log", line=1)


@pytest.mark.parametrize(
    ("level", "words", "status"),
    [
        (10.98, 50_304, Status.WARN),
        (10.83, 50_304, Status.WARN),
        (12.2, 50_304, Status.NOTE),  # far above a guess: another loss
        (9.9, 50_304, Status.NOTE),  # below it: something was learned
        (10.98, 0, Status.NOTE),  # no vocabulary is stated
        (4.5, 90, Status.NOTE),  # no vocabulary of a language model
    ],
)
def test_a_language_model_that_is_no_better_than_a_guess(
    level: float, words: int, status: Status
) -> None:
    chance = random.Random(3)
    values = [level + chance.gauss(0, 0.01) for _ in range(200)]
    log = with_curves(loss(values))
    log = msgspec.structs.replace(log, stated=(stated("vocab_size", words),) if words else ())
    assert findings(log)["loss-plateau"].status is status


def test_a_loss_at_the_level_of_guessing_with_hardly_a_gradient_collapsed() -> None:
    values = [math.log(64) + 1e-4 * (at % 3) for at in range(120)]
    rates = curve("learning_rate", [2e-3 * (1 - at / 200) for at in range(120)])
    gone = with_curves(loss(values), rates, curve("grad_norm", [1e-4] * 120))
    assert "fell onto one point" in (findings(gone)["loss-plateau"].verdict.fix or "")
    kept = with_curves(loss(values), rates, curve("grad_norm", [0.4] * 120))
    assert "fell onto one point" not in (findings(kept)["loss-plateau"].verdict.fix or "")


FASTER = [-3.0 * 1.16**at - 4 * at for at in range(50)]
SLOWER = [14 - 60 * (1 - math.exp(-at / 12)) for at in range(60)]
POOR = curve("score:dice", [0.021 + at % 3 / 1000 for at in range(50)])


@pytest.mark.parametrize(
    ("curves", "warned"),
    [
        ((loss(FASTER), POOR), True),
        ((loss(FASTER),), False),  # no score: maybe a density
        ((loss(FASTER), curve("score:dice", [at / 60 for at in range(50)])), False),
        ((loss(SLOWER), curve("score:dice", [0.02] * 60)), False),  # a likelihood that settles
        ((loss([-at / 9 for at in range(200)]), POOR), False),  # evenly
        ((loss([-1 + math.exp(-at / 9) for at in range(60)]), POOR), False),  # a cosine
        ((loss(FASTER), POOR, curve("reward", [0.1] * 50)), False),  # a policy's
        ((loss(FASTER), curve("score:val accuracy", [0.97] * 50)), False),  # it has learned
    ],
)
def test_a_loss_that_falls_without_bound(curves: tuple[Curve, ...], warned: bool) -> None:
    assert ("loss-divergence" in problems(with_curves(*curves))) is warned


def test_a_spike_that_stays_at_a_high_rate_asks_for_a_lower_one() -> None:
    values = [3 + math.exp(-at / 40) for at in range(150)] + [7.5 + at % 3 / 50 for at in range(60)]
    for rate, first in ((6e-3, True), (3e-4, False)):
        log = with_curves(loss(values), curve("learning_rate", [rate] * len(values)))
        fix = findings(log)["loss-spike"].verdict.fix or ""
        assert ("go on with a lower learning rate" in fix) is first


@pytest.mark.parametrize(
    ("norms", "unstable"),
    [
        ([0.8] * 90 + [4.5, 9.0, 40.0, 80.0, 200.0, 900.0, 1e4, 1e5, 1e5, 1e5], True),
        ([0.8] * 99 + [300.0], True),
        ([0.8 + 0.1 * (at % 3) for at in range(100)], False),
        ([0.8] * 50 + [300.0] * 5 + [0.8] * 45, False),  # it came back
        ([0.0] * 100, False),
    ],
)
def test_what_the_gradient_norm_did_before_a_nan_is_told(
    norms: list[float], unstable: bool
) -> None:
    values = loss([2.0] * 100 + [NAN] * 20)
    log = with_curves(values, curve("grad_norm", norms + [NAN] * 20))
    found = findings(log)["loss-nonfinite"].verdict
    assert ("unstable before" in (found.fix or "")) is unstable
    moved = [1e-4 * (1 - at / 150) for at in range(100)] + [1e-5] * 20  # fp16: steps are skipped
    still = with_curves(*log.curves, curve("learning_rate", moved))
    assert "unstable before" not in (findings(still)["loss-nonfinite"].verdict.fix or "")


@pytest.mark.parametrize(
    ("score", "status"),
    [
        ([60 + at * 0.5 for at in range(40)], Status.NOTE),
        ([60.0 + at % 3 for at in range(40)], Status.WARN),
    ],
)
def test_an_evaluation_loss_that_rises_while_its_score_improves(
    score: list[float], status: Status
) -> None:
    held = [1.0 - at / 20 if at < 8 else 0.65 + (at - 8) * 0.06 for at in range(40)]
    log = with_curves(
        loss([2 * math.exp(-at / 8) for at in range(40)]),
        curve("eval_loss", held),
        curve("score:acc@1", score),
    )
    assert findings(log)["evaluation-rises"].status is status
    falls = curve("score:eval_accuracy", [80 - abs(at - 8) / 4 for at in range(40)])
    beside = with_curves(*log.curves, falls)
    assert findings(beside)["evaluation-rises"].status is Status.WARN


@pytest.mark.parametrize(
    ("loss", "accuracy", "status"),
    [
        (1.386, 0.249, Status.WARN),
        (0.6925, 0.53, Status.WARN),
        (1.386, 0.61, Status.PASS),  # the same level, and far better than a guess
        (0.30, 0.251, Status.PASS),  # the loss knows better
    ],
)
def test_an_accuracy_and_a_loss_of_one_guess(loss: float, accuracy: float, status: Status) -> None:
    text = "".join(
        f"epoch {n} loss {loss + n / 2000:.4f} val_loss {loss + n / 1000:.4f} "
        f"val_acc {accuracy + n % 2 / 500:.4f}\n"
        for n in range(6)
    )
    assert findings(read(log=text))["evaluation-stands-still"].status is status


def test_evaluations_that_stay_near_the_guess_the_training_began_at() -> None:
    def of(first: float, level: float, accuracy: float) -> Status:
        text = "".join(
            f"epoch {n} loss {first - n / 50:.4f} val_loss {level + n % 3 / 500:.4f} "
            f"val_acc {accuracy + n % 4 / 100:.4f}\n"
            for n in range(9)
        )
        return findings(read(log=text))["evaluation-stands-still"].status

    assert of(2.20, 2.15, 0.15) is Status.NOTE
    assert of(0.694, 0.68, 0.58) is Status.NOTE
    assert of(0.694, 0.52, 0.72) is Status.PASS
    assert of(2.20, 2.15, 0.45) is Status.PASS  # too unsure, and right
    assert of(1.25, 1.22, 0.30) is Status.PASS  # no guess: pretrained weights


def test_a_rate_below_its_last_digit_is_no_failure() -> None:
    def log(*rates: str) -> str:
        return "".join(f"iter: {n} lr: {rate} loss: 0.7\n" for n, rate in enumerate(rates))

    slug = "learning-rate-zero"
    end = log(*["0.000001"] * 4, *["0.000000"] * 3)
    assert findings(read(log=end))[slug].status is Status.NOTE
    spent = log(*["0.000001"] * 4, *["0.000000"] * 9)
    assert findings(read(log=spent))[slug].status is Status.FAIL
    dropped = log(*["0.000100"] * 4, *["0.000000"] * 3)
    assert findings(read(log=dropped))[slug].status is Status.FAIL


def test_a_log_says_what_was_read_of_it() -> None:
    summary = findings(read(log="loss: 1.0 lr: 0.1\n"))["first-cause"].verdict.summary
    assert "read: loss (1 values), learning rate (1 values); not found: eval" in summary
    assert "no metric was read" in findings(read(log="hello\n"))["first-cause"].verdict.summary


def test_a_better_score_excuses_a_loss_that_rises() -> None:
    def log(gain: float, rise: float) -> str:
        return "".join(
            f"epoch {n} loss {2 * 0.8**n:.4f} val_loss {1 + abs(n - 5) * rise:.4f} "
            f"val_acc {0.7 + min(n, 10) * gain - n % 2 * gain:.4f}\n"
            for n in range(20)
        )

    slug = "evaluation-rises"
    assert findings(read(log=log(0.01, 0.05)))[slug].status is Status.NOTE
    assert findings(read(log=log(0.0, 0.05)))[slug].status is Status.WARN
    assert findings(read(log=log(0.01, 0.09)))[slug].status is Status.WARN


@pytest.mark.parametrize(
    ("rates", "stated", "begins"),
    [
        ([0.015 * 1.5**step for step in range(25)], (), "The learning rate grows from 0.015 to"),
        ([0.05] * 25, (), "The learning rate is 0.05: far too high where it is Adam"),
        ([0.05] * 25, ("sgd",), "Look for NaN"),
    ],
)
def test_the_optimizer_is_not_guessed(
    rates: list[float], stated: tuple[str, ...], begins: str
) -> None:
    curves = (curve("loss", [*falling(24), NAN]), curve("learning_rate", rates))
    log = msgspec.structs.replace(
        with_curves(*curves),
        stated=tuple(Setting(name="optimizer", text=each) for each in stated),
    )
    fix = findings(log)["loss-nonfinite"].verdict.fix or ""
    assert fix.startswith(begins)
    assert ("fp16" in fix) is (stated == ("sgd",))


def test_a_rate_of_0_beside_gradients_of_0_says_that_no_step_was_taken() -> None:
    rate, slug = curve("learning_rate", [0.0] * 5), "learning-rate-zero"
    for norms, said in (([0.0] * 5, True), ([0.3] * 5, False)):
        found = findings(
            with_curves(loss([12.1, 12.0, 12.2, 12.1, 12.0]), curve("grad_norm", norms), rate)
        )[slug]
        assert found.status is Status.FAIL
        assert ("no step was taken" in found.fix) is said


def test_a_finite_loss_after_a_gradient_of_nan_says_that_the_weights_are_intact() -> None:
    rates = curve("learning_rate", [6e-4, 5e-4, 4e-4, 3e-4, 2e-4, 1e-4])
    norms = curve("grad_norm", [1.0, 1.0, 1.0, 1.0, NAN, NAN])
    fix = {
        last: findings(with_curves(norms, rates, loss([2.7, 2.6, 2.7, 2.8, 2.5, last])))[
            "gradient-nonfinite"
        ].fix
        for last in (2.4, 0.0)
    }
    assert "the weights hold no NaN" in fix[2.4]
    assert "the weights hold no NaN" not in fix[0.0]


def test_an_entropy_that_is_gone_is_a_note_where_no_rewards_are_read() -> None:
    gone = curve("policy_entropy", [1.9] * 8 + [0.0] * 24)
    value = curve("value_loss", [9.0 - step / 10 for step in range(32)])
    slug = next(check.slug for check in CHECKS if "entropy" in check.why)
    assert findings(with_curves(gone, value))[slug].status is Status.NOTE
    assert findings(with_curves(gone))[slug].status is Status.PASS  # of a classifier, maybe
    falls = curve("episode_reward", [10.0 - step / 10 for step in range(32)])
    assert findings(with_curves(gone, value, falls))[slug].status is Status.WARN
    solved = curve("episode_reward", [500.0] * 32)
    assert findings(with_curves(gone, value, solved))[slug].status is Status.NOTE


def test_a_nan_before_finite_losses_is_no_reason_to_go_back() -> None:
    first = findings(with_curves(curve("loss", [NAN, 0.5, 0.4])))["loss-nonfinite"]
    assert first.status is Status.NOTE
    between = findings(with_curves(curve("loss", [0.6, NAN, 0.4])))["loss-nonfinite"]
    assert between.status is Status.WARN
    assert "checkpoint" not in between.fix
    to_the_end = findings(with_curves(curve("loss", [NAN] * 20)))["loss-nonfinite"]
    assert to_the_end.status is Status.FAIL
    norms = with_curves(curve("loss", [0.5] * 20), curve("grad_norm", [NAN] * 20))
    assert problems(norms)["gradient-nonfinite"] is Status.FAIL


def test_the_memory_that_slurm_allocates_is_not_of_the_device() -> None:
    def curves(row: str) -> set[str]:
        return {each.name for each in read(log=f"loss: 0.5\n{row}\n").curves}

    assert "device_memory" not in curves("Resources: cpu=8,gres/gpu:h200=1,mem=64G,node=1")
    assert "device_memory" in curves("step 3 loss: 0.4 mem=61.5G")
