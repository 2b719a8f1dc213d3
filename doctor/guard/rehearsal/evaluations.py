"""Evaluations between the steps: from model.eval() to model.train() or the next step."""

from __future__ import annotations

import functools
import resource
import time
from types import ModuleType
from typing import Callable, List, Optional

from ..foreign import Foreign
from ..patches import Patches

MOST = 100
"""Evaluations that are recorded."""


class Evaluation:
    """One that is under way."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.began = time.monotonic()
        self.calls = self.samples = 0
        self.memory: List[int] = []
        """Bytes in use at each call."""


class Evaluations:
    """Notices a trained module that is switched to evaluation and called."""

    def __init__(self, torch: ModuleType, observer: Foreign) -> None:
        self.torch = torch
        self.observer = observer
        self.current: Optional[Evaluation] = None
        self.count = 0
        self._depth = 0
        self._handle: Foreign = None

    def install(self, patches: Patches) -> None:
        """Wrap nn.Module.train, which eval() calls."""
        patches.replace(self.torch.nn.Module, "train", self._switched)

    def _switched(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        @functools.wraps(original)
        def train(module: Foreign, mode: bool = True) -> Foreign:
            self._depth += 1
            try:
                result = original(module, mode)
            finally:
                self._depth -= 1
            if self._depth == 0:
                self.observer.safely(self.begin if not mode else self.end, module)
            return result

        return train

    def begin(self, module: Foreign) -> None:
        """module.eval() was called."""
        if self.current is not None or self.count >= MOST:
            return
        if not any(p.requires_grad for p in module.parameters()):
            return
        self.current = Evaluation(self.observer.step)
        self._handle = module.register_forward_pre_hook(self._called, with_kwargs=True)

    def _called(self, module: Foreign, args: Foreign, kwargs: Foreign) -> None:
        self.observer.safely(self.called, args, kwargs)

    def called(self, args: Foreign, kwargs: Foreign) -> None:
        """The module is called while it evaluates."""
        current = self.current
        if current is None or self.torch.is_grad_enabled():
            return
        if not current.calls:
            self.observer.begin()
            self.observer.records.write("evaluating", s=current.step)
        current.calls += 1
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, self.torch.Tensor)]
        current.samples += int(tensors[0].shape[0]) if tensors and tensors[0].dim() else 1
        if current.calls <= 1000:
            current.memory.append(self._in_use())

    def _in_use(self) -> int:
        """Bytes on the device, or resident on a CPU."""
        if self.torch.cuda.is_initialized():
            return int(self.torch.cuda.memory_allocated())
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        except (OSError, ValueError):
            return 0

    def end(self, module: Foreign = None) -> None:
        """The next step begins, or the module trains again."""
        current, self.current = self.current, None
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        if current is None or not current.calls:
            return
        self.count += 1
        self.observer.records.write(
            "evaluated", s=current.step, t=time.monotonic() - current.began, calls=current.calls,
            samples=current.samples, memory=current.memory,
        )  # fmt: skip
