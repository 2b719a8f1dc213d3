"""zero_grad() in every batch of a step, and trainings that do with each gradient as they please."""

from __future__ import annotations

import pytest
from script_code import codes

METHOD = """
import torch
class Steps:
    def __init__(self, model, optimizer, size):
        self.model, self.optimizer, self.size = model, optimizer, size
    def step(self, x):
        {before}
        for i in range(0, len(x), self.size):
            {first}
            loss = self.model(x[i : i + self.size]).mean() / 4
            loss.backward()
            {last}
        {after}
        self.optimizer.step()
steps = Steps(model, optimizer, 4)
for x in loader:
    steps.step(x)
"""
LOOP = """
import torch
def train(model, loader, optimizer, tasks):
    for x in loader:
        for task in tasks:
            {first}
            loss = task(model(x)) / len(tasks)
            loss.backward()
            {last}
        {after}
        optimizer.step()
"""
CLIP = "torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)"
ZERO = "self.optimizer.zero_grad()"
PARTS = {"before": "pass", "first": "pass", "last": "pass", "after": "pass"}


@pytest.mark.parametrize(
    ("parts", "slug"),
    [
        ({"first": ZERO}, "zeroed-while-accumulating"),
        ({"first": ZERO, "last": "total = loss.item()", "after": CLIP},
         "zeroed-while-accumulating"),
        ({"before": ZERO, "last": CLIP}, "clipped-while-accumulating"),
    ],
)  # fmt: skip
def test_a_method_that_gathers_and_steps_once(parts: dict[str, str], slug: str) -> None:
    assert slug in codes(METHOD.format(**(PARTS | parts)))


@pytest.mark.parametrize(
    "parts",
    [
        {"before": ZERO, "after": CLIP},
        {"first": ZERO, "last": "if loss.isfinite(): break"},  # an attempt is repeated
        {"first": ZERO, "last": "kept.append([p.grad for p in self.model.parameters()])"},
        {"first": ZERO, "last": "self.keep()"},
        {"first": ZERO, "last": "self.optimizer.microbatch_step()"},
        # every sample's gradient is clipped, as differential privacy needs it
        {"first": ZERO,
         "last": f"{CLIP}\n            kept.append([p.grad for p in self.model.parameters()])"},
        {"first": ZERO, "last": "self.optimizer.step()", "after": ZERO},
    ],
)  # fmt: skip
def test_a_method_that_steps_as_it_should(parts: dict[str, str]) -> None:
    found = codes(METHOD.format(**(PARTS | parts)))
    assert not {"zeroed-while-accumulating", "clipped-while-accumulating"} & found.keys(), found


@pytest.mark.parametrize(
    ("last", "after", "said"),
    [
        ("pass", "pass", True),
        ("grads.append([p.grad.clone() for p in model.parameters()])", "project(model, grads)",
         False),
        ("for p, g in zip(model.parameters(), kept): g += p.grad", "put(model, kept)", False),
        ("if loss.isfinite(): break", "pass", False),
    ],
)  # fmt: skip
def test_gradients_of_several_losses(last: str, after: str, said: bool) -> None:
    found = codes(LOOP.format(first="optimizer.zero_grad()", last=last, after=after))
    assert ("zeroed-while-accumulating" in found) == said
