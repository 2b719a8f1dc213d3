"""What the hooks of a rehearsal record of numbers, loose tensors, lists and averages, on torch."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

reads_tensors = pytest.mark.skipif(
    not hasattr(torch._C._autograd.SavedTensor, "unpack_hook"),
    reason="this torch does not tell whether a saved tensor has a hook",
)


@pytest.fixture
def observer(tmp_path: Path) -> Any:
    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings

    found = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    found.begin()
    yield found
    found.records.close()


def recorded(directory: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for path in directory.glob("observed*") for line in path.read_text().splitlines()]
    return [found for line in lines if (found := json.loads(line))["kind"] == kind]


@reads_tensors
def test_numbers_of_a_loss_are_those_of_the_program(observer: Any) -> None:
    """Not what is computed from the data, and not what stays as it was."""
    x, layer = torch.ones(4, 3), torch.nn.Linear(3, 2)
    found = []
    for step in range(1, 4):
        out = layer(x)
        loss = out.square().mean() + 0.1 * step * out.abs().mean() + out.mean() / 7
        observer.numbers.look(loss)
        loss.backward()
        found.append(observer.numbers.step())
    assert 0.1 in found[0].values()
    assert 7.0 in found[0].values()
    assert list(found[1].values()) == [0.2]
    assert list(found[2].values()) == [pytest.approx(0.3)]


def test_sizes_of_what_a_loss_is_computed_from(observer: Any) -> None:
    layer = torch.nn.Embedding(9, 4)
    for length in (3, 6):
        observer.numbers.look(layer(torch.zeros(2, length, dtype=torch.int64)).sum())
        changed = observer.numbers.step()
        assert length in changed.values()
    observer.numbers.look(layer(torch.zeros(2, 6, dtype=torch.int64)).sum())
    assert observer.numbers.step() == {}


@reads_tensors
def test_numbers_are_read_while_operations_are_counted(observer: Any) -> None:
    from doctor.guard.rehearsal.arithmetic import Tally, mode_of

    weight = torch.ones(2, requires_grad=True)
    with mode_of(Tally(torch)):
        observer.numbers.look((weight * 0.5).sum() / 3)
    assert {0.5, 3.0} <= set(observer.numbers.step().values())


def test_what_activation_checkpointing_computes_anew_is_left_alone(observer: Any) -> None:
    from torch.utils.checkpoint import checkpoint

    from doctor.guard.patches import Patches

    calls: list[int] = []
    layer, patches = torch.nn.Linear(3, 3), Patches()

    def block(x: Any) -> Any:
        calls.append(1)
        return layer(x) * torch.tensor(0.5) * layer(x)

    observer.numbers.install(patches)
    try:
        (checkpoint(block, torch.ones(2, 3), use_reentrant=False).sum() * 0.25).backward()
    finally:
        patches.remove()
    assert len(calls) == 2
    assert 0.5 not in observer.numbers.step().values()


def test_a_tensor_with_a_hook_is_not_unpacked(observer: Any) -> None:
    """One's own offloading pushes its hooks without torch's context, and gives each once."""
    held: list[Any] = []
    autograd = torch._C._autograd

    def pack(tensor: Any) -> int:
        held.append(tensor)
        return len(held) - 1

    def unpack(place: int) -> Any:
        tensor, held[place] = held[place], None
        return tensor

    weight = torch.ones(2, requires_grad=True)
    half = torch.tensor(0.5, dtype=torch.float64)
    autograd._push_saved_tensors_default_hooks(pack, unpack)
    try:
        loss = (weight * half).sum() * weight.exp().mean()
    finally:
        autograd._pop_saved_tensors_default_hooks()
    product = weight * half
    product.grad_fn._raw_saved_other.register_hooks(pack, unpack)
    loss = loss + product.sum()
    observer.numbers.look(loss)
    assert held
    assert not any(tensor is None for tensor in held)
    assert 0.5 not in observer.numbers.step().values()
    loss.backward()
    assert weight.grad is not None


def test_a_fold_has_an_optimizer_of_its_own(observer: Any, tmp_path: Path) -> None:
    """It takes the newest step where the one before had fewer to take."""
    observer.called = True
    for steps in (4, 8, 8):
        weight = torch.nn.Parameter(torch.ones(1))
        optimizer = torch.optim.SGD([weight], 0.1)
        for _ in range(steps):
            observer.before_step(optimizer, (), {})
            observer.after_step(optimizer, (), {})
    found = [(each["s"], each["leader"]) for each in recorded(tmp_path, "step")]
    assert found == [(s, 1 if s <= 4 else 2) for s in range(1, 9)]


@reads_tensors
def test_a_number_that_is_gone(observer: Any) -> None:
    weight = torch.ones(2, requires_grad=True)
    observer.numbers.look((weight * 0.5).sum())
    first = observer.numbers.step()
    observer.numbers.look(weight.sum())
    assert None in observer.numbers.step().values()
    assert 0.5 in first.values()


def test_a_trained_tensor_of_no_module_has_its_variables_name() -> None:
    from doctor.guard.rehearsal.state import snapshot

    class Agent:
        def __init__(self) -> None:
            self.log_alpha = torch.zeros(1, requires_grad=True)

    agent, layer = Agent(), torch.nn.Linear(2, 1)
    temperature = torch.zeros(1, requires_grad=True)
    others = [torch.zeros(1, requires_grad=True)]
    held = [agent.log_alpha, temperature, *others, *layer.parameters()]
    optimizer = torch.optim.Adam(held)
    loose = snapshot(torch)["loose"]
    mine = {name: entry for name, entry in loose.items() if entry[0] == "float32"}
    assert any(name.endswith(" temperature") for name in mine)
    assert "Agent.log_alpha" in mine
    assert any(name.startswith("group 0, 2 of Adam") for name in mine)
    assert not any("weight" in name for name in mine)
    assert optimizer is not None


def test_lists_of_tensors_of_the_program() -> None:
    from doctor.guard.rehearsal.kept_lists import lists_of_tensors

    class Keeper:
        def __init__(self) -> None:
            self.outputs = [(torch.ones(8, 4), 2)]
            self.curve = [torch.tensor(0.5)]
            self.means = [torch.ones(4)]
            self.losses = [0.5]
            self.empty: list[Any] = []

    keeper = Keeper()
    found = lists_of_tensors(torch)
    assert found["Keeper.outputs"] == len(keeper.outputs)
    assert "Keeper.losses" not in found
    assert "Keeper.empty" not in found
    assert {"Keeper.curve", "Keeper.means"} <= found.keys()
    assert [n for n in lists_of_tensors(torch, 8) if n.startswith("Keeper.")] == ["Keeper.outputs"]


def test_what_a_schedule_counts() -> None:
    from doctor.guard.rehearsal.state import snapshot

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], 0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    constant = torch.optim.lr_scheduler.ConstantLR(optimizer)
    for result in (0.5, 0.7):
        plateau.step(result)
    found = snapshot(torch)["schedules"]
    assert found["ReduceLROnPlateau"] == [2, 0.5, 1]
    assert found["ConstantLR"] == constant.last_epoch


@pytest.mark.parametrize(
    ("left", "evaluated", "named"),
    [("average", True, True), ("own", True, False), ("average", False, False),
     ("best", True, False)],
)  # fmt: skip
def test_an_average_that_an_evaluation_leaves(
    observer: Any, tmp_path: Path, left: str, evaluated: bool, named: bool
) -> None:
    """Not the trained weights, an earlier best model, or what comes without an evaluation."""

    class EMA:
        def __init__(self, module: Any) -> None:
            self.shadow = {k: v.clone() + 1 for k, v in module.state_dict().items()}

    layer = torch.nn.Linear(3, 2)
    average, best = EMA(layer), copy.deepcopy(layer.state_dict())
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    observer.exchanged.stepped(optimizer)
    own = copy.deepcopy(layer.state_dict())
    observer.exchanged.evaluates()
    layer.load_state_dict({"average": average.shadow, "own": own, "best": best}[left])
    observer.exchanged.goes_on(4, 1 if evaluated else 0)
    found = recorded(tmp_path, "averaged")
    assert [(each["s"], each["name"]) for each in found] == [(4, "(EMA.shadow)")] * named


def test_an_average_that_begins_as_a_copy_of_the_weights(observer: Any, tmp_path: Path) -> None:
    """AveragedModel does; a constraint after the step had changed them."""
    layer = torch.nn.Linear(3, 2)
    average = torch.optim.swa_utils.AveragedModel(layer)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    observer.exchanged.stepped(optimizer)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.clamp_(-0.01, 0.01)
    average.update_parameters(layer)
    observer.exchanged.evaluates()
    observer.exchanged.goes_on(4, 1)
    assert not recorded(tmp_path, "averaged")


def test_an_evaluation_that_begins_from_its_first_batch_again(
    observer: Any, tmp_path: Path
) -> None:
    layer, evaluations = torch.nn.Linear(1, 1), observer.evaluations
    rounds, passes = [[1.0, 2.0, 3.0]] * 7, [[1.0] * 7, [2.0] * 7, [3.0] * 7]
    for batches in (passes, rounds):  # several passes with dropout over each batch are none
        layer.train()
        evaluations.begin(layer, trained=True)
        with torch.no_grad():
            for value in itertools.chain.from_iterable(batches):
                evaluations.called(layer, (torch.full((2, 1), value),), {})
        evaluations.end(layer)
    found = [each.get("turns", 0) for each in recorded(tmp_path, "evaluating")]
    assert found == [0, 0, 5]


@pytest.mark.parametrize(
    ("state", "keys"),
    [
        ({"data": {"pos": 24}, "step": 6}, ["data"]),
        ({"loader_state": {"epoch": 1}, "tokens_seen": 99}, ["loader_state"]),
        ({"dataset": "c4", "data_config": {"name": "c4"}}, []),
        ({"data": torch.ones(3)}, []),
        ({"database": 4, "metadata": {"a": 1}}, []),
    ],
)
def test_a_position_in_a_checkpoint(state: dict[str, Any], keys: list[str]) -> None:
    from doctor.guard.rehearsal.saves import positions_in

    assert list(positions_in(state)) == keys
