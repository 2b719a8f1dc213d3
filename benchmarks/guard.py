"""What the guard costs: python benchmarks/guard.py.

Thread time of one thread, 111 tensors of a Llama-like model whose sizes are small, so that the
guard's own work and not the norms of large tensors is measured; then a step of about 8 ms with and
without the guard, in turns; then the start of a program.
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
    for parameter in parameters:
        parameter.grad = torch.randn_like(parameter)
    norm = torch.tensor(1.0)
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        watch = guard._session.watch
        (before,) = optimizers._global_optimizer_pre_hooks.values()
        (after,) = optimizers._global_optimizer_post_hooks.values()
        loss = torch.ones((), requires_grad=True)
        times: list[float] = []
        for _ in range(steps):
            begin = time.thread_time()
            watch.backward_begins(loss)
            if watch.follows_gradients:
                watch.backward_ends()
            if clip:
                watch.steady.norm, watch.steady.norm_count = norm, TENSORS
            before(optimizer, (optimizer,), {})
            after(optimizer, (optimizer,), {})
            times.append(time.thread_time() - begin)
            for parameter in parameters[:1]:
                parameter.grad = parameter.grad.clone()
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
    """Takes the guard's hooks out of torch and puts the same ones back, without new objects."""

    def __init__(self, guard: Any) -> None:
        hooks = guard._session.hooks
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

    def turn(self, on: bool) -> None:
        """On or off."""
        for home, name, plain, guarded in self.changes:
            if on or plain is not None:
                home[name] = guarded if on else plain
            else:
                home.pop(name, None)


def step_share(clip: bool, *, rounds: int = 600) -> None:
    """What the guard adds to a step of about 8 ms, and what nothing adds to it.

    Pairs of steps with the guard and twice without it take turns in one process, in another order
    each time; the second step of each pair is timed. Medians of the differences within a round, as
    shares of a step without the guard, with the interval that contains 95 % of such medians.
    """
    training = Training(clip)
    added, nothing, plain = [], [], []
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        switch = Switch(guard)
        training.seconds(10)  # the first steps compare the parameters
        for turn in range(rounds):
            arms = [True, False, False]
            arms = arms[turn % 3 :] + arms[: turn % 3]
            times = []
            for arm in arms:
                switch.turn(arm)
                training.seconds(1)
                times.append(training.seconds(1))
            guarded = times.pop(arms.index(True))
            added.append(guarded - sum(times) / 2)
            nothing.append((times[0] - times[1]) * (-1) ** turn)
            plain += times
        switch.turn(True)
        guard.close()
    step = statistics.median(plain)
    loop = "clips" if clip else "does not clip"
    print(f"a step of {step * 1e3:.1f} ms, the loop {loop}:")
    for name, values in (("with the guard", added), ("control: nothing changed", nothing)):
        values.sort()
        margin = round(len(values) ** 0.5)
        low, middle, high = (values[len(values) // 2 + k] / step for k in (-margin, 0, margin))
        target = "  target 0.5%" if values is added else ""
        print(f"  {name:42} {middle:+8.2%} ({low:+.2%} to {high:+.2%}){target}")


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
