"""Rules over the curves of a training."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from logs import curve, findings, problems, with_curves

from doctor._util.records import Unknown
from doctor.checks.log import series
from doctor.checks.log.curves import CHECKS
from doctor.facts.log import Curve
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
)
BAD = {
    "loss-zero-gradnorm-nan": (
        (loss([2.0, 0.0, 0.0]), curve("grad_norm", [1.0, NAN, NAN])),
        Status.FAIL,
    ),
    "loss-nonfinite": ((loss([2.0, 1.9, NAN]),), Status.FAIL),
    "gradient-nonfinite": (
        (loss(falling(30)), curve("grad_norm", [1.0] * 5 + [INF] * 25)),
        Status.FAIL,
    ),
    "loss-spike": ((loss([*falling()[:150], 3.5, *falling()[151:]]),), Status.WARN),
    "loss-divergence": ((loss(falling(160) + [0.6 + 0.05 * n for n in range(60)]),), Status.FAIL),
    "loss-plateau": ((loss([2.0 + 0.001 * (n % 2) for n in range(100)]),), Status.WARN),
    "learning-rate-zero": ((curve("learning_rate", [0.0] * 5),), Status.FAIL),
    "throughput-falling": ((curve("throughput", [100.0] * 30 + [40.0] * 30),), Status.WARN),
}


def test_every_rule_over_curves_has_a_bad_example() -> None:
    assert {check.slug for check in CHECKS} == set(BAD)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.slug)
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
        (
            (curve("loss_scale", [65536.0] * 60 + [2.0 ** (16 - n) for n in range(1, 13)]),),
            {"scaler-collapse"},
        ),
        ((curve("learning_rate", [0.0]),), set()),  # the first step of a warm-up
        ((curve("learning_rate", [1e-4] * 30 + [0.0] * 30),), {"learning-rate-zero"}),
        ((curve("grad_norm", [NAN, NAN, NAN]),), {"gradient-nonfinite"}),
        ((loss([0.69, 0.65, 0.61]), curve("learning_rate", [0.0] * 3)), set()),  # "lr: 0."
    ],
)
def test_what_is_normal_and_what_is_not(curves: tuple[Curve, ...], slugs: set[str]) -> None:
    assert set(problems(with_curves(*curves))) == slugs


def test_a_spike_that_stays_is_a_failure_and_its_harbinger_is_named() -> None:
    values = [1.0 + 0.01 * (n % 3) for n in range(100)] + [4.0] * 30
    norms = [1.0] * 90 + [5.0] * 40
    spike = findings(with_curves(loss(values), curve("grad_norm", norms)))["loss-spike"]
    assert spike.status is Status.FAIL
    assert "gradient norm rose before" in spike.verdict.summary
    assert spike.places[0].line == 101


def test_the_remedy_after_nan_depends_on_whether_the_optimizer_stepped() -> None:
    bad = (loss([2.0, 0.0, 0.0, 0.0]), curve("grad_norm", [1.0, NAN, NAN, NAN]))
    frozen = curve("learning_rate", [1e-5, 1e-5, 1e-5, 1e-5])
    moving = curve("learning_rate", [1e-5, 2e-5, 3e-5, 4e-5])
    slug = "loss-zero-gradnorm-nan"
    assert "intact" in findings(with_curves(*bad, frozen))[slug].fix
    assert "are lost" in findings(with_curves(*bad, moving))[slug].fix
    assert "does not tell" in findings(with_curves(*bad))[slug].fix
    still = curve("learning_rate", [1e-5] * 4)
    assert "does not tell" in findings(with_curves(*bad, still))[slug].fix
    after = curve("learning_rate", [1e-5, 1e-5, 2e-5, 2e-5])
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
