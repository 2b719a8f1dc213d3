"""All that raises in one file."""

from __future__ import annotations

import ast

from doctor.facts.script import Raising
from doctor.script.raising.attributes import unset
from doctor.script.raising.options import unknown_options
from doctor.script.raising.scopes import scopes_of
from doctor.script.raising.signatures import Definitions, Position, misfits
from doctor.script.raising.unbound import exported, unbound


def raising(tree: ast.Module, span: Position) -> tuple[Raising, ...]:
    """By kind."""
    scopes = scopes_of(tree)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    definitions = Definitions(scopes, parents)
    return (
        *unbound(scopes, parents, span),
        *exported(scopes[0], span),
        *misfits(definitions, span),
        *unknown_options(tree, scopes, parents, span),
        *unset(definitions, tree, span),
    )
