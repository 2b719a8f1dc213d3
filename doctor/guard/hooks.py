"""The hooks in torch: installed once, removed without a trace, and harmless if the guard breaks.

Every hook calls the watch inside `Hooks.safely`: the first error of the guard switches it off with
one line. What a version of torch does not have is left out; the checks that need it are unknown.
"""

from __future__ import annotations

import functools
import sys
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable

from .writer import say

if TYPE_CHECKING:
    from .watch import Watch

MISSING = object()


class Hooks:
    """The hooks of one watch."""

    def __init__(self, torch: Any, watch: Watch) -> None:
        self.torch = torch
        self.watch = watch
        self.active = False
        self.error = ""
        self._undo: list[Callable[[], None]] = []
        self._backward_depth = 0
        self._stepping: Any = None
        self._closure = False

    def install(self) -> None:
        """Install all hooks that this torch has a place for."""
        if self.active:
            return
        self.active = True
        for place in (self._optimizers, self._backward, self._clipping, self._scaler, self._loader):
            self.safely(place)

    def remove(self) -> None:
        """Restore every attribute, unless somebody else has replaced it since."""
        self.active = False
        while self._undo:
            self._undo.pop()()

    def safely(self, action: Callable[..., Any], *arguments: Any) -> None:
        """Call it; after an error the guard is off."""
        if not self.active:
            return
        try:
            action(*arguments)
        except Exception as error:
            self.active = False
            self.error = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
            say(f"switched itself off after an error, the training goes on: {self.error}")
            try:
                self.watch.close(f"error: {self.error}")
            except Exception:
                pass

    def _replace(self, owner: Any, name: str, make: Callable[[Any], Any]) -> None:
        """Put make(original) in its place."""
        original = owner.__dict__.get(name, MISSING)
        if original is MISSING:
            return
        replacement = functools.wraps(original)(make(original))
        setattr(owner, name, replacement)

        def undo() -> None:
            if owner.__dict__.get(name) is replacement:
                setattr(owner, name, original)

        self._undo.append(undo)

    def _capturing(self) -> bool:
        """A CUDA graph is being captured: nothing may be launched, queried or copied."""
        cuda = self.torch.cuda
        return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

    def _ours(self) -> bool:
        """Whether the watch may look: not inside a trace, and not inside a capture."""
        return self.active and not self._capturing()

    # Optimizers

    def _optimizers(self) -> None:
        from torch.optim import optimizer as module

        pre = getattr(module, "register_optimizer_step_pre_hook", None)
        post = getattr(module, "register_optimizer_step_post_hook", None)
        if pre is None or post is None:
            return
        handles = [
            pre(self._without_dynamo(self._before_step)),
            post(self._without_dynamo(self._after_step)),
        ]
        self._undo.extend(handle.remove for handle in handles)

    def _without_dynamo(self, function: Any) -> Any:
        """The function, which torch.compile does not trace."""

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        disable = getattr(self.torch, "_disable_dynamo", None)
        return call if disable is None else disable(call)

    def _before_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        outer = self._stepping() if self._stepping is not None else None
        if outer is not None or not self._ours():
            return  # the step of a step: a subclass that calls super(), or an optimizer inside
        closure = self._closure = _closure(args, kwargs)
        self._stepping = weakref.ref(optimizer)
        self._in_no_grad(self.watch.step_begins, optimizer, closure)

    def _after_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if self._stepping is None or self._stepping() is not optimizer:
            return
        self._stepping = None
        if getattr(optimizer, "_doctor_guard_protects", False):
            del optimizer.found_inf, optimizer.grad_scale, optimizer._doctor_guard_protects
        if self._ours():
            self._in_no_grad(self.watch.step_ends, optimizer, _closure(args, kwargs))
        self.watch.end_if_wanted()

    def _in_no_grad(self, action: Callable[..., Any], *arguments: Any) -> None:
        if not self.active:
            return
        with self.torch.no_grad():
            self.safely(action, *arguments)

    # The loss

    def _backward(self) -> None:
        self._replace(self.torch.autograd, "backward", self._make_backward)

    def _make_backward(self, original: Any) -> Any:
        begin, end = self._pair(self._begin_backward), self._pair(self._end_backward)
        callback = _frame_callback(self.torch)

        def backward(*args: Any, **kwargs: Any) -> Any:
            traced = callback() is not None
            outermost = begin[traced](args, kwargs)
            try:
                return original(*args, **kwargs)
            finally:
                end[traced](outermost)

        return self._skipped_by_dynamo(backward)

    def _begin_backward(self, args: Any, kwargs: Any) -> bool:
        outermost = self._backward_depth == 0 and self._ours()
        self._backward_depth += 1
        if outermost:
            if not self._closure:
                self._stepping = None  # a step that raised never ended
            self.safely(self.watch.backward_begins, args[0] if args else kwargs.get("tensors"))
        return outermost

    def _end_backward(self, outermost: bool) -> None:
        self._backward_depth -= 1
        if outermost:
            self.safely(self.watch.backward_ends)

    def _pair(self, function: Any) -> tuple[Any, Any]:
        """The function as it is, and one that torch.compile does not trace, where it is at work.

        The second imports torch._dynamo, which the guard must not do on its own.
        """
        return function, self._without_dynamo(function)

    def _skipped_by_dynamo(self, function: Any) -> Any:
        """The function, whose own frame torch.compile leaves alone, but none that it calls."""
        disable = getattr(self.torch, "_disable_dynamo", None)
        if disable is None:
            return function
        try:
            skipped = disable(function, recursive=False)
        except TypeError:
            return function

        if "torch._dynamo" in sys.modules:
            return skipped

        def call(*args: Any, **kwargs: Any) -> Any:
            # Without torch._dynamo nothing traces, and it is not imported for this.
            if "torch._dynamo" not in sys.modules:
                return function(*args, **kwargs)
            return skipped(*args, **kwargs)

        return call

    # The norm that the loop takes

    def _clipping(self) -> None:
        module = self.torch.nn.utils.clip_grad
        if "_get_total_norm" in vars(module):
            self._replace(module, "_get_total_norm", self._make_total_norm)
        else:
            for owner in (module, self.torch.nn.utils):
                self._replace(owner, "clip_grad_norm_", self._make_clip)

    def _make_total_norm(self, original: Any) -> Any:
        is_compiling, note = _is_compiling(self.torch), self._pair(self._note_norm)
        callback = _frame_callback(self.torch)

        def _get_total_norm(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if is_compiling():
                return original(tensors, *args, **kwargs)
            norm = original(tensors, *args, **kwargs)
            note[callback() is not None](tensors, norm)
            return norm

        return _get_total_norm

    def _note_norm(self, tensors: Any, norm: Any) -> None:
        if self._ours() and isinstance(tensors, (list, tuple)):
            self.safely(self.watch.norm_computed, len(tensors), norm)

    def _make_clip(self, original: Any) -> Any:
        """For torch before 2.7."""

        def clip_grad_norm_(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            single = isinstance(parameters, self.torch.Tensor)
            parameters = parameters if single else list(parameters)
            norm = original(parameters, *args, **kwargs)
            if not single:
                self._note_norm([p for p in parameters if p.grad is not None], norm)
            return norm

        return clip_grad_norm_

    # The loss scaler

    def _scaler(self) -> None:
        amp = getattr(self.torch, "amp", None)
        scaler = getattr(amp, "GradScaler", None) or self.torch.cuda.amp.GradScaler
        home = next(c for c in scaler.__mro__ if "update" in c.__dict__)
        self._patch_scaler(home)
        sharded = sys.modules.get("torch.distributed.fsdp.sharded_grad_scaler")
        if sharded is not None:
            self._patch_scaler(sharded.ShardedGradScaler)

    def _patch_scaler(self, home: Any) -> None:
        self._replace(home, "scale", self._make_scale)
        self._replace(home, "step", self._make_scaler_step)
        self._replace(home, "update", self._make_scaler_update)

    def _make_scale(self, original: Any) -> Any:
        note = self._pair(self._note_scaled)

        def scale(scaler: Any, outputs: Any) -> Any:
            result = original(scaler, outputs)
            note["torch._dynamo" in sys.modules](outputs, result)
            return result

        return scale

    def _note_scaled(self, loss: Any, scaled: Any) -> None:
        if self._ours() and isinstance(loss, self.torch.Tensor) and scaled is not loss:
            self.safely(self.watch.loss_scaled, loss, scaled)

    def _make_scaler_step(self, original: Any) -> Any:
        before = self._pair(functools.partial(self._note_scaler, "scaler_steps"))
        after = self._pair(functools.partial(self._note_scaler, "scaler_stepped"))

        def step(scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
            traced = "torch._dynamo" in sys.modules
            before[traced](scaler, optimizer)
            result = original(scaler, optimizer, *args, **kwargs)
            after[traced](scaler, optimizer)
            return result

        return step

    def _note_scaler(self, what: str, scaler: Any, optimizer: Any) -> None:
        if self._ours() and scaler.is_enabled():
            self._in_no_grad(getattr(self.watch, what), optimizer)

    def _make_scaler_update(self, original: Any) -> Any:
        note = self._pair(self._note_update)

        def update(scaler: Any, *args: Any, **kwargs: Any) -> Any:
            result = original(scaler, *args, **kwargs)
            note["torch._dynamo" in sys.modules](scaler)
            return result

        return update

    def _note_update(self, scaler: Any) -> None:
        scale = getattr(scaler, "_scale", None)
        if self._ours() and scaler.is_enabled() and scale is not None:
            initial = getattr(scaler, "_init_scale", 65536.0)
            self._in_no_grad(self.watch.scaler_updated, scale, initial)

    # The batches

    def _loader(self) -> None:
        module = sys.modules.get("torch.utils.data.dataloader")
        iterator = getattr(module, "_BaseDataLoaderIter", None)
        if iterator is None:
            return
        self._replace(iterator, "__next__", self._make_next)
        self._replace(iterator, "_next_index", self._make_next_index)
        if self.watch.settings.all:
            self._replace(iterator, "__next__", self._make_timed_next)

    def _make_next(self, original: Any) -> Any:
        def __next__(iterator: Any) -> Any:
            data = original(iterator)
            if self.active:
                self.safely(self.watch.batches.batch_fetched, iterator, data)
            return data

        return __next__

    def _make_timed_next(self, original: Any) -> Any:
        def __next__(iterator: Any) -> Any:
            began = time.perf_counter()
            data = original(iterator)
            if self.active:
                waited = time.perf_counter() - began
                self.safely(self.watch.batch_waited, iterator, waited)  # type: ignore[attr-defined]
            return data

        return __next__

    def _make_next_index(self, original: Any) -> Any:
        def _next_index(iterator: Any) -> Any:
            indices = original(iterator)
            if self.active:
                self.safely(self.watch.batches.index_drawn, iterator, indices)
            return indices

        return _next_index


def _closure(args: Any, kwargs: Any) -> bool:
    """Whether step() got a closure, in which the gradients are computed."""
    return any(callable(value) for value in (*args[1:], *kwargs.values()))


def _is_compiling(torch: Any) -> Callable[[], bool]:
    compiler = getattr(torch, "compiler", None)
    found: Callable[[], bool] = getattr(compiler, "is_compiling", None) or (lambda: False)
    return found


def _frame_callback(torch: Any) -> Callable[[], Any]:
    """What torch.compile does with the frames of this thread; None where it is not at work."""
    module = getattr(getattr(torch._C, "_dynamo", None), "eval_frame", None)
    read: Callable[[], Any] | None = getattr(module, "get_eval_frame_callback", None)
    return read or (lambda: "unknown" if "torch._dynamo" in sys.modules else None)
