"""Machines whose training step went wrong, with what the search for the cause found."""

from __future__ import annotations

import msgspec

from doctor._util.records import Ended, Number
from doctor.facts.diagnosis import Attempt, Diagnosis
from doctor.facts.facts import Facts
from doctor.facts.training import Smoke, Step

TIMEOUT = Ended(how="timeout", detail="no answer in 120 s inside forward", seconds=120.0)


def attempt(change: str, loss: Number = "nan") -> Attempt:
    """One that ended with that loss."""
    well = isinstance(loss, float)
    return Attempt(
        change=change,
        outcome="fixed" if well else "same",
        detail="" if well else "non-finite loss",
        loss=loss,
        grad_norm=2.07 if well else "nan",
        seconds=0.2,
    )


def diagnosis(*attempts: Attempt) -> Diagnosis:
    """A NaN that attention makes in the first step."""
    return Diagnosis(
        fault="non-finite loss",
        attempts=attempts,
        step=1,
        origin="module",
        first_module="layers.0.attention",
        first_module_type="Attention",
        seconds=4.1,
    )


CUDNN = diagnosis(attempt("repeat"), attempt("cudnn-off", 5.23), attempt("repeat"))
NOTHING = diagnosis(
    *(attempt(change) for change in ("repeat", "cudnn-off", "flash-off", "math", "eager")),
    Attempt(change="fp32-weights", outcome="not possible", detail="the weights are fp32 already"),
    *(attempt(change) for change in ("fp32", "lower-lr", "other-batch")),
)
COMES_AND_GOES = Diagnosis(fault="non-finite loss", attempts=(attempt("repeat", 5.23),) * 3)
HANG = Attempt(
    change="repeat", outcome="same", detail="forward: no answer in 20 s inside forward", seconds=20
)
FLASH = Diagnosis(
    fault="hung",
    attempts=(
        HANG,
        msgspec.structs.replace(HANG, change="cudnn-off"),
        Attempt(change="flash-off", outcome="fixed", loss=5.23, grad_norm=2.07, seconds=0.3),
        HANG,
    ),
    seconds=68.0,
)


def machines() -> dict[str, Facts]:
    """Name -> the machine."""
    # recorded names this module, so its building blocks are taken when they are there
    from recorded_parts import H100, TORCH_2_11, TORCH_2_15, machine, smoke, stopped

    def poisoned(diagnosis: Diagnosis) -> Smoke:
        parameters = [msgspec.structs.replace(each, finite=False) for each in smoke().parameters]
        nan = (Step(loss="nan", grad_norm="nan", lr=3e-4),) * 3
        return smoke(steps=nan, parameters=tuple(parameters), diagnosis=diagnosis)

    hung = msgspec.structs.replace(stopped("forward", TIMEOUT), diagnosis=FLASH)
    return {
        "diagnosed_cudnn": machine(H100, torch=TORCH_2_11, smoke=poisoned(CUDNN)),
        "diagnosed_nothing_mends": machine(H100, torch=TORCH_2_15, smoke=poisoned(NOTHING)),
        "diagnosed_comes_and_goes": machine(H100, torch=TORCH_2_15, smoke=poisoned(COMES_AND_GOES)),
        "diagnosed_hang_with_flash": machine(H100, torch=TORCH_2_15, smoke=hung),
    }
