"""What the graph of a loss shows of what the loss gets."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402, TID253
from torch.nn import functional as F  # noqa: E402, TID253
from trainings import adamw, alarms, batches, guarded, model, records, train  # noqa: E402

from doctor.guard import loss_graphs, origins  # noqa: E402
from doctor.guard.jumps import Jumps  # noqa: E402
from doctor.guard.records import WARN, Alarm  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


SCORES, ONE = nn.Linear(8, 5), nn.Linear(8, 1)
X, CLASSES, VALUES = torch.randn(16, 8), torch.randint(0, 5, (16,)), torch.rand(16)
CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "logits": (lambda: F.cross_entropy(SCORES(X), CLASSES), ""),
    "probabilities": (lambda: F.cross_entropy(SCORES(X).softmax(1), CLASSES), "logits"),
    "smoothed": (
        lambda: F.cross_entropy(SCORES(X).relu(), CLASSES, label_smoothing=0.1) / 4,
        "logits",
    ),
    "log twice": (lambda: F.cross_entropy(SCORES(X).log_softmax(1), CLASSES), ""),
    "a capped logit": (lambda: F.cross_entropy(30 * (SCORES(X) / 30).tanh(), CLASSES), ""),
    "nll of logits": (lambda: F.nll_loss(SCORES(X), CLASSES), "logarithms"),
    "nll over the batch": (lambda: F.nll_loss(SCORES(X).log_softmax(0), CLASSES), "axis"),
    "nll": (lambda: F.nll_loss(SCORES(X).log_softmax(1), CLASSES), ""),
    "one class, probabilities": (
        lambda: F.cross_entropy(ONE(X), VALUES[:, None]),
        "one-class",
    ),
    "one component of a mixture": (
        lambda: -(ONE(X).log_softmax(1) - SCORES(X)[:, :1].square()).logsumexp(1).mean(),
        "",
    ),
    "two classes, probabilities": (
        lambda: F.cross_entropy(SCORES(X)[:, :2], VALUES[:, None].expand(16, 2)),
        "",
    ),
    "one class": (lambda: F.cross_entropy(ONE(X), torch.zeros(16).long()), "one-class"),
    "binary": (
        lambda: F.binary_cross_entropy_with_logits(ONE(X).sigmoid()[:, 0], VALUES),
        "",  # an index lies between
    ),
    "binary, squeezed": (
        lambda: F.binary_cross_entropy_with_logits(ONE(X).sigmoid().squeeze(1), VALUES),
        "logits",
    ),
    "broadcast": (lambda: F.mse_loss(ONE(X), VALUES), "broadcast"),
    "broadcast by hand": (lambda: (ONE(X) - VALUES).abs().mean(), "broadcast"),
    "of chosen actions": (
        lambda: (SCORES(X).gather(1, CLASSES[:, None]) - VALUES).square().mean(),
        "broadcast",
    ),
    "of chosen actions, alike": (
        lambda: (SCORES(X).gather(1, CLASSES[:, None]).squeeze(1) - VALUES).square().mean(),
        "",
    ),
    "same shape": (lambda: F.mse_loss(ONE(X).squeeze(1), VALUES), ""),
    "pairs on purpose": (lambda: (ONE(X) - ONE(X).T).abs().mean(), ""),
    "pairs with an axis": (
        lambda: F.softplus(VALUES[None] - SCORES(X)[:, 0][:, None]).mean(),
        "",
    ),
    "pairs with constants": (
        lambda: (ONE(X).squeeze(1).unsqueeze(1) - ONE(X).squeeze(1).detach()).mean(),
        "",
    ),
    "an actor's entropy and value": (  # its mean, and so its gradients, are as without the pairs
        lambda: (0.2 * ONE(X).sum(1, keepdim=True) - SCORES(X)[:, 0]).mean(),
        "",
    ),
    "a mixture of as many parts as samples": (
        lambda: (ONE(X) * nn.Parameter(torch.zeros(16)).softmax(0)).mean(),
        "none",
    ),
    "quantiles": (
        lambda: F.huber_loss(
            ONE(X).squeeze(1)[:, None].expand(16, 16), VALUES.expand(16, 16), reduction="none"
        ).mean(),
        "",
    ),
    "no known loss": (lambda: SCORES(X).sum(), "none"),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("case", CASES)
def test_what_a_loss_gets(case: str) -> None:
    make, cause = CASES[case]
    assert loss_graphs.misfit(make().grad_fn)[0] == cause


@pytest.mark.parametrize(
    ("loss", "cause"),
    [
        (lambda: F.cross_entropy(SCORES(X), torch.full((16,), -100)), "empty"),
        (lambda: (SCORES(X)[:, 0] * torch.zeros(16)).sum() / torch.zeros(16).sum(), "empty"),
        (lambda: SCORES(X).relu().mul(0).log().mean(), "undefined"),
        (lambda: (SCORES(X).sigmoid() * 1e9).exp().mean(), "undefined"),
        (lambda: F.cross_entropy(SCORES(X), CLASSES), ""),
    ],
)
def test_what_makes_a_loss_not_finite(loss: Callable[[], Any], cause: str) -> None:
    assert loss_graphs.not_finite(loss().grad_fn)[0] == cause


class Deep(nn.Module):
    """Some layers; `between` is computed between them."""

    def __init__(self, between: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.first, self.second, self.last = (nn.Linear(8, 8) for _ in range(3))
        self.norm, self.bare = nn.LayerNorm(8), nn.Linear(8, 8, bias=False)
        self.between = between

    def forward(self, x: Any) -> Any:
        return self.last(self.second(self.between(self, self.first(x).relu())).tanh())


def _seen(module: nn.Module, loss: Any) -> tuple[str, str]:
    """What is seen, and the layer."""
    how, found, _ = origins.first_seen(loss.grad_fn)
    parameter = None if found is None else found()
    names = [name for name, each in module.named_parameters() if each is parameter]
    return how, "".join(names).rpartition(".")[0]


MINUS = float("-inf")
CONSTANT = torch.full((8,), float("nan"))


@pytest.mark.parametrize(
    ("between", "found"),
    [
        (lambda _, x: x / 0.0, ("in", "second")),
        (lambda _, x: (x * float("nan")).relu(), ("after", "first")),
        (lambda _, x: x.exp().mul(1e30).mul(1e30), ("in", "second")),
        (lambda m, x: m.norm(x / 0.0), ("in", "norm")),
        (lambda m, x: m.bare(m.norm(x) / 0.0), ("in", "bare")),
        (lambda _, x: (x / 0.0) @ (x / 0.0).T @ x, ("after", "first")),  # no layer's own input
        (lambda m, x: m.bare(x) * CONSTANT, ("", "")),  # a constant that is not finite
        (lambda m, x: CONSTANT * m.bare(x), ("", "")),
        (lambda _, x: x, ("", "")),
        (lambda _, x: x + torch.full((8,), MINUS).exp(), ("", "")),
        (lambda _, x: x.masked_fill(x == x, MINUS).softmax(-1).nan_to_num(), ("after", "first")),
        (lambda _, x: (x - torch.tensor([0.0] * 7 + [float("inf")])).softmax(-1), ("", "")),
    ],
)
def test_the_layer_beside_the_first_value_that_is_not_finite(
    between: Callable[[Any, Any], Any], found: tuple[str, str]
) -> None:
    module = Deep(between)
    assert _seen(module, module(torch.randn(4, 8)).sum()) == found


def test_a_tensor_with_a_hook_is_not_unpacked() -> None:
    unpacked: list[Any] = []
    module = Deep(lambda _, x: x / 0.0)
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda tensor: tensor, lambda tensor: unpacked.append(tensor) or tensor):
        loss = module(torch.randn(4, 8)).sum()
    assert origins.first_seen(loss.grad_fn) == origins.NONE
    assert not unpacked


def test_no_layer_is_named_behind_one_that_is_not_read() -> None:
    checkpoint = torch.utils.checkpoint.checkpoint
    module = Deep(lambda m, x: checkpoint(lambda y: m.bare(y / 0.0), x, use_reentrant=False))
    assert _seen(module, module(torch.randn(4, 8)).sum()) == ("", "")


def test_a_graph_that_is_too_large_names_no_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    module = Deep(lambda _, x: x / 0.0)
    loss = module(torch.randn(4, 8)).sum()
    monkeypatch.setattr(origins, "MOST_NODES", 5)
    assert origins.first_seen(loss.grad_fn) == origins.NONE


def test_rows_are_named_of_inputs_that_no_parameter_made() -> None:
    def rows(layers: nn.Module, x: Any) -> str:
        return origins.first_seen(layers(x).sum().grad_fn)[2]

    deep = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 1))
    bad = torch.randn(4, 8)
    bad[2, 3] = math.inf
    assert rows(deep, bad) == "1 value of [4, 8], first in row 2"
    assert rows(Deep(lambda m, x: m.bare(x / 0.0)), torch.randn(4, 8)) == ""


def test_a_layer_that_is_seen_is_not_kept_in_memory() -> None:
    module = Deep(lambda _, x: x / 0.0)
    _, found, _ = origins.first_seen(module(torch.randn(4, 8)).sum().grad_fn)
    assert found is not None
    del module
    gc.collect()
    assert found() is None


def test_the_classes_of_a_mean_cross_entropy() -> None:
    def classes(loss: Any) -> int:
        return loss_graphs.classes(loss.grad_fn)

    assert classes(F.cross_entropy(SCORES(X), CLASSES) / 4) == 5
    assert classes(F.cross_entropy(SCORES(X), CLASSES, reduction="sum")) == 0
    assert classes(F.cross_entropy(SCORES(X), CLASSES) + ONE(X).mean()) == 0


def test_a_training_on_probabilities_is_named_with_its_line(tmp_path: Path) -> None:
    module = model()
    with guarded(tmp_path):
        for x, y in batches(5):
            F.cross_entropy(module(x).softmax(-1).flatten(0, 1), y.flatten()).backward()
    assert alarms(tmp_path) == {("GRD029", "warn"): 3}


def test_a_training_on_logits_is_not(tmp_path: Path) -> None:
    module = model()
    with guarded(tmp_path):
        train(module, adamw(module), 5)
    assert alarms(tmp_path) == {}


def test_a_rate_that_is_too_high_is_the_cause_of_the_loss_that_is_not_finite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=5.0)
    with guarded(tmp_path):
        for _ in range(80):
            optimizer.zero_grad()
            F.mse_loss(module(X).squeeze(1), VALUES).backward()
            optimizer.step()
    assert ("GRD001", "fail") in alarms(tmp_path)
    assert "the steps are too long" in capsys.readouterr().err


@pytest.mark.parametrize(("rate", "cause"), [(5.0, "diverged"), (0.01, "derivative")])
def test_a_deep_model_diverges_in_three_steps(rate: float, cause: str, tmp_path: Path) -> None:
    """With the small rate the derivative of the norm at 0 is the only thing that is not finite."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    with guarded(tmp_path):
        for number in range(20):
            optimizer.zero_grad()
            loss = F.mse_loss(module(3 * X).squeeze(1), VALUES)
            if number == 10:
                loss = loss + (module(X) * 0.0).pow(0.5).sum()
            loss.backward()
            optimizer.step()
    causes = [record["cause"] for record in records(tmp_path, "alarm")]
    assert set(causes) == {cause}


@pytest.mark.parametrize(
    ("scale", "rate"),
    [
        ([0.0, 0.0, 0.0, 0.0], 0.1),  # a margin that is kept, then sqrt at 0
        ([1.0, 30.0, 900.0, math.nan], 1e-9),  # inputs that grow, then one that is NaN
    ],
)
def test_what_does_not_come_from_steps_is_no_divergence(
    scale: list[float], rate: float, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=rate)
    with guarded(tmp_path):
        for number, factor in enumerate(scale):
            optimizer.zero_grad()
            loss = (factor * module(X)).pow(2).mean()
            (loss.sqrt() if number == 3 else loss).backward()
            optimizer.step()
    causes = {each["cause"] for each in records(tmp_path, "alarm")}
    assert causes
    assert "diverged" not in causes


@pytest.mark.parametrize(("sign", "cause"), [(-1.0, "unbounded"), (1.0, "diverged")])
def test_a_term_of_the_wrong_sign_is_no_rate_that_is_too_high(
    sign: float, cause: str, tmp_path: Path
) -> None:
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=5.0)
    with guarded(tmp_path):
        for _ in range(80):
            optimizer.zero_grad()
            (sign * F.mse_loss(module(X).squeeze(1), VALUES)).backward()
            optimizer.step()
    causes = {each["cause"] for each in records(tmp_path, "alarm") if each["code"] == "GRD001"}
    assert causes == {cause}


@pytest.mark.parametrize(("least", "cause"), [(-1.0, "undefined"), (0.5, None)])
def test_a_logarithm_below_0_whose_gradients_are_finite(
    least: float, cause: str | None, tmp_path: Path
) -> None:
    module = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-6)
    with guarded(tmp_path):
        for _ in range(8):
            optimizer.zero_grad()
            module(X).square().add(least).log().mean().backward()
            optimizer.step()
    causes = {each["cause"] for each in records(tmp_path, "alarm") if each["code"] == "GRD001"}
    assert causes == ({cause} if cause else set())


@pytest.mark.parametrize(("clears", "cause"), [(False, "uncleared"), (True, "diverged")])
def test_gradients_that_add_up_are_the_cause_of_a_divergence(
    clears: bool, cause: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=1.0)
    x = 1.5 * torch.randn(16, 8)
    with guarded(tmp_path):
        for _ in range(400):
            if clears:
                optimizer.zero_grad()
            F.mse_loss(module(x).squeeze(1), VALUES).backward()
            optimizer.step()
    causes = {each["cause"] for each in records(tmp_path, "alarm") if each["code"] == "GRD001"}
    assert causes == {cause}


@pytest.mark.parametrize(
    ("dtype", "eps", "cause"),
    [(torch.float16, 1e-8, "half"), (torch.float16, 1e-4, None), (torch.bfloat16, 1e-8, None)],
)
def test_an_eps_that_is_0_in_float16_divides_by_0(
    dtype: Any, eps: float, cause: str | None, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 5)).to(dtype)
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3, eps=eps)
    with guarded(tmp_path):
        for _ in range(12):
            optimizer.zero_grad()
            F.cross_entropy(module(X.to(dtype)), CLASSES).backward()
            optimizer.step()
    found = {(each["code"], each["cause"]) for each in records(tmp_path, "alarm")}
    expected = {("GRD001", cause), ("GRD002", cause)} if cause else set()
    assert found - {(code, why) for code, why in found if code == "GRD008"} == expected


def test_weights_of_16_bits_that_rarely_move_are_not_put_back(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(512, 16)
    y = (x @ torch.randn(16, 5)).argmax(1)
    module = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5)).to(torch.bfloat16)
    optimizer = torch.optim.SGD(module.parameters(), lr=1e-4)
    with guarded(tmp_path):
        for _ in range(60):
            rows = torch.randint(0, 512, (32,))
            optimizer.zero_grad()
            F.cross_entropy(module(x[rows].bfloat16()), y[rows]).backward()
            optimizer.step()
    assert ("GRD007", "fail") not in alarms(tmp_path)


@pytest.mark.parametrize("expected", [False, True])
def test_a_jump_with_data_that_the_model_collects_anew_is_a_note(expected: bool) -> None:
    found: list[Alarm] = []
    jumps = Jumps(lambda alarm, watch: found.append(alarm))
    jumps.expected = expected
    jumps.wait(Alarm("GRD014", "warn", 200, "the loss is 4"), None)
    jumps.close()
    assert [each.status for each in found] == ["note" if expected else "warn"]


@pytest.mark.parametrize(("sizes", "count"), [((8, 8), 1), ((8, 64), 0)])
def test_a_jump_with_longer_batches_is_none(sizes: tuple[int, int], count: int) -> None:
    found: list[Alarm] = []
    jumps = Jumps(lambda alarm, watch: found.append(alarm))
    for number in range(1, 201):
        jumps.passes(torch.randn(sizes[0], 3, requires_grad=True).exp().sum().grad_fn, number)
    jumps.wait(Alarm("GRD014", WARN, 200, "jumped"), None)
    jumps.passes(torch.randn(sizes[1], 3, requires_grad=True).exp().sum().grad_fn, 201)
    assert len(found) == count


def test_a_jump_at_the_end_is_reported() -> None:
    found: list[Alarm] = []
    jumps = Jumps(lambda alarm, watch: found.append(alarm))
    jumps.wait(Alarm("GRD014", WARN, 200, "jumped"), None)
    jumps.close()
    assert len(found) == 1


def classifier(rate: float, tmp_path: Path) -> dict[Any, int]:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 5))
    optimizer = adamw(module, lr=rate)
    with guarded(tmp_path):
        for _ in range(320):
            x = torch.randn(16, 8)
            optimizer.zero_grad()
            F.cross_entropy(module(x), x[:, :5].argmax(1)).backward()
            optimizer.step()
    return dict(alarms(tmp_path))


@pytest.mark.parametrize(("rate", "code"), [(1e-7, "GRD015"), (1e-2, ""), (30.0, "GRD015")])
def test_a_classifier_that_learns_nothing_by_its_rate(
    rate: float, code: str, tmp_path: Path
) -> None:
    found = {each for each, _ in classifier(rate, tmp_path)}
    assert (code in found) if code else not found
