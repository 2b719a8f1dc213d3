"""Options that are read from a command line which has none of that name."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator

from doctor.facts.script import Raising
from doctor.script.raising.scopes import Names, Scope
from doctor.script.raising.signatures import Position, is_guarded

PARSERS = {"ArgumentParser", "add_argument_group", "add_mutually_exclusive_group"}
READ_ONLY = {"print", "vars", "info", "pprint", "str", "repr", "log", "debug", "format", "dump",
             "dumps", "asdict", "deepcopy", "copy", "getattr", "hasattr", "warning",
             "SummaryWriter", "items", "sorted", "isinstance", "type", "len", "main"}  # fmt: skip
"""Functions of other files that get a whole command line and add nothing to it."""
FOREIGN = {"add_argparse_args", "parse_config_file", "add_arguments"}
ASKING = {"hasattr", "getattr", "setattr", "delattr"}
OWN = {"__dict__", "_get_kwargs", "_get_args"}


def unknown_options(names: Names, scopes: list[Scope], span: Position) -> Iterator[Raising]:
    """args.name where no add_argument of the file makes it; the first of each name."""
    parents = names.parents
    declared = _declared(names.calls)
    if not declared:
        return
    spaces = _namespaces(scopes, parents, scopes[0])
    if not spaces or _grows(names, scopes, spaces):
        return
    given = names.stored | _asked(names)
    reported: set[str] = set()
    for scope in scopes:
        for use in scope.uses:
            node = parents.get(use)
            if (scope.owner(use.id), use.id) not in spaces or not isinstance(node, ast.Attribute):
                continue
            name = node.attr
            if name in declared | given | OWN | reported or not isinstance(node.ctx, ast.Load):
                continue
            if is_guarded(node, parents, "AttributeError"):
                continue
            reported.add(name)
            nearest = "".join(difflib.get_close_matches(name, sorted(declared), 1, 0.75))
            yield Raising("option", name, span(node), use.id, nearest)


def _declared(calls: list[ast.Call]) -> set[str] | None:
    """The destinations of all options, None where one of them is not written out."""
    names: set[str] = set()
    parsers = 0
    for call in calls:
        method = _method(call)
        if method == "ArgumentParser":
            parsers += 1
            if any(each.arg in ("parents", "prefix_chars", None) for each in call.keywords):
                return None
        elif method in ("add_argument", "set_defaults", "add_subparsers"):
            found = _names(call, method)
            if found is None:
                return None
            names |= found
        elif method in FOREIGN or (method.endswith("Parser") and "Config" not in method):
            return None
    return names if parsers == 1 else None


def _names(call: ast.Call, method: str) -> set[str] | None:
    keywords = {each.arg: each.value for each in call.keywords}
    if None in keywords or _is_own_action(keywords.get("action")):
        return None
    if method == "set_defaults":
        return {name for name in keywords if name is not None}
    if "dest" in keywords:
        dest = keywords["dest"]
        return {str(dest.value)} if isinstance(dest, ast.Constant) else None
    flags = [each.value for each in call.args if isinstance(each, ast.Constant)]
    if len(flags) != len(call.args) or (not flags and method == "add_argument"):
        return None
    long = [str(each) for each in flags if str(each).startswith("--")] or [str(e) for e in flags]
    return {long[0].lstrip("-").replace("-", "_")} if long else set()


def _is_own_action(action: ast.expr | None) -> bool:
    """A class, which sets what it likes."""
    if action is None or isinstance(action, ast.Constant):
        return False
    return not ast.unparse(action).endswith("BooleanOptionalAction")


def _method(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _namespaces(
    scopes: list[Scope], parents: dict[ast.AST, ast.AST], module: Scope
) -> set[tuple[Scope | None, str]]:
    """Names that hold what the one parser returned, and nothing else."""
    found: set[tuple[Scope | None, str]] = set()
    for scope in scopes:
        for name, bindings in scope.bindings.items():
            made = [_is_parsed(each, parents) for each in bindings]
            if made and all(made):
                found.add((scope, name))
    return found | _passed(scopes, parents, found, module)


def _is_parsed(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> bool:
    """x = parser.parse_args(), and x, rest = parser.parse_known_args()."""
    around = parents.get(node)
    if isinstance(around, ast.Tuple) and around.elts[0] is node:
        around = parents.get(around)
        method = "parse_known_args"
    else:
        method = "parse_args"
    if not isinstance(around, ast.Assign) or not isinstance(around.value, ast.Call):
        return False
    call = around.value
    plain = not call.keywords and all(not isinstance(each, ast.Starred) for each in call.args)
    if _method(call) != method or not isinstance(call.func, ast.Attribute):
        return False
    parser = call.func.value
    written = isinstance(parser, ast.Name) or (
        isinstance(parser, ast.Call) and isinstance(parser.func, ast.Name)
    )
    return plain and written and len(call.args) < 2


def _passed(
    scopes: list[Scope],
    parents: dict[ast.AST, ast.AST],
    spaces: set[tuple[Scope | None, str]],
    module: Scope,
) -> set[tuple[Scope | None, str]]:
    """Parameters of functions of the file that all calls of the file give such a name."""
    given: dict[tuple[Scope, str], list[bool]] = {}
    by_node = {scope.node: scope for scope in scopes}
    for scope in scopes:
        for use in scope.uses:
            call = parents.get(use)
            bindings = module.bindings.get(use.id, [])
            if not isinstance(call, ast.Call) or call.func is not use or len(bindings) != 1:
                continue
            called = bindings[0]
            if not isinstance(called, ast.FunctionDef) or called.decorator_list:
                continue
            for parameter, value in zip(called.args.args, call.args, strict=False):
                is_space = (
                    isinstance(value, ast.Name) and (scope.owner(value.id), value.id) in spaces
                )
                given.setdefault((by_node[called], parameter.arg), []).append(is_space)
    return {
        (scope, name)
        for (scope, name), each in given.items()
        if all(each) and len(scope.bindings[name]) == 1
    }


def _grows(
    every: Names,
    scopes: list[Scope],
    spaces: set[tuple[Scope | None, str]],
) -> bool:
    """Another file may add options: the parser, or what it returned, is handed over whole."""
    names = {name for _, name in spaces}
    own = {name for name, nodes in scopes[0].bindings.items()
           if all(isinstance(each, ast.FunctionDef) for each in nodes)}  # fmt: skip
    parsers = {each.id for node in every.parents if isinstance(node, ast.Assign)
               and isinstance(node.value, ast.Call) and _method(node.value) in PARSERS
               for each in node.targets if isinstance(each, ast.Name)}  # fmt: skip
    parsers |= _received(every.calls, parsers, scopes[0])
    imports = (ast.Import, ast.ImportFrom)
    imported = {name for name, nodes in scopes[0].bindings.items()
                if any(isinstance(each, imports) for each in nodes)}  # fmt: skip
    if any(_is_kept(node, names, imported) for node in every.parents):
        return True
    for call in every.calls:
        method = _method(call)
        values = [*call.args, *(each.value for each in call.keywords)]
        whole = {each.id for each in values if isinstance(each, ast.Name)}
        if method in ("setattr", "vars", "update", "__setattr__") and whole & names:
            return True
        ours = isinstance(call.func, ast.Name) and method in own
        if (whole & parsers or (whole & names and method not in READ_ONLY)) and not ours:
            return True
    return any(
        isinstance(node, ast.Attribute) and node.attr == "__dict__" for node in every.parents
    )


def _received(calls: list[ast.Call], parsers: set[str], module: Scope) -> set[str]:
    """The parameters of functions of the file that a parser is given as."""
    found: set[str] = set()
    for call in calls:
        bindings = module.bindings.get(call.func.id, []) if isinstance(call.func, ast.Name) else []
        if len(bindings) != 1 or not isinstance(bindings[0], ast.FunctionDef):
            continue
        pairs = zip(bindings[0].args.args, call.args, strict=False)
        found |= {each.arg for each, value in pairs
                  if isinstance(value, ast.Name) and value.id in parsers}  # fmt: skip
    return found


def _is_kept(node: ast.AST, names: set[str], imported: set[str]) -> bool:
    """module.options = args: another file has it, too."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Name):
        return False
    return node.value.id in names and any(
        isinstance(each, ast.Attribute)
        and isinstance(each.value, ast.Name)
        and each.value.id in imported
        for each in node.targets
    )


def _asked(names: Names) -> set[str]:
    """Attributes that the file asks for by name, of whatever object."""
    found: set[str] = set()
    for call in names.calls:
        if _method(call) in ASKING:
            found |= {str(each.value) for each in call.args if isinstance(each, ast.Constant)}
    for node in names.parents:
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            found |= {str(node.left.value)} if isinstance(node.left, ast.Constant) else set()
    return found
