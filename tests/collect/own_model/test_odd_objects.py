"""Objects of the user whose attributes and methods raise, and batches of classes of their own: what
is observed of a training does not break it."""

from __future__ import annotations

import pytest
from own_code import Own, completes, smoke_of

from doctor.judge.check import Status

pytestmark = pytest.mark.slow

ODD = """
class Raising:
    def __call__(self, *args): return None
    def __getattr__(self, name): raise RuntimeError("no attribute " + name)

class RaisingDict(dict):
    def items(self): raise RuntimeError("items")
    def __iter__(self): raise RuntimeError("iter")

class RaisingList(list):
    def __getitem__(self, index): raise RuntimeError("getitem")

class WithoutBool(torch.Tensor):
    def __bool__(self): raise RuntimeError("no bool")

class Unready(Net):
    @property
    def config(self): raise RuntimeError("not ready")
    @property
    def training_step(self): raise RuntimeError("not ready")

"""

HEALTHY = {
    "a hook": "model.a.register_forward_hook(Raising())",
    "a hook of another model": "nn.Linear(2, 2).register_forward_hook(Raising())",
    "a getter": "model = Unready()",
    "attributes": "model.settings, model.b.names = Raising(), [RaisingDict(a=1), Raising()]",
    "a dict": "model.options = RaisingDict(a=1)",
    "a list": "model.sizes = RaisingList([1, 2])",
    "a batch": "data['x'] = data['x'].as_subclass(WithoutBool)",
}


@pytest.mark.parametrize("kind", HEALTHY)
def test_a_training_with_objects_that_raise_is_healthy(kind: str, own: Own) -> None:
    record = own(f"""{ODD}
def make():
    model, data = Net(), batch()
    {HEALTHY[kind]}
    return model, data
""")
    assert completes(record).status is Status.PASS
    assert smoke_of(record).completed
    assert {each.name for each in record.batch} == {"x", "labels"}
    assert record.trend is not None


def test_a_parameter_in_a_dict_that_raises_is_named(own: Own) -> None:
    record = own(f"""{ODD}
class Hidden(Net):
    def __init__(self):
        super().__init__()
        self.extra = RaisingDict(shift=torch.zeros(8, requires_grad=True))

    def forward(self, x, labels):
        return super().forward(x + self.extra["shift"], labels)

def make():
    return Hidden(), batch()
""")
    assert list(record.unregistered) == ["extra['shift']"]


CONTAINERS = """
import collections, dataclasses

class Attributes(dict):
    __getattr__ = dict.__getitem__

class Mirrored(dict):
    def __init__(self, **values):
        super().__init__(**values)
        self.__dict__ = self

class Shared:  # a copy of it holds the same dict
    def __init__(self, **values): self.data = values
    def keys(self): return self.data.keys()
    def items(self): return self.data.items()
    def __getitem__(self, key): return self.data[key]
    def __setitem__(self, key, value): self.data[key] = value

class Fixed(collections.abc.Mapping):
    def __init__(self, **values): self.data = values
    def __getitem__(self, key): return self.data[key]
    def __iter__(self): return iter(self.data)
    def __len__(self): return len(self.data)

Pair = collections.namedtuple("Pair", "x labels")

@dataclasses.dataclass(frozen=True)
class Frozen:
    x: torch.Tensor
    labels: torch.Tensor

KINDS = {"attributes": Attributes, "mirrored": Mirrored, "user": collections.UserDict,
         "pair": Pair, "frozen": Frozen, "fixed": Fixed, "shared": Shared}
PLAIN = ("fixed", "shared")
initial = Shared(**batch())
data = {name: kind(**batch()) for name, kind in KINDS.items()}
data["shared"] = initial

def loss(model, batch):
    for name, kind in KINDS.items():
        assert type(batch[name]) is (dict if name in PLAIN else kind), (name, type(batch[name]))
    for name in ("attributes", "mirrored", "pair", "frozen"):
        assert batch[name].x.dtype == torch.bfloat16, name
    for name in ("attributes", "mirrored", "user", "fixed", "shared"):
        assert batch[name]["x"].dtype == torch.bfloat16, name
    assert initial["x"].dtype == torch.float32
    return model(batch["pair"].x, batch["frozen"].labels)["loss"]

def make():
    return Net(), Attributes(data), loss
"""


def test_a_batch_reaches_the_loss_with_its_classes(own: Own) -> None:
    record = own(CONTAINERS, precision="bf16", recipe="pure-bf16")
    verdict = completes(record)
    assert verdict.status is Status.PASS, verdict.summary
    assert {"attributes.x", "frozen.x", "pair[0]"} <= {each.name for each in record.batch}
