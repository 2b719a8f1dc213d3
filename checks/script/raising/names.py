"""Rules on names, arguments and attributes that the file itself shows to be missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from doctor.checks.script.loop.counters import index_as_batch
from doctor.checks.script.rule import Find, Match, Rule, Severity, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Raising

SINCE_PYTHON_3 = {
    "xrange": "range", "unicode": "str", "raw_input": "input", "basestring": "str", "long": "int",
    "reduce": "functools.reduce", "unichr": "chr", "reload": "importlib.reload", "file": "open",
}  # fmt: skip
Message = Callable[[Raising], str]


def _name(each: Raising) -> str:
    if each.name in SINCE_PYTHON_3 and not each.nearest:
        return f"Python 3 has no {each.name}: use {SINCE_PYTHON_3[each.name]}"
    return f"{each.name} is not defined: NameError" + _slip(each)


def _slip(each: Raising) -> str:
    return f"; {each.nearest} is" if each.nearest else ""


def _keyword(each: Raising) -> str:
    return f"{each.owner}() has no parameter {each.name}" + (
        f"; it has {each.nearest}" if each.nearest else ""
    )


def _many(each: Raising) -> str:
    if each.name == "self":
        return f"{each.owner}() has no parameter self, and is called on an object"
    takes = f"at most {each.expected} positional arguments" if each.expected != "0" else "none"
    return f"{each.owner}() is called with {each.name} positional arguments, and takes {takes}"


def _count(each: Raising) -> str:
    return f"{each.owner}() returns {each.expected} values, which are unpacked into {each.name}"


def _option(each: Raising) -> str:
    return f"no add_argument() of the file makes {each.owner}.{each.name}" + (
        f"; there is {each.nearest}" if each.nearest else ""
    )


def _attribute(each: Raising) -> str:
    hint = f"it has {each.nearest}" if each.nearest else "it is an error unless another file does"
    return f"{each.owner} sets no attribute {each.name}; {hint}"


CONTAINERS = ("list", "dict", "set", "defaultdict", "OrderedDict", "Counter")


def _severity(each: Raising) -> Severity | None:
    """Another file may set an attribute from outside: model.drop_path_prob = 0.2."""
    if each.kind in ("exported", "arm"):
        return "warn"
    if each.kind == "held" and each.expected not in CONTAINERS:
        return "note"
    if each.kind == "attribute" and not each.nearest:
        return "warn" if each.expected == "call" else "note"
    return None


def _applies(each: Raising, path: str) -> bool:
    """`from package import *` imports the modules that `__all__` names; a modular_ file of
    transformers is a template, whose other names a generator writes."""
    name = path.replace("\\", "/").rpartition("/")[2]
    if each.kind == "exported" and name == "__init__.py":
        return False
    return each.kind not in NAMES or not name.startswith("modular_")


def _arm(each: Raising) -> str:
    if each.owner:
        where = f"without {each.owner} the condition at line {each.expected} is false"
        return f"{where}, and {each.name} is not assigned: NameError"
    return f"the branch at line {each.expected} does not assign {each.name}, read here: NameError"


NAMES: Mapping[str, Message] = {
    "name": _name,
    "early": lambda each: f"{each.name} is used before it is assigned",
    "exported": lambda each: f"__all__ names {each.name}, which the file does not define",
    "arm": _arm,
}
CALLS: Mapping[str, Message] = {
    "keyword": _keyword,
    "missing": lambda each: f"{each.owner}() is called without {each.name}, which has no default",
    "many": _many,
    "twice": lambda each: f"{each.owner}() gets {each.name} by its place and by its name",
    "count": _count,
}


def _held(each: Raising) -> str:
    return f"{each.owner} is of type {each.expected}, which has no {each.name}" + (
        f"; it has {each.nearest}" if each.nearest else ""
    )


ATTRIBUTES: Mapping[str, Message] = {"option": _option, "attribute": _attribute, "held": _held}


def _of(messages: Mapping[str, Message]) -> Find:
    """What the file shows of some kinds; a test raises on purpose."""

    def find(reading: Training) -> Iterator[Match]:
        for each in reading.script.raising if not reading.is_test else ():
            if each.kind in messages and _applies(each, reading.script.path):
                yield Match(each.span, messages[each.kind](each), _severity(each))

    return find


RULES = (
    Rule(
        code="SCR438",
        slug="undefined-name",
        title="Names are defined where they are used",
        severity="fail",
        find=_of(NAMES),
        why="Python looks a name up when it gets there: in the branch that resumes, evaluates or "
        "saves, hours after the start.",
        fires=(
            "a name that nothing in the file binds, and no builtin",
            "a local name that is read in a line above all of its assignments",
            "a name that a branch of the condition above leaves unassigned (a warning)",
        ),
        fix="Import or assign the name, or correct its spelling.",
        sources=("python-naming",),
        limits="that names exist in a notebook or beside a star import, or on every path.",
    ),
    Rule(
        code="SCR439",
        slug="call-does-not-fit",
        title="Calls fit the functions of the file",
        severity="fail",
        find=_of(CALLS),
        why="A call that does not fit the parameters raises a TypeError, and an assignment to "
        "another number of names a ValueError, as soon as it is reached.",
        fires=(
            "an argument by a name that the function of the file has no parameter for",
            "a call without a parameter that has no default, with too many arguments, or with one "
            "by its place and by its name",
            "a, b = f(), where every return of f has three values",
        ),
        fix="Give the arguments that the function has, and take the values that it returns.",
        sources=("python-calls",),
        limits="that calls fit functions with other decorators, or of other files.",
    ),
    Rule(
        code="SCR440",
        slug="undefined-attribute",
        title="Options and attributes that are read exist",
        severity="fail",
        find=each_of(_of(ATTRIBUTES), index_as_batch),
        why="An option that no add_argument() makes, and an attribute that no line of a class "
        "sets, raise an AttributeError as soon as they are read.",
        fires=(
            "args.name of the file's only parser, which has no such option",
            "self.name in a class whose bases are known, which sets a name that differs by a slip; "
            "a warning or a note where nothing in the file is like it",
            "the same of a list or a dictionary, and of a parameter whose type is a dataclass of "
            "the file",
            "for x, y in enumerate(loader): x.to(device), of the number that enumerate() counts",
        ),
        fix="Add the option or set the attribute in __init__, or correct the spelling.",
        sources=("python-naming", "argparse-type"),
        limits="that attributes exist of objects that another file gets or makes.",
    ),
)
