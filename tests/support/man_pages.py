"""The manual page man/doctor.1, from the texts of `--help`; one page, so that few files change."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
import typer.main
from paths import ROOT

from doctor.cli.app import EVERY, command_line

FOLDER = ROOT / "man"
EXIT_CODES = (
    ("0", "nothing at or above --fail-on"),
    ("1", "at least one check is at or above --fail-on"),
    ("2", "usage error"),
    ("3", "the verdict is UNKNOWN, or the doctor itself failed"),
    ("130", "interrupted"),
)


PARSER: Any = typer.main.get_command(command_line())


def parsed(name: str) -> Any:
    """The parser of a command, "run" or "fleet run"."""
    command = PARSER
    for word in name.split():
        command = command.commands[word]
    return command


def pages() -> dict[str, str]:
    """File name -> text in roff."""
    return {"doctor.1": "\n".join(_page()) + "\n", "preflight-doctor.1": ".so man1/doctor.1\n"}


def _page() -> Iterator[str]:
    yield '.TH "DOCTOR" "1" "" "preflight\\-doctor" "User Commands"'
    yield f".SH NAME\ndoctor \\- {_escaped(str(PARSER.help).rstrip('.'))}"
    yield ".SH SYNOPSIS\n.B doctor\n.I COMMAND\n[OPTIONS]"
    yield ".SH COMMANDS"
    for name in EVERY:
        yield f".TP\n.B {_escaped(name)}\n{_escaped(_paragraphs(name)[0])}"
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES:
        yield f".TP\n.B {code}\n{_escaped(meaning)}"
    for name in EVERY:
        yield from _command(name)


def _command(name: str) -> Iterator[str]:
    command = parsed(name)
    arguments = [param.metavar for param in command.params if param.param_type_name == "argument"]
    yield f".SH DOCTOR {_escaped(name.upper())}"
    words = " ".join(filter(None, ["[OPTIONS]", *arguments]))
    yield f".PP\n.B doctor {_escaped(name)}\n{_escaped(words)}"
    yield from (f".PP\n{_escaped(paragraph)}" for paragraph in _paragraphs(name))
    yield f".PP\nExample: {_escaped(EVERY[name][1])}"
    for heading, records in command.sections(typer.Context(command)):
        yield f".SS {_escaped(heading)}"
        for names, help in records:
            yield f".TP\n.B {_escaped(names)}\n{_escaped(help)}"


def _paragraphs(name: str) -> list[str]:
    return re.split(r"\n\s*\n", str(parsed(name).help).replace("\b", ""))


def _escaped(text: str) -> str:
    """One line of text, of which roff interprets nothing."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "'") else line
