"""Errors whose cause lies before the line that raised: in a getter, a shape, an earlier step."""

from __future__ import annotations

import pytest
from own_code import Own, completes

pytestmark = pytest.mark.slow

PROPERTY = """
seen = []

class Settings:
    def __init__(self, **values):
        self.__dict__.update(values)

class Scaled(Net):
    {decorator}
    def scale(self):
        {getter}

    def forward(self, x, labels):
        return super().forward(x * self.{name}, labels)

def make():
    model = Scaled()
    model.settings, model.cache = Settings(hidden_size=8), None
    return model, batch()
"""

GETTERS = {
    "return self.settings.hidden_dim**-0.5": (
        "whose getter raised an AttributeError that __getattr__ hides: 'Settings' object has no "
        "attribute 'hidden_dim'",
        "Look at the getter of scale in train.py, line ",
    ),
    "return self.cache.mean()": (
        "self.cache is None",
        "Look at the getter of scale in train.py, line ",
    ),
    "return self.hidden_dim": ("Scaled has a, b", "Look at the getter of scale in train.py, line "),
    "raise AttributeError('no scale')": ("hides: no scale, in train.py", "Look at the getter"),
    "return super().__getattr__('scale')": (
        "hides: 'Scaled' object has no attribute 'scale', in train.py",
        "Look at the getter",
    ),
    "return seen[0] if seen else seen.append(1) or seen.absent": (
        "an AttributeError that __getattr__ hides",
        "Look at the getter of scale in train.py, line ",
    ),
}


@pytest.mark.parametrize("decorator", ["@property", "@__import__('functools').cached_property"])
@pytest.mark.parametrize("getter", GETTERS)
def test_the_error_inside_of_a_property_is_named(getter: str, decorator: str, own: Own) -> None:
    cause, fix = GETTERS[getter]
    source = PROPERTY.format(decorator=decorator, getter=getter, name="scale")
    verdict = completes(own(source))
    assert "scale is a property of Scaled" in verdict.summary
    assert cause in verdict.summary
    assert fix in (verdict.fix or "")


def test_another_spelling_of_a_property_is_named_as_before(own: Own) -> None:
    source = PROPERTY.format(decorator="@property", getter="return 1.0", name="scales")
    verdict = completes(own(source))
    assert "Scaled has scale" in verdict.summary
    assert "property" not in verdict.summary


GROWN = """
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


@pytest.mark.parametrize(
    ("features", "use"),
    [
        (9, JOIN),
        (10, "self.head(torch.cat([x, difference, difference.sigmoid()], 1))"),
        (3, "self.head(x[:, :3]) + difference"),
        (3, "self.head(x[:, :3]) + difference.view(4, 1)"),
    ],
)
def test_the_line_that_broadcast_by_accident_leads(features: int, use: str, own: Own) -> None:
    source = GROWN.format(features=features, difference="depth - self.one(x)", use=use)
    verdict = completes(own(source))
    assert "depth [4] and [4, 1] broadcast to [4, 4] in train.py, line " in verdict.summary
    assert "depth[:, None] is [4, 1]" in (verdict.fix or "")
    assert "in_features" not in (verdict.fix or "")
    right = GROWN.format(features=features, difference="depth[:, None] - self.one(x)", use=use)
    assert completes(own(right)).status == "pass"


def test_other_sizes_are_joined(own: Own) -> None:
    """Pairs that are meant, sizes that no broadcast explains, and a flatten."""
    pairs = GROWN.format(features=9, difference="depth - depth[:, None]", use=JOIN)
    unexplained = GROWN.format(features=15, difference="depth - self.one(x)", use=JOIN)
    for source in (pairs, unexplained):
        verdict = completes(own(source))
        assert "broadcast to" not in verdict.summary
        assert "cat of [4, 8] and [4, 4] in train.py, line " in verdict.summary
        assert (verdict.fix or "").startswith("Set in_features=12 in head, or change what comes")
    flat = GROWN.format(features=9, difference="0", use="self.head(x.view(4, 2, 4).flatten(1))")
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
