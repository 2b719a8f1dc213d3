"""Where the path from a parameter to the loss ends, or where its gradient becomes 0.

One forward pass runs under a function mode, which sees each function of torch with its inputs and
results: a result without graph of an input with one cuts the path. gradient_zeros.py then runs the
backward pass.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
from torch.overrides import TorchFunctionMode

from ... import wire
from ..foreign import Arguments, Foreign, Function, Options, Types, graphs, observing, places
from ..subject import taken_gradients
from ..subject.plan import Plan
from ..subject.timed import Timed
from ..values import watched_modules
from ..values.value_origins import tensors
from . import gradient_hooks, gradient_zeros, value_flow, zero_origins

DETACHING = ("detach", "detach_", "data")
READERS = ("item", "tolist", "numpy", "__float__", "__int__", "__array__", "__index__")
"""Functions whose result is a number or an array."""
SHAPED_ALIKE = re.compile(r"(zeros|ones|rand|randn|randint|empty|full)_like|new_\w+|size|dim|shape")
"""Functions that read the shape of their input only."""
OF_VARIABLE = "detach.default"
"""What Variable(value) runs below the functions of Python; `Paths.copied` sees its result."""
MOST = 3
"""Places per parameter."""

Key = Tuple[Any, ...]
"""A gradient_zeros.Key."""
records: Any = gradient_zeros.records


class Paths(TorchFunctionMode):
    """Follows parameters from function to function as long as the results have a graph."""

    def __init__(self, weights: Dict[str, torch.Tensor], modules: Any, smallest: float) -> None:
        super().__init__()
        self._modules = modules
        self.hooks = gradient_hooks.Hooks(smallest)
        self._names = {id(each): name for name, each in weights.items()}
        self.cuts: Dict[Key, Set[str]] = {}
        self.last: Dict[str, Key] = {}
        """Parameter -> the last function whose result depends on it and has a graph."""
        self.choices: Dict[str, Key] = {}
        """Parameter -> the last function that returned indices beside values with a graph."""
        self._detached: Dict[int, Key] = {}
        """Id of a detached tensor -> the cut that it comes from."""
        self._unread: Dict[Key, Set[int]] = {}
        """Cut -> ids of values that come from its result and that no function has read."""
        self.chosen: Dict[Key, Key] = {}
        """Cut of a detached tensor -> the function that chose indices by it."""
        self._live: Dict[int, Set[str]] = {id(each): {name} for name, each in weights.items()}
        self._held: List[torch.Tensor] = list(weights.values())
        """Tensors that are kept, so that no other gets the same id."""
        self.flow = value_flow.Flow()
        self.replaced: Dict[Key, Key] = {}
        """Cut -> the one that took its place."""
        self._differentiated: Tuple[Set[str], Key] = (set(), ())
        """The parameters behind what the code calls backward() on, and the cut that it is."""
        self._inside: List[Set[str]] = []
        """What the calls of autograd functions that are being run have used."""

    def __torch_function__(
        self, func: Function, types: Types, args: Arguments = (), kwargs: Optional[Options] = None
    ) -> Foreign:
        options = kwargs or {}
        live = self.names_in((args, options))
        result = func(*args, **options)
        name = observing.function_name(func)
        results = list(tensors(result))
        if name == "register_hook" and args[0].grad_fn is not None:
            self.hooks.watch_result(args[0])
        self.flow.pass_on(name, (args, options), results)
        self._note_derivatives(func, name, live, results)
        if live:
            self.follow(name, live, [*results, args[0]] if name == "__setitem__" else results)
        elif self._detached:
            self._follow_detached(name, (args, options), results)
        return result

    def _note_derivatives(
        self, func: Function, name: str, live: Set[str], results: Sequence[torch.Tensor]
    ) -> None:
        """Gradients that the code computes itself by backward() and .grad."""
        key: Key = ("constant", "backward", *places.innermost()[0], self._modules.current, "", True)
        if name == "backward" and live:
            self._differentiated = live, key
        elif name == "grad" and observing.own_name(func) == "__get__" and results:
            names, read = self._differentiated
            if names:
                self.cuts.setdefault(read, set()).update(names)
                self.flow.add(frozenset([read]), results)

    def _follow_detached(self, name: str, inputs: Foreign, results: Sequence[torch.Tensor]) -> None:
        """A detached value that becomes an array is cut by the array."""
        known = [self._detached.get(id(each)) for each in tensors(inputs)]
        key = next(filter(None, known), None)
        if key is None:
            return
        if name in READERS and key in self.cuts:
            array: Key = ("number", name, *key[2:])
            self.cuts[array] = self.cuts.pop(key) | self.cuts.get(array, set())
            self.replaced[key] = array
        self._unread[key] -= {id(each) for each in tensors(inputs)}
        if results and not any(each.is_floating_point() for each in results):
            (place, code), _ = places.innermost()
            self.chosen[key] = ("indices", name, place, code, self._modules.current, "", True)
            return
        self._note_detached(key, results)

    def end(self) -> None:
        """Replace the cuts of detached tensors that only choose indices by those choices: without
        detach the path would end there as well."""
        for key, choice in self.chosen.items():
            if not self._unread[key] and key in self.cuts:
                self.cuts[choice] = self.cuts.pop(key) | self.cuts.get(choice, set())
                self.replaced[key] = choice

    def _note_detached(self, key: Key, results: Sequence[torch.Tensor]) -> None:
        self._detached.update((id(each), key) for each in results)
        self._unread.setdefault(key, set()).update(id(each) for each in results)
        self._held += results

    def names_in(self, inputs: Foreign) -> Set[str]:
        """The parameters that these inputs depend on, through a graph."""
        names: Set[str] = set()
        for each in tensors(inputs):
            if each.requires_grad:
                if id(each) not in self._live:  # made by what no function mode sees, as a script is
                    self._live[id(each)] = self._in_graph(each)
                    self._held.append(each)
                names |= self._live[id(each)]
        return names

    def _in_graph(self, value: torch.Tensor) -> Set[str]:
        return {
            self._names[id(leaf)]
            for leaf in graphs.leaves(value.grad_fn)
            if id(leaf) in self._names
        }

    def follow(self, name: str, live: Set[str], results: Sequence[torch.Tensor]) -> None:
        """Note what became of the parameters that the inputs of this function depend on."""
        if self._inside:  # an autograd function runs without a graph, and returns one
            self._inside[-1] |= live
            return
        with_graph = [each for each in results if self._has_path(each)]
        for each in with_graph:
            self._live[id(each)] = self._live.get(id(each), set()) | live
            self._held.append(each)
        if not with_graph and not results and name not in READERS:
            return
        if SHAPED_ALIKE.fullmatch(name) or name == OF_VARIABLE:
            return
        (place, code), _ = places.innermost()
        sampled = "sample()" * (not with_graph and places.in_sample())
        where = name, place, code, self._modules.current, sampled, True
        if with_graph:
            self.last.update(dict.fromkeys(live, ("unused", *where)))
            if any(not each.is_floating_point() for each in results):
                self.choices.update(dict.fromkeys(live, ("indices", *where)))
        else:
            self._cut(kind_of(name, results), where, live, results)

    def _has_path(self, value: torch.Tensor) -> bool:
        """torch.tensor(..., requires_grad=True) makes a leaf, behind which nothing trains."""
        new = value.grad_fn is None and id(value) not in self._live and torch.is_grad_enabled()
        return value.requires_grad and not new

    def copied(self, loss: torch.Tensor) -> bool:
        """Whether a leaf that the loss depends on has the numbers of a value with a graph, as
        Variable(value, requires_grad=True), which no function mode sees."""
        leaves = graphs.leaves(loss.grad_fn)
        new = [each for each in leaves if not isinstance(each, torch.nn.Parameter)]
        new += [loss] if loss.grad_fn is None else []
        addresses = {observing.storage_address(each) for each in new}
        values = (each for each in self._held if each.grad_fn is not None)
        return any(observing.storage_address(each) in addresses for each in values)

    def _cut(self, kind: str, where: Any, live: Set[str], results: Sequence[torch.Tensor]) -> None:
        """Note a result without graph; of a detached one also the expression in its line."""
        part = places.expression() if kind == "detached" else ""
        key: Key = (kind, *where[:4], "`%s`" % part, True) if part else (kind, *where)
        self.cuts.setdefault(key, set()).update(live)
        self.flow.add(frozenset([key]), results)
        if kind == "detached":
            self._note_detached(key, results)

    @contextlib.contextmanager
    def with_functions(self) -> Iterator[None]:
        """Follow the parameters through autograd functions of Python too."""
        paths = self

        def apply(original: Foreign, cls: Foreign, *args: Foreign, **options: Foreign) -> Foreign:
            live = paths.names_in((args, options))
            paths._inside.append(set())
            try:
                result = original(cls, *args, **options)
            finally:
                used = paths._inside.pop()
            if live | used:
                paths.follow(cls.__name__, live | used, list(tensors(result)))
            return result

        with observing.functions_called(apply):
            yield


def kind_of(name: str, results: Sequence[torch.Tensor]) -> str:
    """How a function cuts the path, as doctor.facts.diagnosis.Cut.kind."""
    if name in DETACHING:
        return "detached"
    if name in READERS:
        return "number"
    if not torch.is_grad_enabled():
        return "no_grad"
    floating = any(each.is_floating_point() or each.is_complex() for each in results)
    return "constant" if floating else "indices"


def cuts(
    plan: Plan, stage: Timed, names: Sequence[str], small: bool = False, absent: bool = False
) -> Dict[str, Any]:
    """{"cuts": [...]} of the parameters `names`, which got no gradient or zeros only; with `small`,
    tiny ones. `absent`: none of them had a gradient after the backward pass. Unless hooks took it,
    the lines and the origins of zeros, which take most of the time, are not recorded then."""
    with stage("allocate"):
        training = plan.training(plan.build())
    subject = training.subject
    wanted = {name: each for name, each in training.weights.items() if name in names}
    absent = absent and not any(map(taken_gradients.has_hooks, wanted.values()))
    modules = watched_modules.Modules(subject.module)
    paths = Paths(wanted, modules, gradient_zeros.SMALL if small else 0.0)
    paths.hooks.watch_modules(subject.module)
    origins = zero_origins.ZeroOrigins(subject.module, subject.batch)
    with stage("function by function"), contextlib.ExitStack() as watched:
        if not absent:
            watched.enter_context(torch.autograd.detect_anomaly(check_nan=False))
        functions = paths.with_functions()
        zeros = contextlib.nullcontext() if absent else origins
        with training.autocast(), modules.watched(), functions, paths, zeros:
            loss = subject.loss(subject.module, subject.batch)
        in_graph = {id(each) for each in graphs.leaves(loss.grad_fn)}
        computed = {name for name, each in wanted.items() if id(each) in in_graph}
        now = dict(subject.module.named_parameters())
        gone = {name for name in wanted if now.get(name) is not wanted[name]}
        ending = records({("replaced", "", "", "", "", "", True): gone}) if gone else []
        ending += ends(paths, set(wanted) - computed - gone, loss)
        wire.send(note={"cuts": {"cuts": ending}})
        if computed and not absent:
            held = {name: wanted[name] for name in computed}
            ending += gradient_zeros.zeros(
                training, loss, held, modules, paths.hooks, origins, small
            )
    return {"cuts": ending}


def ends(paths: Paths, names: Set[str], loss: torch.Tensor) -> List[Dict[str, Any]]:
    """The places where the paths of these parameters end, as doctor.facts.diagnosis.Cut: those
    whose values reach the loss, if there are any."""
    paths.end()
    reaching = {paths.replaced.get(key, key) for key in paths.flow.of(loss)}
    places: Dict[Key, Set[str]] = {}
    chosen, copied = paths.chosen.values(), paths.copied(loss)
    for name in sorted(names):
        keys = [key for key, held in paths.cuts.items() if name in held]
        if copied and all(key[0] == "indices" for key in keys):
            keys = []
        certain = [key for key in keys if key[0] != "indices" or key in chosen] or keys
        if reached := [key for key in keys if key in reaching]:
            certain = reached + [key for key in keys if key[0] == "number" and key not in reached]
        if not keys and name in paths.last:
            last, choice = paths.last[name], paths.choices.get(name)
            certain = [choice if choice and choice[1:] == last[1:] else last]
            if copied:
                remark = "it copies the result of %s" % last[1]
                certain = [("constant", "Variable", *last[2:5], remark, True)]
        for key in certain[:MOST]:
            places.setdefault(key, set()).add(name)
    cuts: List[Dict[str, Any]] = records(places)
    return cuts
