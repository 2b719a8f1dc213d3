"""What is one number per sample: labels that are a column of a table."""

from __future__ import annotations

from doctor.checks.script import evaluate, objects
from doctor.checks.script.reading import flatten
from doctor.checks.script.training import Training
from doctor.facts.script import Value

SAME = {
    "float", "to", "cuda", "cpu", "double", "contiguous", "clone", "astype", "from_numpy", "tensor",
    "as_tensor", "FloatTensor", "Tensor", "float32", "numpy",
}  # fmt: skip
"""Calls that keep the shape."""
ARITHMETIC = {"Add", "Sub", "Mult", "Div"}
ELEMENTWISE = {"to_numpy", "log1p", "log", "sqrt"}


def is_vector(reading: Training, value: Value, scope: int, position: int, depth: int) -> bool:
    """Labels that no unsqueeze, reshape or [[...]] made two-dimensional."""
    return depth > 0 and (
        _is_of_sklearn(reading, value, scope, position)
        or _is_column(reading, value, scope, position, depth)
    )


def _is_column(reading: Training, value: Value, scope: int, position: int, depth: int) -> bool:
    if value.kind == "name":
        return _is_label_column(reading, value) or _is_vector_named(
            reading, value.name, scope, position, depth
        )
    if value.kind == "item" and len(value.items) == 2 and value.items[1].kind in ("slice", "name"):
        return is_vector(reading, value.items[0], scope, position, depth - 1)
    made = reading.call_of(value)
    if made is None:
        parts = value.items if value.name in ARITHMETIC else ()
        vectors = any(is_vector(reading, each, scope, position, depth - 1) for each in parts)
        return vectors or _is_label_column(reading, value)
    if made.method == "pop" and len(made.args) == 1:
        return isinstance(made.args[0].literal, str)
    if made.method == "to_numpy" and (
        made.receiver.endswith("]")
        or _is_column_attribute(reading, made.receiver)
        or (made.base is not None and _is_series(reading, made.base))
    ):
        return True
    inner = objects.operand(made) if made.method in {*SAME, *ELEMENTWISE} else None
    if made.name == "numpy.diff":
        return True
    return inner is not None and is_vector(reading, inner, made.scope, value.call, depth - 1)


def _is_of_sklearn(reading: Training, value: Value, scope: int, position: int) -> bool:
    """The target of load_diabetes(), and y of X, y = make_regression(...)."""
    part = value.kind == "item" and len(value.items) == 2 and value.items[1].literal == 1
    owner, _, last = value.name.rpartition(".") if value.kind == "name" else ("", "", "")
    held = [value.items[0]] if part else []
    if last == "target" and owner:
        found = evaluate.options_at(reading, Value("name", name=owner), scope, position, ())
        held = [v for v in found if v.kind == "call"]
    made = reading.call_of(held[0]) if len(held) == 1 else None
    given = {"n_targets", "multi_class", "as_frame"} & made.keywords.keys() if made else ()
    pairs = made is not None and (made.method.startswith("make_") or "return_X_y" in made.keywords)
    known = made is not None and made.name.startswith("sklearn.datasets.") and not given
    return known and (last == "target" or pairs) and "multilabel" not in (made or value).name


def _is_vector_named(reading: Training, name: str, scope: int, position: int, depth: int) -> bool:
    if evaluate.is_parameter(reading, scope, name):
        sites = reading.callers(scope)
        given = [evaluate.argument_of(reading, s, scope, name) for s in sites]
        return bool(given) and all(
            v is not None and is_vector(reading, v, s.scope, reading.number(s), depth - 1)
            for v, s in zip(given, sites, strict=True)
        )
    every = reading.assigned_to(name, scope)
    found = [each for each in every if each.position <= position]
    value = found[-1].value if found else Value("other")
    made = reading.calls[value.call] if value.call >= 0 else None
    if made is not None and value.kind == "item" and made.method == "train_test_split":
        index = value.items[-1].literal
        return (
            len(made.args) == 2
            and index in (2, 3)
            and is_vector(reading, made.args[1], made.scope, value.call, depth - 1)
        )
    return is_vector(reading, value, scope, position, depth - 1)


def _is_label_column(reading: Training, value: Value) -> bool:
    """df["label"].values, or .values of a term of columns."""
    if value.kind == "name":
        owner, _, last = value.name.rpartition(".")
        return last == "values" and _is_column_attribute(reading, owner)
    inner = value.items[0] if value.kind == "other" and value.items else value
    named = value.kind == "other" and value.name == "values"
    return named and (
        (inner.kind == "item" and inner.name.endswith("]")) or _is_series(reading, inner)
    )


def _is_series(reading: Training, value: Value) -> bool:
    """(df.price - mean) / deviation, of columns that are named as attributes."""
    if value.kind == "name":
        return _is_column_attribute(reading, value.name)
    return value.name in ARITHMETIC and any(_is_series(reading, each) for each in value.items)


def _is_column_attribute(reading: Training, name: str) -> bool:
    """df.price, where the file takes columns of df by their names, too."""
    table, _, column = name.partition(".")
    if not column.isidentifier() or table == "self" or not reading.imports_from("pandas"):
        return False
    return any(
        part.kind == "item" and part.items and part.items[0].name == table
        for value, _, _ in reading.expressions
        for part in flatten([value])
    )
