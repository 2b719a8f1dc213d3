"""Calls of load_state_dict(strict=False) in the user's code that left values out."""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List

import torch

from ..foreign import Foreign, observing

MOST_KEYS = 200
MOST_LOADS = 10


@contextlib.contextmanager
def recorded() -> Iterator[List[Dict[str, Any]]]:
    """Fills a list with records of the calls that left out values of what they got, or got none;
    as doctor.facts.own_model.PartialLoad."""
    loads: List[Dict[str, Any]] = []

    def noting(original: Foreign) -> Foreign:
        def load_state_dict(
            self: torch.nn.Module, state_dict: Foreign, *args: Foreign, **options: Foreign
        ) -> Foreign:
            result = original(self, state_dict, *args, **options)
            observing.attempt(lambda: _note(loads, result, len(state_dict)), None)
            return result

        return load_state_dict

    with observing.replaced(torch.nn.Module, "load_state_dict", noting):
        yield loads


def _note(loads: List[Dict[str, Any]], result: Foreign, given: int) -> None:
    missing, unexpected = list(result.missing_keys), list(result.unexpected_keys)
    if missing and (unexpected or not given) and len(loads) < MOST_LOADS:
        loads.append({
            "given": given, "unused": len(unexpected),
            "missing": missing[:MOST_KEYS], "unexpected": unexpected[:MOST_KEYS],
        })  # fmt: skip
