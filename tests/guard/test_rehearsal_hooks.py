"""What the hooks of a rehearsal record of loaders, collectives and generation, on real torch."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ROWS = torch.arange(10.0).reshape(10, 1)


@pytest.fixture
def watched(tmp_path: Path) -> Any:
    """An observer whose loaders are followed, as one backward pass for each batch says."""
    from doctor.guard.patches import Patches
    from doctor.guard.rehearsal.loaders import Loaders
    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    observer.passes = 0
    observer.loaders = Loaders(torch, observer, lambda: observer.passes)
    patches = Patches()
    observer.loaders.install(patches)
    yield observer
    patches.remove()
    observer.records.close()


def recorded(directory: Path) -> list[dict[str, Any]]:
    lines = [line for path in directory.glob("observed*") for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def train(observer: Any, loader: Any, *, skip: int = 0, ahead: bool = False) -> None:
    """A backward pass and a step for each batch; `ahead` fetches the next one before."""
    batches = list(loader) if ahead else loader
    for number, _ in enumerate(batches):
        if number >= skip:
            observer.passes += 1
            observer.step += 1
            observer.loaders.step(observer.step)


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # where one CPU is granted
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_samples_are_those_of_the_steps(watched: Any, tmp_path: Path, workers: int) -> None:
    loader = torch.utils.data.DataLoader(ROWS, batch_size=4, num_workers=workers)
    with torch.no_grad():
        list(loader)  # an evaluation
    train(watched, loader, skip=1)
    found = recorded(tmp_path)
    assert [each["samples"] for each in found if each["kind"] == "taken"] == [[4, 5, 6, 7], [8, 9]]
    assert [each["batches"] for each in found if each["kind"] == "loader"] == [3]
    assert [each["s"] for each in found if each["kind"] == "epoch"] == [2]


@pytest.mark.parametrize(
    ("sets", "shuffle", "distributed", "repeated"),
    [(False, True, True, 32), (True, True, True, 0), (False, False, True, 0),
     (False, True, False, 0)],
)  # fmt: skip
def test_two_epochs_of_a_distributed_sampler(
    watched: Any, tmp_path: Path, sets: bool, shuffle: bool, distributed: bool, repeated: int
) -> None:
    from doctor.collect.rehearsal import agreement, observation

    rows = torch.arange(64.0)
    sampler = torch.utils.data.DistributedSampler(rows, 2, 0, shuffle=shuffle)
    chosen = {"sampler": sampler} if distributed else {"shuffle": True}
    loader = torch.utils.data.DataLoader(rows, batch_size=4, **chosen)
    for epoch in range(2):
        if sets:
            sampler.set_epoch(epoch)
        train(watched, loader)
    watched.records.close()
    found = agreement.compare(observation.read_processes(tmp_path), cut=False)
    assert found.repeated == repeated


def test_a_stream_has_no_length_and_no_samples(watched: Any, tmp_path: Path) -> None:
    class Stream(torch.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Any:
            return iter(range(6))

    train(watched, torch.utils.data.DataLoader(Stream(), batch_size=2))
    found = recorded(tmp_path)
    assert [each["batches"] for each in found if each["kind"] == "loader"] == [None]
    assert not [each for each in found if each["kind"] == "taken"]


def test_an_error_of_a_signal_handler_is_the_programs_own(tmp_path: Path) -> None:
    """torch raises from its handler where a worker of a loader died: the hooks pass it on."""
    import os
    import signal

    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings

    def raises(number: int, frame: Any) -> None:
        raise RuntimeError("a worker died")

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    before = signal.signal(signal.SIGUSR2, raises)
    try:
        with pytest.raises(RuntimeError, match="a worker died"):
            observer.safely(lambda: os.kill(os.getpid(), signal.SIGUSR2))
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert observer.alive


def test_the_last_collective_is_kept(tmp_path: Path) -> None:
    from doctor.guard.rehearsal.collectives import Collectives

    def inner() -> None:
        raise ValueError("no process group")

    calls = Collectives(torch, str(tmp_path))
    assert calls._wrapped("barrier", lambda: 1)() == 1
    with pytest.raises(ValueError, match="no process group"):
        calls._wrapped("all_reduce", inner)()
    (path,) = tmp_path.iterdir()
    last = json.loads(path.read_text())
    assert (last["name"], last["number"], last["returned"]) == ("all_reduce", 2, False)
    assert "test_rehearsal_hooks.py:" in last["place"]


@pytest.mark.slow
def test_a_generation_is_one_call_whatever_its_tokens(watched: Any, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    from doctor.guard.patches import Patches

    patches = Patches()
    watched.evaluations.install(patches)
    config = transformers.GPT2Config(
        vocab_size=16, n_positions=16, n_embd=8, n_layer=1, n_head=1, eos_token_id=0, pad_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config)
    tokens = torch.ones(3, 2, dtype=torch.int64)
    try:
        model.train()
        model.generate(tokens, max_new_tokens=2, do_sample=False)  # nobody called eval()
        watched.evaluations.end()
        model.eval()
        for _ in range(2):
            model.generate(input_ids=tokens, max_new_tokens=4, do_sample=False)
        with pytest.raises(ValueError, match="max_new_tokens"):
            model.generate(tokens, max_new_tokens=-1)
    finally:
        patches.remove()
    found = [each for each in recorded(tmp_path) if each["kind"].startswith("evaluat")]
    assert [each.get("generates") for each in found if each["kind"] == "evaluating"] == [True] * 4
    (done,) = [each for each in found if each["kind"] == "evaluated"]
    assert (done["generated"], done["calls"], done["samples"]) == (1, 1, 3)
    assert found[-1]["kind"] == "evaluating"  # the last one did not end


@pytest.mark.slow
@pytest.mark.parametrize(("then_trains", "graphs"), [(True, [4]), (False, [])])
def test_an_evaluation_with_graphs_is_told_from_a_training_step(
    watched: Any, tmp_path: Path, then_trains: bool, graphs: list[int]
) -> None:
    from doctor.guard.patches import Patches

    patches = Patches()
    watched.evaluations.install(patches)
    model = torch.nn.Linear(3, 1)
    try:
        watched.begin()
        model.eval()
        for _ in range(4):
            model(torch.ones(2, 3))
        if then_trains:
            model.train()
        watched.evaluations.end()  # the next step
    finally:
        patches.remove()
    found = [each["graphs"] for each in recorded(tmp_path) if each["kind"] == "evaluated"]
    assert found == graphs


def test_a_model_is_copied_and_saved_while_it_is_evaluated(watched: Any, tmp_path: Path) -> None:
    from doctor.guard.patches import Patches

    patches = Patches()
    watched.evaluations.install(patches)
    model = torch.nn.Sequential(torch.nn.Linear(3, 1))
    try:
        watched.begin()
        model.eval()
        assert model._forward_pre_hooks  # it is observed
        copied = copy.deepcopy(model)
        torch.save(model, tmp_path / "model.pt")
        read = torch.load(tmp_path / "model.pt", weights_only=False)
        inputs = torch.ones(2, 3)
        calls = watched.evaluations.current.calls
        with torch.no_grad():
            results = [copied(inputs), read(inputs), pickle.loads(pickle.dumps(model))(inputs)]
        assert watched.evaluations.current.calls == calls
        assert all(torch.equal(each, results[0]) for each in results)
        model(inputs)
    finally:
        patches.remove()


@pytest.mark.parametrize(
    ("step", "calls", "trained", "evaluated"),
    [
        (4, 3, True, [3]),
        (4, 2, True, []),  # a teacher, once or twice in each step
        (0, 3, True, []),  # one that is switched before the first step
        (4, 3, False, []),
    ],
)
def test_an_average_without_gradients_is_evaluated(
    watched: Any, tmp_path: Path, step: int, calls: int, trained: bool, evaluated: list[int]
) -> None:
    from doctor.guard.patches import Patches

    patches = Patches()
    watched.evaluations.install(patches)
    average = torch.nn.Linear(3, 1).requires_grad_(False).train(trained)
    try:
        watched.begin()
        watched.step = step
        average.eval()
        for _ in range(calls):
            average(torch.ones(2, 3))
        watched.evaluations.end()
    finally:
        patches.remove()
    found = recorded(tmp_path)
    assert [each["calls"] for each in found if each["kind"] == "evaluated"] == evaluated
    assert not [each for each in found if each["kind"] == "evaluated" and each["graphs"]]


@pytest.mark.parametrize(
    ("copies", "waits", "held"), [(False, False, 1), (True, False, 0), (False, True, 1)]
)
def test_a_thread_that_saves_the_weights_themselves_is_held(
    watched: Any, monkeypatch: Any, copies: bool, waits: bool, held: int
) -> None:
    """Until the training takes a step, if it does not wait for the thread; copies end at once."""
    import threading
    import time

    from doctor.guard.rehearsal import saves

    monkeypatch.setattr(saves, "HELD_SECONDS", 0.5)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    weights = {name: w.clone() if copies else w for name, w in model.state_dict().items()}
    watched.begin()
    watched.thread, watched.step = threading.get_ident(), 3
    value, found = {"model": weights, "optimizer": optimizer.state_dict()}, saves.Saves(watched)
    thread = threading.Thread(target=found.hold, args=(value,))
    thread.start()
    if waits:
        thread.join()
    while thread.is_alive():
        time.sleep(0.01)
        watched.step += 1
    assert found.held == held
    assert copies or (watched.step > 3) is not waits


class Averaged:
    """A model, its optimizer and an average, with ways to save it."""

    def __init__(self) -> None:
        self.model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.average = [p.detach() * 0.5 for p in self.model.parameters()]

    def copied(self, save: Any) -> None:
        held = [p.detach().clone() for p in self.model.parameters()]
        with torch.no_grad():
            torch._foreach_copy_(list(self.model.parameters()), self.average)
            save()
            torch._foreach_copy_(list(self.model.parameters()), held)

    def pointed(self, save: Any) -> None:
        held = [p.data for p in self.model.parameters()]
        for parameter, value in zip(self.model.parameters(), self.average, strict=True):
            parameter.data = value
        save()
        for parameter, value in zip(self.model.parameters(), held, strict=True):
            parameter.data = value

    def loaded(self, save: Any) -> None:
        held = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.model.load_state_dict(dict(zip(held, self.average, strict=True)))
        save()
        self.model.load_state_dict(held)

    def swapped(self, save: Any) -> None:
        for _ in range(2):
            for parameter, value in zip(self.model.parameters(), self.average, strict=True):
                held = parameter.data.clone()
                parameter.data.copy_(value)
                value.copy_(held)
            if _ == 0:
                save()

    def both(self, save: Any) -> None:
        save()
        self.copied(save)

    def plain(self, save: Any) -> None:
        save()

    def pruned(self, save: Any) -> None:
        with torch.no_grad():
            for parameter in self.model.parameters():
                parameter.mul_(parameter.abs() > 0.1).add_(1.0)
        save()

    def exported(self, save: Any) -> None:
        self.copied(save)
        save()


@pytest.mark.parametrize(
    ("way", "others", "restored"),
    [
        ("copied", [True], True),
        ("pointed", [True], True),
        ("loaded", [True], True),
        ("swapped", [True], True),
        ("both", [False, True], True),
        ("exported", [True, False], True),
        ("plain", [False], False),
        ("pruned", [True], False),
    ],
)
def test_an_average_in_the_model_while_it_is_saved(
    tmp_path: Path, way: str, others: list[bool], restored: bool
) -> None:
    from doctor.guard.rehearsal.exchanged import Exchanged
    from doctor.guard.rehearsal.records import Records

    written, trained = Records(str(tmp_path)), Averaged()
    written.open(0, 1)
    watched, seen = Exchanged(torch, written), []
    watched.stepped(trained.optimizer)
    getattr(trained, way)(lambda: seen.append(watched.saving()))
    watched.goes_on(4)
    written.close()
    assert seen == others
    assert [each["s"] for each in recorded(tmp_path) if each["kind"] == "exchanged"] == [
        4
    ] * restored


@pytest.mark.parametrize(
    ("way", "left"),
    [("stays", True), ("saves first", True), ("trains again", False), ("plain", False),
     ("another", False), ("with gradients", False)],
)  # fmt: skip
def test_a_model_that_nothing_switches_back(
    watched: Any, tmp_path: Path, way: str, left: bool
) -> None:
    from doctor.guard.patches import Patches

    patches = Patches()
    watched.evaluations.install(patches)
    middle = torch.nn.Identity() if way == "plain" else torch.nn.Dropout(0.5)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), middle)
    other = torch.nn.Linear(3, 1)
    trained = other if way == "another" else model
    optimizer = torch.optim.SGD(trained.parameters(), lr=0.1)
    try:
        watched.begin()
        model.eval()
        with torch.set_grad_enabled(way == "with gradients"):
            model(torch.ones(2, 3))
        if way == "saves first":
            watched.evaluations.end()
        if way == "trains again":
            model.train()
        watched.evaluations.end(optimizer=optimizer)
    finally:
        patches.remove()
    found = [each["kinds"] for each in recorded(tmp_path) if each["kind"] == "left"]
    assert found == [["Dropout"]] * left


def test_batches_at_the_start_and_after_each_save(tmp_path: Path) -> None:
    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    model = torch.nn.Sequential(torch.nn.Linear(1, 1))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    plain = torch.nn.Module.__call__
    observer.batches.watch()
    for _ in range(60):  # transforms of torchvision are modules
        torch.nn.Identity()(ROWS)
    for step, rows in enumerate(ROWS.split(2)):
        observer.step = step
        if step in (2, 4):
            observer.batches.saved()
            with torch.no_grad():
                model.eval()(ROWS)
            model.train()
        model(rows).sum().backward()
    assert torch.nn.Module.__call__ is plain
    assert optimizer
    observer.records.close()
    found = [each for each in recorded(tmp_path) if each["kind"] == "batch"]
    assert [each["s"] for each in found] == [0, 2, 4]
    assert len({str(each["tensors"]) for each in found}) == 3


@pytest.mark.parametrize("guesses", ["model", "teacher", "none", "evaluating"])
def test_the_state_of_the_start_is_that_before_statistics_are_gathered(
    guesses: str, tmp_path: Path
) -> None:
    """Labels that are guessed without gradients before the first step change batch norms."""
    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings
    from doctor.guard.rehearsal.state import snapshot

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    model, teacher = (
        torch.nn.Sequential(torch.nn.Linear(1, 2), torch.nn.BatchNorm1d(2)) for _ in range(2)
    )
    observer.batches.watch()
    with torch.no_grad():
        model(ROWS)  # its shapes, before there is an optimizer
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    before = snapshot(torch)["buffers"]
    with torch.no_grad():
        if guesses != "none":
            (teacher if guesses == "teacher" else model).train(guesses != "evaluating")(ROWS)
    model.train()(ROWS).sum().backward()
    assert optimizer
    observer.records.close()
    start, *rest = [each for each in recorded(tmp_path) if each["kind"] in ("snapshot", "batch")]
    assert start["when"] == "start"
    assert [each["kind"] for each in rest] == ["batch"]
    assert start["buffers"] == json.loads(json.dumps(before))


class Scale(torch.nn.Module):
    """Statistics of the input, in a module without parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        self.mean.lerp_(rows.mean(0), 0.5)
        return rows - self.mean


def test_the_state_of_the_start_is_that_before_a_module_without_parameters_counts(
    tmp_path: Path,
) -> None:
    from doctor.guard.rehearsal.observer import Observer
    from doctor.guard.rehearsal.settings import Settings
    from doctor.guard.rehearsal.state import snapshot

    observer = Observer(torch, Settings(str(tmp_path), str(tmp_path), ()))
    parts = torch.nn.ModuleDict({"scale": Scale(), "net": torch.nn.Linear(1, 2)})
    optimizer = torch.optim.SGD(parts.parameters(), 0.1)
    before = snapshot(torch)["buffers"]
    observer.batches.watch()
    parts["net"](parts["scale"](ROWS)).sum().backward()  # as in Lightning's training_step
    assert optimizer
    observer.records.close()
    start = next(each for each in recorded(tmp_path) if each["kind"] == "snapshot")
    assert start["when"] == "start"
    assert start["buffers"] == json.loads(json.dumps(before))
    assert start["buffers"] != json.loads(json.dumps(snapshot(torch)["buffers"]))


def _ends_in_vain(signum: Any, frame: Any) -> None:
    STOP = True  # noqa: F841
    print(signum)


def _ends(signum: Any, frame: Any) -> None:
    global STOP
    STOP = True


def _counts(signum: Any, frame: Any) -> None:
    STOP = signum == 15
    print(STOP)


STOP = False


@pytest.mark.parametrize(
    ("handler", "flags"), [(_ends_in_vain, ["STOP"]), (_ends, None), (_counts, None)]
)
def test_a_flag_that_a_handler_sets_for_itself(handler: Any, flags: Any) -> None:
    import signal

    from doctor.guard.rehearsal.handlers import handlers, lost_flags

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        assert lost_flags().get("SIGUSR1") == flags
        assert handlers()["SIGUSR1"] == handler.__name__
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_flag_of_the_function_around_a_handler() -> None:
    import signal

    from doctor.guard.rehearsal.handlers import lost_flags

    stopping = False

    def on_signal(signum: Any, frame: Any) -> None:
        stopping = True  # noqa: F841

    before = signal.signal(signal.SIGUSR1, on_signal)
    try:
        assert lost_flags() == {"SIGUSR1": ["stopping"]}
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not stopping


def test_trained_weights_outside_of_ddp() -> None:
    from doctor.guard.rehearsal.state import _unwrapped

    class DistributedDataParallel(torch.nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self, module: Any) -> None:
            super().__init__()
            self.module = module

    inside, scale = torch.nn.Linear(1, 1), torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([*inside.parameters(), scale], 0.1)
    names = {id(p): name for p, name in ((inside.weight, "w"), (inside.bias, "b"), (scale, "s"))}
    wrapped = DistributedDataParallel(inside)
    assert _unwrapped([wrapped, inside], [optimizer], names) == ["s"]
    assert _unwrapped([inside], [optimizer], names) == []


def test_the_parts_of_one_save_are_not_those_of_the_next() -> None:
    from doctor.guard.rehearsal.saves import Saves

    written: list[dict[str, Any]] = []
    observer = SimpleNamespace(
        step=3,
        records=SimpleNamespace(write=lambda kind, **fields: written.append(fields)),
        batches=SimpleNamespace(saved=lambda: None),
    )
    saves = Saves(observer)
    saves.parts = ["weight"]
    for name in ("torch.save", "open"):
        saves.save_ends(name, "/a", 0.0)
    assert [each["parts"] for each in written] == [["weight"], []]


def test_parts_of_sharded_weights_in_what_is_saved() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.testing._internal.distributed.fake_pg import FakeStore

    from doctor.guard.rehearsal.shards import parts_in

    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        mesh = init_device_mesh("cpu", (2,))
        model = torch.nn.Linear(3, 4)
        for name, how in (("weight", Shard(0)), ("bias", Replicate())):
            held = distribute_tensor(getattr(model, name).detach(), mesh, [how])
            setattr(model, name, torch.nn.Parameter(held))
        state = model.state_dict()
        local = {name: tensor.to_local().clone() for name, tensor in state.items()}
        whole = {"weight": torch.ones(4, 3), "bias": torch.ones(4)}
        assert parts_in(torch, {"step": 1, "model": state}) == ["weight"]
        assert parts_in(torch, local) == ["weight"]
        assert parts_in(torch, {"model": whole}) == []
        assert parts_in(torch, {"other": torch.ones(2, 3)}) == []
        assert parts_in(torch, [state]) == []
    finally:
        torch.distributed.destroy_process_group()
