"""Proofs that state a relation, on generated programs and calls: torch raises, the probe observes,
and what is proven is what was wrong."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training.errors.explain import PROOFS, explain
from doctor.facts.observations import readable
from doctor.facts.own_model import OwnModel
from doctor.facts.raised import Operand, Raised

CASES = 50

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


def read(fields: dict[str, Any]) -> Raised:
    """What a probe sent, as facts."""
    return msgspec.convert(fields | {"observations": readable(fields.get("observations"))}, Raised)


def scene_of(error: BaseException, model: Any = None) -> Raised:
    from doctor.probes.training_side.errors import raised

    return read(raised.scene(error, model))


def proven(raised: Raised) -> dict[str, str]:
    """Causes -> what is said of them."""
    ended = Ended(how="error", detail=raised.message)
    own = OwnModel(description="train.py:make", built=ended, raised=raised)
    return {each.cause.id: f"{each.seen.cause} {each.fix}" for each in explain(own)}


def called(function: str, message: str, error: str, **operands: Any) -> Raised:
    """The call of a function with these tensors, numbers and objects."""
    import torch

    records = [
        Operand(
            name=name,
            kind=type(value).__name__,
            **(
                {"shape": tuple(value.shape), "dtype": str(value.dtype).partition(".")[2],
                 "device": str(value.device)}
                if isinstance(value, torch.Tensor)
                else {"numbers": (value,)} if isinstance(value, int) else {"value": repr(value)}
            ),
        )
        for name, value in operands.items()
    ]  # fmt: skip
    errors = (error, "RuntimeError", "Exception") if error != "TypeError" else (error, "Exception")
    return Raised(errors=errors, message=message, function=function, operands=tuple(records))


def error_of(run: Callable[[], Any]) -> Exception | None:
    try:
        run()
    except Exception as error:
        return error
    return None


def module(folder: Path, number: int, source: str) -> dict[str, Any]:
    """The names of a file of the user's."""
    path = folder / f"train_{number}.py"
    path.write_text(source)
    names: dict[str, Any] = {"__name__": path.stem, "__file__": str(path)}
    exec(compile(source, str(path), "exec"), names)
    return names


def words(chance: random.Random, count: int) -> list[str]:
    """Identifiers that differ."""
    return [f"{chance.choice('abcdefgh')}{n}_{chance.randrange(999)}" for n in range(count)]


USES = ("{}.shape", "len({})", "{}[0]", "{}(1)", "{} + 1", "torch.relu({})", "[*{}]")


def test_the_variable_that_is_none_is_named(tmp_path: Path) -> None:
    chance = random.Random(0)
    for number in range(CASES):
        first, second, local, name = words(chance, 4)
        guilty = chance.choice((first, second, local))
        values = {each: "None" if each == guilty else "torch.ones(2)" for each in (first, second)}
        use = chance.choice(USES).format(guilty)
        source = (
            f"import torch\ndef {name}({first}, {second}):\n"
            f"    {local} = {'None' if guilty == local else 'torch.ones(2)'}\n"
            f"    return {first}, {second}, {local}, {use}\n"
            f"def run():\n    {name}({values[first]}, {values[second]})\n"
        )
        error = error_of(module(tmp_path, number, source)["run"])
        assert error, source
        said = proven(scene_of(error))["value-is-none"]
        others = {first, second, local} - {guilty}
        assert guilty in said, source
        assert not any(each in said for each in others), source
        assert (f"to {name}" in said) is (guilty != local)


def test_a_dataset_that_is_shorter_than_it_says_is_named() -> None:
    import torch

    chance = random.Random(2)
    for _ in range(CASES):
        count, more, size = chance.randrange(1, 9), chance.randrange(1, 5), chance.randrange(1, 4)

        class Rows(torch.utils.data.Dataset[Any]):
            def __len__(self, count: int = count + more) -> int:
                return count

            def __getitem__(self, index: int, rows: Any = tuple(range(count))) -> Any:
                return list(rows)[index]

        loader = torch.utils.data.DataLoader(Rows(), batch_size=size)
        error = error_of(lambda loader=loader: list(loader))  # type: ignore[misc]
        said = proven(scene_of(error))["index-of-list"]  # type: ignore[arg-type]
        assert f"{count + more} samples" in said
        assert f"sample {count}" in said


def pairs(chance: random.Random) -> Iterator[tuple[str, Callable[..., Any], Any, Any]]:
    import torch
    from torch.nn import functional as F

    for _ in range(CASES):
        one, two = (torch.ones(3, 3, device=chance.choice(("cpu", "meta"))) for _ in range(2))
        name, call = chance.choice(
            (("linear", F.linear), ("matmul", torch.matmul), ("add", torch.add),
             ("mse_loss", F.mse_loss), ("addmv", lambda x, y: torch.addmv(x[0], y, x[0])))
        )  # fmt: skip
        yield name, call, one, two


def test_two_devices_are_named_where_torch_refuses_them() -> None:
    refused = 0
    for name, call, one, two in pairs(random.Random(3)):
        error = error_of(lambda call=call, one=one, two=two: call(one, two))  # type: ignore[misc]
        raised = called(name, str(error), "RuntimeError", input=one, other=two)
        assert bool(PROOFS["device-mismatch"](raised)) is (one.device != two.device)
        if error is not None:
            refused += 1
            said = proven(raised)["device-mismatch"]
            assert "is on cpu" in said
            assert "is on meta" in said
    assert refused > CASES // 5


def test_what_an_optimizer_does_not_take_is_named() -> None:
    import torch

    chance = random.Random(4)
    for _ in range(CASES):
        model = torch.nn.Linear(chance.randrange(1, 5), 2)
        params: Any = chance.choice(
            (model, model.weight, model.parameters, model.weight.detach(), None,
             model.parameters(), list(model.parameters()), [{"params": [model.bias]}],
             tuple(model.parameters()))
        )  # fmt: skip
        error = error_of(lambda params=params: torch.optim.SGD(params, lr=0.1))  # type: ignore[misc]
        raised = called("SGD.__init__", str(error), type(error).__name__, params=params)
        assert bool(PROOFS["no-parameters"](raised)) is (error is not None), params
        assert error is None or "no-parameters" in proven(raised)


def test_numbers_of_values_and_dimensions_are_named_where_torch_refuses_them() -> None:
    import torch

    chance, refused = random.Random(5), 0
    for _ in range(CASES * 2):
        x = torch.ones([chance.choice((1, 2, 3, 4)) for _ in range(chance.randrange(1, 4))])
        if chance.random() < 0.5:
            target = [chance.choice((-1, 1, 2, 3, 6)) for _ in range(chance.randrange(1, 4))]
            function, proof = chance.choice(("view", "reshape")), "view-size"
            if target.count(-1) > 1:
                continue
        else:
            target = list(range(chance.randrange(1, 5)))
            function, proof = "permute", "number-of-dimensions"
        error = error_of(lambda: getattr(x, function)(*target))  # noqa: B023
        numbers = {" " * n: each for n, each in enumerate(target, 1)}
        raised = called(function, str(error), "RuntimeError", x=x, **numbers)
        assert bool(PROOFS[proof](raised)) is (error is not None), (x.shape, target)
        refused += error is not None
    assert refused > CASES // 2


def test_a_last_layer_of_as_many_outputs_as_targets_fits() -> None:
    import torch

    chance, named = random.Random(6), 0
    for _ in range(CASES * 2):
        rows, outputs, targets = (chance.randrange(2, 6) for _ in range(3))
        prediction, target = torch.zeros(rows, outputs), torch.zeros(rows, targets)
        loss = torch.nn.functional.binary_cross_entropy_with_logits
        error = error_of(lambda: loss(prediction, target))  # noqa: B023
        raised = called(loss.__name__, str(error), "ValueError", input=prediction, target=target)
        assert bool(PROOFS["outputs-and-targets"](raised)) is (error is not None)
        if error is not None:
            named += 1
            assert f"out_features={targets}" in proven(raised)["outputs-and-targets"]
            assert error_of(lambda: loss(torch.zeros(rows, targets), target)) is None  # noqa: B023
    assert named > CASES // 2


def test_a_broadcast_that_fills_the_memory_is_named() -> None:
    import torch

    chance, named = random.Random(7), 0
    for _ in range(CASES):
        row, column = (10 ** chance.randrange(1, 6) for _ in range(2))
        one, two = (torch.empty(shape, device="meta") for shape in ((row,), (column, 1)))
        together = torch.broadcast_shapes(one.shape, two.shape)
        large = together.numel() >= 1000 * max(row, column)
        message = "[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"
        said = proven(called("sub", message, "RuntimeError", input=one, other=two))
        assert ("memory-of-a-broadcast" in said) is large
        named += large
        assert not large or f"{together.numel():,}" in said["memory-of-a-broadcast"]
    assert named > CASES // 5


def test_a_state_of_another_shape_is_named() -> None:
    import torch

    from doctor.probes.training_side.repetition import repeat_step

    chance, named = random.Random(9), 0
    for _ in range(CASES):
        sizes = [(chance.randrange(1, 4), chance.randrange(1, 4)) for _ in range(2)]
        models = [torch.nn.Sequential(torch.nn.Linear(*size), torch.nn.Linear(2, 2))
                  for size in sizes]  # fmt: skip
        optimizers = [torch.optim.Adam(each.parameters()) for each in models]
        for weight in models[0].parameters():
            weight.grad = torch.ones_like(weight)
        optimizers[0].step()
        optimizers[1].load_state_dict(optimizers[0].state_dict())
        weights = dict(models[1].named_parameters())
        training = SimpleNamespace(update=SimpleNamespace(optimizer=optimizers[1]), weights=weights)
        raised = read({"errors": ("RuntimeError",),
                       **repeat_step.optimizer(training, RuntimeError("shapes"))})  # fmt: skip
        differs = [name for name, weight in models[0].named_parameters()
                   if weight.shape != weights[name].shape]  # fmt: skip
        said = proven(raised)
        assert ("state-of-another-optimizer" in said) is bool(differs)
        assert not differs or differs[0] in said["state-of-another-optimizer"]
        named += bool(differs)
    assert named > CASES // 2
