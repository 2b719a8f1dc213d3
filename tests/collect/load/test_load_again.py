"""A load that looks slow is measured a second time."""

from __future__ import annotations

from typing import Any

from doctor._util.records import Ended
from doctor.collect.gpus import best_of
from doctor.facts.load import Load


def load(**fields: Any) -> Load:
    known: dict[str, Any] = {
        "device": "cuda:0",
        "uuid": "GPU-1",
        "name": "GPU",
        "ended": Ended(how="ok"),
        "matmul": {"bf16": 400.0, "fp32": 50.0},
        "copy": 2.0,
        "to_device": 10.0,
        "differing": 0,
        "seconds": 1.0,
    }
    return Load(**known | fields)


def best(first: Load, again: Load) -> Load:
    (record,) = best_of((first,), (again,))
    return record


def test_the_higher_of_two_rates_counts() -> None:
    record = best(load(), load(matmul={"bf16": 700.0, "fp32": 40.0}, copy=3.0, to_device=None))
    assert record.matmul == {"bf16": 700.0, "fp32": 50.0}
    assert (record.copy, record.to_device, record.from_device) == (3.0, 10.0, None)
    assert (record.measured, record.seconds) == (2, 2.0)


def test_a_second_load_that_fails_is_what_is_told() -> None:
    hung = load(ended=Ended(how="timeout"))
    assert best(load(), hung) == hung
    assert best(hung, load()) == hung


def test_products_that_differed_once_are_not_forgotten() -> None:
    assert best(load(differing=4), load()).differing == 4
    assert best(load(), load(differing=4)).differing == 4


def test_a_rate_that_either_measured_is_not_unread() -> None:
    reasons = {"copy": "ended early", "fp32": "ended early"}
    assert best(load(unread=reasons), load(unread={"copy": "ended early"})).unread == {
        "copy": "ended early"
    }
