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

    def take(guard: Any) -> list[float]:
        """The seconds of the hooks alone: backward() has nothing to do, step() is not called."""
        before = list(optimizers._global_optimizer_pre_hooks.values())
        after = list(optimizers._global_optimizer_post_hooks.values())
        times: list[float] = []
        for _ in range(steps):
            begin = time.thread_time()
            loss.backward()
            middle = time.thread_time()
            for parameter in parameters:
                parameter.grad = torch.ones_like(parameter)
            again = time.thread_time()
            if clip and guard is not None:
                steady = guard._session.watch.steady
                steady.norm, steady.norm_count = norm, TENSORS
            for hook in (*before, *after):
                hook(optimizer, (optimizer,), {})
            times.append(time.thread_time() - again + middle - begin)
            optimizer.zero_grad()
        return times

    plain = statistics.median(take(None))
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        times = [seconds - plain for seconds in take(guard)]
        guard.close()
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
        judge = watch.judge_log

        def timed() -> None:
            begin = time.thread_time()
            judge()
            self.judging += time.thread_time() - begin

        watch.judge_log = timed

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
            (one,) = self.watch.watches.values()
            group = self.read if one.armed.read_at == one.steps else self.unread
            group.append(guarded - sum(times) / 2)
            self.control.append((times[0] - times[1]) * (-1) ** turn)
            self.plain += times
        self.switch.turn(True)

    def _step(self, guarded: bool) -> float:
        self.switch.turn(guarded)
        self.training.seconds(2)
        return self.training.seconds(1)


def middle(values: list[float]) -> tuple[float, float, float]:
    """The median, and the interval that contains 95 % of such medians."""
    values = sorted(values)
    half, margin = len(values) // 2, round(len(values) ** 0.5)
    return values[half], values[max(0, half - margin)], values[min(len(values) - 1, half + margin)]


def step_share(clip: bool, rounds: int = 400) -> None:
    """What the guard adds to a step of about 8 ms while it reads all, and after 500 steps."""
    training = Training(clip)
    thresholds.READ_ALL = 10**9
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        watch = guard._session.watch
        switch = Switch(guard)
        training.seconds(10)  # the first steps compare the parameters
        turns = Turns(training, switch, watch)
        turns.take(rounds)
        thresholds.READ_ALL = 50
        training.seconds(50)
        turns.take(rounds)
        every, judging = watch.steady.every, switch.judging / watch.steps
        guard.close()
    step = statistics.median(turns.plain)
    loop = "clips" if clip else "does not clip"
    print(f"a step of {step * 1e3:.1f} ms, the loop {loop}; load {os.getloadavg()[0]:.1f}:")
    groups = {
        "control: two steps without the guard": turns.control,
        "a step that is read": turns.read,
        "a step that is not read": turns.unread or [0.0],
    }
    for name, values in groups.items():
        median, low, high = (1e6 * value for value in middle(values))
        print(f"  {name:42} {median:8.1f} us  ({low:.1f} to {high:.1f}, {len(values)} rounds)")
    print(f"  {'judging and writing, per step':42} {1e6 * judging:8.1f} us")
    read, unread = middle(turns.read)[0], middle(turns.unread or [0.0])[0]
    for name, seconds in (
        ("share while every step is read", read),
        (f"share when 1 step of {every} is read", (read + (every - 1) * unread) / every),
    ):
        print(f"  {name:42} {(seconds + judging) / step:8.2%}     target 0.5%")


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


def main() -> None:
    torch.set_num_threads(1)
    measure: Callable[..., Any] = guard_seconds
    for clip, target in ((True, 30e-6), (False, 80e-6)):
        step, look, first = measure(clip)
        loop = "clips" if clip else "does not clip"
        report(f"a step, {TENSORS} tensors, the loop {loop}", step, target)
        report("  a step that compares the parameters", look, 2e-3)
        report("  the first step", first, 10e-3)
    for clip in (True, False):
        step_share(clip)
    for name, code in (("without torch", "pass"), ("with torch", "import torch")):
        under, plain = start_seconds(code)
        report(f"start of a program {name}, CPU time added", under - plain, 50e-3)


if __name__ == "__main__":
    main()
