"""What a Python file calls, by its syntax alone: it is parsed and never imported.

Names are followed through imports, aliases and getattr, so that `o.system` of `import os as o` and
getattr(os, "sys" + "tem") are os.system.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple

from doctor.checkpoint.errors import CheckpointError
from doctor.checkpoint.records import CodeCall

PROGRAMS = re.compile(
    r"os\.(?:system|popen|startfile|exec[lv]p?e?|spawn[lv]p?e?|posix_spawnp?)|pty\.spawn"
    r"|subprocess\.(?:run|Popen|call|check_call|check_output|getoutput|getstatusoutput)"
    r"|asyncio\.(?:subprocess\.)?create_subprocess_(?:exec|shell)|pexpect\.(?:run|spawn)"
)
"""Functions that start a program."""

NETWORK = re.compile(
    r"socket\.(?:socket|create_connection)|urllib\.request\.(?:urlopen|urlretrieve)"
    r"|(?:requests|httpx)\.(?:get|post|put|request|Session|Client|stream)|aiohttp\.ClientSession"
    r"|http\.client\.HTTPS?Connection|ftplib\.FTP|wget\.download"
)
"""Functions that reach the network."""

DECODERS = re.compile(
    r"base64\.\w*decode|binascii\.(?:unhexlify|a2b_\w+)|(?:zlib|bz2|lzma|gzip)\.decompress"
    r"|codecs\.decode|bytes\.fromhex|marshal\.loads"
)
"""Functions that turn stored text into what it hides."""

EVALUATION = re.compile(r"(?:builtins\.)?(?:exec|eval)|runpy\.run_(?:path|module)")
UNPICKLING = re.compile(r"(?:pickle|marshal|dill|cloudpickle)\.loads")

BUILT_IN = frozenset({"exec", "eval", "getattr", "__import__", "bytes", "__builtins__"})
STARS = {
    "os": ("system", "popen"),
    "subprocess": ("run", "Popen", "call", "check_call", "check_output", "getoutput"),
}
"""Functions that `from module import *` brings."""

GUARDED = ("os", "subprocess", "builtins", "posix")
"""Modules of which no harmless code computes the name of a member."""

LOADING = re.compile(
    r"__(?:init|new|post_init|init_subclass|call|getattr|del|set_name)__|forward|from_pretrained"
    r"|from_config|_?from_dict|post_init|_?init_weights|_load_state_dict|_?get_config_dict"
)
"""Functions that loading a model and a step with it call."""

MOST_CALLS = 50
Function = ast.FunctionDef | ast.AsyncFunctionDef


When = Literal["import", "load"]


class Read(NamedTuple):
    """What the syntax of one file shows."""

    calls: tuple[CodeCall, ...]
    beside: tuple[str, ...]
    """Modules beside it that it imports."""
    entered: dict[tuple[str, str], When]
    """(module beside it, function) -> when this file calls it."""


def read_calls(file: str, data: bytes, entered: Mapping[str, When] | None = None) -> Read:
    """What it calls. `entered`: functions of it that other files call, and when.

    Raises CheckpointError.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data)
        code = _Code(file, tree, entered or {})
        return Read(tuple(code.calls())[:MOST_CALLS], code.beside, code.leaving)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise CheckpointError("not-inspectable", "is not readable as Python") from None


class _Code:
    """One file: its names, its functions, and when each of them runs."""

    def __init__(self, file: str, tree: ast.Module, entered: Mapping[str, When]) -> None:
        self.file, self.tree, self.entered = file, tree, entered
        self.names: dict[str, str] = {}
        self.borrowed: dict[str, tuple[str, str]] = {}
        """Name here -> module beside this file and the name there; "" for the module itself."""
        self.leaving: dict[tuple[str, str], When] = {}
        self.beside: tuple[str, ...] = ()
        self.obtained: set[str] = set()
        for node in ast.walk(tree):
            self._import(node)
        for _ in range(3):  # an alias of an alias
            for node in ast.walk(tree):
                self._assign(node)

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for each in node.names:
                whole = each.name if each.asname else each.name.partition(".")[0]
                self.names[each.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.level:
            modules = [node.module] if node.module else [each.name for each in node.names]
            self.beside += tuple(modules)
            for each in node.names:
                place = (node.module, each.name) if node.module else (each.name, "")
                self.borrowed[each.asname or each.name] = place
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                stars = STARS.get(node.module or "", ()) if each.name == "*" else ()
                self.names |= {name: f"{node.module}.{name}" for name in stars}
                self.names[each.asname or each.name] = f"{node.module}.{each.name}"

    def _assign(self, node: ast.AST) -> None:
        """Aliases of functions, and names of what was fetched or decoded."""
        if isinstance(node, ast.withitem) and isinstance(node.optional_vars, ast.Name):
            targets, value = [node.optional_vars.id], node.context_expr
        elif isinstance(node, ast.Assign):
            targets = [each.id for each in node.targets if isinstance(each, ast.Name)]
            value = node.value
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr | ast.AugAssign):
            targets = [node.target.id] if isinstance(node.target, ast.Name) else []
            if node.value is None:
                return
            value = node.value
        else:
            return
        if isinstance(value, ast.Name | ast.Attribute | ast.Call) and (name := self.resolve(value)):
            self.names |= dict.fromkeys(targets, name)
        if self._is_obtained(value):
            self.obtained |= {*targets}

    def _is_obtained(self, value: ast.AST) -> bool:
        """Whether it holds what was fetched or decoded."""
        return any(
            (isinstance(node, ast.Name) and node.id in self.obtained)
            or (isinstance(node, ast.Call) and self._matches(node, NETWORK, DECODERS))
            for node in ast.walk(value)
        )

    def _matches(self, call: ast.Call, *patterns: re.Pattern[str]) -> bool:
        name = self.resolve(call.func)
        return any(pattern.fullmatch(name) for pattern in patterns)

    def resolve(self, node: ast.AST) -> str:
        """The full name of what an expression names, "" where that is unknown."""
        ends: list[str] = []
        while isinstance(node, ast.Attribute):
            ends.append(node.attr)
            node = node.value
        start = ""
        if isinstance(node, ast.Name):
            start = self.names.get(node.id, node.id if node.id in BUILT_IN else "")
            start = "builtins" if start == "__builtins__" else start
        elif isinstance(node, ast.Call):
            start = self._reached(node)
        return ".".join([start, *reversed(ends)]) if start else ""

    def _reached(self, call: ast.Call) -> str:
        """What getattr, __import__ and import_module of constants give."""
        name = self.resolve(call.func)
        texts = [_text(each) for each in call.args[:2]]
        if name in ("__import__", "builtins.__import__", "importlib.import_module") and texts:
            return texts[0] or ""
        if name in ("getattr", "builtins.getattr") and len(texts) == 2:
            whole = self.resolve(call.args[0])
            return f"{whole}.{texts[1]}" if whole and texts[1] else ""
        return ""

    def calls(self) -> Iterator[CodeCall]:
        """In the order of their lines."""
        found: dict[tuple[int, str], CodeCall] = {}
        for when, node in self._timed():
            if isinstance(node, ast.Call) and (call := self._judged(node, when)):
                found.setdefault((call.line, call.name), call)
        yield from sorted(found.values(), key=lambda call: call.line)

    def _judged(self, node: ast.Call, when: str) -> CodeCall | None:
        name, kind = self.resolve(node.func), ""
        values = [*node.args, *(each.value for each in node.keywords)]
        if PROGRAMS.fullmatch(name):
            kind = "program"
        elif EVALUATION.fullmatch(name) or UNPICKLING.fullmatch(name):
            obtained = any(map(self._is_obtained, values))
            plain = UNPICKLING.fullmatch(name) or not values or _text(values[0]) is not None
            kind = "obtained" if obtained else "" if plain else "evaluation"
        elif NETWORK.fullmatch(name):
            kind = "network"
        elif name == "getattr" and len(values) > 1 and _text(values[1]) is None:
            kind = "hidden" if self.resolve(values[0]) in GUARDED else ""
        if not kind:
            return None
        return CodeCall(file=self.file, line=node.lineno, name=name[:60], kind=kind, when=when)

    def _timed(self) -> Iterator[tuple[str, ast.AST]]:
        """Every node with when it runs: "import", "load", or "" for on request."""
        functions = [node for node in ast.walk(self.tree) if isinstance(node, Function)]
        bodies = {id(each): list(_own(each.body)) for each in functions}
        top = list(_own(self.tree.body))
        times = {id(each): "load" if LOADING.fullmatch(each.name) else "" for each in functions}
        names_of = {id(each): each.name for each in functions}
        classes = [node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)]
        methods = {id(each) for one in classes for each in one.body}
        named: dict[str, list[int]] = defaultdict(list)
        for each in functions:
            named[each.name].append(id(each))
        times |= {
            id(each): self.entered[each.name]
            for each in self.tree.body
            if isinstance(each, Function) and each.name in self.entered
        }
        order: tuple[tuple[When, list[list[ast.AST]]], ...] = (("import", [top]), ("load", []))
        for when, first in order:
            reached = [*first, *(bodies[key] for key, time in times.items() if time == when)]
            while reached:
                body = reached.pop()
                if when == "import":  # a step may start ffmpeg for what it is given
                    self._leave(body, when)
                names, members = _named(body)
                held = methods if body is not top else set()
                for key in (key for name in names | members for key in named[name]):
                    is_member = key in held and names_of[key] not in members
                    if not is_member and times[key] not in (when, "import"):
                        times[key] = when
                        reached.append(bodies[key])
        yield from (("import", node) for node in top)
        for key, body in bodies.items():
            yield from ((times[key], node) for node in body)
        yield from (("", node) for node in ast.walk(self.tree))

    def _leave(self, body: list[ast.AST], when: When) -> None:
        """Note which functions of files beside this one a body calls: f() and module.f()."""
        for call in (node for node in body if isinstance(node, ast.Call)):
            place, called = ("", ""), call.func
            if isinstance(called, ast.Name):
                place = self.borrowed.get(called.id, place)
            elif isinstance(called, ast.Attribute) and isinstance(called.value, ast.Name):
                module, name = self.borrowed.get(called.value.id, ("", "-"))
                place = place if name else (module, called.attr)
            if all(place):
                self.leaving.setdefault(place, when)


def _own(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """The nodes that run with a body: not those of functions in it, nor of a script's main part."""
    stack: list[ast.AST] = list(reversed(body))
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, Function):
            stack += [*node.decorator_list, *node.args.defaults]
            stack += filter(None, node.args.kw_defaults)
        elif isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
            stack += node.orelse
        else:
            stack += list(ast.iter_child_nodes(node))


def _named(nodes: list[ast.AST]) -> tuple[set[str], set[str]]:
    """Names of functions of the file that these nodes may call: f, and self.f or cls.f."""
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    members = {
        node.attr
        for node in nodes
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in ("self", "cls")
    }
    return names, members


def _text(node: ast.AST) -> str | None:
    """A text that is written out, also in parts; None for anything computed."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        left, right = _text(node.left), _text(node.right)
        return left + right if left is not None and right is not None else None
    return None
