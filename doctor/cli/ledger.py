"""The ledger of known machines: what a comparison asks of it and writes to it, and its commands."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

import msgspec

from doctor import catalog
from doctor._util.errors import UserError
from doctor._util.secrets import hide_secrets
from doctor._util.units import shown
from doctor.collect.background import background
from doctor.facts.fleet import Changed, Fleet, Known, NodeSummary
from doctor.fleet import ledger
from doctor.fleet.ledger import Content, Kind, Pseudonyms, Record, Sighting
from doctor.report.ledger import OF_THIS_DOCTOR, Action, LedgerRecord, MachineRecord, SightingRecord
from doctor.report.report import Outcome

KEY_FILE = "DOCTOR_LEDGER_KEY_FILE"
KEY_BYTES = 32


def key_path() -> Path:
    """The file of the key: that of the variable, else one in the user's configuration."""
    if given := os.environ.get(KEY_FILE):
        return Path(given)
    home = os.environ.get("XDG_CONFIG_HOME") or str(Path("~/.config").expanduser())
    return Path(home) / "doctor" / "ledger.key"


def pseudonyms(directory: Path, *, keep_names: bool = False) -> Pseudonyms:
    """Names under the key, which is made where there is none. Raises UserError."""
    path = key_path()
    if path.resolve().is_relative_to(directory.resolve()):
        raise UserError(f"{KEY_FILE} {path}: the key must not lie in the ledger")
    try:
        key = _key(path)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; {KEY_FILE} names another file") from None
    if len(key) < KEY_BYTES:
        raise UserError(f"{path}: a key of at least {KEY_BYTES} bytes is required")
    return Pseudonyms(key, keep_names=keep_names)


def _key(path: Path) -> bytes:
    with contextlib.suppress(FileNotFoundError):
        return path.read_bytes()
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
        ) as file:
            file.write(secrets.token_bytes(KEY_BYTES))
        with contextlib.suppress(FileExistsError):  # another process made one in the meantime
            os.link(temporary, path)
    finally:
        temporary.unlink()
    return path.read_bytes()


def read(directory: Path) -> Content:
    """What the ledger has. Raises UserError."""
    try:
        return ledger.read(directory)
    except FileNotFoundError:
        raise UserError(
            f"{directory} does not exist; a ledger begins as an empty directory"
        ) from None
    except OSError as error:
        raise UserError(f"--ledger {directory}: {error.strerror}") from None


def with_ledger(
    fleet: Fleet, nodes: Sequence[NodeSummary], directory: Path, *, keep_names: bool = False
) -> tuple[Fleet, tuple[str, ...]]:
    """The comparison with what the ledger has on its nodes, and notes; it is kept there, too.

    Raises UserError where the ledger cannot be read or has another key.
    """
    content = read(directory)
    names = pseudonyms(directory, keep_names=keep_names)
    if content.key_ids and names.key_id not in content.key_ids:
        raise UserError(
            f"--ledger {directory} was written with another key than {key_path()}; "
            f"{KEY_FILE} names the file of the key"
        )
    known = tuple(each for node in nodes for each in _known(node, content, names))
    changed = tuple(each for node in nodes for each in _changed(node, content, names))
    notes = [f"of the ledger, not read: {each}" for each in content.unread[:5]]
    notes += _kept(directory, nodes, names)
    return msgspec.structs.replace(fleet, known=known, changed=fleet.changed + changed), tuple(
        notes
    )


def with_ledger_within(
    seconds: float,
    fleet: Fleet,
    nodes: Sequence[NodeSummary],
    directory: Path,
    *,
    keep_names: bool = False,
) -> tuple[Fleet, tuple[str, ...]]:
    """The same within so many seconds: a mount that hangs, or another key, is a finding."""
    asked = background(lambda: with_ledger(fleet, nodes, directory, keep_names=keep_names))
    try:
        return asked.result(max(0.0, seconds))
    except UserError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"--ledger {directory} did not answer within {max(0.0, seconds):.0f} s"
    return msgspec.structs.replace(fleet, ledger_problem=problem), ()


def _kept(directory: Path, nodes: Sequence[NodeSummary], names: Pseudonyms) -> list[str]:
    """Write what this comparison saw; a note where that fails."""
    sightings = tuple(each for node in nodes for each in sightings_of(node, names))
    try:
        ledger.write(directory, Record(key_id=names.key_id, sightings=sightings))
        ledger.compact(directory, names.key_id)
    except OSError as error:
        return [f"the ledger was not written: {error.strerror}"]
    return []


def _devices(node: NodeSummary) -> Iterator[tuple[Kind, str]]:
    yield from (("gpu", uuid) for uuid in node.uuids)
    if node.host or node.node:
        yield "host", node.host or node.node


def _gpus(node: NodeSummary) -> str:
    """What rates belong to: the GPUs, wherever they are, else the host."""
    return " ".join(sorted(node.uuids)) or node.host or node.node


@cache
def _own_codes() -> frozenset[str]:
    """Checks whose failure may mean that the machine goes back."""
    return frozenset(check.code for check in catalog.MACHINE_CHECKS if check.returns)


def sightings_of(node: NodeSummary, names: Pseudonyms) -> Iterator[Sighting]:
    """What a record has of a node: its GPUs, its host and its rates."""
    own = _own_codes()
    codes = tuple(each.code for each in node.problems if each.status == "fail" and each.code in own)
    time = node.started or ledger.now()
    seen = partial(Sighting, time=time, node=names.name(node.node), outcome=node.outcome)
    for kind, name in _devices(node):
        yield seen(kind=kind, key=names.of(kind, name), codes=codes)
    if node.rates:
        rates = {metric: values[-1] for metric, values in node.rates.items()}
        key = names.of("node", _gpus(node))
        yield seen(kind="node", key=key, rates=rates)


def _known(node: NodeSummary, content: Content, names: Pseudonyms) -> Iterator[Known]:
    """Earlier failures of the node's GPUs and host, the latest of each."""
    own = {names.name(node.node), names.of("host", node.node), node.node}
    told: set[tuple[str, tuple[str, ...]]] = set()
    for kind, name in _devices(node):
        earlier = [
            each
            for each in content.sightings.get(names.of(kind, name), ())
            if each.codes and each.time < (node.started or ledger.now())
        ]
        if not earlier or (kind == "host" and (earlier[-1].time, earlier[-1].codes) in told):
            continue  # the host of GPUs that are named already
        last = earlier[-1]
        told.add((last.time, last.codes))
        yield Known(
            node=node.node,
            device=name if kind == "gpu" else "",
            codes=last.codes,
            day=last.time[:10],
            earlier_node="" if last.node in own else last.node,
            returned=last.outcome == "return",
        )


def _changed(node: NodeSummary, content: Content, names: Pseudonyms) -> Iterator[Changed]:
    """Rates that the same GPUs had the last time."""
    earlier = [
        each
        for each in content.sightings.get(names.of("node", _gpus(node)), ())
        if each.time < (node.started or ledger.now())
    ]
    for metric, before in earlier[-1].rates.items() if earlier else ():
        if now := node.rates.get(metric):
            yield Changed(
                node=node.node,
                metric=metric,
                before=before,
                now=now[-1],
                since=earlier[-1].time[:10],
            )


def listed(directory: Path) -> LedgerRecord:
    """Every GPU and host in the ledger. Raises UserError."""
    content = read(directory)
    found = content.sightings
    return _record("list", content, sorted(key for key in found if found[key][-1].kind != "node"))


def show(directory: Path, name: str) -> LedgerRecord:
    """All sightings of a GPU or host: by its UUID, its name or its pseudonym. Raises UserError."""
    content = read(directory)
    return _record("show", content, _keys(directory, name, content))


def forget(directory: Path, name: str) -> LedgerRecord:
    """Write that a machine is forgotten. Raises UserError."""
    content = read(directory)
    keys = _keys(directory, name, content)
    names = pseudonyms(directory)
    record = Record(key_id=names.key_id, forgotten=dict.fromkeys(keys, ledger.now()))
    try:
        ledger.write(directory, record)
    except OSError as error:
        raise UserError(f"{directory}: {error.strerror}") from None
    return _record("forget", content, keys)


def only_failed(record: LedgerRecord) -> LedgerRecord:
    """The record without sightings, and then machines, that have no failure."""
    machines = [
        msgspec.structs.replace(
            each, sightings=tuple(sighting for sighting in each.sightings if sighting.failures)
        )
        for each in record.machines
    ]
    return msgspec.structs.replace(record, machines=tuple(m for m in machines if m.sightings))


def _record(action: Action, content: Content, keys: Sequence[str]) -> LedgerRecord:
    return LedgerRecord(
        **OF_THIS_DOCTOR,
        action=action,
        machines=tuple(_machine(key, content.sightings[key]) for key in keys),
        unread=tuple(map(hide_secrets, content.unread)),
    )


def _machine(key: str, found: Sequence[Sighting]) -> MachineRecord:
    """What is known of a machine, without secrets."""
    sightings = tuple(
        SightingRecord(
            time=each.time,
            node=hide_secrets(each.node),
            verdict=Outcome(each.outcome),
            failures=tuple(map(hide_secrets, each.codes)),
        )
        for each in found
    )
    return MachineRecord(machine=hide_secrets(key), kind=found[-1].kind, sightings=sightings)


def _keys(directory: Path, name: str, content: Content) -> list[str]:
    """The pseudonyms that a name may have. Raises UserError where the ledger has none of them."""
    if name in content.sightings:
        return [name]
    if not content.sightings:
        raise UserError(f"{directory} has no GPU and no host")
    names = pseudonyms(directory)
    kinds: tuple[Kind, ...] = ("gpu", "host")
    keys = [names.of(kind, name) for kind in kinds]
    found = [key for key in keys if key in content.sightings]
    if not found:
        raise UserError(f"{directory} has no {shown(name)}; doctor ledger list prints what it has")
    return found
