"""State dicts of a model that the program keeps, and that training has changed since."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from typing import Callable, Iterator

from . import codes
from .context import Context
from .foreign import Foreign
from .patches import Patches
from .records import WARN, Alarm
from .switch import Switch

MOST_KEPT, DEPTH, MOST_ITEMS = 64, 2, 32
COMPARED, SAMPLED = 8, 64
"""Tensors of a state dict that are compared, and values of each."""


class KeptStates:
    """What Module.state_dict() returned, by its id."""

    def __init__(self, context: Context) -> None:
        self._context, self._torch = context, context.torch
        self.loaded = 0
        """State dicts that modules loaded."""
        self._taken: dict[int, _Taken] = {}
        self._itself: dict[int, tuple[Foreign, int]] = {}
        """Modules that loaded their own tensors, by their id, and at which step."""
        self._without: dict[int, tuple[Foreign, str, int]] = {}
        """Modules that loaded nothing of what they got, by their id, a sentence, and the hash of
        the names that they got."""
        self._fitting: set[int] = set()
        """The hashes of names of which a module had some: such a state dict may be offered to each
        part of a model."""

    def taken(self, state: Foreign) -> None:
        """A state dict was made."""
        step = self._context.step
        if not step:
            return  # one that is made before the training is often saved again and again
        if not isinstance(state, OrderedDict):
            return  # what a hook made of it: a plain dict has no weak references
        for key in [k for k, each in self._taken.items() if each.state() is None]:
            self._report(self._taken.pop(key))
        if len(self._taken) < MOST_KEPT:
            self._taken[id(state)] = _Taken(self._torch, state, step, self._context.where())

    def used(self, value: Foreign, verb: str) -> None:
        """It is saved or loaded, or what holds it is."""
        self._context.tally.states += 1
        now = self._context.step
        for state in _dicts(value, DEPTH) if self._taken else ():
            taken = self._taken.get(id(state))
            if taken is None or taken.state() is not state or taken.step >= now:
                continue
            if verb == "saved" and taken.saved_at not in (0, now):
                del self._taken[id(state)]  # again and again: it is meant to follow the weights
                continue
            taken.saved_at = now
            if taken.alarm is None and taken.has_changed(state):
                text = (
                    f"the state dict that is {verb} at step {now:,} was taken at step "
                    f"{taken.step:,}{taken.where} and is no copy: its tensors are the weights "
                    f"of step {now:,}"
                )
                taken.alarm = Alarm(codes.KEPT_STATE_COPIED, WARN, now, text, verb)
                if verb == "loaded":
                    self._report(self._taken.pop(id(state)))

    def loads(self, module: Foreign, state: Foreign) -> None:
        """A module is about to load a state dict: its own tensors, from time to time?"""
        self.loaded += 1
        now = self._context.step
        if not now or not hasattr(state, "get"):
            return
        own = {n: p for n, p in module.named_parameters() if _is_readable(self._torch, p)}
        if not own or not all(_is_same(p, state.get(n)) for n, p in own.items()):
            return
        before, step = self._itself.get(id(module), (lambda: None, 0))
        self._itself[id(module)] = weakref.ref(module), now
        if before() is module and step < now:
            text = (
                f"{type(module).__name__} loads its own tensors at step {step:,} and at step "
                f"{now:,}{self._context.where()}: load_state_dict() changes nothing"
            )
            self._context.warn(codes.KEPT_STATE_COPIED, text, "itself")

    def loaded_part(self, module: Foreign, state: Foreign, keys: Foreign) -> None:
        """load_state_dict() returned; with strict=False it may have loaded nothing."""
        unexpected: list[str] = list(getattr(keys, "unexpected_keys", ()))
        if len(self._without) >= MOST_KEPT or not hasattr(state, "keys") or not state:
            return
        names = hash(frozenset(state))
        if len(unexpected) < len(state):
            self._fits(module, names)
            return
        missing = list(getattr(keys, "missing_keys", ()))
        if missing and names not in self._fitting:
            text = (
                f"load_state_dict(strict=False) loaded nothing into {type(module).__name__}"
                f"{self._context.where()}: it has none of the {len(state)} names of the state "
                f"dict, such as '{unexpected[0]}'; its own are such as '{missing[0]}'"
            )
            self._without[id(module)] = weakref.ref(module), text, names

    def _fits(self, module: Foreign, names: int) -> None:
        """It has loaded something: no part of it is without, nor what else got these names."""
        if len(self._fitting) < MOST_KEPT:
            self._fitting.add(names)
        own = {id(p) for p in module.parameters()} if self._without else set()
        for key, (where, _, got) in list(self._without.items()):
            other = where()
            if other is None or got == names or any(id(p) in own for p in other.parameters()):
                del self._without[key]  # a second try has loaded something

    def report_unloaded(self) -> None:
        """A training begins or ends: modules that got a state dict and have nothing of it."""
        while self._without:
            text = self._without.popitem()[1][1]
            self._context.warn(codes.KEPT_STATE_COPIED, text, "nothing")

    def close(self) -> None:
        """What was saved once, and has changed since it was taken, is reported."""
        self.report_unloaded()
        while self._taken:
            self._report(self._taken.popitem()[1])

    def _report(self, taken: _Taken) -> None:
        if taken.alarm is not None:
            self._context.add(taken.alarm, None)


class _Taken:
    """A state dict, with some values of the tensors that it held when it was made."""

    def __init__(self, torch: Foreign, state: Foreign, step: int, where: str) -> None:
        self.state, self.step, self.where = weakref.ref(state), step, where
        self.saved_at = 0
        self.alarm: Alarm | None = None
        names = [name for name, t in state.items() if _is_readable(torch, t)]
        chosen = names[:: -(-len(names) // COMPARED) or 1]
        self._values = {n: (state[n].data_ptr(), _some(state[n]).clone()) for n in chosen}

    def has_changed(self, state: Foreign) -> bool:
        """Whether the same tensors have other values now; this may wait for a device."""
        same = [
            (state[name], values)
            for name, (memory, values) in self._values.items()
            if name in state and state[name].data_ptr() == memory
        ]
        return any(not bool((_some(tensor) == values).all()) for tensor, values in same)


def _is_same(parameter: Foreign, value: Foreign) -> bool:
    return hasattr(value, "data_ptr") and value.data_ptr() == parameter.data_ptr()


def _some(tensor: Foreign) -> Foreign:
    return tensor.detach().reshape(-1)[:SAMPLED]


def _is_readable(torch: Foreign, tensor: Foreign) -> bool:
    """Whether it is a parameter's plain memory; a buffer may count steps."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.is_floating_point()
        and tensor.is_contiguous()
        and tensor.numel() > 0
        and tensor.device.type in ("cpu", "cuda", "mps")
    )


def _dicts(value: Foreign, depth: int) -> Iterator[Foreign]:
    """The dicts in nested dicts and lists."""
    if isinstance(value, dict):
        yield value
    if depth and isinstance(value, (dict, list, tuple)):
        items = list(value.values() if isinstance(value, dict) else value)
        for item in items[:MOST_ITEMS]:
            yield from _dicts(item, depth - 1)


def install(switch: Switch, patches: Patches, states: KeptStates) -> None:
    """Wrap state_dict() and load_state_dict() of modules."""
    module = switch.torch.nn.Module
    patches.replace(module, "state_dict", lambda original: _take(switch, states, original))
    patches.replace(module, "load_state_dict", lambda original: _load(switch, states, original))


def _take(switch: Switch, states: KeptStates, original: Callable[..., Foreign]) -> Foreign:
    def state_dict(self: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        state = original(self, *args, **kwargs)
        if not args and kwargs.get("destination") is None:  # not of a submodule
            switch.safely(states.taken, state)
        return state

    return state_dict


def _load(switch: Switch, states: KeptStates, original: Callable[..., Foreign]) -> Foreign:
    def load_state_dict(
        self: Foreign, state_dict: Foreign, *args: Foreign, **kwargs: Foreign
    ) -> Foreign:
        switch.safely(states.used, state_dict, "loaded")
        switch.safely(states.loads, self, state_dict)
        keys = original(self, state_dict, *args, **kwargs)
        switch.safely(states.loaded_part, self, state_dict, keys)
        return keys

    return load_state_dict
