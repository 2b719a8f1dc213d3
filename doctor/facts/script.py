"""What a training script contains: calls, assignments and their order, without any judgement.

Lines and columns count from 1, columns in characters; `end_column` is exclusive. Indices refer to
the tuples of the same `Script`. A position in the order of evaluation is the number of calls that
come before it: call `i` happens at position `i`.
"""

from __future__ import annotations

import functools
from typing import Literal

import msgspec

from doctor._util.records import Section

Scalar = str | int | float | bool | None


@functools.lru_cache(maxsize=8192)
def last_part(name: str) -> str:
    """b of a.b; asked some hundred times for each call of a file."""
    return name.rpartition(".")[2]


class Span(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file; `cell` is a notebook's cell from 1, whose lines count from its start."""

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0
    cell: int = 0

    @property
    def order(self) -> tuple[int, int, int]:
        return self.cell, self.line, self.column


class Value(msgspec.Struct, frozen=True, omit_defaults=True):
    """An expression.

    literal: a constant. name: a dotted name with import aliases resolved. call: a call's result.
    choice: one of `items`, decided at run time. list and dict: `items`, with `keys` of a dict.
    test: a comparison or a condition. slice: `items` are start, stop and step. other: anything
    else, with the operator's or the node's name. `names` and `calls` are all those within; `text`
    is the source of a test.
    """

    kind: Literal[
        "literal", "name", "call", "choice", "list", "dict", "test", "item", "slice", "other"
    ]
    literal: Scalar = None
    name: str = ""
    call: int = -1
    items: tuple[Value, ...] = ()
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    calls: tuple[int, ...] = ()
    text: str = ""

    @property
    def all_names(self) -> tuple[str, ...]:
        """All names within, its own first; an operator is none."""
        named = self.name and self.kind in ("name", "item")
        return (self.name, *self.names) if named else self.names


Arms = tuple[tuple[int, int], ...]
"""Branch and arm of each condition around; two arms of one branch exclude each other."""


class Call(msgspec.Struct, frozen=True, omit_defaults=True):
    """One call. `receiver` is the dotted name before the method, `receiver_call` a call there."""

    name: str
    span: Span
    scope: int
    receiver: str = ""
    receiver_call: int = -1
    args: tuple[Value, ...] = ()
    keywords: dict[str, Value] = {}
    unpacked: tuple[Value, ...] = ()
    """Arguments given as *args or **kwargs."""
    targets: tuple[str, ...] = ()
    """Names that the result is assigned to."""
    arms: Arms = ()
    contexts: tuple[int, ...] = ()
    loops: tuple[int, ...] = ()
    statement: bool = False
    """The result is not used."""
    name_span: Span = Span()
    """The called name alone."""
    base: Value | None = None
    """What a method is called on, where that is neither a name nor a call: x[:, 1:].reshape(-1)."""

    @property
    def method(self) -> str:
        """The last part of the name."""
        return last_part(self.name)

    @property
    def values(self) -> tuple[Value, ...]:
        """All arguments that are written out."""
        return (*self.args, *self.keywords.values())

    @property
    def first(self) -> Value | None:
        """The first positional argument."""
        return self.args[0] if self.args else None

    @property
    def target(self) -> str:
        """The one name that the result is assigned to, "" for none and for several."""
        return self.targets[0] if len(self.targets) == 1 else ""

    def given(self, name: str, position: int) -> Value | None:
        """An argument that is written out, by position or by keyword."""
        return self.args[position] if position < len(self.args) else self.keywords.get(name)


class Assignment(msgspec.Struct, frozen=True, omit_defaults=True):
    """`target = value`, also of attributes: "torch.backends.cudnn.benchmark"."""

    target: str
    value: Value
    span: Span
    scope: int
    position: int
    arms: Arms = ()
    loops: tuple[int, ...] = ()
    augmented: bool = False
    contexts: tuple[int, ...] = ()
    operator: str = ""
    """Of an augmented one: "Add" for +=."""


class Parameter(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    default: Value | None = None
    annotation: str = ""


class Function(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function, or the module as number 0."""

    name: str
    span: Span
    parent: int = -1
    owner: str = ""
    """The class whose method it is."""
    parameters: tuple[Parameter, ...] = ()
    decorators: tuple[Value, ...] = ()
    returns: tuple[Value, ...] = ()
    accepts_any: bool = False
    """It has **kwargs."""
    exits: tuple[tuple[int, Arms], ...] = ()
    """Position and arms of each return."""
    exit_spans: tuple[Span, ...] = ()
    exit_loops: tuple[tuple[int, ...], ...] = ()
    """Place of each return, and the loops around it."""


class Class(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    bases: tuple[str, ...] = ()
    fields: dict[str, Value] = {}
    """Defaults of annotated fields, as in a dataclass of arguments."""


class Context(msgspec.Struct, frozen=True, omit_defaults=True):
    """One item of a with statement."""

    value: Value
    span: Span
    scope: int
    target: str = ""


class Branch(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Literal["if", "try", "match"]
    test: Value | None = None
    guard: bool = False
    """One arm leaves the block: `if not batch: continue`."""


class Loop(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: Literal["for", "while"]
    scope: int
    iterable: Value | None = None
    target: str = ""
    targets: tuple[str, ...] = ()
    """All names that an iteration binds."""


class Import(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    alias: str
    span: Span
    arms: Arms = ()


class Reference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A use of an imported name other than by calling it."""

    name: str
    span: Span
    arms: Arms = ()


class Bare(msgspec.Struct, frozen=True, omit_defaults=True):
    """A statement that names a method and does not call it: `optimizer.zero_grad`; `break`;
    and `del losses[]` of `del losses[:]`."""

    name: str
    span: Span
    scope: int
    arms: Arms = ()
    loops: tuple[int, ...] = ()


class Raising(msgspec.Struct, frozen=True, omit_defaults=True):
    """An expression that raises whenever it is evaluated.

    name: nothing binds it. early: what binds it comes later. exported: `__all__` alone has it.
    keyword, missing, twice, many: an argument of a function of the file that it lacks, needs, gets
    two times, or has no place for. count: results that are unpacked into another number of names.
    option: of a command line that has none. attribute: of an object of a class of the file that
    sets none. held: of a builtin container, or of a dataclass of the file. arm: a name that the
    condition above assigns in some of its arms; `expected` is the line of one that does not, or,
    with an `owner`, of a condition that is false without that. other: a name that the function or
    assignment `owner` reads, while `nearest`, of another word, is at hand and never read.
    """

    kind: Literal[
        "name", "early", "exported", "keyword", "missing", "many", "twice", "count", "option",
        "attribute", "held", "arm", "other",
    ]  # fmt: skip
    name: str
    span: Span
    owner: str = ""
    """The function, class or parser."""
    nearest: str = ""
    """A name that is there and differs by a slip."""
    expected: str = ""


class Comparison(msgspec.Struct, frozen=True, omit_defaults=True):
    """`left operator right`, for the operators < <= > >= == !=."""

    left: Value
    operator: str
    right: Value
    span: Span
    scope: int
    position: int


class Setting(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key of a configuration file, with its path joined by dots."""

    key: str
    value: Scalar
    span: Span


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command that starts the script, in a shell script, Makefile or Dockerfile."""

    path: str
    line: int
    program: str
    arguments: dict[str, str] = {}
    """Flags of the script; "" for a flag without a value."""
    launcher: dict[str, str] = {}
    """Flags before the script's name."""
    prefix: str = ""
    """What stands before the program: variables, srun and its options."""
    text: str = ""
    """The whole command, on one line."""


class Suppression(msgspec.Struct, frozen=True, omit_defaults=True):
    """A comment that accepts findings of its line."""

    codes: tuple[str, ...]
    reason: str
    line: int
    style: Literal["doctor", "noqa"]
    span: Span = Span()


class Unreadable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file or a notebook's cell that could not be parsed."""

    reason: str
    span: Span = Span()


class Script(Section, frozen=True, kw_only=True, omit_defaults=True):
    """One file: a program, a notebook or a configuration that starts a training."""

    path: str
    kind: Literal[
        "python", "notebook", "deepspeed", "accelerate", "trainer", "axolotl", "factory", "shell"
    ]
    functions: tuple[Function, ...] = ()
    classes: tuple[Class, ...] = ()
    calls: tuple[Call, ...] = ()
    assignments: tuple[Assignment, ...] = ()
    parts: tuple[Assignment, ...] = ()
    """What is assigned to a part that is no key in quotes: "boxes[:,2:]", "ema[name]", "totals[0]";
    and what is added to any part."""
    contexts: tuple[Context, ...] = ()
    branches: tuple[Branch, ...] = ()
    loops: tuple[Loop, ...] = ()
    imports: tuple[Import, ...] = ()
    references: tuple[Reference, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    bare: tuple[Bare, ...] = ()
    raising: tuple[Raising, ...] = ()
    identifiers: frozenset[str] = frozenset()
    """Names and attributes that occur anywhere; `ignored_labels` where -100 is set in a part,
    `boxes[]` where a part of boxes is."""
    settings: tuple[Setting, ...] = ()
    launches: tuple[Launch, ...] = ()
    requirements: dict[str, str] = {}
    """Versions that a requirements file beside it, or a notebook's cells, pin."""
    suppressions: tuple[Suppression, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    inlined: Script | None = None
    """The same with the functions of its training joined, None where there are none."""
