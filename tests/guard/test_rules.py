"""The rules of the guard on plain numbers: what each observes, and at which step."""

from __future__ import annotations

import math
from typing import Any

import noisy_losses
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doctor.checks.checkpoint import norm_causes
from doctor.guard import look_rules, thresholds
from doctor.guard.records import Alarm, Look, Step, Tracked
from doctor.guard.rules import StepRules
from doctor.guard.spikes import Spikes
from doctor.guard.step_alarms import rate_alarm, scale_alarm

NAN, INF = math.nan, math.inf


def steps(count: int = 30, **fields: Any) -> list[Step]:
    """Healthy steps but for `fields`; a callable is called with the step's number."""
    made = []
    for number in range(1, count + 1):
        values = {"losses": [2.0], "norm": 1.0, "whole": True, "rates": [1e-3], "parameters": 4}
        values |= {k: v(number) if callable(v) else v for k, v in fields.items()}
        made.append(Step(0, number, **values))
    return made


def alarms(sequence: list[Step], **options: Any) -> list[tuple[str, str, int]]:
    """Code, status and step of the first alarm of each kind."""
    rules = StepRules(0, **options)
    found: dict[tuple[str, str], int] = {}
    made = [alarm for step in sequence for alarm in rules.judge(step)]
    for alarm in [*made, *rules.ended(len(sequence))]:
        found.setdefault((alarm.code, alarm.status), alarm.step)
    return [(code, status, step) for (code, status), step in found.items()]


def at(steps: range | list[int], value: Any, otherwise: Any) -> Any:
    return lambda number: value if number in steps else otherwise


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, []),
        ({"losses": at([5], [NAN], [2.0]), "norm": at([5], NAN, 1.0)},
         [("GRD001", "fail", 5)]),
        ({"losses": at([5], [2.0, INF], [2.0])}, [("GRD001", "warn", 5)]),
        ({"losses": at([5], [NAN], [2.0]), "norm": None}, [("GRD001", "fail", 5)]),
        ({"norm": at([7], INF, 1.0)}, []),  # the weights after the step decide
        ({"norm": at([7], INF, 1.0), "skipped": at([7], True, False), "scaled": True}, []),
        ({"without": 4}, [("GRD003", "fail", 3)]),
        ({"without": 4, "backwards": 0}, []),
        ({"without": at(range(5, 60), 4, 0), "count": 60}, [("GRD003", "warn", 54)]),
        ({"norm": 0.0}, [("GRD004", "warn", 10), ("GRD004", "fail", 20)]),
        ({"norm": 0.0, "losses": [0.0]}, [("GRD004", "warn", 20)]),
        ({"norm": at(range(5, 14), 0.0, 1.0)}, []),
        ({"applied": at([1, 2, 3], 0.0, 1.0)}, [("GRD004", "warn", 3)]),
        ({"applied": at([*range(1, 11), 20], 0.0, None)},
         [("GRD004", "warn", 3), ("GRD004", "fail", 20)]),
        ({"applied": at([1, 2, 4, 5], 0.0, 1.0)}, []),
        ({"applied": 0.0, "norm": 0.0, "losses": [0.0]}, [("GRD004", "warn", 20)]),
        ({"norm": 0.0, "whole": False}, []),
        ({"norm": at([4, 5, 9, 10], 0.0, 1.0)}, []),
        ({"losses": [NAN], "norm": 0.0}, [("GRD009", "warn", 1), ("GRD009", "fail", 3)]),
        ({"losses": at([6], [NAN], [2.0]), "norm": at([6], 0.0, 1.0)}, [("GRD009", "warn", 6)]),
        ({"rates": [0.0, 0.0]}, [("GRD006", "fail", 10)]),
        ({"rates": [0.0, 1e-3]}, []),
        ({"rates": at(range(1, 10), [0.0], [1e-3])}, []),
        ({"rates": at(range(21, 40), [0.0], [1e-3])}, [("GRD006", "fail", 30)]),
        ({"rates": at(range(21, 150), [0.0], [1e-3]), "count": 150}, [("GRD006", "fail", 120)]),
        ({"rates": at(range(27, 40), [0.0], [1e-3])}, []),  # the last steps of a schedule
        ({"rates": lambda n: [0.0 if n % 90 > 60 else 1e-3], "count": 449}, []),  # rests, also last
        ({"rates": at(range(145, 163), [0.0], [1e-3])}, []),  # a schedule hands over to another
        ({"rates": [None]}, []),
        ({"scaled": True, "skipped": at(range(1, 18), True, False)}, []),
        ({"scaled": True, "skipped": True}, [("GRD011", "fail", 30)]),
        ({"scaled": True, "skipped": at(range(5, 30), True, False)}, [("GRD011", "fail", 14)]),
        ({"scaled": True, "skipped": lambda n: n % 10 == 0, "count": 150},
         [("GRD011", "warn", 101)]),
        ({"scaled": True, "skipped": lambda n: n % 50 == 0, "count": 300}, []),
        ({"scaled": True, "skipped": True, "losses": [INF], "count": 12},
         [("GRD001", "fail", 10)]),
        ({"uncleared": True}, [("GRD012", "warn", 5)]),
        ({"uncleared": lambda n: n % 5 != 0}, []),
        ({"repeated": lambda n: n % 2 == 0, "backwards": lambda n: n % 2},
         [("GRD012", "warn", 16)]),
        ({"repeated": lambda n: n % 5 == 0, "backwards": lambda n: n % 5}, []),
        ({"backwards": 0}, []),
    ],
)  # fmt: skip
def test_steps(fields: dict[str, Any], expected: list[tuple[str, str, int]]) -> None:
    fields = dict(fields)
    assert alarms(steps(fields.pop("count", 30), **fields)) == expected


def test_no_gradient_beside_an_optimizer_that_has_some_is_a_warning_after_50_steps() -> None:
    beside: dict[int, StepRules] = {1: StepRules(1)}
    beside[1].judge(steps(1)[0])
    assert alarms(steps(60, without=4), beside=beside) == [("GRD003", "warn", 50)]


def test_a_rate_of_0_beside_an_optimizer_that_learns_is_a_warning() -> None:
    beside: dict[int, StepRules] = {1: StepRules(1)}
    assert alarms(steps(rates=[0.0]), beside=beside) == [("GRD006", "fail", 10)]
    beside[1].judge(steps(1)[0])
    assert alarms(steps(rates=[0.0]), beside=beside) == [("GRD006", "warn", 10)]


@pytest.mark.parametrize(
    ("rates", "before", "fell", "cause"),
    [
        ([1e-3, -1e-4], 1e-3, False, "negative"),
        ([-1e-12], 1e-3, True, ""),  # the last value of a schedule
        ([0.1], 1e-3, True, "jump"),
        ([5.0], 1e-3, False, "jump"),
        ([2e-4], 1e-6, False, ""),  # a warm-up of one stair per epoch
        ([1e-3], 1e-3, True, ""),
        ([None], 1e-3, True, ""),
        ([1e-3], 0.0, True, ""),
    ],
)
def test_a_rate_below_0_or_far_above_all_before(
    rates: list[float | None], before: float, fell: bool, cause: str
) -> None:
    found = rate_alarm(rates, before, fell, (0, 30))
    assert [alarm.cause for alarm in found] == ([cause] if cause else [])


def test_a_schedule_that_cycles_at_every_step_hides_no_jump() -> None:
    series = Spikes()
    values = [2.0 + 0.01 * (k % 7) for k in range(400)] + [200.0] * 10
    rates = [(1e-3, 5e-4, 2e-4)[k % 3] for k in range(410)]
    assert sum(series.add(*pair) is not None for pair in zip(values, rates, strict=True)) == 1


@pytest.mark.parametrize(
    ("scale", "initial", "alarm"), [(1.0, 65536.0, False), (0.5, 65536.0, True), (0.25, 0.5, False)]
)
def test_the_scale_of_a_loss_scaler(scale: float, initial: float, alarm: bool) -> None:
    assert bool(scale_alarm(scale, initial, 17)) is alarm


@given(st.lists(st.floats(0.0, 0.02), min_size=150, max_size=300))
def test_a_falling_loss_has_no_spikes(falls: list[float]) -> None:
    loss, losses = 11.0, []
    for fall in falls:
        loss *= 1 - fall
        losses.append([loss])
    sequence = steps(len(losses), losses=lambda number: losses[number - 1])
    assert alarms(sequence, all_codes=True) == []


@pytest.mark.parametrize(("factor", "spikes"), [(1.0, 0), (1.2, 0), (1.5, 1), (5.0, 1)])
def test_a_jump_that_stays_is_one_spike(factor: float, spikes: int) -> None:
    series = Spikes()
    values = [2.0 + 0.01 * (k % 7) for k in range(120)] + [2.0 * factor] * 10
    assert sum(series.add(value) is not None for value in values) == spikes


def test_one_high_value_is_no_spike() -> None:
    series = Spikes()
    assert not any(series.add(50.0 if k == 110 else 2.0) for k in range(130))


def test_half_a_step_at_1_is_the_same_as_for_checkpoints() -> None:
    names = {"bfloat16": "BF16", "float16": "F16", "float32": "F32", "float64": "F64"}
    for dtype, half in thresholds.HALF_STEP.items():
        assert norm_causes.HALF_STEP[names[dtype]] == half


def tracked(start: str = "other", dtype: str = "float32", **fields: Any) -> Tracked:
    values = {"vector": start == "ones", "gradient": True, "moved": False} | fields
    return Tracked(0, 0, dtype, 64, start, **values)


def look(
    *parameters: Tracked, effective: int = 3, rate: float = 1e-3, **fields: Any
) -> list[Alarm]:
    values = {"peak": rate, "rising": False, "adaptive": True, "compensated": False} | fields
    return look_rules.judge(Look(0, effective, effective, list(parameters), [rate], **values))


def codes(found: list[Alarm]) -> list[tuple[str, str, str]]:
    return [(alarm.code, alarm.status, alarm.cause) for alarm in found]


MOVED = tracked(moved=True)
BF16 = {"dtype": "bfloat16"}


@pytest.mark.parametrize(
    ("parameters", "fields", "expected"),
    [
        ([MOVED], {}, []),
        ([MOVED], {"undone": True, "effective": 8}, [("GRD007", "fail", "undone")]),
        ([tracked(moved=True, gradient=False)], {"undone": True}, []),
        ([MOVED], {"tiny_since": 20, "effective": 50}, [("GRD006", "warn", "tiny")]),
        ([MOVED], {"tiny_since": 20, "effective": 50, "adaptive": False}, []),
        ([MOVED], {"tiny_since": 20, "effective": 50, "rising": True}, []),  # a warm-up
        (
            [MOVED],
            {"tiny_since": 1, "effective": 200, "rising": True},
            [("GRD006", "warn", "tiny")],
        ),
        ([MOVED], {"tiny_since": 99_000, "effective": 100_000}, []),  # a cosine ends
        ([tracked(moved=True, **BF16)], {"effective": 1}, [("GRD008", "warn", "16-bit")]),
        ([tracked(moved=True, **BF16)], {"effective": 1, "compensated": True}, []),
        ([tracked("ones", **BF16), MOVED], {}, [("GRD005", "warn", "rounding")]),
        ([tracked("ones", **BF16), MOVED], {"effective": 20}, [
            ("GRD005", "fail", "rounding")]),
        ([tracked("ones", **BF16), MOVED], {"effective": 2}, []),
        ([tracked("ones", **BF16), MOVED], {"adaptive": False}, []),
        ([tracked("ones", **BF16), MOVED], {"compensated": True}, []),
        ([tracked("ones", **BF16), MOVED], {"rising": True, "peak": 1e-3, "effective": 20},
         [("GRD005", "fail", "rounding")]),
        ([tracked("ones", **BF16), MOVED], {"rising": True, "peak": 1e-2}, []),
        ([tracked("ones"), MOVED], {}, [("GRD005", "warn", "not-applied")]),
        ([tracked("ones"), MOVED], {"effective": 20}, [("GRD005", "fail", "not-applied")]),
        ([tracked("ones"), MOVED], {"rate": 1e-8, "peak": 1e-8}, []),
        ([tracked("ones"), tracked("ones", moved=True)], {}, []),
        ([tracked("ones"), tracked("ones", moved=True)], {"effective": 100},
         [("GRD005", "warn", "not-applied")]),
        ([tracked("ones", gradient=False), MOVED], {}, []),
        ([tracked("ones", gradient=False), MOVED], {"effective": 20},
         [("GRD005", "warn", "gradient")]),
        ([tracked("ones", gradient=False), MOVED], {"effective": 50},
         [("GRD005", "warn", "gradient")]),
        ([tracked("ones", gradient=False)] * 2 + [MOVED], {"effective": 50},
         [("GRD005", "fail", "gradient")]),
        ([tracked(vector=True, **BF16), MOVED], {"effective": 10}, []),
        ([tracked(vector=True, **BF16), MOVED], {"effective": 20},
         [("GRD005", "warn", "rounding")]),
        ([tracked("zeros"), MOVED], {}, [("GRD013", "warn", "")]),
        ([tracked("zeros"), MOVED], {"effective": 20}, [("GRD013", "fail", "")]),
        ([tracked("zeros"), MOVED], {"adaptive": False}, []),
        ([tracked("zeros"), MOVED], {"adaptive": False, "effective": 20},
         [("GRD013", "fail", "")]),
        ([tracked("zeros", gradient=False), MOVED], {"effective": 100}, []),
        ([tracked(), tracked()], {}, [("GRD007", "warn", "not-applied")]),
        ([tracked(), tracked()], {"effective": 20}, [("GRD007", "fail", "not-applied")]),
        ([tracked(), tracked()], {"effective": 100, "adaptive": False},
         [("GRD007", "fail", "not-applied")]),
        ([tracked(**BF16)], {"effective": 10}, []),
        ([tracked(**BF16)], {"effective": 20}, [("GRD007", "fail", "rounding")]),
        ([tracked()], {"adaptive": False, "effective": 50}, []),
        ([tracked(gradient=False)], {"effective": 100}, []),
        ([tracked()], {"rate": 0.0, "peak": 0.0, "effective": 100}, []),
    ],
)  # fmt: skip
def test_looks(parameters: list[Tracked], fields: dict[str, Any], expected: Any) -> None:
    assert codes(look(*parameters, **fields)) == expected


@pytest.mark.slow
def test_healthy_noise_is_no_spike_and_a_tenfold_loss_is_one() -> None:
    assert sum(noisy_losses.rates(6).values()) == 0
    for name in ("normal 1 %", "lognormal 0.3", "squared errors of 16", "drifting"):
        assert noisy_losses.power(3, name, 10.0) == 1


def test_a_rate_that_has_just_risen_explains_a_jump() -> None:
    def jumps(rate: float) -> int:
        series = Spikes()
        values = [2.0 + 0.01 * (k % 7) for k in range(400)] + [5.0] * 40
        rates = [1e-4] * 400 + [rate] * 40
        return sum(series.add(*pair) is not None for pair in zip(values, rates, strict=True))

    assert jumps(1e-4) > 0
    assert jumps(1e-3) == 0
