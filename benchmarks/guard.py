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
                watch.norm = (TENSORS, norm)
            before(optimizer, (optimizer,), {})
            after(optimizer, (optimizer,), {})
            times.append(time.thread_time() - begin)
            for parameter in parameters[:1]:
                parameter.grad = parameter.grad.clone()
        guard.close()
    looks = [times[step - 1] for step in thresholds.LOOKS if 1 < step <= steps]
    ordinary = [t for step, t in enumerate(times, 1) if step not in thresholds.LOOKS]
    return statistics.median(ordinary), statistics.median(looks), times[0]


def step_ratio(rounds: int = 40, steps: int = 5) -> float:
    """Process seconds of a step of about 8 ms with the guard / without, medians of turns."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(24)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    x = torch.randn(64, 256)

    def train() -> float:
        begin = time.thread_time()
        for _ in range(steps):
            model(x).pow(2).mean().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return (time.thread_time() - begin) / steps

    train()
    without, under = [], []
    with tempfile.TemporaryDirectory() as out:
        guard = doctor.guard.watch(out=out)
        hooks = guard._session.hooks
        for _ in range(30):  # the first steps compare the parameters
            train()
        for turn in range(rounds):
            for guarded in (turn % 2 == 0, turn % 2 == 1):
                hooks.active = guarded  # the wrappers stay: less than a microsecond
                (under if guarded else without).append(train())
        guard.close()
    print(f"a step: {statistics.median(without) * 1e3:.2f} ms of thread time without the guard")
    return statistics.median(a / b for a, b in zip(under, without, strict=True))


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
    ratio = step_ratio()
    print(f"{'a step with the guard / without':44} {ratio - 1:8.2%}     target 0.5%")
    for name, code in (("without torch", "pass"), ("with torch", "import torch")):
        under, plain = start_seconds(code)
        report(f"start of a program {name}, CPU time added", under - plain, 50e-3)


if __name__ == "__main__":
    main()
