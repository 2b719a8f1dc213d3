"""Expressions as text in one spelling: what rules on formulas compare."""

from __future__ import annotations

import re
from dataclasses import dataclass

from doctor.checks.script import evaluate
from doctor.checks.script.reading import Reading
from doctor.facts.script import Arms, Call, Span, Value

SYMBOLS = {
    "Add": "+", "Sub": "-", "Mult": "*", "Div": "/", "FloorDiv": "//", "Mod": "%", "Pow": "**",
    "MatMult": "@", "BitAnd": "&", "BitOr": "|",
}  # fmt: skip
PREFIXES = {"USub": "-", "Invert": "~", "UAdd": ""}
DEPTH = 14
LONGEST = 2000
"""Characters of an expression that rules compare: expressions search them many times. Our own."""
NAME = re.compile(r"(?<![\w.'])[A-Za-z_]\w*(?![\w(=']|\.\w+\.)")
"""A name that stands by itself or has a method called: no attribute, function or keyword."""


def render(reading: Reading, value: Value, depth: int = DEPTH) -> str:
    """An expression without blanks, each operation in parentheses: `(a+b.mean())`; `…` for what
    is too deep.
    """
    if not depth:
        return "…"
    if value.kind in ("literal", "name"):
        return value.name or _literal(value)
    if value.kind == "call":
        return _call(reading, reading.calls[value.call], depth - 1)
    return _composed(value, [render(reading, each, depth - 1) for each in value.items])


def _literal(value: Value) -> str:
    number = evaluate.is_number(value.literal)
    return f"{value.literal:g}" if number else repr(value.literal)


def _composed(value: Value, items: list[str]) -> str:
    if value.kind == "item" and len(items) == 2:
        index = items[1][1:-1] if value.items[1].kind == "list" else items[1]
        return f"{items[0]}[{index}]"
    if value.kind == "slice":
        given = items if items[2:3] not in ([], ["None"]) else items[:2]
        return ":".join("" if text == "None" else text for text in given)
    if value.kind == "list":
        return f"({','.join(items)})"
    if value.kind == "dict":
        return f"{{{','.join(f'{k}:{v}' for k, v in zip(value.keys, items, strict=False))}}}"
    return _operation(value, items)


def _operation(value: Value, items: list[str]) -> str:
    if value.name in SYMBOLS:
        return f"({SYMBOLS[value.name].join(items)})"
    if value.name in PREFIXES and items:
        return f"{PREFIXES[value.name]}{items[0]}"
    if value.kind in ("test", "choice") and value.text:
        return f"({'|'.join(items)})" if value.kind == "choice" else f"({value.text})"
    if value.name and len(items) == 1 and value.name[:1].islower():
        return f"{items[0]}.{value.name}"
    name = "" if value.name == "Lambda" else value.name
    return f"{name}<{','.join(items)}>"


def _call(reading: Reading, call: Call, depth: int) -> str:
    name = call.name
    if call.base is not None:
        name = f"{render(reading, call.base, depth)}.{call.method}"
    elif call.receiver_call >= 0:
        inner = _call(reading, reading.calls[call.receiver_call], depth - 1) if depth > 1 else "…"
        name = inner if call.name.endswith("()") else f"{inner}.{call.method}"
    parts = [render(reading, each, depth) for each in call.args]
    parts += [f"{key}={render(reading, each, depth)}" for key, each in call.keywords.items()]
    return f"{name}({','.join(parts)})"


def _assigned(reading: Reading) -> list[str]:
    """The texts of what is assigned, to names and to parts, in their order: rendered once."""
    given = reading.stores
    return [render(reading, each.value)[:LONGEST] for each in given]


def formulas(reading: Reading) -> list[tuple[str, Span, int]]:
    """All that is assigned, passed or returned, as text with its place and scope."""
    known, values = reading.cached(_assigned), reading.expressions
    texts = [*known, *(render(reading, value)[:LONGEST] for value, _, _ in values[len(known) :])]
    return [(text, span, scope) for text, (_, span, scope) in zip(texts, values, strict=True)]


def formulas_in(reading: Reading, scope: int) -> list[tuple[str, Span]]:
    """The same of one function."""
    return reading.cached(_by_scope).get(scope, [])


def texts_in(reading: Reading, scope: int) -> list[str]:
    """The texts alone."""
    return [text for text, _ in formulas_in(reading, scope)]


def _by_scope(reading: Reading) -> dict[int, list[tuple[str, Span]]]:
    table: dict[int, list[tuple[str, Span]]] = {}
    for text, span, scope in reading.cached(formulas):
        table.setdefault(scope, []).append((text, span))
    return table


def statements(reading: Reading) -> list[tuple[str, Span, int]]:
    """What is assigned or returned, without the arguments of calls on their own."""
    given = reading.stores
    texts = reading.cached(_assigned)
    found = [(text, a.span, a.scope) for text, a in zip(texts, given, strict=True)]
    for scope, function in enumerate(reading.script.functions):
        spans = function.exit_spans or (function.span,) * len(function.returns)
        pairs = zip(function.returns, spans, strict=True)
        found += [(render(reading, value)[:LONGEST], span, scope) for value, span in pairs]
    return found


def containing(reading: Reading, *patterns: re.Pattern[str]) -> list[tuple[str, Span, int]]:
    """The statements of a file in which one of the patterns occurs, which have no anchors: most
    files are ruled out by one search of all statements.
    """
    whole = reading.cached(_all_statements)
    held = [pattern for pattern in patterns if pattern.search(whole)]
    found = reading.cached(statements) if held else []
    return [each for each in found if any(pattern.search(each[0]) for pattern in held)]


def _all_statements(reading: Reading) -> str:
    return "\n".join(text for text, _, _ in reading.cached(statements))


@dataclass(frozen=True, slots=True)
class Line:
    """One assignment, its value as text."""

    target: str
    text: str
    value: Value
    span: Span
    scope: int
    loops: tuple[int, ...]
    arms: Arms
    position: int
    augmented: bool


def lines(reading: Reading) -> list[Line]:
    """All assignments, also to parts, in the order of the file: `reading.cached(lines)`."""
    given = reading.stores
    pairs = zip(reading.cached(_assigned), given, strict=True)
    return [
        Line(
            each.target,
            text,
            each.value,
            each.span,
            each.scope,
            each.loops,
            each.arms,
            each.position,
            each.augmented,
        )
        for text, each in sorted(pairs, key=lambda pair: pair[1].span.order)
    ]


def lines_in(reading: Reading, scope: int) -> list[Line]:
    """The assignments of one function."""
    return reading.cached(_lines_by_scope).get(scope, [])


def _lines_by_scope(reading: Reading) -> dict[int, list[Line]]:
    table: dict[int, list[Line]] = {}
    for line in reading.cached(lines):
        table.setdefault(line.scope, []).append(line)
    return table


def lines_of(reading: Reading, scope: int, name: str) -> list[Line]:
    """The assignments to one name in one function."""
    return reading.cached(_by_name).get(scope, {}).get(name, [])


def _by_name(reading: Reading) -> dict[int, dict[str, list[Line]]]:
    table: dict[int, dict[str, list[Line]]] = {}
    for line in reading.cached(lines):
        table.setdefault(line.scope, {}).setdefault(line.target, []).append(line)
    return table


def returned(reading: Reading, scope: int) -> list[tuple[str, Span]]:
    """What a function returns, with the names that it assigns once written out."""
    function = reading.function(scope)
    spans = function.exit_spans or (function.span,) * len(function.returns)
    return [
        (written_out(reading, scope, render(reading, value)), span)
        for value, span in zip(function.returns, spans, strict=True)
    ]


def written_out(reading: Reading, scope: int, text: str, rounds: int = 3) -> str:
    """A text of a function, each name that it assigns once replaced by what it is assigned."""
    own = reading.cached(_assigned_once).get(scope, {})
    for _ in range(rounds if own else 0):
        whole = NAME.sub(lambda found: own.get(found[0], found[0]), text)
        if whole == text or len(whole) > LONGEST:
            break
        text = whole
    return text


def _assigned_once(reading: Reading) -> dict[int, dict[str, str]]:
    """Function -> name -> text of the only value that it is assigned, where that is no literal."""
    return {
        scope: {name: held[0].text for name, held in names.items() if _stands_for_itself(held)}
        for scope, names in reading.cached(_by_name).items()
    }


def _stands_for_itself(held: list[Line]) -> bool:
    """One assignment; x = f(x) is of the x before."""
    first = held[0]
    plain = len(held) == 1 and not first.augmented and first.value.kind != "literal"
    return plain and first.target not in NAME.findall(first.text)


def expanded(reading: Reading, value: Value, call: Call, depth: int = 2) -> str:
    """The text of a value with names replaced by what one assignment each says of them."""
    return render(reading, with_definitions(reading, value, call, depth))


def with_definitions(reading: Reading, value: Value, call: Call, depth: int) -> Value:
    """A name as the one value that it may hold, also within operations."""
    import msgspec

    if value.kind == "name" and depth:
        found = evaluate.definitions_at(reading, value.name, call)
        if len(found) == 1 and found[0].scope == call.scope and found[0].value.kind != "literal":
            return with_definitions(reading, found[0].value, call, depth - 1)
        return value
    if value.kind in ("other", "list", "item") and value.items and depth:
        items = tuple(with_definitions(reading, each, call, depth) for each in value.items)
        return msgspec.structs.replace(value, items=items)
    return value
