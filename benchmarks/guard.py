"""What the guard costs: python benchmarks/guard.py.

Thread time of one thread. First 111 tensors of a Llama-like model whose sizes are small, in a loop
of their own, so that caches are warm; then steps of about 8 ms with and without the guard, in
turns, with a control; then the start of a program.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch  # noqa: TID253 - it is what is measured
from torch.optim import optimizer as optimizers  # noqa: TID253

import doctor.guard
from doctor.guard import thresholds

TENSORS = 111


def tensors(size: int = 64) -> list[Any]:
    """Two in five have one dimension, as in a Llama."""
    return [
        torch.nn.Parameter(torch.ones(size) if k % 5 < 2 else torch.randn(size, size) * 0.02)
        for k in range(TENSORS)
    ]


def guard_seconds(clip: bool, steps: int = 400) -> tuple[float, float, float]:
    """Thread seconds of the guard per ordinary step, per look, and for the first step."""
    parameters = tensors()
    optimizer = torch.optim.SGD(parameters, lr=1e-3)
    norm = torch.tensor(1.0)
    loss = torch.ones((), requires_grad=True)
    original = torch.autograd.backward
    torch.autograd.backward = lambda *arguments: None  # below the guard's wrapper
    times: list[float] = []
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        steady = guard._session.watch.steady
        (before,) = optimizers._global_optimizer_pre_hooks.values()
        (after,) = optimizers._global_optimizer_post_hooks.values()
        for _ in range(steps):
            begin = time.thread_time()
            torch.autograd.backward(loss)
            middle = time.thread_time()
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            again = time.thread_time()
            if clip:
                steady.norm, steady.norm_count = norm, TENSORS
            before(optimizer, (optimizer,), {})
            after(optimizer, (optimizer,), {})
            times.append(time.thread_time() - again + middle - begin)
            optimizer.zero_grad()
        guard.close()
    torch.autograd.backward = original
    looks = [times[step - 1] for step in thresholds.LOOKS if 1 < step <= steps]
    ordinary = [t for step, t in enumerate(times, 1) if step not in thresholds.LOOKS]
    return statistics.median(ordinary), statistics.median(looks), times[0]


class Training:
    """A training whose step takes `milliseconds` of thread time: 48 tensors, AdamW."""

    def __init__(self, clip: bool, milliseconds: float = 8.0) -> None:
        torch.manual_seed(0)
        self.clip = clip
        self.model = torch.nn.Sequential(*[torch.nn.Linear(160, 160) for _ in range(24)])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        short, long = [self._with_rows(rows) for rows in (16, 128)]
        per_row = (long - short) / 112
        self.x = torch.randn(max(8, round(16 + (milliseconds / 1e3 - short) / per_row)), 160)

    def _with_rows(self, rows: int) -> float:
        self.x = torch.randn(rows, 160)
        return statistics.median(self.seconds(1) for _ in range(40))

    def seconds(self, steps: int) -> float:
        """Thread seconds of each of so many steps."""
        parameters = list(self.model.parameters())
        begin = time.thread_time()
        for _ in range(steps):
            self.model(self.x).pow(2).mean().backward()
            if self.clip:
                torch.nn.utils.clip_grad_norm_(parameters, 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
        return (time.thread_time() - begin) / steps


class Switch:
    """Takes the guard's hooks out of torch and puts the same ones back, without new objects.

    While they are out, the guard's clock stands still. `judging` are the thread seconds in which
    it judged and wrote the steps that were logged.
    """

    def __init__(self, guard: Any) -> None:
        hooks, watch = guard._session.hooks, guard._session.watch
        homes = [
            vars(torch.autograd),
            vars(torch.nn.utils.clip_grad),
            optimizers._global_optimizer_pre_hooks,
            optimizers._global_optimizer_post_hooks,
        ]
        hooks.remove()
        without = [dict(home) for home in homes]
        hooks.install()
        self.changes = [
            (home, name, plain.get(name), value)
            for home, plain in zip(homes, without, strict=True)
            for name, value in home.items()
            if plain.get(name) is not value
        ]
        self.stopped = self.judging = 0.0
        self.off_since: float | None = None
        watch.steady.clock = lambda: time.thread_time() - self.stopped
        judge = watch.judging.judge_log

        def timed() -> None:
            begin = time.thread_time()
            judge()
            self.judging += time.thread_time() - begin

        watch.judging.judge_log = timed

    def turn(self, on: bool) -> None:
        """On or off."""
        for home, name, plain, guarded in self.changes:
            if on or plain is not None:
                home[name] = guarded if on else plain
            else:
                home.pop(name, None)
        now = time.thread_time()
        if on and self.off_since is not None:
            self.stopped, self.off_since = self.stopped + now - self.off_since, None
        elif not on and self.off_since is None:
            self.off_since = now


class Turns:
    """Steps of about 8 ms with and without the guard, in turns in one process.

    Three steps with the guard and twice three without it, in another order in each round; the last
    of three is timed. `read` and `unread` are the differences to the mean of those without, for
    steps whose numbers the guard read or did not; `control` is the difference of those without.
    """

    def __init__(self, training: Training, switch: Switch, watch: Any) -> None:
        self.training, self.switch, self.watch = training, switch, watch
        self.read: list[float] = []
        self.unread: list[float] = []
        self.control: list[float] = []
        self.plain: list[float] = []

    def take(self, rounds: int) -> None:
        """Adds so many rounds."""
        for turn in range(rounds):
            arms = [True, False, False]
            arms = arms[turn % 3 :] + arms[: turn % 3]
            times = list(map(self._step, arms))
            guarded = times.pop(arms.index(True))
            group = self.read if was_read(self.watch) else self.unread
            group.append(guarded - sum(times) / 2)
            self.control.append((times[0] - times[1]) * (-1) ** turn)
            self.plain += times
        self.switch.turn(True)

    def _step(self, guarded: bool) -> float:
        self.switch.turn(guarded)
        self.training.seconds(2)
        return self.training.seconds(1)


def was_read(watch: Any) -> bool:
    """Whether the numbers of the last step were read."""
    (one,) = watch.watches.values()
    return bool(one.armed.read_at == one.steps)


class Stamps:
    """The time that a real step spends between the entry of a guard's hook and its end.

    What the hooks wrap is left out. Without a guard it is the time of the stamps themselves.
    """

    def __init__(self) -> None:
        self.sum = 0.0
        self._calls = [0.0, 0.0]
        self._originals = [
            (vars(torch.autograd), "backward"),
            (vars(torch.nn.utils.clip_grad), "_get_total_norm"),
        ]
        self._undo = [(home, name, home[name]) for home, name in self._originals]
        for home, name in self._originals:
            home[name] = self._inner(home[name])

    def outside(self) -> None:
        """Once the guard is there, if there is one: stamps around its hooks."""
        self._within = [(home, name, home[name]) for home, name in self._originals]
        for home, name, value in self._within:
            home[name] = self._outer(value)
        for home in (
            optimizers._global_optimizer_pre_hooks,
            optimizers._global_optimizer_post_hooks,
        ):
            ((name, value),) = list(home.items()) or [(-1, lambda *arguments: None)]
            self._within.append((home, name, home.get(name)))
            home[name] = self._hook(value)

    def remove(self) -> None:
        """Before the guard is closed: its own hooks are in their places again."""
        for home, name, value in self._within:
            if value is None:
                del home[name]
            else:
                home[name] = value

    def restore(self) -> None:
        """At the end."""
        for home, name, value in self._undo:
            home[name] = value

    def _inner(self, function: Any) -> Any:
        calls, clock = self._calls, time.perf_counter

        def inner(*args: Any, **kwargs: Any) -> Any:
            calls[0] = clock()
            result = function(*args, **kwargs)
            calls[1] = clock()
            return result

        return inner

    def _outer(self, function: Any) -> Any:
        calls, clock = self._calls, time.perf_counter

        def outer(*args: Any, **kwargs: Any) -> Any:
            begin = clock()
            result = function(*args, **kwargs)
            self.sum += clock() - calls[1] + calls[0] - begin
            return result

        return outer

    def _hook(self, function: Any) -> Any:
        clock = time.perf_counter

        def hook(*args: Any) -> None:
            begin = clock()
            function(*args)
            self.sum += clock() - begin

        return hook


def within(training: Training, steps: int, guarded: bool) -> dict[bool, list[float]]:
    """Seconds between the stamps of steps that were read, and of those that were not."""
    times: dict[bool, list[float]] = {True: [], False: []}
    stamps = Stamps()
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out) if guarded else None
        stamps.outside()
        if guard is not None:
            guard._session.watch.steady.clock = time.thread_time
        for _ in range(steps):
            stamps.sum = 0.0
            training.seconds(1)
            times[guard is None or was_read(guard._session.watch)].append(stamps.sum)
        stamps.remove()
        if guard is not None:
            guard.close()
    stamps.restore()
    return times


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and the interval that contains 95 % of such medians."""
    values = sorted(values)
    half, margin = len(values) // 2, round(len(values) ** 0.5)
    return values[half], values[max(0, half - margin)], values[min(len(values) - 1, half + margin)]


def step_share(clip: bool, rounds: int) -> None:
    """What the guard adds to a step of about 8 ms while it reads all, and after 500 steps."""
    training = Training(clip)
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        watch = guard._session.watch
        switch = Switch(guard)
        turns = Turns(training, switch, watch)
        thresholds.READ_ALL = 10**9
        training.seconds(10)  # the first steps compare the parameters
        turns.take(rounds)
        thresholds.READ_ALL = 50
        training.seconds(50)
        turns.take(rounds)
        every, judging = watch.steady.every, switch.judging / watch.judging.tally.steps
        guard.close()
    empty = statistics.median(within(training, 200, guarded=False)[True])
    stamped = within(training, 600, guarded=True)
    step = statistics.median(turns.plain)
    loop = "clips" if clip else "does not clip"
    print(f"a step of {step * 1e3:.1f} ms, the loop {loop}; load {os.getloadavg()[0]:.1f}:")
    groups = {
        "in turns, control: nothing changed": turns.control,
        "in turns, a step that is read": turns.read,
        "in turns, a step that is not read": turns.unread,
        "within hooks, a step that is read": [t - empty for t in stamped[True]],
        "within hooks, a step that is not read": [t - empty for t in stamped[False]],
    }
    medians = {}
    for name, values in groups.items():
        median, low, high = (1e6 * value for value in middle(values or [0.0]))
        medians[name] = median / 1e6
        print(f"  {name:42} {median:8.1f} us  ({low:.1f} to {high:.1f}, {len(values)} steps)")
    print(f"  {'judging and writing, per step':42} {1e6 * judging:8.1f} us")
    for how in ("in turns", "within hooks"):
        read, unread = (medians[f"{how}, a step that is {what}"] for what in ("read", "not read"))
        mean = (read + (every - 1) * unread) / every
        print(
            f"  {'share, ' + how:42} {(read + judging) / step:8.2%}  all steps read\n"
            f"  {'':42} {(mean + judging) / step:8.2%}  1 step of {every} read; target 0.5%"
        )


def start_seconds(code: str) -> tuple[float, float]:
    """CPU seconds of a program under the guard's bootstrap, and without it."""
    bootstrap = Path(doctor.guard.__file__).parent / "bootstrap"

    def run(environ: dict[str, str]) -> float:
        before = os.times()
        subprocess.run([sys.executable, "-c", code], env=environ, check=True)
        after = os.times()
        return after[2] + after[3] - before[2] - before[3]

    plain = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    guarded = dict(plain, PYTHONPATH=str(bootstrap), DOCTOR_GUARD='{"parent": true}')
    pairs = [(run(guarded), run(plain)) for _ in range(5)]
    return tuple(statistics.median(times) for times in zip(*pairs, strict=True))  # type: ignore[return-value]


def report(name: str, seconds: float, target: float) -> None:
    unit = "us" if target < 1e-3 else "ms"
    factor = 1e6 if unit == "us" else 1e3
    verdict = "ok" if seconds <= target else "MISSED"
    print(f"{name:44} {seconds * factor:8.1f} {unit}  target {target * factor:g} {unit}  {verdict}")


def main(rounds: int = 400) -> None:
    torch.set_num_threads(1)
    measure: Callable[..., Any] = guard_seconds
    for clip, target in ((True, 30e-6), (False, 80e-6)):
        step, look, first = measure(clip)
        loop = "clips" if clip else "does not clip"
        report(f"a step, {TENSORS} tensors, the loop {loop}", step, target)
        report("  a step that compares the parameters", look, 2e-3)
        report("  the first step", first, 10e-3)
    for clip in (True, False):
        step_share(clip, rounds)
    for name, code in (("without torch", "pass"), ("with torch", "import torch")):
        under, plain = start_seconds(code)
        report(f"start of a program {name}, CPU time added", under - plain, 50e-3)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
