"""Settings and warnings of a log that say why something failed: harmless where nothing did."""

from __future__ import annotations

import re
from collections.abc import Collection

from doctor.checks.log.classes import CONDITIONS
from doctor.errors.cause import Cause
from doctor.errors.fitted import fitted
from doctor.facts.log import Log, LogEvent
from doctor.judge.place import Place

MOST = 3
"""Reasons that a finding names."""
NOT_ACTIVATED = "environment-not-activated"
OF_ENVIRONMENT = re.compile(
    r"No module named '(?:torch|torchvision|torchaudio|transformers|numpy|datasets|accelerate|"
    r"tokenizers|huggingface_hub|safetensors|peft|trl|deepspeed|lightning|pytorch_lightning|timm|"
    r"tensorflow|jax|pandas|scipy|sklearn|matplotlib|PIL|cv2|yaml|tqdm|omegaconf|hydra|einops|"
    r"wandb|tensorboard)'"
)
"""Packages that each environment for training has, and that the python of the shell lacks."""
ABOUT = "about"
"""Group of a condition that names what the failure names: it counts wherever it stands."""
Reason = tuple[Cause, LogEvent]


def reasons_of(log: Log, ids: Collection[str], path: str, line: int) -> list[Reason]:
    """What explains a failure of these rows or checks at a line: conditions before it, in the order
    of the table."""
    found = {
        event.name: event
        for event in reversed((*log.events, *log.harmless))
        if event.name in CONDITIONS
        and (event.path != path or event.line <= line or not line or ABOUT in event.groups)
        and not (CONDITIONS[event.name].passing and event.recovered)
    }
    if NOT_ACTIVATED in found and not _is_of_environment(log, path, line):
        del found[NOT_ACTIVATED]
    rows = (row for id, row in CONDITIONS.items() if id in found)
    return [(row, found[row.id]) for row in rows if not row_is_other(row, ids)][:MOST]


def _is_of_environment(log: Log, path: str, line: int) -> bool:
    """Whether the failure at a line is an environment that lacks its packages: one whose program
    had taken steps has them."""
    events = [each for each in log.events if each.path == path and each.line == line]
    if any(each.name == "import-failed" for each in events):
        steps = (each.lines for each in log.curves if each.path == path and each.name == "loss")
        if any(0 < first < line for lines in steps for first in lines[:1]):
            return False
        return any(OF_ENVIRONMENT.search(each.text) for each in events)
    return True


def row_is_other(row: Cause, ids: Collection[str]) -> bool:
    """Whether a condition is the reason of none of these."""
    return not set(row.explains) & set(ids)


def named(reasons: list[Reason]) -> str:
    """ "(bridge-chosen) ", before what a summary says."""
    return f"({', '.join(row.id for row, _ in reasons)}) " if reasons else ""


def fix_of(reasons: list[Reason]) -> str:
    return " ".join(dict.fromkeys(fitted(row, event.text).fix for row, event in reasons))


def places_of(reasons: list[Reason]) -> tuple[Place, ...]:
    return tuple(
        Place(path=event.path, line=event.line, rank=event.rank, text=event.text, message=row.id)
        for row, event in reasons
    )
