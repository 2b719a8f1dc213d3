"""Evaluations in training mode, frozen parts that drift, modules that are not registered."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from torch.utils.data import DataLoader, TensorDataset  # noqa: E402, TID253
from trainings import adamw, alarms, guarded  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

ROWS = TensorDataset(torch.randn(96, 8), torch.randint(0, 3, (96,)))
EVALUATION, FROZEN = ("GRD031", "warn"), ("GRD031", "note")


def network() -> Any:
    torch.manual_seed(0)
    part = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1))
    return nn.Sequential(part, nn.Linear(8, 3))


def epoch(module: Any, optimizer: Any) -> None:
    for x, y in DataLoader(ROWS, 16, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()


def evaluated(before: Callable[[Any], None], epochs: int = 4) -> None:
    module = network()
    optimizer = adamw(module)
    for _ in range(epochs):
        module.train()
        epoch(module, optimizer)
        before(module)
        for x, _ in DataLoader(ROWS, 32):
            with torch.no_grad():
                module(x)


def averaged() -> None:
    module = network()
    optimizer = adamw(module)
    average = torch.optim.swa_utils.AveragedModel(module)
    for _ in range(4):
        epoch(module, optimizer)
        average.update_parameters(module)
        torch.optim.swa_utils.update_bn(DataLoader(ROWS, 32), average)


def frozen(keep: bool, follow: bool = False) -> None:
    """A part without gradients; `follow`: it is an average of a part that trains."""
    module, online = network(), network()
    module[0].requires_grad_(False)
    head = adamw(module[1])
    for _ in range(20):
        module.train()
        if keep:
            module[0].eval()
        epoch(module, head)
        if follow:
            with torch.no_grad():
                for mine in module[0].parameters():
                    mine.add_(1e-3)
    del online


def taught(evaluated: bool, follows: bool = False) -> None:
    """A student learns from another network; `follows`: that one is an average of it."""
    student, teacher = network(), network().requires_grad_(False)
    teacher.train(not evaluated)
    optimizer = adamw(student)
    for _ in range(20):
        for x, _y in DataLoader(ROWS, 16, shuffle=True):
            with torch.no_grad():
                target = teacher(x)
            optimizer.zero_grad()
            nn.functional.mse_loss(student(x), target).backward()
            optimizer.step()
            for mine, its in zip(teacher.parameters(), student.parameters(), strict=True):
                mine.lerp_(its.detach(), 0.1 * follows)


def in_a_list(registered: bool) -> None:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(8, 8)
            heads = [nn.Linear(8, 3), nn.Linear(8, 3)]
            self.heads = nn.ModuleList(heads) if registered else heads

        def forward(self, x: Any) -> Any:
            return sum(head(self.body(x)) for head in self.heads)

    module = Heads()
    optimizer = adamw(module)
    for _ in range(40):
        epoch(module, optimizer)


def remade(loaded: bool = False, **options: Any) -> None:
    module = network()
    for _ in range(6):
        if loaded:
            module.load_state_dict({k: v.clone() for k, v in network().state_dict().items()})
        epoch(module, torch.optim.SGD(module.parameters(), 0.1, **options))


def cycled(kept: bool) -> None:
    module = network()
    optimizer = adamw(module)
    loader = DataLoader(ROWS, 4, shuffle=True)
    again = itertools.chain.from_iterable(itertools.repeat(loader))
    for x, y in itertools.islice(itertools.cycle(loader) if kept else again, 110):
        optimizer.zero_grad()
        nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()


PROGRAMS: dict[str, tuple[Callable[[], None], set[tuple[str, str]]]] = {
    "evaluated in training mode": (lambda: evaluated(lambda module: None), {EVALUATION}),
    "evaluated": (lambda: evaluated(lambda module: module.eval()), set()),
    "only dropout, on purpose": (
        lambda: evaluated(lambda module: module.eval()[0][3].train()),
        set(),
    ),
    "statistics of an average": (averaged, set()),
    "frozen, in training mode": (lambda: frozen(keep=False), {FROZEN}),
    "frozen": (lambda: frozen(keep=True), set()),
    "an average": (lambda: frozen(keep=False, follow=True), set()),
    "a teacher in training mode": (lambda: taught(evaluated=False), {EVALUATION}),
    "a teacher": (lambda: taught(evaluated=True), set()),
    "a mean teacher": (lambda: taught(evaluated=False, follows=True), set()),
    "heads in a list": (lambda: in_a_list(registered=False), {("GRD003", "warn")}),
    "heads in a ModuleList": (lambda: in_a_list(registered=True), set()),
    "an optimizer for each epoch": (lambda: remade(momentum=0.9), {("GRD011", "warn")}),
    "one without a state": (lambda: remade(), set()),
    "one for each client": (lambda: remade(loaded=True, momentum=0.9), set()),
    "batches kept by cycle()": (lambda: cycled(kept=True), {("GRD028", "warn")}),
    "a new epoch each time": (lambda: cycled(kept=False), set()),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_the_modules_show(program: str, tmp_path: Path) -> None:
    run, expected = PROGRAMS[program]
    with guarded(tmp_path):
        run()
    assert set(alarms(tmp_path)) == expected


def test_no_hook_for_all_modules_stays(tmp_path: Path) -> None:
    with guarded(tmp_path):
        evaluated(lambda module: module.eval(), epochs=1)
    assert not torch.nn.modules.module._global_forward_hooks
