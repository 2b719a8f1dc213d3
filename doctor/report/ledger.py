"""Known machines of a ledger: as a table, as JSON and as lines of JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from doctor import __version__
from doctor._util.units import shown
from doctor.fleet.ledger import Kind
from doctor.report.formats.json_forms import LEDGER, schema_of_one
from doctor.report.report import Outcome
from doctor.report.table import Table

FORMATS = ("console", "plain", "json", "jsonl")
Action = Literal["list", "show", "forget"]


class SightingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one comparison saw of a machine."""

    time: str
    node: str
    """Pseudonym of the node's name, or the name where the ledger keeps names."""
    verdict: Outcome
    failures: tuple[str, ...]
    """Codes of failures that are the machine's own."""


class MachineRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU, a host, or the GPUs of a node together."""

    machine: str
    """Its pseudonym."""
    kind: Kind
    sightings: tuple[SightingRecord, ...]
    """The oldest first, without forgotten ones; those that `forget` has forgotten now."""


class LedgerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What `doctor ledger` prints."""

    schema: Literal["urn:preflight-doctor:json-v1:ledger"]
    doctor: str
    action: Action
    machines: tuple[MachineRecord, ...]
    unread: tuple[str, ...]
    """Files that are no records, each with the reason."""


class MachineLine(MachineRecord, frozen=True, kw_only=True):
    """A line of --format jsonl."""

    schema: Literal["urn:preflight-doctor:json-v1:ledger"]
    doctor: str
    action: Action


OF_THIS_DOCTOR: dict[str, Any] = {"schema": LEDGER, "doctor": __version__}


def render(record: LedgerRecord, format: str) -> str:
    """The record in one of `FORMATS`."""
    if format == "json":
        return json.dumps(msgspec.to_builtins(record), indent=2)
    if format == "jsonl":
        return "\n".join(json.dumps(msgspec.to_builtins(line)) for line in _json_lines(record))
    return "\n".join(_TEXTS[record.action](record))


def schema() -> dict[str, object]:
    """JSON Schema of both forms."""
    return schema_of_one((LedgerRecord, MachineLine), LEDGER, "doctor ledger --format json, jsonl")


def _json_lines(record: LedgerRecord) -> Iterator[MachineLine | LedgerRecord]:
    for each in record.machines:
        yield MachineLine(**OF_THIS_DOCTOR, action=record.action, **msgspec.structs.asdict(each))
    if record.unread or not record.machines:
        yield msgspec.structs.replace(record, machines=())


def _list(record: LedgerRecord) -> Iterator[str]:
    rows = tuple(map(_row, record.machines))
    if rows:
        heads = ("machine", "last seen", "node", "verdict", "failures")
        yield from Table("", heads, rows).lines()
    else:
        yield "no GPU and no host to list"
    yield from (f"not read: {shown(each, 300)}" for each in record.unread)


def _row(machine: MachineRecord) -> tuple[str, ...]:
    day, *rest = _cells(machine.sightings[-1])
    codes = dict.fromkeys(code for each in machine.sightings for code in each.failures)
    return shown(machine.machine), day[:10], *rest[:-1], shown(", ".join(codes), 80)


def _show(record: LedgerRecord) -> Iterator[str]:
    rows = tuple(_cells(each) for machine in record.machines for each in machine.sightings)
    yield from Table("", ("time", "node", "verdict", "failures"), rows).lines()


def _cells(sighting: SightingRecord) -> tuple[str, ...]:
    failures = shown(", ".join(sighting.failures), 80)
    return sighting.time, shown(sighting.node, 40), sighting.verdict.upper(), failures


def _forget(record: LedgerRecord) -> Iterator[str]:
    yield f"forgotten: {', '.join(shown(each.machine) for each in record.machines)}"


_TEXTS = {"list": _list, "show": _show, "forget": _forget}
