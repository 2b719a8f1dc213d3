"""Files that __getitem__ reads whole, for one row of them."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Function, Value

READERS = {
    "pandas.read_csv", "pandas.read_parquet", "pandas.read_pickle", "pandas.read_feather",
    "pandas.read_json", "pandas.read_hdf", "pandas.read_excel", "numpy.load", "numpy.loadtxt",
    "numpy.genfromtxt", "torch.load", "json.load", "pickle.load", "polars.read_parquet",
    "polars.read_csv",
}  # fmt: skip
PARTS = {"mmap_mode", "mmap", "nrows", "skiprows", "filters", "row_groups"}
"""Arguments with which less than the file is read."""


def read_for_a_row(reading: Training, scope: int, function: Function) -> Iterator[Match]:
    """pd.read_parquet(path).iloc[i] in __getitem__: each item reads all of its neighbours."""
    index = function.parameters[1].name if len(function.parameters) > 1 else ""
    chosen = _of_index(reading, scope, index) if index else set()
    for number, call in reading.numbered(reading.scope_calls(scope)):
        if call.name not in READERS or call.arms or PARTS & call.keywords.keys():
            continue
        if any(_is_row(value, call, number, chosen) for value in _values(reading, scope)):
            message = f"{call.name}() reads the whole file for each item, which is one row of it"
            yield Match(call.span, message, fix=WHOLE)


WHOLE = (
    "Read the file once, in __init__ or at the first item of a worker, or one that can be read in "
    "part: np.load(path, mmap_mode='r')."
)


def _of_index(reading: Training, scope: int, index: str) -> set[str]:
    """The index, and the names of numbers that are computed of it."""
    names = {index}
    for each in reading.assignments:
        called = {call.name for call in reading.inside(each.value)}
        if each.scope == scope and names.intersection(each.value.all_names):
            names |= {each.target} if called <= {"divmod", "int", "len", "bisect.bisect"} else set()
    return names


def _values(reading: Training, scope: int) -> Iterator[Value]:
    for value, _, where in reading.expressions:
        if where == scope:
            yield from flatten([value])


def _is_row(value: Value, call: Call, number: int, chosen: set[str]) -> bool:
    """frame.iloc[i], rows[i] or archive["x"][i]: one row, by the index of the item."""
    if value.kind != "item" or len(value.items) != 2 or value.items[1].kind == "slice":
        return False
    base, place = value.items
    while base.kind == "item" and isinstance(base.items[-1].literal, str):
        base = base.items[0]
    own = base.kind == "call" and base.call == number
    own |= base.name.removesuffix(".iloc").removesuffix(".loc").partition("[")[0] in call.targets
    return own and bool(chosen.intersection(place.all_names))
