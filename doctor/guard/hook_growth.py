"""Hooks that a program registers anew in each step: every forward pass runs all of them."""

from __future__ import annotations

import functools
import weakref
from typing import Callable

from . import codes
from . import thresholds as limit
from .context import Context
from .foreign import Foreign
from .patches import Patches
from .switch import Switch

REGISTERING = {
    "register_forward_hook": "_forward_hooks",
    "register_forward_pre_hook": "_forward_pre_hooks",
    "register_full_backward_hook": "_backward_hooks",
}
"""Method of a module -> the attribute that holds the hooks."""


class _Hooks:
    """What a module got of one function: in how many steps, and the last of these."""

    def __init__(self, module: Foreign) -> None:
        self.module = weakref.ref(module)
        self.steps = self.last = 0


class HookGrowth:
    """Counts the steps in which a module gets a hook of the same function again."""

    def __init__(self, context: Context) -> None:
        self._context, self._steady = context, context.steady
        self._hooks: dict[tuple[int, str, Foreign], _Hooks] = {}
        self.open = True

    def registered(self, module: Foreign, method: str, hook: Foreign) -> None:
        """A module got a hook."""
        now = self._steady.backwards
        if not self.open or not now:
            return
        code = _code(hook)
        key = id(module), method, code
        hooks = self._hooks.get(key)
        if hooks is None or hooks.module() is not module:
            if len(self._hooks) >= limit.MOST_HOOKED:
                self._hooks = {k: h for k, h in self._hooks.items() if h.module() is not None}
                self.open = len(self._hooks) < limit.MOST_HOOKED
            hooks = self._hooks[key] = _Hooks(module)
        if hooks.last == now:
            return
        hooks.last = now
        hooks.steps += 1
        if hooks.steps >= limit.HOOKED_STEPS:
            held = getattr(module, REGISTERING[method], {})
            alike = sum(_code(each) is code for each in list(held.values()))
            if alike >= limit.HOOKED_STEPS:
                self._report(module, method, alike)

    def _report(self, module: Foreign, method: str, count: int) -> None:
        self.open = False
        self._hooks = {}
        text = (
            f"{method}() adds a hook of the same function to a {type(module).__name__} in each "
            f"step, and none is removed: it has {count} by now{self._context.where()}"
        )
        self._context.warn(codes.MEMORY_HOLDS, text, "hooks", step=self._steady.backwards)


def _code(hook: Foreign) -> Foreign:
    """What tells hooks apart: the code of a function, the same for each closure of it."""
    while isinstance(hook, functools.partial):
        hook = hook.func
    function = getattr(hook, "__func__", hook)
    return getattr(function, "__code__", None) or type(hook)


def install(switch: Switch, patches: Patches, growth: HookGrowth) -> None:
    """Wrap the methods of modules that register hooks."""
    for method in REGISTERING:
        wrap = functools.partial(_wrap, switch, growth, method)
        patches.replace(switch.torch.nn.Module, method, wrap)


def _wrap(
    switch: Switch, growth: HookGrowth, method: str, original: Callable[..., Foreign]
) -> Foreign:
    def register(module: Foreign, hook: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
        handle = original(module, hook, *args, **kwargs)
        if growth.open:
            switch.safely(growth.registered, module, method, hook)
        return handle

    return register
