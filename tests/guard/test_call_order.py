"""The order of backward(), clipping, clearing and step(), and what is kept of them."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.utils.data import DataLoader, TensorDataset  # noqa: E402, TID253
from trainings import adamw, alarms, batches, guarded, loss_of, model, train  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def norm(parameters: Any, most: float) -> None:
    torch.nn.utils.clip_grad_norm_(parameters, most)


def value(parameters: Any, most: float) -> None:
    torch.nn.utils.clip_grad_value_(parameters, most)


def clipped(clip: Callable[[Any], None], order: str, steps: int = 30, **options: Any) -> None:
    """A loop whose order is written in letters: zero, backward, clip, step."""
    module = model()
    optimizer = adamw(module, **options)
    data = itertools.cycle(batches(8))
    for _, letter in itertools.product(range(steps), order):
        if letter == "z":
            optimizer.zero_grad()
        elif letter == "b":
            loss_of(module, *next(data)).backward()
        elif letter == "c":
            clip(list(module.parameters()))
        else:
            optimizer.step()


def clipped_while_frozen(listed: Callable[[Any], Any]) -> None:
    """The first of two parts waits for 12 steps, in the optimizer, and is clipped by itself."""
    parts = model(), model()
    optimizer = adamw(torch.nn.ModuleList(parts))
    for step, (x, y) in enumerate(batches(30)):
        parts[0].requires_grad_(step >= 12)
        optimizer.zero_grad()
        sum(loss_of(each, x, y) for each in parts).backward()
        norm(list(listed(parts[0].parameters())), 1.0)
        optimizer.step()


def two_optimizers() -> None:
    """One backward pass, and each part is clipped right before its own step."""
    modules = [model(), model()]
    optimizers = [adamw(each) for each in modules]
    for x, y in batches(30):
        sum(loss_of(each, x, y) for each in modules).backward()
        for each, optimizer in zip(modules, optimizers, strict=True):
            norm(each.parameters(), 1e-3)
            optimizer.step()
            optimizer.zero_grad()


def scaled(
    clip: Callable[[Any, float], None], unscale: bool = False, steps: int = 20, scale: float = 65536
) -> None:
    module = model()
    optimizer = adamw(module)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for x, y in batches(steps):
        optimizer.zero_grad()
        scaler.scale(loss_of(module, x, y)).backward()
        if unscale:
            scaler.unscale_(optimizer)
        clip(module.parameters(), scaler.get_scale())
        scaler.step(optimizer)
        scaler.update()


def scale_divided_by_hand() -> None:
    module = model()
    optimizer = adamw(module)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches(20):
        optimizer.zero_grad()
        scaler.scale(loss_of(module, x, y)).backward()
        for parameter in module.parameters():
            parameter.grad.div_(scaler.get_scale())
        norm(module.parameters(), 1e-3)
        optimizer.step()


def scaled_beside_another() -> None:
    """A fused optimizer divides by the scale itself; the other one has no scaler."""
    scaled_one, other = model(), model()
    fused, plain = adamw(scaled_one, fused=True), adamw(other)
    scaler = torch.amp.GradScaler("cpu")
    for x, y in batches(20):
        fused.zero_grad()
        scaler.scale(loss_of(scaled_one, x, y)).backward()
        scaler.step(fused)
        scaler.update()
        plain.zero_grad()
        loss_of(other, x, y).backward()
        norm(other.parameters(), 1e-3)
        plain.step()


def state_of_a_hook(directory: Path) -> None:
    """A state dict that a hook of the model made anew, as a plain dict."""
    module = model()
    module._register_state_dict_hook(lambda _, state, *__: dict(state))
    for _ in range(2):
        train(module, adamw(module), 5)
        torch.save(module.state_dict(), directory / "last.pt")


def random_with_mask(loader: Any) -> Iterator[Any]:
    masked = DataLoader(
        [(torch.ones(4), *row) for row in loader.dataset], batch_size=4, shuffle=True
    )
    while True:
        _, x, y = next(iter(masked))
        yield x, y


def zeroed_by_hand(to_none: bool) -> None:
    module = model()
    optimizer = adamw(module)
    for x, y in batches(30):
        loss_of(module, x, y).backward()
        module.zero_grad(set_to_none=to_none)
        optimizer.step()


def summed(keep: Callable[[list[Any], Any], None], steps: int = 70, factor: float = 1.0) -> None:
    kept: list[Any] = []
    module = model()
    optimizer = adamw(module)
    for x, y in batches(steps):
        loss = loss_of(module, x, y)
        (loss * factor if factor != 1.0 else loss).backward()
        optimizer.step()
        optimizer.zero_grad()
        keep(kept, loss)


def running_sum(kept: list[Any], loss: Any) -> None:
    kept[:] = [kept[0] + loss if kept else loss]


def last_losses(kept: list[Any], loss: Any) -> None:
    kept[:] = [*kept, loss][-10:]


def of_the_best(take: Callable[[Any], Any], use: Callable[[Any, Any], None]) -> None:
    module = model()
    train(module, adamw(module), 5)
    best = take(module)
    train(module, adamw(module), 20)
    use(module, best)


def to_a_file(directory: Path) -> Callable[[Any, Any], None]:
    return lambda module, state: torch.save({"model": state, "epoch": 1}, directory / "best.pt")


def saved_again_and_again(directory: Path) -> None:
    """One dict that follows the weights on purpose."""
    module = model()
    optimizer = adamw(module)
    train(module, optimizer, 5)
    live = {"model": module.state_dict()}
    for number in range(3):
        train(module, optimizer, 5)
        torch.save(live, directory / f"{number}.pt")


def synchronized(copied: bool, steps: int = 40) -> None:
    """A target network that gets the weights of the network every ten steps."""
    network = model()
    target = copy.deepcopy(network) if copied else network
    optimizer = adamw(network)
    for _ in range(steps // 10):
        train(network, optimizer, 10)
        target.load_state_dict(network.state_dict())


def stepped_directly(by_hand: bool = False, scale: float = 1024.0, steps: int = 8) -> None:
    """The loss is scaled, and the optimizer steps without the scaler."""
    module = model()
    optimizer = adamw(module)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    for x, y in batches(steps):
        optimizer.zero_grad()
        scaler.scale(loss_of(module, x, y)).backward()
        if by_hand:
            for parameter in module.parameters():
                parameter.grad /= scaler.get_scale()
        optimizer.step()


def of_folds(anew: bool) -> None:
    """A new model for each fold, and one optimizer, or one for each."""
    module = model()
    optimizer = adamw(module)
    for _ in range(2):
        for x, y in batches(60):
            optimizer.zero_grad()
            loss_of(module, x, y).backward()
            optimizer.step()
            module.zero_grad()
            loss_of(module, x, y).backward()
        module = model()
        optimizer = adamw(module) if anew else optimizer


def at_once(directory: Path) -> None:
    """Taken and saved at the same step, and one dict of the start that is saved again."""
    module = model()
    start = {"model": module.state_dict()}
    for _ in range(3):
        train(module, adamw(module), 5)
        torch.save(module.state_dict(), directory / "last.pt")
        torch.save(start, directory / "state.pt")


def fetched(rows: Callable[[Any], Iterator[Any]], steps: int = 40, **options: Any) -> None:
    pairs = list(batches(16))
    data = TensorDataset(torch.cat([x for x, _ in pairs]), torch.cat([y for _, y in pairs]))
    loader = DataLoader(data, **({"batch_size": 4} | options))
    module = model()
    optimizer = adamw(module)
    for x, y in itertools.islice(rows(loader), steps):
        optimizer.zero_grad()
        loss_of(module, x, y).backward()
        optimizer.step()


def first_of_each(loader: Any) -> Iterator[Any]:
    while True:
        yield next(iter(loader))


def first_of_an_epoch(loader: Any) -> Iterator[Any]:
    while True:
        for batch in loader:
            yield batch
            break


def whole(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


def one_for_all(loader: Any) -> Iterator[Any]:
    yield from itertools.repeat(next(iter(loader)))


def beside_a_probe(loader: Any) -> Iterator[Any]:
    probe = DataLoader(loader.dataset, batch_size=8)
    for batch in whole(loader):
        with torch.no_grad():
            next(iter(probe))
        yield batch


def sub_batches(loader: Any) -> Iterator[Any]:
    for batch in first_of_each(loader):
        yield batch
        next(iter(DataLoader(loader.dataset, batch_size=2)))


CLIPPING, KEPT, ADVANCES = ("GRD026", "warn"), ("GRD027", "warn"), ("GRD028", "warn")
PROGRAMS: dict[str, tuple[Callable[[Path], None], set[tuple[str, str]]]] = {
    "clipped after step": (lambda _: clipped(lambda p: norm(p, 1e-3), "zbsc"), {CLIPPING}),
    "clipped before backward": (lambda _: clipped(lambda p: norm(p, 1.0), "zcbs"), {CLIPPING}),
    "clipped by value after step": (
        lambda _: clipped(lambda p: value(p, 1e-3), "bscz"),
        {CLIPPING},
    ),
    "accumulated, clipped late": (lambda _: clipped(lambda p: norm(p, 1e-3), "zbbsc"), {CLIPPING}),
    "clips what is used up": (
        lambda _: clipped(lambda p: norm(iter([]), 1e-3), "zbcs"),
        {CLIPPING},
    ),
    "clips a frozen part": (lambda _: clipped_while_frozen(iter), set()),
    "clips what is not frozen of a part": (
        lambda _: clipped_while_frozen(lambda p: [each for each in p if each.requires_grad]),
        set(),
    ),
    "clips a part without gradients first": (
        lambda _: clipped(
            lambda p: (norm([torch.ones(1, requires_grad=True)], 1.0), norm(p, 1.0)), "zbcs"
        ),
        set(),
    ),
    "clipped in time": (lambda _: clipped(lambda p: norm(p, 1e-3), "zbcs"), set()),
    "norm logged after step": (lambda _: clipped(lambda p: norm(p, torch.inf), "zbsc"), set()),
    "far below the limit": (lambda _: clipped(lambda p: norm(p, 1e6), "zbsc"), set()),
    "each pass clipped": (lambda _: clipped(lambda p: norm(p, 1e-3), "zbcbcs"), set()),
    "two optimizers": (lambda _: two_optimizers(), set()),
    "clipped while scaled": (lambda _: scaled(lambda p, _: norm(p, 1.0)), {CLIPPING}),
    "by value while scaled": (lambda _: scaled(lambda p, _: value(p, 0.5)), {CLIPPING}),
    "unscaled first": (lambda _: scaled(lambda p, _: norm(p, 1.0), unscale=True), set()),
    "a limit times the scale": (lambda _: scaled(lambda p, s: norm(p, 1e-2 * s)), set()),
    "a scale of 1": (lambda _: scaled(lambda p, _: norm(p, 1e-3), scale=1.0), set()),
    "the scale divided by hand": (lambda _: scale_divided_by_hand(), set()),
    "scaled beside another": (lambda _: scaled_beside_another(), set()),
    "a state dict of a hook": (state_of_a_hook, set()),
    "random rows with equal masks": (lambda _: fetched(random_with_mask), set()),
    "cleared before step": (lambda _: zeroed_by_hand(True), {("GRD003", "fail")}),
    "zeroed before step": (
        lambda _: zeroed_by_hand(False),
        {("GRD004", "warn"), ("GRD004", "fail")},
    ),
    "losses summed": (lambda _: summed(running_sum), {("GRD019", "warn")}),
    "losses in a list": (lambda _: summed(list.append), {("GRD019", "warn")}),
    "summed before it is divided": (
        lambda _: summed(running_sum, factor=0.25),
        {("GRD019", "warn")},
    ),
    "detached": (lambda _: summed(lambda kept, loss: kept.append(loss.detach())), set()),
    "the last ten losses": (lambda _: summed(last_losses), set()),
    "best saved at the end": (
        lambda path: of_the_best(lambda m: m.state_dict(), to_a_file(path)),
        {KEPT},
    ),
    "best loaded at the end": (
        lambda _: of_the_best(lambda m: m.state_dict(), lambda m, s: m.load_state_dict(s)),
        {KEPT},
    ),
    "best copied": (
        lambda path: of_the_best(lambda m: copy.deepcopy(m.state_dict()), to_a_file(path)),
        set(),
    ),
    "a copied model": (
        lambda path: of_the_best(lambda m: copy.deepcopy(m).state_dict(), to_a_file(path)),
        set(),
    ),
    "saved at once": (at_once, set()),
    "saved again and again": (saved_again_and_again, set()),
    "a target that is the network": (lambda _: synchronized(copied=False), {KEPT}),
    "a target that is a copy": (lambda _: synchronized(copied=True), set()),
    "stepped without the scaler": (lambda _: stepped_directly(), {("GRD010", "warn")}),
    "divided by hand": (lambda _: stepped_directly(by_hand=True), set()),
    "a scale of 1, no scaler's step": (lambda _: stepped_directly(scale=1.0), set()),
    "an optimizer for each fold": (lambda _: of_folds(anew=True), set()),
    "first batch of each": (lambda _: fetched(first_of_each), {ADVANCES}),
    "first batch of each, indices": (
        lambda _: fetched(first_of_each, batch_size=None, sampler=[[0, 1], [2, 3], [4, 5]]),
        {ADVANCES},
    ),
    "a random batch of each": (lambda _: fetched(first_of_each, shuffle=True), set()),
    "one batch a loader": (lambda _: fetched(first_of_each, batch_size=64), set()),
    "the first of an epoch on purpose": (lambda _: fetched(first_of_an_epoch), set()),
    "overfitting one batch": (lambda _: fetched(one_for_all), set()),
    "whole epochs": (lambda _: fetched(whole), set()),
    "beside a probe": (lambda _: fetched(beside_a_probe), set()),
    "another loader between": (lambda _: fetched(sub_batches), set()),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_what_the_order_of_calls_shows(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, expected = PROGRAMS[program]
    with guarded(tmp_path):
        run(tmp_path)
    assert "switched itself off" not in capsys.readouterr().err
    assert set(alarms(tmp_path)) == expected


def test_a_place_is_the_programs_own(tmp_path: Path) -> None:
    with guarded(tmp_path):
        clipped(lambda p: norm(p, 1e-3), "zbsc")
    text = (tmp_path / "rank0.jsonl").read_text() if (tmp_path / "rank0.jsonl").exists() else ""
    text = text or "".join(path.read_text() for path in tmp_path.glob("*.jsonl"))
    assert "(test_call_order.py, line " in text


def test_the_model_that_replaced_the_optimizers_is_named(tmp_path: Path) -> None:
    with guarded(tmp_path):
        of_folds(anew=False)
    text = "".join(path.read_text() for path in tmp_path.glob("*.jsonl"))
    assert "other-model" in text
    assert "which no optimizer holds" in text
