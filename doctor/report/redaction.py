"""Redaction of reports: values of environment variables, names of machines, home directories.

Reports are pasted into issues and shown by CI. Facts files are not redacted, and say so, unless
`--redact` asks for it: then names are pseudonyms, and the file is judged as before.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from doctor._util.secrets import HIDDEN, hide_in_arguments, hide_secrets
from doctor._util.text_fields import Change, map_texts
from doctor.facts.facts import Facts
from doctor.facts.fleet import Fleet
from doctor.facts.host import Host
from doctor.judge.check import Check, Finding, Verdict
from doctor.judge.engine import examine
from doctor.judge.place import Place
from doctor.report.names import LONGEST, SYSTEM, Names, is_exempt, names_of, nodes_in, pseudonyms
from doctor.report.report import Report

Step = tuple[str, re.Pattern[str], str]
"""A substring that a text must contain before the pattern is tried, the pattern, and its
replacement as `re.sub` takes it.
"""
_NAME = r"[^/\s:;,'\"()\[\]<>]+"
HOMES: tuple[Step, ...] = tuple(
    (root, re.compile(rf"(?<![\w.~/-]){root}{name}(?![\w.-])"), "~")
    for root, name in (("/home/", _NAME), ("/Users/", _NAME), ("/root", ""))
)
HOME = re.compile(rf"(?<![\w.~/-])(/home/|/Users/){_NAME}")
PSEUDONYMS = "pseudonyms for the names of hosts, users and nodes and for UUIDs; paths as they were"
UUID = re.compile(r"(?<![0-9a-fA-F])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
SWITCH = re.compile(
    r"[\d\s,.:+-]{0,16}|true|false|on|off|yes|no|y|n|all|none|void|version|info|warn|trace|detail"
    r"|(?:(?:GPU|MIG)-[0-9a-fA-F/-]+,?)+",
    re.IGNORECASE,
)
"""Values that identify nobody and that remedies refer to: numbers, switches, GPUs' UUIDs."""
KEYS = ("fail_on", "sources", "code")
"""Fields with the doctor's own names."""
MOST = 200
"""Variables that are redacted; fewer are ever recorded."""


def redact(
    report: Report, *, keep_names: bool = False, hide_nodes: bool = False, here: Host | None = None
) -> Report:
    """The report without what identifies the machine's owner, in texts and facts.

    Values of variables become "[redacted]" unless they are switches, home directories "~", the
    names of the machine that was examined, of this one (`here`) and of their users "[host]",
    "[domain]" and "[user]". Only text of others changes: a verdict is judged again from facts
    without the names, so that the doctor's own words stay. With `keep_names` only what looks like a
    token or a password is redacted, with `hide_nodes` also the names of nodes.
    """
    facts = report.facts
    host = facts.host if isinstance(facts.host, Host) else Host(system="")
    if keep_names:
        shown: Report = _mapped(report, _change(hide_secrets))
        return shown
    nodes = pseudonyms(_nodes(facts)) if hide_nodes else Names({})
    names = names_of((host, here) if here else (host,)).without(_compared_nodes(facts))
    values = _value_cleaner(host, _compared_values(facts))

    def name(text: str) -> str:
        return nodes.redact(names.redact(text))

    change = _change(lambda text: name(values(text)), nodes.redact)
    findings = _findings(report, change, _change(values), _change(name, nodes.redact))
    redacted: Report = _mapped(dataclasses.replace(report, facts=_anonymous(facts)), change)
    return dataclasses.replace(redacted, findings=findings)


def pseudonymous(facts: Facts, here: Host) -> Facts:
    """The facts with pseudonyms for hosts, domains, users, nodes and UUIDs.

    Unlike in a report, values of variables and directories stay, without secrets and names: checks
    judge them.
    """
    host = facts.host if isinstance(facts.host, Host) else Host(system="")
    names = names_of((host, here)).without(_compared_nodes(facts))
    nodes = pseudonyms(_nodes(facts))
    devices: dict[str, int] = {}

    def device(match: re.Match[str]) -> str:
        number = devices.setdefault(match[0].lower(), len(devices) + 1)
        return f"00000000-0000-0000-0000-{number:012}"

    def text(value: str) -> str:
        value = HOME.sub(r"\1[user]", hide_secrets(value))
        return UUID.sub(device, nodes.redact(names.redact(value)))

    changed: Facts = map_texts(facts, _change(text, nodes.redact))
    return msgspec.structs.replace(changed, holds=PSEUDONYMS)


def _nodes(facts: Facts) -> list[str]:
    """The names of all nodes in the facts, also of those in lines of a log."""
    names: list[str] = []

    def node(name: str) -> str:
        names.append(name)
        return name

    def text(value: str) -> str:
        names.extend(nodes_in(value))
        return value

    map_texts(facts, {**_change(text), "product": str, "node": node, "arguments": tuple})
    return names


def _compared_nodes(facts: Facts) -> list[str]:
    """The names of the nodes that a comparison is about: one of them may be this machine."""
    if not isinstance(facts.fleet, Fleet):
        return []
    return [*(line.node for line in facts.fleet.nodes), *facts.fleet.missing]


def _change(text: Callable[[str], str], node: Callable[[str], str] = str) -> Change:
    """What happens to each kind of text. Products have no owner's name in theirs."""
    return {
        "text": text,
        "identifier": text,
        "product": hide_secrets,
        "node": node,
        "arguments": lambda words: tuple(map(text, hide_in_arguments(words))),
    }


def _compared_values(facts: Facts) -> list[tuple[str, str]]:
    """Variables of the nodes of a comparison, with each value that is a difference."""
    differences = facts.fleet.differences if isinstance(facts.fleet, Fleet) else ()
    return [
        (each.name, group.value)
        for each in differences
        if each.topic == "variables"
        for group in each.groups
    ]


def _without_values(facts: Facts) -> Facts:
    """Facts of a comparison without the values of variables."""
    if not isinstance(facts.fleet, Fleet):
        return facts
    differences = tuple(
        msgspec.structs.replace(
            each,
            groups=tuple(
                msgspec.structs.replace(group, value=_redacted_value(group.value))
                for group in each.groups
            ),
        )
        if each.topic == "variables"
        else each
        for each in facts.fleet.differences
    )
    return facts.with_(fleet=msgspec.structs.replace(facts.fleet, differences=differences))


def _anonymous(facts: Facts) -> Facts:
    """Facts whose section on the host has neither names nor values of variables."""
    facts = _without_values(facts)
    if not isinstance(facts.host, Host):
        return facts
    env = {name: _redacted_value(value) for name, value in facts.host.env.items()}
    return facts.with_(host=msgspec.structs.replace(facts.host, env=env, name="", user="", home=""))


def _findings(report: Report, change: Change, values: Change, names: Change) -> tuple[Finding, ...]:
    """The findings without secrets, values and names.

    One with a name in its text is judged again, from facts without names: then the doctor's own
    words stay, even if the machine is called like one of them. If that leads to another verdict,
    the name is replaced wherever it stands.
    """
    changed: list[Finding] = [_mapped(finding, change) for finding in report.findings]
    kept: list[Finding] = [_mapped(finding, values) for finding in report.findings]
    if changed == kept:
        return tuple(changed)
    checks = tuple({finding.check.code: finding.check for finding in report.findings}.values())
    anonymous = map_texts(report.facts, names)
    before = {finding.check.code: finding.verdict for finding in examine(checks, report.facts)}
    after = {finding.check.code: finding.verdict for finding in examine(checks, anonymous)}
    results = []
    for original, with_names, without in zip(report.findings, kept, changed, strict=True):
        code = original.check.code
        if with_names != without:
            again = _judged_again(original, before[code], after[code])
            without = _with_verdict(without, _mapped(again, values)) if again else without
        results.append(without)
    return tuple(results)


def _judged_again(finding: Finding, before: Verdict, after: Verdict) -> Verdict | None:
    """The finding's verdict in the words of the one without names; None where that differs."""
    alike = (before.status, len(before.commands), len(before.places)) == (
        after.status,
        len(after.commands),
        len(after.places),
    )
    own = finding.verdict
    if not alike or before.summary not in own.summary or own.places != before.places:
        return None
    summary = own.summary.replace(before.summary, after.summary)
    fix = after.fix if own.fix == before.fix else own.fix
    commands = after.commands if own.commands == before.commands else own.commands
    return dataclasses.replace(
        own, summary=summary, fix=fix, commands=commands, places=after.places
    )


def _with_verdict(finding: Finding, verdict: Verdict) -> Finding:
    return dataclasses.replace(finding, verdict=verdict)


def _value_cleaner(host: Host, compared: Iterable[tuple[str, str]] = ()) -> Callable[[str], str]:
    """Without secrets, home directories and values of variables, also of `compared` ones."""
    steps = [*_steps(host), *(step for name, value in compared for step in _value_of(name, value))]

    def clean(text: str) -> str:
        text = hide_secrets(text)
        for substring, pattern, replacement in steps:
            if substring in text:
                text = pattern.sub(replacement, text)
        return text

    return clean


def _steps(host: Host) -> Iterator[Step]:
    for name, value in islice(host.env.items(), MOST):
        yield from _variable_steps(name, value)
    home = host.home.rstrip("/")[:LONGEST]
    if home.startswith("/") and home.count("/") > 1 and not home.startswith(SYSTEM):
        yield home, re.compile(rf"(?<![\w.~/-]){re.escape(home)}(?![\w.-])"), "~"
    yield from HOMES


def _variable_steps(name: str, value: str) -> Iterator[Step]:
    """Redact the value after "NAME=", and alone where it is long and not a path."""
    if SWITCH.fullmatch(value.strip()):
        return
    value = value[:LONGEST]
    line = " ".join(value.split())
    complete = "|".join(re.escape(part) for part in (value, line) if part)
    truncated = re.escape(line[:12]) + r"(?:[^;()]*[^;()\s])?"
    replacement = f"{name}={HIDDEN}".replace("\\", r"\\")
    yield f"{name}=", re.compile(rf"\b{re.escape(name)}=(?:{complete}|{truncated})"), replacement
    if len(line) > 5 and "/" not in line and not is_exempt(line.casefold()):
        yield line[:6], re.compile(complete), HIDDEN


def _mapped(value: object, change: Change) -> Any:
    if isinstance(value, (Check, enum.Enum)):
        return value
    if isinstance(value, tuple):
        return tuple(_mapped(part, change) for part in value)
    if not dataclasses.is_dataclass(value) or isinstance(value, type):
        return map_texts(value, change)
    changed = {
        field.name: _mapped(getattr(value, field.name), change)
        for field in dataclasses.fields(value)
        if field.name not in KEYS
    }
    if isinstance(value, Place) and changed["edits"] != value.edits:
        changed["edits"] = ()  # an edit that hides something would write that into the script
    return dataclasses.replace(value, **changed)


def _value_of(name: str, value: str) -> Iterator[Step]:
    """Redact the value wherever a comparison quotes it: after "has", "have" or "NAME:"."""
    if not SWITCH.fullmatch(value.strip()) and value != HIDDEN and len(value) > 1:
        yield value[:6], re.compile(rf"(?<![\w.-]){re.escape(value[:LONGEST])}(?![\w-])"), HIDDEN


def _redacted_value(value: str) -> str:
    return value if SWITCH.fullmatch(value.strip()) else HIDDEN
