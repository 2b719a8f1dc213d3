"""What a schedule gives in further steps, tried on a copy, and the user's line that gives 0."""

from __future__ import annotations

import copy
import sys
import time
import warnings
from typing import Any, Dict, List, Optional, Tuple

import torch

from ..foreign import Foreign, observing, places

MOST_STEPS, SECONDS = 10_000, 1.0


def forecast(scheduler: Foreign) -> Optional[Dict[str, Any]]:
    """The record Forecast of a schedule whose learning rates are all 0; None: it was not tried."""
    if not isinstance(scheduler, torch.optim.lr_scheduler.LRScheduler):
        return None
    if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the optimizer is not stepped
        return observing.attempt(lambda: _tried(_copied(scheduler)), None)


def _copied(scheduler: Foreign) -> Foreign:
    """The schedule over groups of its own, without the weights."""
    groups = scheduler.optimizer.param_groups
    stand_in = torch.optim.SGD([torch.zeros(1)], lr=0.0)
    stand_in.param_groups = [{**group, "params": []} for group in groups]
    memo = {id(weight): weight for group in groups for weight in group["params"]}
    return copy.deepcopy(scheduler, {**memo, id(scheduler.optimizer): stand_in})


def _tried(scheduler: Foreign) -> Dict[str, Any]:
    place, code = "", ""
    groups = scheduler.optimizer.param_groups
    started, zeros = time.monotonic(), 0
    rate = _highest(groups)
    while rate == 0.0 and zeros < MOST_STEPS and time.monotonic() - started < SECONDS:
        if zeros:
            scheduler.step()
        else:
            place, code = _line_of_zero(scheduler)
        zeros += 1
        rate = _highest(groups)
    return {"zeros": zeros, "rate": rate or None, "place": place, "code": code}


def _highest(groups: List[Dict[str, Any]]) -> float:
    return max(float(group["lr"]) for group in groups)


def _line_of_zero(scheduler: Foreign) -> Tuple[str, str]:
    """The user's line that returns 0 while the schedule takes a step; ("", "") if there is none."""
    found: List[Tuple[str, str]] = []

    def trace(frame: Foreign, event: str, value: Foreign) -> Foreign:
        file = frame.f_code.co_filename
        if file.startswith((places.TORCH, "<")) or places.of_library(file):
            return None
        if event == "return" and _is_zero(value):
            found.append(places.line(frame))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        scheduler.step()
    finally:
        sys.settrace(before)
    return found[0] if found else ("", "")


def _is_zero(value: Foreign) -> bool:
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_is_zero, value))
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == 0
