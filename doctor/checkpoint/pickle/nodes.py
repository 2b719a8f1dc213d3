"""What a pickle describes, as inert nodes: nothing here can import, call or compare.

Plain values are themselves: None, bool, int, float, str, bytes, tuple, list, dict. The rest:

- `Global`: a name that unpickling would import. It is two strings.
- `ObjectNode`: an object that unpickling would make, by calling `function` with `args`; `state` is
  what BUILD would give it, `items` what SETITEM(S) would put in it, `appended` what APPEND(S) and
  ADDITEMS would add. A set is one, of `SET` or `FROZENSET`.
- `Persistent`: what the pickle's reader would look up, in torch files a storage.
- `Key`: a dictionary's key that must not be hashed, as a tuple in a tuple; its `value` is the key.

`mapping`, `attributes` and `members` read dictionaries, objects and sequences in all the forms in
which pickle writes them. They give the empty thing for what is none.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from doctor.checkpoint.actions import NO_ACTIONS, Actions

DEEPEST = 100
"""Levels that are looked into. More than any checkpoint has."""


@dataclass(frozen=True, slots=True)
class Global:
    """A name that unpickling would import."""

    module: str
    name: str
    text: str = field(init=False, compare=False, repr=False)
    """module.name"""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", f"{self.module}.{self.name}")


@dataclass(slots=True, eq=False)
class ObjectNode:
    """An object that unpickling would make."""

    function: Any
    """What would be called: a Global, or a node, where the pickle calls what it made."""
    args: tuple[Any, ...] = ()
    state: Any = None
    items: dict[Any, Any] | None = None
    appended: list[Any] | None = None
    kwargs: dict[Any, Any] | None = None
    """NEWOBJ_EX alone has them."""

    @property
    def name(self) -> str:
        """module.name of what would be called; "" where that is no Global."""
        return self.function.text if isinstance(self.function, Global) else ""


@dataclass(frozen=True, slots=True, eq=False)
class Persistent:
    """What the pickle's reader would look up."""

    id: object


@dataclass(frozen=True, slots=True, eq=False)
class Key:
    """A dictionary's key that must not be hashed."""

    value: Any


@dataclass(frozen=True, slots=True)
class Pickled:
    """One pickle, read."""

    value: Any
    imports: tuple[str, ...] = ()
    """Globals that it names, "module.name", each once."""
    end: int = 0
    """Where the bytes after its STOP begin."""
    persistent: tuple[Persistent, ...] = ()
    """Every reference to what is outside, in order."""
    protocol: int = 0
    nested: tuple[bytes, ...] = ()
    """Files of torch.save inside it, which unpickling it loads in turn."""
    actions: Actions = NO_ACTIONS


SET = Global("builtins", "set")
FROZENSET = Global("builtins", "frozenset")
DICTIONARIES = frozenset(
    {"collections.OrderedDict", "collections.defaultdict", "collections.Counter", "builtins.dict"}
)

WIDEST = 1 << 60
"""Numbers below it are their own hashes, so that they cannot be made to collide."""


def hashable(key: Any) -> object:
    """The key of a dictionary: itself where hashing it is cheap, else wrapped by identity."""
    kind = type(key)
    if kind is str or key is None or kind is bool or kind is float or kind is bytes:
        return key
    if kind is int:
        return key if -WIDEST < key < WIDEST else Key(key)
    if kind is ObjectNode or kind is Global or kind is Persistent:
        return key
    if kind is tuple and len(key) <= 16 and all(map(_plain, key)):
        return key
    return Key(key)


def _plain(part: Any) -> bool:
    kind = type(part)
    return kind is str or part is None or (kind is int and 0 <= part < 1 << 32)


def mapping(value: object) -> dict[Any, Any]:
    """The items of a dict, an OrderedDict or any object with items; {} for what has none."""
    if type(value) is dict:
        return value
    if type(value) is not ObjectNode:
        return {}
    if value.items is not None:
        return value.items
    first = value.args[0] if value.args else None
    if value.name in DICTIONARIES and type(first) is dict:
        return first
    if value.name in DICTIONARIES and type(first) is list:  # as Python 2 wrote an OrderedDict
        pairs = [pair for pair in first if type(pair) in (list, tuple) and len(pair) == 2]
        return {hashable(pair[0]): pair[1] for pair in pairs}
    return {}


def attributes(value: object) -> dict[str, object]:
    """What BUILD would set on an object: its __dict__ and its slots."""
    return state_attributes(value.state) if type(value) is ObjectNode else {}


def state_attributes(state: object) -> dict[str, object]:
    """The attributes in an object's state: a dictionary, or one and another for its slots."""
    names: dict[str, Any] = {}
    for each in state[:2] if type(state) is tuple else (state,):
        if type(each) is dict:
            names.update({name: held for name, held in each.items() if type(name) is str})
    return names


def members(value: object) -> list[Any]:
    """What is in a list, a tuple or a set."""
    if type(value) is list:
        return value
    if type(value) is tuple:
        return list(value)
    if type(value) is not ObjectNode:
        return []
    if value.appended is not None:
        return value.appended
    inner = value.args[0] if len(value.args) == 1 else ()
    whole = value.function in (SET, FROZENSET) or value.name == "torch.Size"
    return list(inner) if whole and isinstance(inner, list | tuple) else []


@contextlib.contextmanager
def gc_paused() -> Iterator[None]:
    """Without searches for garbage, which take half the time where all that is made is kept."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
