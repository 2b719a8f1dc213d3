"""What a row of the differential table is, and the evidence that it looks for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from doctor.checks.log.differential.run import Run
from doctor.facts.stated import Setting


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why a row holds: a sentence, the settings that it rests on, and words of the remedy."""

    sentence: str
    settings: tuple[Setting, ...] = ()
    words: dict[str, str] = field(default_factory=dict)
    is_far: bool = True
    """Whether it makes a warning of a mild symptom, where the row suffices for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Differential:
    """What decides for a cause of some symptoms."""

    id: str
    """Of the row of `doctor.errors` that has its reason, fix and sources."""
    symptoms: tuple[str, ...]
    """Slugs of checks of curves and of classes of lines."""
    evidence: Callable[[Run], Evidence | None]
    suffices: tuple[str, ...] = ()
    """Checks of which a note, or a symptom too mild for one, is a warning with this evidence: the
    setting is far outside of what is usual."""


def cited(setting: Setting) -> str:
    """ "learning_rate 0.001 (line 12)"."""
    name = setting.name.replace("_", " ")
    at = f" (line {setting.line})" if setting.line else ""
    return f"{name} {setting.text}{at}"


def number(value: float) -> str:
    """A count or a rate as people write it: 1,000 and 2e-5."""
    if value >= 1000:
        return f"{value:,.0f}"
    if 0 < value < SMALL:
        digits, _, power = f"{value:.2e}".partition("e-")
        return f"{digits.rstrip('0').rstrip('.')}e-{int(power)}"
    return f"{value:.3g}"


SMALL = 1e-2
