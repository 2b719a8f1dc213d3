"""The operations of a step are those that its shapes ask for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from doctor.guard.rehearsal.arithmetic import Arithmetic, multiplies
from doctor.guard.rehearsal.records import Records

torch = pytest.importorskip("torch")


def counted(directory: Path, forward: Any, weights: list[Any], between: Any = None) -> list[Any]:
    """The records of one step of SGD on `forward()` with these weights."""
    records = Records(str(directory))
    records.open(0, 1)
    arithmetic = Arithmetic(torch, records)
    optimizer = torch.optim.SGD(weights, 0.1)
    arithmetic.begin(1, optimizer)
    forward().sum().backward()
    if between:
        between()
    arithmetic.end()
    records.close()
    path = next(directory.glob("observed*.jsonl"))
    return [
        r for line in path.read_text().splitlines() if (r := json.loads(line))["kind"] != "process"
    ]


def test_products_are_counted_forward_and_backward(tmp_path: Path) -> None:
    layer = torch.nn.Linear(8, 16)
    inputs = torch.ones(4, 8)
    [record] = counted(tmp_path, lambda: layer(inputs), list(layer.parameters()))
    # The inputs need no gradient: one product forward, one backward.
    assert record["flops"] == {"float32": 2 * 2 * 4 * 8 * 16}
    assert record["left_out"] == []


def test_each_dtype_is_counted_apart_and_convolutions_too(tmp_path: Path) -> None:
    layer = torch.nn.Conv2d(3, 5, 3, padding=1)
    inputs = torch.ones(2, 3, 6, 6)

    def forward() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return layer(inputs).float().reshape(2, -1) @ torch.ones(180, 7)

    [record] = counted(tmp_path, forward, list(layer.parameters()))
    assert record["flops"]["bfloat16"] >= 2 * 2 * 5 * 36 * 3 * 9  # at least forward
    assert set(record["flops"]) <= {"bfloat16", "float32"}


def test_operators_without_a_formula_are_named(tmp_path: Path) -> None:
    layer = torch.nn.LSTM(4, 4)
    inputs = torch.ones(3, 2, 4)
    [record] = counted(tmp_path, lambda: layer(inputs)[0] @ torch.ones(4, 2), [*layer.parameters()])
    assert record["flops"]
    assert multiplies("flash_attn::_flash_attn_forward")
    assert multiplies("aten::mkldnn_rnn_layer")
    assert not multiplies("aten::add")
    assert not multiplies("c10d::allreduce_")


def test_a_compiled_model_is_not_counted(tmp_path: Path) -> None:
    from torch._dynamo.utils import counters

    layer = torch.nn.Linear(2, 2)
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
    try:
        assert counted(tmp_path, lambda: layer(torch.ones(1, 2)), list(layer.parameters())) == []
    finally:
        counters.clear()
        torch._dynamo.reset()


def test_a_mode_of_the_program_that_is_still_open_is_left_alone(tmp_path: Path) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    class Own(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return func(*args, **(kwargs or {}))

    own = Own()
    layer = torch.nn.Linear(2, 2)
    records = counted(
        tmp_path, lambda: layer(torch.ones(1, 2)), list(layer.parameters()), own.__enter__
    )
    assert records == []
    assert _get_current_dispatch_mode() is own
    own.__exit__(None, None, None)
    left = _get_current_dispatch_mode()
    left.__exit__(None, None, None)
    assert _get_current_dispatch_mode() is None
