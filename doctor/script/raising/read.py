"""All that raises in one file."""

from __future__ import annotations

import ast

from doctor.facts.script import Raising
from doctor.script.raising.attributes import unset
from doctor.script.raising.branches import left_open
from doctor.script.raising.counterparts import counterparts
from doctor.script.raising.held import lacking
from doctor.script.raising.options import unknown_options
from doctor.script.raising.refused import may_be_refused
from doctor.script.raising.scopes import Names, scopes_of
from doctor.script.raising.signatures import Definitions, Position, misfits
from doctor.script.raising.unbound import exported, unbound


def raising(tree: ast.Module, span: Position) -> tuple[tuple[Raising, ...], bool]:
    """By kind, and whether the compiler may refuse the file."""
    names = Names()
    scopes, parents = scopes_of(tree, names), names.parents
    definitions = Definitions(scopes, parents, names.stored)
    found = (
        *unbound(scopes, parents, span),
        *exported(scopes[0], span),
        *misfits(definitions, span),
        *unknown_options(names, scopes, span),
        *unset(definitions, span),
        *lacking(definitions, span),
        *left_open(scopes, parents, span),
        *counterparts(definitions, span),
    )
    return found, may_be_refused(tree, names, scopes)
