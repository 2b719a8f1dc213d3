"""The guard on real trainings in this process: it changes nothing, and names what goes wrong."""

from __future__ import annotations

import copy
import gc
import math
import os
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from trainings import adamw, alarms, batches, guarded, loss_of, model, records, train  # noqa: E402

import doctor.guard  # noqa: E402
from doctor.collect.guard_records import read_records  # noqa: E402
from doctor.facts.guard import Guarded  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


def run(out: Path, prepare: Any, **settings: Any) -> dict[tuple[str, str], int]:
    with guarded(out, **settings):
        prepare()
    (end,) = records(out, "end")
    assert end["how"] == "exit"
    return alarms(out)


def scaled(module: Any, steps: int, factor: float = 1.0, **options: Any) -> None:
    optimizer = adamw(module, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for x, y in batches(steps):
        scaler.scale(loss_of(module, x, y) * factor).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def with_closure(optimizer: Any, module: Any, steps: int) -> None:
    for x, y in batches(steps):

        def closure(x: Any = x, y: Any = y) -> Any:
            optimizer.zero_grad()
            loss = loss_of(module, x, y)
            loss.backward()
            return loss

        optimizer.step(closure)


def frozen_by_rate(module: Any) -> Any:
    vectors = [p for p in module.parameters() if p.dim() == 1]
    others = [p for p in module.parameters() if p.dim() > 1]
    return torch.optim.AdamW([{"params": vectors, "lr": 0.0}, {"params": others}], lr=1e-3)


class CallsSuper(torch.optim.AdamW):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class SilentAdam(torch.optim.AdamW):
    """Updates nothing for five steps, as schedule-free RAdam does."""

    def step(self, closure: Any = None) -> Any:
        self.calls = getattr(self, "calls", 0) + 1
        return super().step(closure) if self.calls > 5 else None


def waits_for_its_critic(m: Any) -> None:
    critic = model()
    policy, other = adamw(m, 0.0), adamw(critic)
    for step, (x, y) in enumerate(batches(40)):
        policy.param_groups[0]["lr"] = 1e-3 if step > 8 else 0.0
        for module, optimizer in ((critic, other), (m, policy)):
            loss_of(module, x, y).backward()
            optimizer.step()
            optimizer.zero_grad()


def leaves_out(m: Any) -> None:
    """A step whose gradients overflow in fp32, which the optimizer leaves out by itself."""

    class Careful(torch.optim.AdamW):
        def step(self, closure: Any = None) -> Any:
            grads = [p.grad for group in self.param_groups for p in group["params"]]
            return super().step(closure) if all(g.isfinite().all() for g in grads) else None

    def poison(step: int) -> None:
        if step == 7:
            m[2].weight.grad[0, 0] = math.inf

    train(m, Careful(m.parameters(), lr=1e-3), before_step=poison)


def huge_gradients(m: Any) -> None:
    """Finite gradients whose norm overflows in fp32."""

    def scale(step: int) -> None:
        if step == 7:
            for parameter in m.parameters():
                parameter.grad.fill_(5e18)

    train(m, adamw(m), before_step=scale)


def gradients_written_by_hand(m: Any) -> None:
    optimizer = adamw(m)
    parameters = list(m.parameters())
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    for x, y in batches(40):
        gradients = torch.autograd.grad(loss_of(m, x, y), parameters)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad.data.copy_(gradient)
        optimizer.step()


HEALTHY = {
    "silent first steps": lambda m: train(m, SilentAdam(m.parameters(), lr=1e-3), 40),
    "a rate that waits for another optimizer": waits_for_its_critic,
    "a step that the optimizer leaves out": leaves_out,
    "a norm that overflows": huge_gradients,
    "a margin that is reached": lambda m: train(
        m, adamw(m), 19, change=lambda n, loss: loss * (n < 3)
    ),
    "adamw": lambda m: train(m, adamw(m), 120),
    "adamw, clipped": lambda m: train(m, adamw(m), 120, clip=True),
    "fused": lambda m: train(m, adamw(m, fused=True)),
    "sgd": lambda m: train(m, torch.optim.SGD(m.parameters(), lr=1e-2), 120),
    "a subclass that calls super": lambda m: train(m, CallsSuper(m.parameters(), lr=1e-3)),
    "lbfgs": lambda m: with_closure(torch.optim.LBFGS(m.parameters(), lr=0.01), m, 12),
    "a closure": lambda m: with_closure(adamw(m), m, 30),
    "loss scaler": lambda m: scaled(m, 60),
    "loss scaler, fused": lambda m: scaled(m, 60, fused=True),
    "norms frozen by a rate of 0": lambda m: train(m, frozen_by_rate(m), 120),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_a_healthy_training_raises_no_alarm(name: str, tmp_path: Path) -> None:
    assert run(tmp_path, lambda: HEALTHY[name](model()), all=True) == {}
    (state,) = records(tmp_path, "state")[-1:]
    assert state["losses"] >= state["steps"] > 0
    assert state["norms"] == state["steps"]
    assert state["moved"] > 0


def test_gradients_that_are_written_through_data_are_new_ones(tmp_path: Path) -> None:
    assert run(tmp_path, lambda: gradients_written_by_hand(model())) == {}


def test_the_weights_of_a_model_with_many_parameters_are_all_read(tmp_path: Path) -> None:
    parameters = [torch.nn.Parameter(torch.ones(2)) for _ in range(2200)]

    def train_many() -> None:
        optimizer = torch.optim.SGD(parameters, lr=1e-3)
        for step in range(8):
            sum(p.sum() for p in parameters).backward()
            if step == 4:
                parameters[2100].grad[0] = math.nan
            optimizer.step()
            optimizer.zero_grad()

    assert run(tmp_path, train_many, all=True)["GRD002", "fail"] >= 5


def other_copy(m: Any) -> None:
    train(m, adamw(copy.deepcopy(m)))


def undone(m: Any) -> None:
    start = copy.deepcopy(m.state_dict())
    optimizer = adamw(m)
    optimizer.register_step_post_hook(lambda *arguments: m.load_state_dict(start))
    train(m, optimizer)


def schedule_ends(m: Any) -> None:
    optimizer = adamw(m)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / 20))
    for x, y in batches(40):
        loss_of(m, x, y).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()


def zero_that_stays(m: Any) -> None:
    with torch.no_grad():
        m[2].bias.zero_()
    optimizer = adamw(m)
    optimizer.register_step_post_hook(lambda *arguments: m[2].bias.data.zero_())
    train(m, optimizer)


def unused_module(m: Any) -> None:
    m.unused = torch.nn.Linear(2, 2)
    parameters = list(m.parameters())
    del m._modules["unused"]
    train(m, torch.optim.AdamW(parameters, lr=1e-3), 110)


def infinite_gradient(m: Any) -> None:
    def poison(step: int) -> None:
        if step == 5:
            m[2].weight.grad[0, 0] = math.inf

    train(m, adamw(m), before_step=poison)


def infinite_state(m: Any) -> None:
    """Finite gradients whose squares overflow: Adam never moves these weights again."""

    def scale(step: int) -> None:
        if step == 5:
            m[2].weight.grad.fill_(1e25)

    train(m, adamw(m), before_step=scale)


def fewer_steps(m: Any) -> None:
    optimizer = adamw(m)
    for step, (x, y) in enumerate(batches(1030)):
        loss_of(m, x, y).backward()
        if step < 10:
            optimizer.step()
        optimizer.zero_grad()


def zero_gradients(m: Any) -> None:
    for parameter in m.parameters():
        parameter.grad.zero_()


def step_twice(m: Any) -> None:
    optimizer = adamw(m)
    for x, y in batches(60):
        loss_of(m, x, y).backward()
        optimizer.step()
        optimizer.step()
        optimizer.zero_grad()


def with_rates(m: Any, rate_at: Any, steps: int = 90) -> None:
    optimizer = adamw(m)

    def set_rate(step: int) -> None:
        optimizer.param_groups[0]["lr"] = rate_at(step)

    train(m, optimizer, steps, before_step=set_rate)


def negative_rate(m: Any) -> None:
    with_rates(m, lambda step: 1e-3 * (1 - step / 30.5))


def rate_jumps(m: Any) -> None:
    with_rates(m, lambda step: 1e-4 if step < 30 else 5e-5 if step < 61 else 1e-2)


def nan_at(step: int) -> Any:
    return lambda number, loss: loss * math.nan if number == step else loss


FAULTS = {
    "NaN loss": (lambda m: train(m, adamw(m), change=nan_at(8)), "GRD001", "fail", 8),
    "Inf in Adam's state": (infinite_state, "GRD002", "fail", 5),
    "Inf gradient": (infinite_gradient, "GRD002", "fail", 5),
    "optimizer of a copy": (other_copy, "GRD003", "fail", 3),
    "loss times 0": (
        lambda m: train(m, adamw(m), change=lambda n, loss: loss * 0), "GRD004", "warn", 20),
    "a loss that no parameter reaches": (
        lambda m: train(m, adamw(m), change=lambda n, loss: loss * 0 + 2), "GRD004", "fail", 20),
    "clipped to 0": (
        lambda m: train(m, adamw(m), clip=True, before_step=lambda step: zero_gradients(m)),
        "GRD004", "fail", 20),
    "a step twice": (step_twice, "GRD012", "warn", 18),
    "a negative rate": (negative_rate, "GRD006", "fail", 31),
    "a rate that jumps": (rate_jumps, "GRD006", "warn", 61),
    "pure bf16": (
        lambda m: train(m.bfloat16(), adamw(m, 3e-4), 30), "GRD005", "fail", 20),
    "rate 0": (lambda m: train(m, adamw(m, 0.0)), "GRD006", "fail", 10),
    "schedule ends": (schedule_ends, "GRD006", "fail", 40),
    "steps undone": (undone, "GRD007", "fail", 20),
    "bf16 without masters": (
        lambda m: train(m.bfloat16(), adamw(m), 3), "GRD008", "warn", 1),
    "no labels": (
        lambda m: train(m, adamw(m), change=lambda n, loss: loss * 0 + 0 * loss.detach() / 0),
        "GRD009", "fail", 3),
    "scale collapses": (lambda m: scaled(m, 40, math.inf), "GRD010", "fail", 17),
    "scale collapses, fused": (
        lambda m: scaled(m, 40, math.inf, fused=True), "GRD010", "fail", 17),
    "every step skipped": (lambda m: scaled(m, 40, math.inf), "GRD011", "fail", 30),
    "steps stop": (fewer_steps, "GRD011", "warn", 10),
    "never cleared": (lambda m: train(m, adamw(m), clear=False), "GRD012", "warn", 6),
    "never cleared, clipped": (
        lambda m: train(m, adamw(m), clear=False, clip=True), "GRD012", "warn", 6),
    "a bias stays 0": (zero_that_stays, "GRD013", "fail", 20),
    "an unused module": (unused_module, "GRD016", "warn", 100),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_step(name: str, tmp_path: Path) -> None:
    prepare, code, status, step = FAULTS[name]
    assert run(tmp_path, lambda: prepare(model())).get((code, status)) == step


def trained(guard: bool, out: Path, **options: Any) -> tuple[list[float], list[Any], Any]:
    """Losses, weights and the state of the random numbers afterwards."""
    torch.manual_seed(3)
    module = model()
    drop = torch.nn.Dropout(0.2)
    module[1].register_forward_hook(lambda m, a, value: drop(value))
    optimizer = adamw(module, **options)
    if guard:
        with guarded(out, all=True):
            losses = train(module, optimizer, 60, clip=True)
    else:
        losses = train(module, optimizer, 60, clip=True)
    return losses, [p.detach().clone() for p in module.parameters()], torch.get_rng_state()


@pytest.mark.parametrize("options", [{}, {"fused": True}, {"foreach": False}])
def test_losses_weights_and_random_numbers_are_bit_identical(
    options: dict[str, Any], tmp_path: Path
) -> None:
    plain, under = trained(False, tmp_path, **options), trained(True, tmp_path, **options)
    assert plain[0] == under[0]
    assert all(torch.equal(a, b) for a, b in zip(plain[1], under[1], strict=True))
    assert torch.equal(plain[2], under[2])
    assert len(records(tmp_path, "step")) == 60


def attributes() -> list[Any]:
    clip = torch.nn.utils.clip_grad
    loader = torch.utils.data.dataloader._BaseDataLoaderIter
    scaler = torch.amp.GradScaler
    module = sys.modules["torch.optim.optimizer"]
    return [
        torch.autograd.backward, clip._get_total_norm, loader.__next__, loader._next_index,
        scaler.step, scaler.update, scaler.scale, dict(module._global_optimizer_pre_hooks),
        dict(module._global_optimizer_post_hooks), vars(torch).get("_doctor_guard_session"),
    ]  # fmt: skip


def test_closing_restores_every_attribute(tmp_path: Path) -> None:
    before = attributes()
    with guarded(tmp_path):
        assert attributes() != before
        train(model(), adamw(model()), 3)
    assert attributes() == before


def test_an_attribute_that_somebody_else_replaced_is_left_alone(tmp_path: Path) -> None:
    original = torch.autograd.backward
    try:
        with guarded(tmp_path):
            ours = torch.autograd.backward

            def other(*arguments: Any, **options: Any) -> Any:
                return ours(*arguments, **options)

            torch.autograd.backward = other
        assert torch.autograd.backward is other
        module = model()
        train(module, adamw(module), 2)  # the guard below it is off and passes through
    finally:
        torch.autograd.backward = original


def test_a_program_that_replaces_the_step_of_an_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = torch.optim.AdamW.step
    calls = []

    def step(self: Any, closure: Any = None) -> Any:
        calls.append(self)
        return original(self, closure)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    with guarded(tmp_path / "calls"):
        module = model()
        train(module, adamw(module), 12, change=nan_at(3))
    assert alarms(tmp_path / "calls")["GRD001", "fail"] == 3
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self, closure=None: None)
    with guarded(tmp_path / "never"):
        module = model()
        optimizer = adamw(module)
        optimizer.step = lambda: None  # no hook of torch is called
        train(module, optimizer, 5)
    observed = read_records(tmp_path / "never")
    assert not isinstance(observed, Guarded)
    assert "5 backward passes" in observed.reason


def test_a_second_watch_is_the_first_one(tmp_path: Path) -> None:
    with guarded(tmp_path / "a") as first:
        second = doctor.guard.watch(out=str(tmp_path / "b"))
        module = model()
        train(module, adamw(module), change=nan_at(2))
        assert first.alarms == second.alarms == ("GRD001", "GRD002")
    assert not (tmp_path / "b").exists()


def test_a_bug_in_the_guard_disables_the_guard_with_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with guarded(tmp_path) as guard:
        watch = guard._session.watch
        module = model()
        optimizer = adamw(module)
        train(module, optimizer, 2)
        watch.judging.judge_step = lambda *arguments: 1 / 0
        losses = train(module, optimizer, 3)
    assert len(losses) == 3
    assert capsys.readouterr().err.count("switched itself off") == 1
    (end,) = records(tmp_path, "end")
    assert "ZeroDivisionError" in end["how"]


def test_records_that_cannot_be_written_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with guarded(tmp_path / "file" / "out"):
        module = model()
        train(module, adamw(module), change=nan_at(3))
    printed = capsys.readouterr().err
    assert printed.count("records cannot be written") == 1
    assert "GRD001 fail at step 3" in printed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_a_full_disk_ends_the_records_not_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with guarded(tmp_path) as guard:
        module = model()
        optimizer = adamw(module)
        train(module, optimizer, 1)
        writer = guard._session.watch.writer
        with open(writer._file.fileno(), "w", closefd=False):
            os.dup2(os.open("/dev/full", os.O_WRONLY), writer._file.fileno())
        train(module, optimizer, 20, change=nan_at(3))
    printed = capsys.readouterr().err
    assert printed.count("records cannot be written") == 1
    assert "GRD001" in printed


@pytest.mark.parametrize(
    ("poison", "word"),
    [
        ("weight", "4.weight"),
        ("gradient", "nearest to the loss: 2.weight"),
        ("loss", "forward pass"),
        ("batch", "the batch (0, row "),
    ],
)
def test_the_first_alarm_says_where_the_value_comes_from(
    poison: str, word: str, tmp_path: Path
) -> None:
    module = model()
    optimizer = adamw(module)
    rows = [(x.float(), y) for x, y in batches(5)]
    if poison == "weight":
        module[4].weight.data[0, 0] = math.nan
    if poison == "batch":
        rows[3][0][0, 0] = math.nan
    with guarded(tmp_path):
        loader = torch.utils.data.DataLoader(rows, batch_size=None)
        for step, (x, y) in enumerate(loader):
            loss = loss_of(module, x.nan_to_num().long(), y) + x.sum() * 0
            loss = loss * math.nan if poison == "loss" and step == 3 else loss
            loss.backward()
            if poison == "gradient" and step == 3:
                module[2].weight.grad[0, 0] = math.nan
            optimizer.step()
            optimizer.zero_grad()
    (origin,) = records(tmp_path, "origin")
    assert word in origin["text"]
    (last,) = records(tmp_path, "batches")
    batch = last["batches"][-1]
    assert batch["indices"] == ("0" if poison == "weight" else "3")
    assert batch["torch_rng"]


def test_names_come_from_the_model_and_expected_ones_raise_no_alarm(tmp_path: Path) -> None:
    module = model(torch.bfloat16)
    settings: dict[str, Any] = {"expect_no_grad": ("1.*",)}
    run(tmp_path, lambda: train(module, adamw(module), 5), **settings)
    named = [record for record in records(tmp_path, "alarm") if record["code"] == "GRD005"]
    assert named[0]["names"] == ["3.weight"]


def test_ignored_codes_raise_no_alarm(tmp_path: Path) -> None:
    module = model(torch.bfloat16)
    settings: dict[str, Any] = {"ignore": ("GRD005", "GRD008")}
    assert run(tmp_path, lambda: train(module, adamw(module), 5), **settings) == {}


def test_stop_raises_after_a_failure(tmp_path: Path) -> None:
    module = model()
    steps = []
    with guarded(tmp_path, stop=True), pytest.raises(doctor.guard.Stopped):
        train(module, adamw(module), change=nan_at(4), before_step=steps.append)
    assert steps == [1, 2, 3, 4]


def test_protect_omits_a_step_with_nan_gradients(tmp_path: Path) -> None:
    def poison(step: int) -> None:
        if step == 4:
            module[2].weight.grad[0, 0] = math.nan

    module = model()
    optimizer = adamw(module, fused=True)
    with guarded(tmp_path, protect=True):
        train(module, optimizer, 8, before_step=poison)
    assert all(p.isfinite().all() for p in module.parameters())
    assert not hasattr(optimizer, "found_inf")


def test_a_loop_without_torch_optimizers_reports_its_steps(tmp_path: Path) -> None:
    with doctor.guard.Guard(out=str(tmp_path)) as guard:
        for step in range(12):
            guard.step(math.nan if step == 6 else 2.0, learning_rate=0.0)
    assert alarms(tmp_path) == {("GRD001", "fail"): 7, ("GRD006", "fail"): 10}


def test_a_step_that_raises_does_not_end_the_watch(tmp_path: Path) -> None:
    module = model()
    broken, optimizer = adamw(module), adamw(module)
    broken.param_groups[0]["betas"] = None
    with guarded(tmp_path):
        loss_of(module, *next(batches(1))).backward()
        with pytest.raises(TypeError):
            broken.step()
        train(module, optimizer, 10)
    assert records(tmp_path, "state")[-1]["steps"] >= 10


def test_deleted_models_are_not_kept_alive(tmp_path: Path) -> None:
    import weakref

    with guarded(tmp_path):
        module = model()
        optimizer = adamw(module)
        train(module, optimizer, 12, change=nan_at(3))
        references = [weakref.ref(optimizer), weakref.ref(module[4].weight)]
        del module, optimizer
        gc.collect()
        assert [reference() for reference in references] == [None, None]


def test_a_million_steps_stay_below_20_megabytes(tmp_path: Path) -> None:
    from doctor.guard.records import Step
    from doctor.guard.writer import Writer, _every

    writer = Writer(str(tmp_path))
    writer.open(0, 1)
    step = Step(0, 1, losses=[math.pi], norm=math.e, rates=[1e-5])
    lines = sum(-(-(10**k * 900) // _every(10**k * 1000 - 1)) for k in range(4))
    writer.step(step, 65536.0, 1e5)
    writer.close()
    (path,) = tmp_path.glob("*.jsonl")
    assert lines * path.stat().st_size < 20e6


def test_torch_without_the_hooks_leaves_what_it_lacks_unknown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module_of_optimizers = sys.modules["torch.optim.optimizer"]
    monkeypatch.delattr(module_of_optimizers, "register_optimizer_step_pre_hook")
    monkeypatch.delattr(torch.nn.utils.clip_grad, "_get_total_norm")
    monkeypatch.delattr(torch, "_disable_dynamo")
    monkeypatch.delattr(torch.amp, "GradScaler")
    module = model()
    with guarded(tmp_path):
        for x, y in batches(5):
            loss_of(module, x, y).backward()
    observed = read_records(tmp_path)
    assert not isinstance(observed, Guarded)
    assert "5 backward passes" in observed.reason
