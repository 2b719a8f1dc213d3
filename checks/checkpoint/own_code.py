"""Code of a model's own: Python files that trust_remote_code runs, and chat templates."""

from __future__ import annotations

from doctor._util.units import listed
from doctor.checkpoint.records import CodeCall, OwnCode
from doctor.judge.check import Verdict, fail, note, unknown, warn

TRUSTED = ("program", "obtained", "hidden")
"""What the code of a model never needs in order to load."""

SOURCES = ("transformers-remote-code",)

SAID = {
    "program": "starts a program",
    "obtained": "runs what was fetched or decoded",
    "hidden": "computes the name of what it calls",
    "evaluation": "runs a text as code",
    "network": "reaches the network",
}

WHEN = {"import": "when it is imported", "load": "when the model is made or run"}

CODE_FIX = (
    "Do not load this directory with trust_remote_code=True. Use the library's own class of this "
    "architecture and remove auto_map from config.json, or take the files from a source that you "
    "trust and read the line named here."
)

TEMPLATE_FIX = (
    "Do not render this template. Remove the expression, or take the chat template of the base "
    "model: transformers renders in a sandbox, other programs may not, and then it runs commands."
)


def dangerous_code(own: OwnCode) -> Verdict | None:
    """A failure for code that no model needs; None where there is none."""
    worst = [call for call in own.calls if call.kind in TRUSTED and call.when]
    if worst:
        text = f"{_listed(worst)}, when loaded with trust_remote_code; none required"
        return fail(text, fix=CODE_FIX, sources=SOURCES)
    if own.template:
        reached = listed(list(own.template), 3)
        text = f"the chat template reaches Python's internals ({reached}); none required"
        return fail(text, fix=TEMPLATE_FIX)
    return None


def doubtful_code(own: OwnCode) -> Verdict | None:
    """Code whose import reaches the network or runs a text, or that was not read."""
    if calls := [call for call in own.calls if call.when == "import"]:
        text = f"{_listed(calls)}, when loaded with trust_remote_code"
        return warn(text, fix=CODE_FIX, sources=SOURCES)
    if own.unread:
        text = f"not read, and run by trust_remote_code: {listed(list(own.unread), 3)}"
        return unknown(text)
    return None


def present_code(own: OwnCode, summary: str) -> Verdict | None:
    """A note that the configuration names code; None where it names none."""
    if not own.files and not own.elsewhere:
        return None
    files = listed([*own.files, *own.elsewhere], 3)
    text = f"{summary}; trust_remote_code=True runs {files}"
    if own.calls:
        return note(f"{text}; {_listed(list(own.calls))}")
    return note(f"{text}: nothing in it is known to start programs" if own.files else text)


def _listed(calls: list[CodeCall]) -> str:
    return listed([_said(call) for call in calls], 3)


def _said(call: CodeCall) -> str:
    when = f" {WHEN[call.when]}" if call.when in WHEN else ""
    return f"{call.file}, line {call.line}, {SAID.get(call.kind, call.kind)}{when} ({call.name})"
