"""The flags of every command, as the parser has them, and the table in docs/commands.md."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from man_pages import parsed

from doctor.cli.app import EVERY
from doctor.cli.panels import PANELS

REPORTS = (
    "run",
    "report",
    "read",
    "triage",
    "rehearse",
    "guard",
    "lint",
    "scan",
    "data",
    "compare",
)
"""Commands that print a report."""
OTHERS = ("ledger", "prescribe", "explain", "list")
HEADER = """# Commands and their flags

`doctor help COMMAND` describes each flag. A flag means the same wherever it is; generated from the
command line itself.

"""


@functools.cache
def options() -> dict[str, dict[str, Any]]:
    """Command -> first long name -> the parser's option."""
    return {name: {_name(option): option for option in _options(parsed(name))} for name in EVERY}


def _options(command: Any) -> list[Any]:
    return [each for each in command.params if each.param_type_name == "option"]


def _name(option: Any) -> str:
    """ "--output", "--smoke/--no-smoke", "-v, --verbose"."""
    short = [name for name in option.opts if not name.startswith("--")]
    names = [*short, next(name for name in option.opts if name.startswith("--"))]
    return "/".join([", ".join(names), *option.secondary_opts])


def page() -> str:
    """docs/commands.md."""
    return HEADER + "\n".join(_table()) + "\n"


def _table() -> Iterator[str]:
    have = options()
    columns = (*REPORTS, *OTHERS)
    yield f"| flag | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for name in sorted({name for each in columns for name in have[each]}, key=_order(have)):
        if sum(name in have[each] for each in columns) > 1:
            cells = ["x" if name in have[each] else "" for each in columns]
            yield f"| `{name}` | {' | '.join(cells)} |"
    yield ""
    for command in EVERY:
        alone = [name for name in have[command] if _only_in(name, command, have)]
        if alone:
            names = ", ".join(f"`{name}`" for name in sorted(alone))
            where = "Only" if " " not in command else f"Beyond those of `{command.split()[1]}`,"
            yield f"{where} in `{command}`: {names}.{_without(command, have)}"
            yield ""


def _without(command: str, have: dict[str, dict[str, Any]]) -> str:
    """What a command of fleet lacks of the command that it runs on each node."""
    lacks = sorted(set(have[command.split()[-1]]) - set(have[command]))
    return f" Without {', '.join(f'`{name}`' for name in lacks)}." if lacks else ""


def _only_in(name: str, command: str, have: dict[str, dict[str, Any]]) -> bool:
    own = [each for each in have if name in have[each] and not each.startswith("fleet ")]
    if command.startswith("fleet "):  # its other flags are those of the command without "fleet"
        return name not in have[command.split()[1]]
    return own == [command]


def _order(have: dict[str, dict[str, Any]]) -> Any:
    """By heading of the help, then by name."""

    def order(name: str) -> tuple[int, str]:
        option = next(each[name] for each in have.values() if name in each)
        return PANELS.index(option.rich_help_panel), name.lstrip("-")

    return order
