"""Watches a training from inside its process: standard library and the torch already imported.

    import doctor.guard
    doctor.guard.watch()

or, for a loop whose optimizer is not one of torch.optim,

    with doctor.guard.Guard() as guard:
        for batch in batches:
            guard.step(loss)

`hooks` notices what torch does, `watch` gets it, `optimizer_watch` measures a step, `judging`
counts and judges it by `rules` and `look_rules`, `alarms` and `writer` put it out: one file of
JSON lines for each process, which `doctor.collect.guard_records` reads.
It runs in the user's process: syntax of Python 3.9, no import of the doctor and none of torch, no
wait for a device but at the first alarm, and an error of its own switches it off.
"""

from __future__ import annotations

from .foreign import Foreign
from .guard import Guard
from .session import Stopped

__all__ = ["Guard", "Stopped", "watch"]


def watch(
    *,
    out: str = "doctor-guard",
    stop: bool = False,
    ignore: tuple[str, ...] = (),
    all: bool = False,
    expect_no_grad: tuple[str, ...] = (),
    protect: bool = False,
    shared: bool = False,
) -> Guard:
    """Watch the training of this process until it ends; a second call changes nothing.

    `out` is the directory of the records, for `doctor report`. `stop` ends the training at the
    first failure, `ignore` are codes that raise no alarm, `all` evaluates the codes that are off
    by default, `expect_no_grad` are patterns of parameters that need no gradient, `protect` lets
    fused optimizers leave out steps whose gradients are not finite, `shared` lets other users read
    the records.
    """
    return Guard(
        out=out,
        stop=stop,
        ignore=ignore,
        all=all,
        expect_no_grad=expect_no_grad,
        protect=protect,
        shared=shared,
    )


def __getattr__(name: str) -> Foreign:
    if name == "GuardCallback":
        from .transformers import GuardCallback  # imports transformers

        return GuardCallback
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
