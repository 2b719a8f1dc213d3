"""Options that other programs have, and what they are called here."""

from __future__ import annotations

import difflib
from typing import Any

from doctor.report.formats.table import FORMATS

ELSEWHERE = {
    **{f"--{name}": f"--format {name}" for name in FORMATS},
    "--md": "--format markdown",
    "--output-format": "--format",
    "--out": "--output FORMAT=FILE",
    "--output-file": "--output FORMAT=FILE",
    "-o": "--output FORMAT=FILE",
    "--select": "--only",
    "--exclude": "--skip",
    "--disable": "--skip",
    "--strict": "--fail-on warn",
    "--exit-zero": "--fail-on never",
    "--silent": "-q",
    "--debug": "-v",
    "--no-color": "--color never",
    "--anonymize": "--redact",
    "--raw": "--no-redact",
    "--version": "doctor --version",
    "--checkpoint": "doctor scan PATH",
    "--model": "doctor run --model FILE.py:factory",
    "-f": "--format",
    "-c": "--config",
}
"""Flag -> the option of the same meaning; one that begins with "doctor" is another command's."""


def no_such_option(error: BaseException) -> str:
    """The message on an option that a command does not have, "" for another error."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if type(error).__name__ != "NoSuchOption" or name is None or context is None:
        return ""
    known = _options(context)
    meant = _meant(name, known)
    hint = f"did you mean {meant}?" if meant else f"{context.command_path} --help lists them"
    return f"No such option: {name}; {hint}"


def _meant(name: str, known: list[str]) -> str:
    meant = ELSEWHERE.get(name, "")
    if meant.startswith("doctor ") or meant.split(" ")[0] in known:
        return meant
    nearest = difflib.get_close_matches(name, known, 1, 0.7)
    return nearest[0] if nearest else ""


def _options(context: Any) -> list[str]:
    params = [each for each in context.command.get_params(context) if hasattr(each, "opts")]
    return [name for each in params for name in (*each.opts, *each.secondary_opts)]
