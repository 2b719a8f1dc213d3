"""What unpickling does with the globals that a pickle names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Actions:
    """What unpickling does with the globals that it imports, beyond importing them."""

    called: frozenset[str] = frozenset()
    """Called, other than with one plain value."""
    valued: frozenset[str] = frozenset()
    """Called with one plain value, as a member of an enumeration is restored."""
    made: frozenset[str] = frozenset()
    """Classes of which an object is made with arguments, without a call of __init__."""
    tricks: frozenset[str] = frozenset()
    """What no saver writes, each in words: a computed name, a call of what was computed."""

    def __or__(self, other: Actions) -> Actions:
        return Actions(
            self.called | other.called,
            self.valued | other.valued,
            self.made | other.made,
            self.tricks | other.tricks,
        )


NO_ACTIONS = Actions()


def all_actions(each: Iterable[Actions]) -> Actions:
    """Those of several pickles."""
    whole = NO_ACTIONS
    for actions in each:
        whole |= actions
    return whole
