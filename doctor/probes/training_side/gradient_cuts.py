"""Where the path from a parameter to the loss ends, or where its gradient becomes 0.

Imported by torch_stages.py on demand; standard library and torch only, Python 3.9.
One forward pass runs under a function mode, which sees each function of torch with its inputs and
results: a result without graph of an input with one cuts the path. The backward pass then runs with
a hook on each operation, which sees a gradient that comes in and a gradient of zeros that goes out.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

import torch
import wire
from torch.overrides import TorchFunctionMode

follow_step = wire.sibling("follow_step")
first_nonfinite = wire.sibling("first_nonfinite")

DETACHING = ("detach", "detach_", "data")
READERS = ("item", "tolist", "numpy", "__float__", "__int__", "__array__", "__index__")
"""Functions whose result is a number or an array."""
MOST = 3
"""Places per parameter."""
MOST_ZEROS = 200

Key = Tuple[str, str, str, str]
"""Kind, name, place and code of a doctor.facts.diagnosis.Cut."""


class Paths(TorchFunctionMode):
    """Follows parameters from function to function as long as the results have a graph."""

    def __init__(self, weights: Dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.cuts: Dict[Key, Set[str]] = {}
        self.last: Dict[str, Key] = {}
        """Parameter -> the last function whose result depends on it and has a graph."""
        self._live: Dict[int, Set[str]] = {id(each): {name} for name, each in weights.items()}
        self._held: List[torch.Tensor] = list(weights.values())
        """Tensors that are kept, so that no other gets the same id."""
        self._inside: List[Set[str]] = []
        """What the calls of autograd functions that are being run have used."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        options = kwargs or {}
        live = self.names_in((args, options))
        result = func(*args, **options)
        if live:
            name = getattr(func, "__name__", "")
            if name == "__get__":
                name = getattr(func.__self__, "__name__", name)
            results = list(tensors(result))
            self.follow(name, live, [*results, args[0]] if name == "__setitem__" else results)
        return result

    def names_in(self, inputs: Any) -> Set[str]:
        """The parameters that these inputs depend on, through a graph."""
        names: Set[str] = set()
        for each in tensors(inputs):
            if each.requires_grad:
                names |= self._live.get(id(each), set())
        return names

    def follow(self, name: str, live: Set[str], results: Sequence[torch.Tensor]) -> None:
        """Note what became of the parameters that the inputs of this function depend on."""
        if self._inside:  # an autograd function runs without a graph, and returns one
            self._inside[-1] |= live
            return
        with_graph = [each for each in results if each.requires_grad]
        for each in with_graph:
            self._live[id(each)] = self._live.get(id(each), set()) | live
            self._held.append(each)
        if not with_graph and not results and name not in READERS:
            return
        (place, code), _ = first_nonfinite.places()
        if with_graph:
            self.last.update(dict.fromkeys(live, ("unused", name, place, code)))
        else:
            key = kind_of(name, results), name, place, code
            self.cuts.setdefault(key, set()).update(live)

    @contextlib.contextmanager
    def with_functions(self) -> Iterator[None]:
        """Follow the parameters through autograd functions of Python too."""
        original = torch.autograd.Function.__dict__["apply"]
        paths = self

        def apply(cls: Any, *args: Any, **options: Any) -> Any:
            live = paths.names_in((args, options))
            paths._inside.append(set())
            try:
                result = original.__func__(cls, *args, **options)
            finally:
                used = paths._inside.pop()
            if live | used:
                paths.follow(cls.__name__, live | used, list(tensors(result)))
            return result

        torch.autograd.Function.apply = classmethod(apply)  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            torch.autograd.Function.apply = original  # type: ignore[method-assign]


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


def tensors(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in nested lists, tuples and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from tensors(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors(each)


def cuts(plan: Any, stage: Any, names: Sequence[str]) -> Dict[str, Any]:
    """{"cuts": [...]} of the parameters `names`, which got no gradient or zeros only."""
    with stage("allocate"):
        training = plan.training(plan.build())
    subject = training.subject
    wanted = {name: each for name, each in training.weights.items() if name in names}
    paths = Paths(wanted)
    with stage("function by function"), torch.autograd.detect_anomaly(check_nan=False):
        with training.autocast(), paths.with_functions(), paths:
            loss = subject.loss(subject.module, subject.batch)
        in_graph = {id(each) for each in leaves(loss.grad_fn)}
        computed = {name for name, each in wanted.items() if id(each) in in_graph}
        found = ends(paths, set(wanted) - computed)
        wire.send(note={"cuts": {"cuts": found}})
        if computed:
            found += zeros(training, loss, {name: wanted[name] for name in computed})
    return {"cuts": found}


def ends(paths: Paths, names: Set[str]) -> List[Dict[str, Any]]:
    """The places where the paths of these parameters end, as doctor.facts.diagnosis.Cut."""
    places: Dict[Key, Set[str]] = {}
    for name in sorted(names):
        keys = [key for key, held in paths.cuts.items() if name in held]
        certain = [key for key in keys if key[0] != "indices"] or keys
        if not keys and name in paths.last:
            certain = [paths.last[name]]
        for key in certain[:MOST]:
            places.setdefault(key, set()).add(name)
    return records(places)


def records(places: Dict[Key, Set[str]]) -> List[Dict[str, Any]]:
    fields = ("kind", "name", "place", "code")
    return [dict(zip(fields, key), parameters=sorted(names)) for key, names in places.items()]


# Gradients of zeros


def zeros(training: Any, loss: Any, weights: Dict[str, torch.Tensor]) -> List[Dict[str, Any]]:
    """The operations nearest to the loss that turn the gradients of these parameters to 0."""
    edges: List[Tuple[Any, Any]] = []
    for node in follow_step.nodes(loss.grad_fn):
        node.register_hook(recorder(node, edges))
    (training.scaler.scale(loss) if training.scaler else loss).backward()
    places: Dict[Key, Set[str]] = {}
    missing = {id(each): name for name, each in weights.items() if is_zero(each.grad)}
    for node, following in edges:
        reached = {missing[id(leaf)] for leaf in leaves(following) if id(leaf) in missing}
        if reached:
            code, place = follow_step.line_of(node)
            places.setdefault(("zero", node.name(), place, code), set()).update(reached)
            missing = {key: name for key, name in missing.items() if name not in reached}
    return records(places)


def recorder(node: Any, edges: List[Tuple[Any, Any]]) -> Any:
    def hook(outgoing: Any, incoming: Any) -> None:
        if len(edges) >= MOST_ZEROS or all(each is None or is_zero(each) for each in incoming):
            return
        for (following, _), gradient in zip(node.next_functions, outgoing):
            if following is not None and gradient is not None and is_zero(gradient):
                edges.append((node, following))

    return hook


def is_zero(gradient: Optional[torch.Tensor]) -> bool:
    return gradient is not None and gradient.numel() > 0 and not bool(gradient.any())


def leaves(root: Any) -> Iterator[torch.Tensor]:
    """The leaf tensors of a graph."""
    if root is None:
        return
    for node in follow_step.nodes(root):
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            yield leaf
