"""`doctor init --factory-for FILE.py`: a factory from a training script, which is read and not run.

What the factory needs is cut out of the script backwards: from the loss to the statements that it
depends on. What it leaves out (logging, saving, schedules of the loop) is what a step of the doctor
does not need.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

from doctor._util.errors import UserError
from doctor.cli.script_names import (
    DEFINITIONS,
    Scope,
    made_in,
    names_in,
    needed,
    read_in,
    unbound,
    uses,
    uses_any,
)
from doctor.probes.training_side.subject.flat_script import (
    executed,
    is_main_guard,
    is_training,
    name_of,
    trainers_of,
)

LIMIT = 4 << 20
WRAPPERS = ("tqdm", "trange", "enumerate", "prefetch", "islice", "list", "iter")
"""Functions around a loader in the head of a loop; the batch is the same without them."""
HEAD = '''"""The factory of {name}, made by `doctor init --factory-for {name}`.

Nothing of {name} was run. Read this before you run it: it has what the loss of one step depends on,
and nothing else.

    doctor run --model {target}:make
"""
'''


class Step(NamedTuple):
    """The statement that trains, and what is around it."""

    call: ast.Call
    before: list[ast.stmt]
    """Statements of the innermost loop, or of the scope, that come before it."""
    loop: ast.For | None
    setup: list[ast.stmt]
    """Statements of the scope before the outermost loop."""
    scope: ast.FunctionDef | None
    """The function that it stands in; None: the file itself."""


def text_for(script: Path) -> str:
    """The text of the factory. Raises UserError."""
    return render(_read(script), script.name, _target(script).name)


def _target(script: Path) -> Path:
    return script.with_name(f"{script.stem}_preflight.py")


def write(script: Path) -> Path:
    """Write the factory beside the script. Raises UserError, also where a file of that name is."""
    target = _target(script)
    if target.exists() or target.is_symlink():
        raise UserError(f"{target} already exists and is not overwritten")
    text = text_for(script)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror}") from None
    return target


def _read(script: Path) -> str:
    try:
        with script.open("rb") as file:
            data = file.read(LIMIT + 1)
    except OSError as error:
        raise UserError(f"--factory-for {script}: {error.strerror}") from None
    if len(data) > LIMIT:
        raise UserError(f"--factory-for {script}: larger than {LIMIT >> 20} MiB")
    return data.decode("utf-8", "replace")


def render(source: str, name: str, target: str) -> str:
    """The text of the factory. Raises UserError if the script has no step that can be read."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"--factory-for {name}: {error}") from None
    step = _find(tree)
    if step is None:
        raise UserError(
            f"--factory-for {name}: no backward(), trainer.train() or trainer.fit() in it; "
            "doctor explain model describes what a factory returns"
        )
    body = _body(step)
    file = [each for each in tree.body if not _guard(each)]
    local = {name for each in body if not isinstance(each, DEFINITIONS) for name in made_in(each)}
    moved = [each for each in body if isinstance(each, DEFINITIONS) and each in file]
    moved = [each for each in moved if not uses_any(each, local)]
    body = [each for each in body if each not in moved]
    outer = file if step.scope is not None else [each for each in file if each in moved]
    kept = needed(outer, read_in([*moved, *body]) | {name for e in moved for name in made_in(e)})
    used = {name for each in [*kept, *body] for name in names_in(each, ast.Load)}
    parts = [*_imports(tree, used), *kept]
    blocks = ["\n\n" * isinstance(each, DEFINITIONS) + ast.unparse(each) for each in parts]
    make = "\n".join(f"    {line}" if line else "" for line in _lines(body))
    code = f"\n{chr(10).join(blocks)}\n\n\ndef make():\n{make}\n"
    head = HEAD.format(name=name, target=target)
    if unknown := sorted(unbound(code)):
        head += f"# Not found in {name}, set them here: {', '.join(unknown)}\n"
    return head + code


def _lines(statements: Scope) -> list[str]:
    return [line for each in statements for line in ast.unparse(each).splitlines()]


def _guard(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and is_main_guard(statement.test)


def _imports(tree: ast.Module, used: set[str]) -> list[ast.stmt]:
    """The imports of the file, of the names that are used."""
    kept: list[ast.stmt] = []
    for each in ast.walk(tree):
        if not isinstance(each, (ast.Import, ast.ImportFrom)):
            continue
        names = [
            alias
            for alias in each.names
            if alias.name == "*" or (alias.asname or alias.name).partition(".")[0] in used
        ]
        future = isinstance(each, ast.ImportFrom) and each.module == "__future__"
        if names and not future:
            each.names = names
            kept.append(each)
    return kept


# The step


def _find(tree: ast.Module) -> Step | None:
    """The first statement that trains: of the file itself, else of a function."""
    trainers = trainers_of(tree)
    flat: list[ast.stmt] = []
    for each in tree.body:
        flat.extend(each.body if isinstance(each, ast.If) and _guard(each) else [each])
    if (step := _in_scope(flat, trainers, None)) is not None:
        return step
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    steps = (_in_scope(each.body, trainers, each) for each in functions)
    return next((step for step in steps if step is not None), None)


def _in_scope(
    statements: list[ast.stmt], trainers: set[str], scope: ast.FunctionDef | None
) -> Step | None:
    for index, each in enumerate(statements):
        nodes = executed([each]) if not isinstance(each, DEFINITIONS) else ()
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        call = next((node for node in calls if is_training(node, trainers)), None)
        if call is not None:
            before, loop = _inner(each, call)
            return Step(call, before, loop, statements[:index], scope)
    return None


def _inner(statement: ast.stmt, call: ast.Call) -> tuple[list[ast.stmt], ast.For | None]:
    """The statements before the call in the innermost loop around it, and that loop."""
    before: list[ast.stmt] = []
    loop: ast.For | None = None
    current: ast.stmt | None = statement
    while current is not None:
        if isinstance(current, (ast.For, ast.While)):
            before, loop = [], current if isinstance(current, ast.For) else None
        found = None
        for child in getattr(current, "body", []) + getattr(current, "orelse", []):
            if any(node is call for node in ast.walk(child)):
                found = child
                break
            before.append(child)
        current = found
    return before, loop


# The factory


def _body(step: Step) -> list[ast.stmt]:
    """The statements of make()."""
    owner, _, attribute = name_of(step.call.func).rpartition(".")
    if attribute in ("train", "fit"):
        wanted = _of_trainer(step.call, owner, attribute)
        return [*needed(step.setup, read_in(wanted)), *wanted]
    loss = _loss_of(step.call, owner)
    inner = needed(step.before, names_in(loss, ast.Load))
    names = read_in(inner) | names_in(loss, ast.Load)
    model, optimizer = _model_of(step.setup, names)
    if model is None:
        model = _called(step.setup, names) or "model"
    data = _data(step.loop, names)
    drawn = [each for each in inner if not uses(each, model)] if not data else []
    first = inner.index(next((e for e in inner if e not in drawn), inner[-1])) if inner else 0
    drawn = inner[:first] if drawn else []
    made, parameter, unpacked = _batch(step.loop, data, drawn, inner[first:], loss)
    function = _function(model, parameter, [*unpacked, *inner[first if drawn else 0 :]], loss)
    fields = {"model": model, "loss": "loss_of_step"}
    fields |= {"batch": "first_batch"} if parameter else {}
    fields |= {"optimizer": optimizer} if optimizer else {}
    entries = ", ".join(f'"{key}": {value}' for key, value in fields.items())
    end = ast.parse(f"return {{{entries}}}").body
    inside = [*made, function, *end]
    return [
        *needed(step.setup, read_in(inside) - {"loss_of_step", "first_batch"} | {model}),
        *inside,
    ]


def _of_trainer(call: ast.Call, owner: str, attribute: str) -> list[ast.stmt]:
    if attribute == "train":
        return ast.parse(f"return {owner}").body
    parts = [ast.unparse(each) for each in call.args]
    parts += [ast.unparse(each.value) for each in call.keywords]
    batch = f', "batch": {parts[1]}' if len(parts) > 1 else ""
    return ast.parse(f'return {{"model": {parts[0] if parts else "model"}{batch}}}').body


def _loss_of(call: ast.Call, owner: str) -> ast.expr:
    """What is differentiated: the argument of accelerator.backward() and scaler.scale(), else the
    object of .backward()."""
    if call.args and owner.rpartition(".")[2] in ("accelerator", "fabric", "self", "autograd"):
        return call.args[0]
    assert isinstance(call.func, ast.Attribute)
    value = call.func.value
    scaled = isinstance(value, ast.Call) and name_of(value.func).endswith(".scale")
    return value.args[0] if isinstance(value, ast.Call) and scaled and value.args else value


def _model_of(setup: Scope, names: set[str]) -> tuple[str | None, str | None]:
    """The model whose parameters an optimizer gets, and the optimizer."""
    for statement in setup:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
                continue
            for call in ast.walk(node.value):
                owner, _, method = name_of(
                    call.func if isinstance(call, ast.Call) else call
                ).rpartition(".")
                if method not in ("parameters", "named_parameters") or "." in owner:
                    continue
                if owner and isinstance(node.targets[0], ast.Name):
                    return owner, node.targets[0].id
    return None, None


def _called(setup: Scope, names: set[str]) -> str | None:
    """The object of the script that the loss calls, by its name."""
    made = {name for each in setup for name in names_in(each, ast.Store)}
    likely = sorted(
        names & made, key=lambda name: ("model" not in name and "net" not in name, name)
    )
    return likely[0] if likely else None


def _data(loop: ast.For | None, names: set[str]) -> ast.expr | None:
    """The loader in the head of a loop whose variables the loss needs."""
    if loop is None or not names & names_in(loop.target, ast.Store):
        return None
    data: ast.expr = loop.iter
    while isinstance(data, ast.Call) and data.args and name_of(data.func).endswith(WRAPPERS):
        data = data.args[0]
    is_range = isinstance(data, ast.Call) and name_of(data.func) in ("range", "count")
    return None if is_range else data


def _batch(
    loop: ast.For | None, data: ast.expr | None, drawn: Scope, rest: Scope, loss: ast.expr
) -> tuple[list[ast.stmt], bool, list[ast.stmt]]:
    """The statements that make the batch, whether there is one, and those that unpack it."""
    if data is not None and loop is not None:
        target: ast.expr = loop.target
        counted = isinstance(loop.iter, ast.Call) and name_of(loop.iter.func) == "enumerate"
        number: list[ast.stmt] = []
        if counted and isinstance(target, ast.Tuple) and len(target.elts) == 2:
            if names_in(target.elts[0], ast.Store) & (read_in(rest) | names_in(loss, ast.Load)):
                number = ast.parse(f"{ast.unparse(target.elts[0])} = 0").body
            target = target.elts[1]
        made = ast.parse(f"first_batch = next(iter({ast.unparse(data)}))").body
        return made, True, [*number, *ast.parse(f"{ast.unparse(target)} = given").body]
    made_names = {name for each in drawn for name in names_in(each, ast.Store)}
    passed = sorted(made_names & (read_in(rest) | names_in(loss, ast.Load)))
    if not passed:
        return [], False, []
    listed = ", ".join(passed) + ("," if len(passed) == 1 else "")
    made = [*drawn, *ast.parse(f"first_batch = ({listed})").body]
    return made, True, ast.parse(f"{listed} = given").body


def _function(model: str, batch: bool, body: Scope, loss: ast.expr) -> ast.stmt:
    parameters = f"{model}, given" if batch else model
    lines = [f"    {line}" for line in _lines(body)]
    text = "\n".join(
        [f"def loss_of_step({parameters}):", *lines, f"    return {ast.unparse(loss)}"]
    )
    return ast.parse(text).body[0]
