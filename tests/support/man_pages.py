"""The manual pages: man/doctor.1 and a page per command, from the texts of `--help`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
import typer.main
from paths import ROOT

from doctor.cli.app import EVERY, app

FOLDER = ROOT / "man"
EXIT_CODES = (
    ("0", "nothing at or above --fail-on"),
    ("1", "at least one check is at or above --fail-on"),
    ("2", "usage error"),
    ("3", "the verdict is UNKNOWN, or the doctor itself failed"),
    ("130", "interrupted"),
)


PARSER: Any = typer.main.get_command(app)


def parsed(name: str) -> Any:
    """The parser of a command, "run" or "fleet run"."""
    command = PARSER
    for word in name.split():
        command = command.commands[word]
    return command


def pages() -> dict[str, str]:
    """File name -> text in roff."""
    texts = {"doctor.1": "\n".join(_main())}
    for name in EVERY:
        texts[f"doctor-{_hyphened(name)}.1"] = "\n".join(_command(name))
    return {name: f"{text}\n" for name, text in texts.items()}


def _main() -> Iterator[str]:
    yield from _head("doctor", str(PARSER.help))
    yield ".B doctor\n.I COMMAND\n[OPTIONS]"
    yield ".SH COMMANDS"
    for name in EVERY:
        yield f".TP\n.BR doctor\\-{_escaped(_hyphened(name))} (1)\n{_escaped(_summary(name))}"
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES:
        yield f".TP\n.B {code}\n{_escaped(meaning)}"


def _command(name: str) -> Iterator[str]:
    command = parsed(name)
    yield from _head(f"doctor-{_hyphened(name)}", _summary(name))
    arguments = [param.metavar for param in command.params if param.param_type_name == "argument"]
    words = " ".join(filter(None, ["[OPTIONS]", *arguments]))
    yield f".B doctor {_escaped(name)}\n{_escaped(words)}"
    yield ".SH DESCRIPTION"
    for paragraph in re.split(r"\n\s*\n", str(command.help).replace("\b", "")):
        yield f".PP\n{_escaped(paragraph)}"
    for heading, records in command.sections(typer.Context(command)):
        yield f".SH {_escaped(heading.upper())}"
        for names, help in records:
            yield f".TP\n.B {_escaped(names)}\n{_escaped(help)}"
    yield f".SH EXAMPLE\n.PP\n.EX\n{_escaped(EVERY[name][1])}\n.EE"
    yield ".SH SEE ALSO\n.BR doctor (1)"


def _head(name: str, summary: str) -> Iterator[str]:
    yield f'.TH "{_escaped(name.upper())}" "1" "" "preflight-doctor" "User Commands"'
    yield f".SH NAME\n{_escaped(name)} \\- {_escaped(summary.rstrip('.'))}"
    yield ".SH SYNOPSIS"


def _summary(name: str) -> str:
    return str(parsed(name).help).split("\n\n")[0]


def _hyphened(name: str) -> str:
    return name.replace(" ", "-")


def _escaped(text: str) -> str:
    """One line of text, of which roff interprets nothing."""
    line = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{line}" if line[:1] in (".", "'") else line
