"""Evaluations between the steps: from model.eval() to model.train() or the next step."""

from __future__ import annotations

import contextlib
import resource
import time
import weakref
from types import ModuleType
from typing import Callable, Dict, List, Optional, Tuple

from ..foreign import Foreign
from ..modes import mode_matters
from ..patches import Patches
from .hashes import hash_of
from .imports import after_import
from .kept_lists import lists_of_tensors

EVALUATING = ("eval", "valid")
"""In names of functions that evaluate."""
GENERATE = 0
"""In place of a module: the calls of generate() are counted."""
LEAST_CALLS = 3
"""Calls that make an evaluation, if they have a graph, as a GAN calls a part of it once or twice,
or are of a module without gradients: an average is evaluated, a teacher is called in each step."""
TURNS = 5
"""Times that the first batch comes again. Our own number."""
MOST, MOST_LISTED = 100, 6
"""Evaluations that are recorded, and those at which lists of tensors are looked for."""


class Hook:
    """Calls what it is given. A copy of it, or one from a file, does nothing: programs copy and
    save a model while they evaluate it."""

    def __init__(self, called: Callable[..., None]) -> None:
        self._called = called

    def __call__(self, module: Foreign, args: Foreign, kwargs: Foreign) -> None:
        self._called(module, args, kwargs)

    def __reduce__(self) -> Tuple[Foreign, ...]:
        return getattr, (contextlib.nullcontext(), "__exit__")  # takes three arguments


class Evaluation:
    """One that is under way."""

    def __init__(self, step: int) -> None:
        self.step = step
        self.began = time.monotonic()
        self.calls = self.samples = self.generated = self.graphs = 0
        self.begun = False
        """It called the module, or generate()."""
        self.trains = True
        """The module has weights that can have gradients."""
        self.counted: Optional[int] = None
        """The module whose calls are counted."""
        self.of: Optional[int] = None
        """Samples of the dataset of the first batch that was fetched."""
        self.memory: List[int] = []
        """Bytes in use at each call."""
        self.batch = 0
        """Samples of the last call."""
        self.first: List[Foreign] = []
        """The hash of the first batch."""
        self.other = False
        """Another batch came since that one."""
        self.again = 0
        """Times that it came again, after others."""
        self.lists: Dict[str, int] = {}
        """Lengths of the program's lists of tensors when it began."""
        self.module: Optional[Foreign] = None
        """A reference to the module that was switched, where it was in training mode before."""


class Evaluations:
    """Notices a trained module that is switched to evaluation and called, or generates."""

    def __init__(self, torch: ModuleType, observer: Foreign) -> None:
        self.torch = torch
        self.observer = observer
        self.current: Optional[Evaluation] = None
        self.count = 0
        self._last: Optional[Evaluation] = None
        """One that ended, before the next step."""
        self._depth = self._generating = 0
        self._handles: List[Foreign] = []

    def install(self, patches: Patches) -> None:
        """Wrap nn.Module.train, which eval() calls, and generate() of transformers."""
        patches.replace(self.torch.nn.Module, "train", self._switched)
        name = "transformers.generation.utils"
        after_import(
            {name: lambda found: patches.replace(found.GenerationMixin, "generate", self._generate)}
        )

    def _generate(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        def generate(model: Foreign, *args: Foreign, **kwargs: Foreign) -> Foreign:
            self.observer.safely(self.generation_begins, model)
            self._generating += 1
            try:
                result = original(model, *args, **kwargs)
            finally:
                self._generating -= 1
            self.observer.safely(self.generation_ends, args, kwargs)
            return result

        return generate

    def generation_begins(self, model: Foreign) -> None:
        """model.generate() was called; without model.eval() it is an evaluation of its own."""
        self.begin(model)
        if self.current is not None and not self._generating:
            self._report(self.current, generates=True)

    def _report(self, current: Evaluation, **fields: Foreign) -> None:
        current.begun = True
        self.observer.begin()
        self.observer.records.write("evaluating", s=current.step, **fields)

    def generation_ends(self, args: Foreign, kwargs: Foreign) -> None:
        """It returned: one call, whose cache of tokens is gone."""
        current = self.current
        if current is None or self._generating:
            return
        current.generated += 1
        if current.counted is None:
            current.counted = GENERATE
        if current.counted == GENERATE:
            self._count(current, args, kwargs)

    def _switched(self, original: Callable[..., Foreign]) -> Callable[..., Foreign]:
        def train(module: Foreign, mode: bool = True) -> Foreign:
            self._depth += 1
            trained = module.__dict__.get("training", False)
            try:
                result = original(module, mode)
            finally:
                self._depth -= 1
            if self._depth == 0 and mode:
                self.observer.safely(self.end, module)
            elif self._depth == 0:
                self.observer.safely(self.begin, module, trained)
            return result

        return train

    def begin(self, module: Foreign, trained: bool = False) -> None:
        """module.eval() was called."""
        if self.current is not None or self.count >= MOST:
            return
        trains = any(p.requires_grad for p in module.parameters())
        if not trains and not (trained and self.observer.step):
            return
        self.current = Evaluation(self.observer.step)
        self.observer.exchanged.evaluates()
        self.current.trains = trains
        if self.count < MOST_LISTED:
            self.current.lists = lists_of_tensors(self.torch)
        self.current.module = weakref.ref(module) if trained else None
        for each in (module, *module.children()):  # Lightning calls what the module contains
            handle = each.register_forward_pre_hook(Hook(self._called), with_kwargs=True)
            self._handles.append(handle)

    def _called(self, module: Foreign, args: Foreign, kwargs: Foreign) -> None:
        self.observer.safely(self.called, module, args, kwargs)

    def called(self, module: Foreign, args: Foreign, kwargs: Foreign) -> None:
        """The module, or the first of its parts, is called while it evaluates."""
        current = self.current
        if current is None or self._generating:
            return
        if current.trains and self.torch.is_grad_enabled():  # a step may follow: a training
            current.graphs += current.counted in (None, id(module))
            current.counted = id(module) if current.counted is None else current.counted
            return
        if not current.begun and (current.trains or current.calls >= LEAST_CALLS - 1):
            self._report(current)
        if current.counted is None:
            current.counted = id(module)
        if current.counted == id(module):
            self._count(current, args, kwargs)

    def _count(self, current: Evaluation, args: Foreign, kwargs: Foreign) -> None:
        """One call, of as many samples as its first tensor has."""
        current.calls += 1
        tensors = [t for t in (*args, *kwargs.values()) if isinstance(t, self.torch.Tensor)]
        current.batch = int(tensors[0].shape[0]) if tensors and tensors[0].dim() else 1
        current.samples += current.batch
        if current.calls <= 1000:
            current.memory.append(self.in_use())
            self._look_for_turns(current, tensors)

    def _look_for_turns(self, current: Evaluation, tensors: List[Foreign]) -> None:
        """Record once that the batches begin from the first one again, as a stream without an
        end does."""
        batch = hash_of(self.torch, tensors[:1])
        current.first = current.first or batch
        if batch != current.first:
            current.other = True
        elif current.other:
            current.other = False
            current.again += 1
            if current.again == TURNS and current.begun:
                self._report(current, turns=TURNS)

    def fetched(self, iterator: Foreign) -> None:
        """A loader gave a batch without gradients."""
        if self.current is not None and self.current.of is None:
            try:
                self.current.of = len(iterator._dataset)
            except (AttributeError, TypeError, NotImplementedError):  # a stream has no length
                return

    def in_use(self) -> int:
        """Bytes on the device, or resident on a CPU."""
        if self.torch.cuda.is_initialized():
            return int(self.torch.cuda.memory_allocated())
        try:
            with open("/proc/self/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * resource.getpagesize()
        except (OSError, ValueError):
            return 0

    def died(self, error: BaseException) -> None:
        """An exception ends the process: in the evaluation, if that had begun to call the module
        or a function of the traceback is one that evaluates."""
        current, trace = self.current, error.__traceback__
        if current is None or current.begun:
            return  # it is recorded
        while trace is not None:
            if any(word in trace.tb_frame.f_code.co_name for word in EVALUATING):
                self.observer.records.write("evaluating", s=current.step)
                return
            trace = trace.tb_next

    def _settle(self, current: Optional[Evaluation], module: Foreign, optimizer: Foreign) -> None:
        """Whether the next step finds the module as the last evaluation left it; a save may lie
        between them."""
        last = self._last = current or self._last
        if last is None or (module is None and optimizer is None):
            return
        self._last = None
        if kinds := self._left(last, optimizer):
            self.observer.records.write("left", s=last.step, kinds=kinds)

    def _left(self, current: Evaluation, optimizer: Foreign) -> List[str]:
        """What drops or gathers statistics and is still in evaluation mode at a step on it."""
        root = current.module() if current.module is not None and current.begun else None
        if root is None or optimizer is None or root.training:
            return []
        stepped = {id(p) for group in optimizer.param_groups for p in group["params"]}
        if not any(id(parameter) in stepped for parameter in root.parameters()):
            return []
        kinds = [each for each in root.modules() if mode_matters(self.torch, each)]
        still = [type(each).__name__ for each in kinds if not each.training]
        return sorted(set(still)) if len(still) == len(kinds) else []

    def end(self, module: Foreign = None, optimizer: Foreign = None) -> None:
        """The next step begins, of this optimizer, or the module trains again."""
        current, self.current = self.current, None
        self._settle(current, module, optimizer)
        while self._handles:
            self._handles.pop().remove()
        if current is None:
            return
        with_graphs = current.graphs >= LEAST_CALLS and module is not None
        if not (current.begun or with_graphs):
            return
        self.count += 1
        lists = lists_of_tensors(self.torch, current.batch) if self.count <= MOST_LISTED else {}
        self.observer.records.write(
            "evaluated", s=current.step, t=time.monotonic() - current.began, calls=current.calls,
            samples=current.samples, memory=current.memory, generated=current.generated,
            graphs=current.graphs if with_graphs else 0, of=current.of,
            lists={name: [current.lists.get(name, 0), now] for name, now in lists.items()},
        )  # fmt: skip
