"""What an expression of a script may be: names followed to their definitions and arguments."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import TypeGuard

from doctor.checks.script.reading import Reading, asks_for_cuda, exclusive, within
from doctor.facts.script import Arms, Assignment, Call, Value

DEPTH = 6
"""Names followed from one to the next at most."""

DTYPES = {
    **dict.fromkeys(("bfloat16", "bf16"), "bf16"),
    **dict.fromkeys(("float16", "half", "fp16"), "fp16"),
    **dict.fromkeys(("float32", "float", "fp32"), "fp32"),
    **dict.fromkeys(("float64", "double"), "fp64"),
    "auto": "auto",
}
UNDECIDED = "?"
MOST_TEXTS = 64
"""Texts that one joined text may be: their number doubles with each part of two options."""


def definitions(
    reading: Reading, name: str, scope: int, position: int, arms: Arms
) -> list[Assignment]:
    """Assignments that may hold where the name is used, newest first."""
    key = reading.key(name, scope)
    if (straight := reading.cached(_straight).get(key)) is not None and straight[0].scope == scope:
        last = bisect_right(straight, position, key=lambda each: each.position)
        if last:
            return [straight[last - 1]]
    every = [
        each
        for each in reading.assigned.get(key, ())
        if not each.augmented and not exclusive(each.arms, arms)
    ]
    here = [each for each in every if each.scope == scope]
    before = [each for each in here if each.position <= position]
    if not before and scope and is_parameter(reading, scope, name):
        return []
    if not before or len(here) != len(every):
        return list(reversed(every))
    reaching = []
    for each in reversed(before):
        reaching.append(each)
        if within(arms, each.arms):
            break
    return reaching


def definitions_at(reading: Reading, name: str, call: Call) -> list[Assignment]:
    """Assignments that may hold where a call uses the name, newest first."""
    return definitions(reading, name, call.scope, reading.number(call), call.arms)


def _straight(reading: Reading) -> dict[tuple[object, str], list[Assignment]]:
    """Names that one function assigns unconditionally, in order: the last one holds."""
    table = {
        key: [each for each in results if not each.augmented]
        for key, results in reading.assigned.items()
    }
    return {
        key: results
        for key, results in table.items()
        if results and not any(each.arms or each.scope != results[0].scope for each in results)
    }


def is_parameter(reading: Reading, scope: int, name: str) -> bool:
    return any(each.name == name for each in reading.function(scope).parameters)


def argument(
    reading: Reading, call: Call, name: str, position: int | None = None, depth: int = DEPTH
) -> Value | None:
    """An argument by keyword, by position, or from a dictionary that is unpacked."""
    if name in call.keywords:
        return call.keywords[name]
    if position is not None and position < len(call.args):
        return call.args[position]
    for value in call.unpacked:
        where = reading.number(call)
        for option in _options(reading, value, call.scope, where, call.arms, depth):
            if (results := entry(reading, option, name)) is not None:
                return results
        if value.kind == "name" and (item := _item(reading, value.name, name, call)):
            return item
    return None


def entry(reading: Reading, dictionary: Value, key: str) -> Value | None:
    """What {...} or dict(...) has for a key."""
    if dictionary.kind == "dict" and key in dictionary.keys:
        return dictionary.items[dictionary.keys.index(key)]
    if dictionary.kind == "call" and reading.calls[dictionary.call].name == "dict":
        return reading.calls[dictionary.call].keywords.get(key)
    return None


def _item(reading: Reading, dictionary: str, key: str, call: Call) -> Value | None:
    """What `dictionary[key] = value` assigned last."""
    results = reading.assigned_to(f"{dictionary}[{key}]", call.scope)
    results = [each for each in results if not exclusive(each.arms, call.arms)]
    if len(results) == 1 or (results and not results[-1].arms):
        return results[-1].value
    return Value("choice", items=tuple(each.value for each in results)) if results else None


def unpacks_unknown(reading: Reading, call: Call) -> bool:
    """Whether arguments come from a dictionary that this file does not write out."""
    return any(
        option.kind != "dict"
        and not (option.kind == "call" and reading.calls[option.call].name == "dict")
        for value in call.unpacked
        for option in options(reading, value, call)
    )


def options(
    reading: Reading, value: Value | None, call: Call, position: int | None = None
) -> list[Value]:
    """What a value may be, with names followed; an undecided one is a name or other."""
    where = reading.number(call) if position is None else position
    return list(_options(reading, value, call.scope, where, call.arms, DEPTH))


def receivers(reading: Reading, call: Call) -> list[Value]:
    """What the name may be that a method is called on."""
    return options(reading, Value("name", name=call.receiver), call)


def options_at(
    reading: Reading, value: Value | None, scope: int, position: int, arms: Arms
) -> list[Value]:
    return list(_options(reading, value, scope, position, arms, DEPTH))


def _options(
    reading: Reading, value: Value | None, scope: int, position: int, arms: Arms, depth: int
) -> Iterator[Value]:
    if value is None:
        return
    if value.kind == "choice" and depth:
        items = value.items[:1] if _tests_for_cuda(reading, value.text, scope) else value.items
        for item in items:
            yield from _options(reading, item, scope, position, arms, depth - 1)
    elif value.kind == "name" and depth:
        yield from _memorized(reading, value, scope, position, arms, depth)
    elif value.kind == "item" and value.name and depth:
        reading.step()
        yield from _named(reading, value, scope, position, arms, depth)
    elif value.kind == "call" and depth:
        yield from _returned(reading, value, depth)
    elif value.kind == "item" and depth and value.items and value.items[0].kind == "call":
        yield from _element_returned(reading, value, depth)
    else:
        yield value


def _tests_for_cuda(reading: Reading, text: str, scope: int) -> bool:
    """A test for a GPU, also by a name that holds its result."""
    if asks_for_cuda(text):
        return True
    results = reading.assigned_to(text, scope) if text.isidentifier() else ()
    return (
        len(results) == 1
        and literal_truth(reading, results[0].value) is True
        and (results[0].value.kind == "call")
    )


def _memorized(
    reading: Reading, value: Value, scope: int, position: int, arms: Arms, depth: int
) -> list[Value]:
    """What a name may be, computed once per place: callers of callers multiply."""
    key = (value.name, scope, position, arms, depth)
    if key not in reading.memo:
        reading.step()
        reading.memo[key] = list(_named(reading, value, scope, position, arms, depth))
    return reading.memo[key]


def _named(
    reading: Reading, value: Value, scope: int, position: int, arms: Arms, depth: int
) -> Iterator[Value]:
    results = _on_cuda(reading, definitions(reading, value.name, scope, position, arms))
    followed = False
    for each in results:
        if each.value == value:
            continue
        followed = True
        yield from _options(
            reading, each.value, each.scope, max(each.position - 1, 0), each.arms, depth - 1
        )
    if followed:
        return
    present = list(_passed(reading, value, scope, depth)) or list(_field(reading, value, scope))
    if not present and value.kind == "item" and len(value.items) == 2:
        key = value.items[1].literal
        tables = _options(reading, value.items[0], scope, position, arms, depth - 1)
        written = [entry(reading, each, key) for each in tables] if isinstance(key, str) else []
        present = [each for each in written if each is not None and not each.names]
    yield from present or [value]


def _on_cuda(reading: Reading, results: list[Assignment]) -> list[Assignment]:
    """Without what holds only where there is no GPU, if something else is left."""

    def off(each: Assignment) -> bool:
        return any(
            arm == 1 and test is not None and asks_for_cuda(test.text)
            for branch, arm in each.arms
            for test in [reading.test_of(branch)]
        )

    return [each for each in results if not off(each)] or results


def _passed(reading: Reading, value: Value, scope: int, depth: int) -> Iterator[Value]:
    """What the calls of a function in this file pass for a parameter."""
    owner, name = reading.key(value.name, scope)
    if not isinstance(owner, int) or owner <= 0:
        return
    names = [parameter.name for parameter in reading.function(owner).parameters]
    if name not in names:
        return
    for site, call in reading.numbered(
        (reading.call_sites.get(owner) or reading.made_at(owner))[:8]
    ):
        passed = argument_of(reading, call, owner, name, depth - 1)  # of **kwargs passed on
        if passed is not None:
            yield from _options(reading, passed, call.scope, site, call.arms, depth - 1)
        elif (written := default(reading, owner, name)) is not None:
            yield written


def argument_of(
    reading: Reading, call: Call, function: int, name: str, depth: int = DEPTH
) -> Value | None:
    names = [parameter.name for parameter in reading.function(function).parameters]
    if names[:1] in (["self"], ["cls"]):
        names = names[1:]
    return argument(reading, call, name, names.index(name) if name in names else None, depth)


def default(reading: Reading, function: int, name: str) -> Value | None:
    """A parameter's default."""
    return next(
        (each.default for each in reading.function(function).parameters if each.name == name), None
    )


def _field(reading: Reading, value: Value, scope: int) -> Iterator[Value]:
    """A field of an instance of a class of this file, or a flag of a launch line."""
    base, _, name = value.name.rpartition(".")
    if not base:
        return
    if (flag := launched(reading, name)) is not None and base not in ("self", "torch"):
        yield flag
        return
    for each in reading.assigned_to(base, scope):
        if each.value.kind == "call":
            made = reading.calls[each.value.call]
            for class_ in reading.script.classes:
                if class_.name == made.name and name in class_.fields:
                    yield made.keywords.get(name, class_.fields[name])


def launched(reading: Reading, name: str) -> Value | None:
    """The value of a flag that all launch lines agree on."""
    values = {launch.arguments.get(name) for launch in reading.script.launches}
    if len(values) != 1 or (text := values.pop()) is None:
        return None
    if text.casefold() in ("", "true", "1", "yes", "false", "0", "no"):
        return Value("literal", literal=text.casefold() in ("", "true", "1", "yes"))
    return Value("literal", literal=text)


def _returned(reading: Reading, value: Value, depth: int) -> Iterator[Value]:
    """What a function of this file returns; another call is itreading."""
    function = reading.target_function(reading.calls[value.call])
    returns = reading.returns(function)
    if function is None or not returns:
        yield value
    else:
        yield from _options_of(reading, function, returns, depth)


def _options_of(
    reading: Reading, function: int, values: Sequence[Value], depth: int
) -> Iterator[Value]:
    """What values at the end of a function may be."""
    for each in values:
        yield from _options(reading, each, function, len(reading.calls), (), depth - 1)


def _element_returned(reading: Reading, value: Value, depth: int) -> Iterator[Value]:
    """One of several values that a function of this file returns."""
    index = value.items[-1].literal
    function = reading.target_function(reading.calls[value.items[0].call])
    returns = reading.returns(function)
    taken = [
        each.items[index]
        for each in returns
        if isinstance(index, int) and each.kind == "list" and 0 <= index < len(each.items)
    ]
    if function is None or not taken or len(taken) < len(returns):
        yield value
    else:
        yield from _options_of(reading, function, taken, depth)


def flag_default(reading: Reading, name: str) -> object:
    """The default of a command line argument: what args.name is unless the user says otherwise."""
    last = name.rpartition(".")[2]
    for call in reading.named("add_argument") if "." in name else ():
        flags = {str(v.literal).lstrip("-").replace("-", "_") for v in call.args}
        if last in flags and "default" in call.keywords:
            return call.keywords["default"].literal
    return None


def truth(reading: Reading, value: Value | None, call: Call) -> bool | None:
    """True or False where decided by a literal, else None; () gives None."""
    values = {literal_truth(reading, option) for option in options(reading, value, call)}
    return values.pop() if len(values) == 1 else None


def literal_truth(reading: Reading, value: Value) -> bool | None:
    if value.kind == "call" and reading.calls[value.call].name == "torch.cuda.is_available":
        return True
    return bool(value.literal) if value.kind == "literal" else None


def is_number(value: object) -> TypeGuard[int | float]:
    """A literal that is a number, and neither True nor False."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def number(reading: Reading, value: Value | None, call: Call) -> float | None:
    """The one number that a value is."""
    found = literals(reading, value, call)
    one = found.pop() if len(found) == 1 else None
    return one if is_number(one) else None


def literals(reading: Reading, value: Value | None, call: Call) -> set[object]:
    """Literal values; `UNDECIDED` stands for any other."""
    return {
        option.literal if option.kind == "literal" else UNDECIDED
        for option in options(reading, value, call)
    }


def texts(reading: Reading, value: Value | None, call: Call, depth: int = 3) -> set[str]:
    """The texts that a value may be, also of f"{stage}_loss"; `UNDECIDED` stands for any other."""
    found: set[str] = set()
    for option in options(reading, value, call):
        if option.kind == "literal":
            found.add(str(option.literal))
            continue
        joined = option.kind == "other" and option.name in ("", "Add") and option.items
        whole = {""}
        for part in option.items if joined and depth else ():
            ends = texts(reading, part, call, depth - 1)
            if UNDECIDED in ends or len(whole) * len(ends) > MOST_TEXTS:
                whole = {UNDECIDED}
                break
            whole = {a + b for a in whole for b in ends}
        found |= whole - {""} or {UNDECIDED}
    return found


def dtypes(reading: Reading, value: Value | None, call: Call) -> set[str]:
    """Names such as bf16, fp16, auto; `UNDECIDED` for what is decided elsewhere."""
    return {dtype(reading, option) for option in options(reading, value, call)}


def dtype(reading: Reading, value: Value) -> str:
    """The dtype that a value without names to follow is."""
    if value.kind == "literal" and isinstance(value.literal, str):
        return DTYPES.get(value.literal.removeprefix("torch."), UNDECIDED)
    if value.kind == "literal" and value.literal is None:
        return "default"
    if value.kind == "name" and value.name.startswith("torch."):
        return DTYPES.get(value.name.removeprefix("torch."), UNDECIDED)
    if value.kind == "call":
        call = reading.calls[value.call]
        if call.name == "getattr" and len(call.args) > 1 and call.args[0].name == "torch":
            return dtype(reading, call.args[1])
    return UNDECIDED
