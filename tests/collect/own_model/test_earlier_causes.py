"""Errors whose cause lies before the line that raised: in a shape, an earlier step."""

from __future__ import annotations

import pytest
from own_code import Own, completes

pytestmark = pytest.mark.slow

JOINED = """
class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.head = nn.Linear(8, 1), nn.Linear({features}, 3)

    def forward(self, x, depth):
        difference = {difference}
        return {use}

def make():
    model, depth, labels = Joined(), torch.rand(4), torch.tensor([0, 1, 2, 0])
    loss = lambda model, x: nn.functional.cross_entropy(model(x, depth), labels)
    return model, torch.randn(4, 8), loss
"""
JOIN = "self.head(torch.cat([x, difference], 1))"


def test_what_was_joined_or_flattened_is_named(own: Own) -> None:
    pairs = JOINED.format(features=9, difference="depth - depth[:, None]", use=JOIN)
    verdict = completes(own(pairs))
    assert "cat of [4, 8] and [4, 4] in train.py, line " in verdict.summary
    assert (verdict.fix or "").startswith("Set in_features=12 in head, or change what comes")
    flat = JOINED.format(features=9, difference="0", use="self.head(x.view(4, 2, 4).flatten(1))")
    verdict = completes(own(flat))
    assert "flatten of [4, 2, 4] in train.py, line " in verdict.summary
    assert (verdict.fix or "").startswith("Set in_features=8 in head")


HELD = """
class Box:
    last = None

box, shown, rows = Box(), {{}}, []

def keep(module, args, out):
    {keep}

class Holding(Net):
    def forward(self, x, labels, held=[]):
        hidden = self.a(x).relu()
        {use}
        return {{"loss": nn.functional.cross_entropy(self.b(hidden), labels)}}

def make():
    model = Holding()
    model.a.register_forward_hook(keep)
    return model, batch()
"""


@pytest.mark.parametrize(
    ("keep", "use", "name"),
    [
        ("pass", "held.append(hidden); hidden = held[0]", "held[0]"),
        ("pass", "rows.append(hidden); hidden = hidden + rows[0]", "rows[0]"),
        ("shown.setdefault('a', out)", "hidden = hidden + shown['a']", "shown['a']"),
        (
            "shown.setdefault('a', {}).setdefault('out', out)",
            "hidden = hidden + shown['a']['out']",
            "shown['a']['out']",
        ),
        ("box.last = box.last or [out]", "hidden = hidden + box.last[0]", "box.last[0]"),
        (
            "pass",
            "Holding.last = getattr(Holding, 'last', hidden); hidden = hidden + Holding.last",
            "Holding.last",
        ),
    ],
)
def test_what_holds_a_tensor_of_an_earlier_step_is_named(
    keep: str, use: str, name: str, own: Own
) -> None:
    verdict = completes(own(HELD.format(keep=keep, use=use)))
    assert "a second time" in verdict.summary
    assert f"kept from step to step with its graph: {name}" in verdict.summary
    assert ".detach()" in (verdict.fix or "")


def test_what_is_computed_of_weights_once_is_computed_again_and_not_detached(own: Own) -> None:
    use = "self.table = getattr(self, 'table', None); "
    use += "self.table = self.a.weight.exp() if self.table is None else self.table; "
    verdict = completes(own(HELD.format(keep="pass", use=f"{use}hidden = x @ self.table.t()")))
    assert "computed once, with its graph, and kept for all steps: table" in verdict.summary
    assert (verdict.fix or "").startswith("Compute table anew in each forward pass")


def test_a_tensor_of_an_earlier_step_that_a_hook_returns_is_named(own: Own) -> None:
    verdict = completes(own(HELD.format(keep="return shown.setdefault('a', out)", use="pass")))
    assert "kept from step to step with its graph: shown['a']" in verdict.summary
    assert ".detach()" in (verdict.fix or "")


def test_hooks_that_return_a_tensor_of_this_step_are_not_named(own: Own) -> None:
    """One that changes the output in a training that fails for another reason, and one that keeps
    a tensor which is not used again."""
    use = "rows.append(hidden); hidden = hidden + rows[0]"
    verdict = completes(own(HELD.format(keep="shown['a'] = out; return out * 1.5", use=use)))
    assert "forward hook" not in verdict.summary
    assert "kept from step to step with its graph: rows[0]" in verdict.summary
    kept = HELD.format(keep="shown.setdefault('a', out); return out * 1.5", use="pass")
    assert completes(own(kept)).status == "pass"
