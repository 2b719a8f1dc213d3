"""Parameters that nothing trains, seen at comparisons and at the end; outputs that are kept."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from trainings import adamw, alarms, guarded, records  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def causes(out: Path) -> set[tuple[str, str]]:
    return {(each["code"], each["cause"]) for each in records(out, "alarm")}


def train(
    forward: Callable[[Any], Any],
    optimizer: Any,
    steps: int = 120,
    each: Callable[[int], None] = lambda step: None,
    to_none: bool = True,
) -> None:
    for step in range(steps):
        each(step)
        x = torch.randn(16, 4)
        (forward(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=to_none)


def layers() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))


def teacher_inside() -> None:
    """The teacher is in the optimizer, and its gradients are zeros."""
    student = layers()
    teacher = copy.deepcopy(student)
    every = [*student.parameters(), *teacher.parameters()]
    for p in every:
        p.grad = torch.zeros_like(p)
    train(student, torch.optim.AdamW(every, weight_decay=0.5), to_none=False)


def another_head() -> None:
    """The optimizer has the head that was there before; the new one is not trained either."""
    module = layers()
    optimizer = adamw(module)
    module[2] = nn.Linear(8, 1).requires_grad_(False)
    train(module, optimizer)
    KEPT.append(module)


def times_zero(branch: bool = True) -> None:
    """A branch that takes part with a factor of 0, as DDP wants it."""
    body, other = layers(), layers()
    optimizer = torch.optim.AdamW([*body.parameters(), *other.parameters()])
    train(lambda x: body(x) + (0.0 if branch else 0.5) * other(x), optimizer)


def unused(steps: int) -> None:
    """A short training that has a head that the loss does not see."""
    module = nn.ModuleList([layers(), nn.Linear(4, 1)])
    train(module[0], adamw(module), steps)


def later() -> None:
    """A branch whose factor begins at 0."""
    body, other, now = layers(), layers(), [0.0]

    def begin(step: int) -> None:
        now[0] = float(step > 40)

    optimizer = torch.optim.AdamW([*body.parameters(), *other.parameters()])
    train(lambda x: body(x) + now[0] * other(x), optimizer, each=begin)


def critic() -> None:
    """The bias of the last layer cancels."""
    module = layers()
    optimizer = adamw(module)
    for _ in range(120):
        (module(torch.randn(16, 4)).mean() - module(torch.randn(16, 4)).mean()).backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


class Scaled(nn.Module):
    """A factor that is a tensor, a parameter, or one of a list of parameters; or an input."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.body = layers()
        if kind == "tensor":
            self.factor = torch.ones(1, requires_grad=True)
        elif kind == "list":
            self.factors = [nn.Parameter(torch.ones(1))]
        elif kind == "parameter":
            self.factor = nn.Parameter(torch.ones(1))
        elif kind == "points":
            self.points = torch.randn(16, 4, requires_grad=True)
        self.kind = kind

    def forward(self, x: Any) -> Any:
        if self.kind == "points":
            return self.body(x + 0.1 * self.points)
        return self.body(x) * (self.factors[0] if self.kind == "list" else self.factor)


def scaled(kind: str) -> None:
    module = Scaled(kind)
    train(module, adamw(module))


def thawed(added: bool) -> None:
    """The body is trained from step 60 on."""
    body, head = nn.Linear(4, 4), nn.Linear(4, 1)
    model = nn.Sequential(body, head)
    body.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])

    def thaw(step: int) -> None:
        if step == 60:
            body.requires_grad_(True)
            if added:
                optimizer.add_param_group({"params": list(body.parameters())})

    for step in range(120):
        thaw(step)
        x = torch.randn(16, 4)
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    KEPT.append((model, optimizer))


def beside(of_shape: bool, mode: str = "") -> None:
    """A module beside the trained one gets gradients: a target network whose outputs are not
    detached, or one that should be trained."""
    model = layers()
    other = copy.deepcopy(model) if of_shape else nn.Linear(4, 1)
    other.train(mode != "eval").requires_grad_(mode != "frozen")
    train(lambda x: model(x) - 0.5 * other(x), adamw(model))
    KEPT.append((model, other))


KEPT: list[Any] = []
"""What is still there when the guard is closed, as in a script without functions."""


@pytest.mark.parametrize(
    ("run", "found"),
    [
        (teacher_inside, ("GRD016", "zeros")),
        (lambda: unused(50), ("GRD016", "")),
        (lambda: unused(10), None),
        (another_head, ("GRD016", "replaced")),
        (times_zero, ("GRD016", "zeros")),
        (lambda: scaled("tensor"), ("GRD003", "left-out")),
        (lambda: scaled("list"), ("GRD003", "left-out")),
        (lambda: thawed(added=False), ("GRD003", "left-out")),
        (lambda: beside(of_shape=False), ("GRD003", "beside")),
        (lambda: beside(of_shape=True), ("GRD003", "twin")),
        (lambda: beside(of_shape=False, mode="eval"), None),
        (lambda: beside(of_shape=False, mode="frozen"), None),
        (lambda: times_zero(branch=False), None),
        (later, None),
        (critic, None),
        (lambda: scaled("parameter"), None),
        (lambda: scaled("points"), None),
        (lambda: thawed(added=True), None),
    ],
)
def test_every_part_is_trained(
    run: Callable[[], None], found: tuple[str, str] | None, tmp_path: Path
) -> None:
    with guarded(tmp_path):
        run()
    KEPT.clear()
    assert causes(tmp_path) == ({found} if found else set())


def never_stepped(steps: bool, reused: bool) -> None:
    """A short training whose second optimizer is forgotten; `reused`: each gradient gets the memory
    of the one before, as an allocator may give it."""
    one, other = layers(), layers()
    memory: dict[Any, Any] = {}
    both = adamw(one), adamw(other)
    for _ in range(60):
        x = torch.randn(16, 4)
        for each in both:
            each.zero_grad()
        (one(x) + other(x)).square().mean().backward()
        for p in other.parameters() if reused else ():
            p.grad = memory.setdefault(p, p.grad).data
        for each in both[: 1 + steps]:
            each.step()
    KEPT.append((one, other, both))


@pytest.mark.parametrize("reused", [False, True])
@pytest.mark.parametrize("steps", [False, True])
def test_an_optimizer_that_never_stepped(steps: bool, reused: bool, tmp_path: Path) -> None:
    with guarded(tmp_path):
        never_stepped(steps, reused)
    KEPT.clear()
    assert causes(tmp_path) == (set() if steps else {("GRD011", "never-stepped")})


def test_no_gradient_is_kept_of_an_optimizer_that_does_not_step(tmp_path: Path) -> None:
    one, other = layers(), nn.Linear(4, 1, bias=False)
    both = adamw(one), adamw(other)
    seen = []
    with guarded(tmp_path):
        for _ in range(25):
            (one(torch.randn(16, 4)) + other(torch.randn(16, 4))).square().mean().backward()
            seen.append(weakref.ref(other.weight.grad))
            both[0].step()
            for each in both:
                each.zero_grad()
        gc.collect()
        assert not any(each() is not None for each in seen)


def adversaries(thaw: bool) -> None:
    made, judge = layers(), nn.Linear(1, 1)
    both = adamw(made), adamw(judge)
    for _ in range(60):
        x = torch.randn(16, 4, requires_grad=True)
        if thaw:
            judge.requires_grad_(True)
        both[1].zero_grad()
        judge(x.sum(1, keepdim=True)).square().mean().backward()
        both[1].step()
        judge.requires_grad_(False)
        both[0].zero_grad()
        judge(made(x)).square().mean().backward()
        both[0].step()


def meta(copied_back: bool) -> None:
    """Gradients after the inner steps are those of a copy."""
    module = layers()
    outer = adamw(module)
    for _ in range(60):
        fast = copy.deepcopy(module)
        inner = torch.optim.SGD(fast.parameters(), lr=0.01)
        outer.zero_grad()
        for _ in range(2):
            inner.zero_grad()
            fast(torch.randn(8, 4)).square().mean().backward()
            inner.step()
        if copied_back:
            for p, q in zip(module.parameters(), fast.parameters(), strict=True):
                p.grad = q.grad.clone()
        outer.step()


def between(what: str) -> None:
    """Something else than the optimizer sets the weights, at each of many epochs."""
    module = layers()
    start = copy.deepcopy(module.state_dict())
    average = copy.deepcopy(module)

    def begin(step: int) -> None:
        with torch.no_grad():
            for a, p in zip(average.parameters(), module.parameters(), strict=True):
                a.lerp_(p, 0.1)
        if step % 15 or not step:
            return
        if what == "reset":
            module.apply(lambda m: m.reset_parameters() if isinstance(m, nn.Linear) else None)
        elif what != "nothing":
            module.load_state_dict(start if what == "start" else average.state_dict())

    train(module, torch.optim.AdamW(module.parameters(), lr=1e-3), each=begin)


@pytest.mark.parametrize("what", ["reset", "start", "average", "nothing"])
def test_what_sets_weights_between_steps(what: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        between(what)
    assert causes(tmp_path) == ({("GRD007", "overwritten")} if what == "reset" else set())
    assert {status for _, status in alarms(tmp_path)} <= {"note"}


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.filterwarnings("default:None of the inputs have requires_grad=True")
def test_layers_that_checkpointing_cuts_off(reentrant: bool, tmp_path: Path) -> None:
    from torch.utils.checkpoint import checkpoint

    with guarded(tmp_path):
        body, head = layers(), nn.Linear(1, 1)
        optimizer = torch.optim.AdamW([*body.parameters(), *head.parameters()])
        train(lambda x: head(checkpoint(body, x, use_reentrant=reentrant)), optimizer)
    assert causes(tmp_path) == ({("GRD016", "checkpoint")} if reentrant else set())


def round_stochastically(weight: Any) -> None:
    weight.add_(torch.randn_like(weight), alpha=1e-3)


class Anything:
    def __getattr__(self, name: str) -> Anything:
        return self


class Plain(torch.optim.Optimizer):
    settings = Anything()

    def step(self, closure: Any = None) -> None:
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                p.sub_(p.grad, alpha=1e-2)
                self.round(p)

    def round(self, weight: Any) -> None:
        pass


class Stochastic(Plain):
    def round(self, weight: Any) -> None:
        round_stochastically(weight)


@pytest.mark.parametrize(("kind", "found"), [(Plain, {("GRD008", "16-bit")}), (Stochastic, set())])
def test_rounding_of_ones_own(kind: Any, found: set[tuple[str, str]], tmp_path: Path) -> None:
    with guarded(tmp_path):
        module = layers().bfloat16()
        train(lambda x: module(x.bfloat16()).float(), kind(module.parameters(), {}), 10)
    assert causes(tmp_path) == found


class Headed(nn.Module):
    """As transformers and peft build one."""

    base_model_prefix = "bert"

    def __init__(self, trained: bool, of: str = "labels") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.config = type("Config", (), {"initializer_range": 0.02, "vocab_size": 300})()
        self.bert = layers()
        self.bert.lora_A = nn.Parameter(torch.randn(2, 4))
        self.classifier = nn.Linear(1, 300 if of == "words" else 200).requires_grad_(False)
        nn.init.normal_(self.classifier.weight, std=0.2 if trained else 0.02)
        nn.init.zeros_(self.classifier.bias)

    def forward(self, x: Any) -> Any:
        low = (x @ self.bert.lora_A.T).sum(1, keepdim=True)
        return self.classifier(self.bert(x) + low).mean(1, keepdim=True)


@pytest.mark.parametrize(
    ("module", "free", "found"),
    [
        (lambda: Headed(trained=False), False, True),
        (lambda: Headed(trained=True), False, False),
        (lambda: Headed(trained=False, of="words"), False, False),
        (lambda: Headed(trained=False), True, False),
    ],
)
def test_a_head_that_lora_leaves_frozen(
    module: Callable[[], Any], free: bool, found: bool, tmp_path: Path
) -> None:
    with guarded(tmp_path):
        model = module()
        model.classifier.requires_grad_(free)
        train(model, torch.optim.AdamW([p for p in model.parameters() if p.requires_grad]), 60)
    assert causes(tmp_path) == ({("GRD013", "head")} if found else set())


@pytest.mark.parametrize(
    ("run", "cause"),
    [
        (lambda: adversaries(thaw=False), "frozen"),
        (lambda: adversaries(thaw=True), ""),
        (lambda: meta(copied_back=False), "copy"),
        (lambda: meta(copied_back=True), ""),
    ],
)
def test_why_gradients_are_lost(run: Callable[[], None], cause: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        run()
    assert {c for code, c in causes(tmp_path) if code == "GRD003"} == ({cause} if cause else set())


def keeping(what: str) -> None:
    module, kept = layers(), []
    optimizer = adamw(module)
    for _ in range(80):
        x = torch.randn(16, 4)
        out = module(x)
        loss = (out - x.sum(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        kept += {"outputs": [out], "losses": [loss], "values": [out.detach(), loss.item()]}[what]


@pytest.mark.parametrize(
    ("what", "word"), [("outputs", "80"), ("losses", "losses"), ("values", "")]
)
def test_graphs_that_are_kept(what: str, word: str, tmp_path: Path) -> None:
    with guarded(tmp_path):
        keeping(what)
    text = " ".join(a["text"] for a in records(tmp_path, "alarm") if a["code"] == "GRD019")
    assert bool(text) is bool(word)
    assert (what in text) is bool(word)
