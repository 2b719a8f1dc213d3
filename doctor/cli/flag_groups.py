"""Commands whose parameters are dataclasses, each of them a group of flags."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, fields, is_dataclass
from inspect import Parameter
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints


def grouped(command: Callable[..., int]) -> Callable[..., int]:
    """The command as typer needs it: one parameter for each field of a group.

    Fields are declared as typer's parameters are: `name: Annotated[type, Option(...)] = default`.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(groups[name])
        else:
            annotation = _with_choices(hints[name])
            parameters.append(parameter.replace(annotation=annotation, kind=Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def flat(**values: object) -> int:
        built = {
            name: group(**{field.name: values.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        return command(**built, **values)

    flat.__dict__["__signature__"] = inspect.Signature(parameters)
    flat.__annotations__ = {each.name: each.annotation for each in parameters}
    return flat


def _parameters(group: Any) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if field.default is MISSING else field.default,
            annotation=_with_choices(hints[field.name]),
        )
        for field in fields(group)
    ]


def _with_choices(hint: object) -> object:
    """The annotation of a parameter, with the choices of a Literal as what it expects."""
    kind, option = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
    literals = [each for each in (kind, *get_args(kind)) if get_origin(each) is Literal]
    if option is None or option.metavar or not literals:
        return hint
    option = copy(option)  # the group of several commands
    option.metavar = "|".join(get_args(literals[0]))
    return Annotated[kind, option]


def set_flags(*groups: Any) -> dict[str, Any]:
    """The flags of these groups that are on the command line; lists become tuples."""
    values = {field.name: getattr(group, field.name) for group in groups for field in fields(group)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value is not None and value != []
    }
