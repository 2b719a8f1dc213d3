"""Reward functions of GRPO, and groups that compare nothing."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Span, Value


def rewards(reading: Training) -> Iterator[Match]:
    """Reward functions of GRPO, and groups that compare nothing."""
    yield from _reward_functions(reading)
    yield from _groups(reading)


def _reward_functions(reading: Training) -> Iterator[Match]:
    for call in reading.named("GRPOTrainer", "RLOOTrainer"):
        value = call.given("reward_funcs", 1)
        for each in value.items if value is not None and value.kind == "list" else [value]:
            for scope in reading.functions_by_name.get(each.name, ()) if each is not None else ():
                function = reading.function(scope)
                if not function.accepts_any and function.parameters:
                    yield Match(
                        function.span,
                        f"{function.name}() lacks **kwargs: it gets all columns of the data",
                    )
                yield from _texts_of_chats(reading, scope)
                yield from _one_number(reading, scope)


NUMBERS = {"float", "int", "sum", "len", "max", "min", "mean", "item"}


def _one_number(reading: Training, scope: int) -> Iterator[Match]:
    """return score, a sum over the completions: each of them needs a reward of its own."""
    function = reading.function(scope)
    plural = any(p.name in ("completions", "prompts") for p in function.parameters)
    for value, span in zip(function.returns, function.exit_spans, strict=False) if plural else ():
        found = evaluate.options_at(reading, value, scope, len(reading.calls), ())
        if found and all(_is_number(reading, option) for option in found):
            message = f"{function.name}() returns one number for all completions"
            yield Match(span, message, fix="Return a list of one reward per completion.")


def _is_number(reading: Training, value: Value) -> bool:
    call = reading.call_of(value)
    if call is not None:
        return call.method in NUMBERS and (call.name == call.method or call.method == "item")
    if value.kind == "other" and value.name == "Div" and len(value.items) == 2:
        by = reading.call_of(value.items[1])
        if by is not None and by.name == "len":
            return value.items[0].kind == "name"
    if value.kind == "other" and value.name in ("Add", "Sub", "Div", "USub"):
        return all(_is_number(reading, item) for item in value.items)
    return evaluate.is_number(value.literal)


def _groups(reading: Training) -> Iterator[Match]:
    for call in reading.named("GRPOConfig"):
        sizes = [_number(call, k) for k in ("num_generations", "per_device_train_batch_size",
                                            "generation_batch_size")]  # fmt: skip
        steps = _number(call, "gradient_accumulation_steps")
        if sizes[0] == 1:
            yield Match(call.span, "one answer per prompt: all advantages are 0")
        elif sizes[0] and sizes[1] and not sizes[2] and (sizes[1] * (steps or 1) * 8) % sizes[0]:
            message = f"a batch of {sizes[1]:g} is no number of groups of {sizes[0]:g}"
            yield Match(call.span, f"{message} on 1, 2, 4 or 8 GPUs", "warn")
        if _number(call, "temperature") == 0:
            yield Match(call.span, "at temperature 0 all answers of a group are the same")


def _number(call: Call, key: str) -> float | None:
    value = call.keywords.get(key)
    found = value.literal if value is not None else None
    return float(found) if evaluate.is_number(found) else None


PATTERNS = {"search", "match", "fullmatch", "findall", "finditer", "sub"}
OF_TEXTS = {"split", "strip", "lower", "upper", "startswith", "endswith", "find", "replace",
            "splitlines"}  # fmt: skip


def _of_chats(reading: Training) -> bool:
    """Every prompt that the file makes is a list of messages."""
    parts = flatten(value for value, _, _ in reading.expressions)
    found = [part.items[part.keys.index("prompt")] for part in parts
             if part.kind == "dict" and "prompt" in part.keys]  # fmt: skip
    return bool(found) and all(
        each.kind == "list" and bool(each.items) and "role" in each.items[-1].keys for each in found
    )


def _texts_of_chats(reading: Training, scope: int) -> Iterator[Match]:
    """for completion in completions: re.search(pattern, completion)."""
    chats = "completions" in [p.name for p in reading.function(scope).parameters]
    for span, name in _read_as_texts(reading, scope) if chats and _of_chats(reading) else ():
        message = f"{name} is a list of messages, as the prompts are, and is read as a text"
        yield Match(span, message, fix=f'{name}[0]["content"].')
        return


def _read_as_texts(reading: Training, scope: int) -> Iterator[tuple[Span, str]]:
    bound = {a.target for a in reading.assignments if a.scope == scope}
    parts = list(flatten(reading.values_in(scope)))
    if "completions" in bound or any(v.literal == "content" for v in parts):
        return
    found = [list(_completion(reading, scope, n)) for n in range(len(reading.loops))]
    other = {t for loop, names in zip(reading.loops, found, strict=True) if loop.scope == scope
             for t in loop.targets if t not in names}  # fmt: skip
    each = {name for names in found for name in names} - bound - other
    calls = reading.calls_in(scope)
    if "completion" not in bound | other and _comprehended(parts):
        each.add("completion")
    for call in calls:
        read = [v.name for v in call.args if v.kind == "name" and call.method in PATTERNS]
        read += [call.name.rpartition(".")[0]] if call.method in OF_TEXTS else []
        yield from ((call.span, name) for name in read if name in each)


def _comprehended(parts: list[Value]) -> bool:
    """[... for completion in completions], and no comprehension over anything else."""
    over = {v.items[0].name for v in parts if v.name in COMPREHENSIONS}
    return over == {"completions"}


COMPREHENSIONS = {"ListComp", "SetComp", "DictComp", "GeneratorExp"}


def _completion(reading: Training, scope: int, number: int) -> Iterator[str]:
    """c of `for c in completions` and of `for c, t in zip(completions, targets)`."""
    loop = reading.loops[number]
    value = loop.iterable
    if loop.scope != scope or value is None:
        return
    call = reading.call_of(value)
    given = call.args if call is not None and call.name == "zip" else (value,)
    if len(given) == len(loop.targets):
        for each, name in zip(given, loop.targets, strict=True):
            if each.kind == "name" and each.name == "completions":
                yield name
