"""Layers without input, adapters that stay 0, parameters of two optimizers: real trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import guarded, records  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def network(bias: float = 0.0) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8), torch.nn.ReLU()]
    with torch.no_grad():
        layers[0].bias.add_(bias)
    return torch.nn.Sequential(*layers, torch.nn.Linear(8, 1))


def convolutions(bias: float = 0.0) -> Any:
    torch.manual_seed(0)
    layers = [torch.nn.Conv1d(1, 4, 1), torch.nn.ReLU(), torch.nn.Conv1d(4, 4, 1)]
    with torch.no_grad():
        layers[0].bias.add_(bias)
    return torch.nn.Sequential(
        torch.nn.Unflatten(1, (1, 4)), *layers, torch.nn.Flatten(), torch.nn.Linear(16, 1)
    )


def backward(module: Any, factor: float = 1.0) -> None:
    (module(factor * X) - X.sum(1, keepdim=True)).pow(2).mean().backward()


def train(module: Any, steps: int = 110, factor: float = 1.0, to_none: bool = True) -> None:
    optimizer = torch.optim.AdamW([p for p in module.parameters() if p.requires_grad], lr=1e-3)
    for _ in range(steps):
        backward(module, factor)
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)


def with_two_heads(to_none: bool) -> None:
    """One head is used in every fourth step; or never, but for a factor of 0."""
    trunk = network()
    heads = torch.nn.ModuleList(torch.nn.Linear(1, 1) for _ in range(3))
    parts = torch.nn.ModuleList([trunk, heads])
    optimizer = torch.optim.AdamW(parts.parameters(), lr=1e-3)
    for step in range(110):
        hidden = trunk(X)
        out = heads[step % 4 == 0](hidden) + 0.0 * heads[2](hidden)
        (out - X.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)


def biases_alone(by_hook: bool) -> None:
    module = network()
    weights = [p for p in module.parameters() if p.dim() > 1]
    if by_hook:
        for weight in weights:
            weight.register_hook(torch.zeros_like)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, weight_decay=0.0)
    for _ in range(110):
        backward(module)
        if not by_hook:
            for weight in weights:
                weight.grad.zero_()
        optimizer.step()
        optimizer.zero_grad()


class Adapted(torch.nn.Module):  # type: ignore[name-defined, misc]
    """A layer with a low-rank adapter, as its maker writes one."""

    def __init__(self, base: Any, scale: float) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = torch.nn.Parameter(torch.randn(2, 4))
        self.lora_B = torch.nn.Parameter(scale * torch.randn(8, 2))

    def forward(self, x: Any) -> Any:
        return self.base(x) + x @ self.lora_A.T @ self.lora_B.T


def adapted(scale: float, frozen: bool, steps: int = 210) -> None:
    """The last layer is trained in any case."""
    module = network()
    module[0] = Adapted(module[0], scale)
    for name, parameter in module.named_parameters():
        if frozen and "lora_" in name:
            parameter.requires_grad_(False)
    train(module, steps)


def two_optimizers(
    held: Callable[[Any], Any], passes: int = 1, kind: Any = torch.optim.AdamW
) -> None:
    module = network()
    first = torch.optim.AdamW(module.parameters() if passes else module[:4].parameters(), lr=1e-3)
    second = kind(held(module).parameters(), lr=1e-3)
    for _ in range(30):
        backward(module)
        first.step()
        if passes == 2:
            module.zero_grad()
            backward(module)
        second.step()
        module.zero_grad()


def one_after_the_other() -> None:
    """A second phase with an optimizer of its own, while the first still exists."""
    module = network()
    optimizers = [torch.optim.AdamW(module.parameters(), lr=1e-3) for _ in range(2)]
    for step in range(60):
        backward(module)
        optimizers[step >= 30].step()
        module.zero_grad()


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda: train(network(bias=-50.0)), {"GRD004 no-input"}),
        (lambda: train(convolutions(bias=-50.0)), {"GRD004 no-input"}),
        (lambda: train(network(), factor=0.0), {"GRD004 no-input"}),
        (lambda: train(network(bias=-50.0), 60), set()),
        (lambda: train(network()), set()),
        (lambda: train(convolutions(), to_none=False), set()),
        (lambda: with_two_heads(True), set()),
        (lambda: with_two_heads(False), set()),
        (lambda: biases_alone(True), set()),
        (lambda: biases_alone(False), set()),
        (lambda: adapted(0.0, True), {"GRD013 frozen"}),
        (lambda: adapted(0.0, True, 110), set()),
        (lambda: adapted(0.1, True), set()),
        (lambda: adapted(0.0, False), set()),
        (lambda: two_optimizers(lambda m: m[4]), {"GRD003 shared"}),
        (lambda: two_optimizers(lambda m: m, kind=torch.optim.SGD), {"GRD003 shared"}),
        (lambda: two_optimizers(lambda m: m[4], passes=0), set()),
        (lambda: two_optimizers(lambda m: m, passes=2), set()),
        (one_after_the_other, set()),
    ],
    ids=[
        "dead units", "dead channels", "features of 0", "dead units, two looks", "ReLU",
        "convolutions", "heads", "heads, gradients of 0", "biases alone, by hooks",
        "biases alone, by hand", "frozen adapter of 0", "frozen adapter, one look",
        "frozen adapter that was trained", "adapter", "head in two optimizers",
        "all in two optimizers", "an optimizer for the head", "a backward pass for each",
        "one after the other",
    ],
)  # fmt: skip
def test_looks_at_layers(program: Any, expected: set[str], tmp_path: Path) -> None:
    with guarded(tmp_path):
        program()

    found = {f"{alarm['code']} {alarm['cause']}" for alarm in records(tmp_path, "alarm")}
    assert {each for each in found if not each.startswith("GRD016")} == expected
