"""One node's facts as a record of at most eight kilobytes, and its safe way over a wire."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import msgspec

from doctor._util.records import Unknown
from doctor._util.secrets import hide_secrets
from doctor._util.text_fields import Change, map_texts
from doctor.facts.facts import Facts
from doctor.facts.fleet import SUMMARY_BYTES, NodeProblem, NodeSummary, Outcome, Topic
from doctor.facts.host import Host
from doctor.facts.load import Load, Peers
from doctor.facts.machine import Gpu
from doctor.fleet.attributes import classed, digest, values

LONG = 120
"""Characters of a value; a longer one is compared by its hash."""
MOST_PROBLEMS, PROBLEM_LENGTH = 12, 160
MOST_RATES = 10**18
"""No rate of a GPU, in FLOP/s or bytes per second, is higher."""
REASON_LONGEST = 300


def summarize(
    facts: Facts, outcome: Outcome = "unknown", problems: Sequence[NodeProblem] = (), file: str = ""
) -> NodeSummary:
    """The summary of a node.

    `outcome` and `problems` are the verdict of the node's own checks, `file` the facts file. What
    a long value was can be read in the facts only (`doctor.fleet.attributes.values`).
    """
    host = facts.host if isinstance(facts.host, Host) else Host(system="")
    launched = facts.launched
    gpus = [gpu for gpu in facts.gpus if gpu.uuid] if isinstance(facts.gpus, tuple) else []
    measured = rates(facts)
    return NodeSummary(
        node=(launched.node if launched else "") or host.name or file or "(no name)",
        host=host.name,
        rank=launched.rank if launched else None,
        job=launched.job if launched else "",
        launcher=launched.by if launched else "",
        nodes=launched.nodes if launched else None,
        file=file,
        started=facts.examination.started if facts.examination else "",
        outcome=outcome,
        problems=tuple(map(_short, problems[:MOST_PROBLEMS])),
        classed=classed(facts),
        compared=compared(facts),
        uuids=tuple(map(_uuid, gpus)),
        addresses=tuple(host.mac_addresses or ()),
        rates={metric: (rate,) for metric, (rate, _) in measured.items()},
        slowest={metric: part for metric, (_, part) in measured.items() if part},
        shortened=len(problems) > MOST_PROBLEMS,
    )


def _uuid(gpu: Gpu) -> str:
    return gpu.uuid


def _short(problem: NodeProblem) -> NodeProblem:
    summary = hide_secrets(problem.summary)
    if len(summary) <= PROBLEM_LENGTH:
        return msgspec.structs.replace(problem, summary=summary)
    return msgspec.structs.replace(problem, summary=summary[: PROBLEM_LENGTH - 3] + "...")


def compared(facts: Facts) -> dict[Topic, dict[str, str]]:
    """Topic -> name -> value; a value that is long, has lines or may hold a secret as its hash."""
    found: dict[Topic, dict[str, str]] = {}
    if isinstance(facts.host, Host):
        found["variables"] = {}
    for topic, name, value in values(facts):
        if value is not None:
            found.setdefault(topic, {})[name] = _compact(topic, value)
    return found


def _compact(topic: Topic, value: str) -> str:
    if len(value) > LONG or not value.isprintable():
        return digest(value)
    return digest(value) if topic in OF_USERS and hide_secrets(value) != value else value


OF_USERS: tuple[Topic, ...] = ("variables", "files")
"""Topics whose values a user wrote."""


def rates(facts: Facts) -> dict[str, tuple[float, str]]:
    """Metric -> the lowest rate of the node's GPUs, and which GPU that is.

    FLOP/s for products of matrices, bytes per second for the others.
    """
    lowest: dict[str, tuple[float, str]] = {}
    for metric, rate, part in _measured(facts):
        if rate is not None and 0 < rate < MOST_RATES and math.isfinite(rate):
            lowest[metric] = min(lowest.get(metric, (rate, part)), (rate, part))
    return lowest


def _measured(facts: Facts) -> Iterator[tuple[str, float | None, str]]:
    for load in facts.load if isinstance(facts.load, tuple) else ():
        yield from _of_load(load)
    if isinstance(peers := facts.peers, Peers):
        for copy in peers.copies:
            yield "copy between GPUs", copy.rate, f"GPU {copy.source} to GPU {copy.target}"
        for reduction in peers.reductions:
            if reduction.p2p:
                yield "all-reduce in the node", reduction.rate, ""


def _of_load(load: Load) -> Iterator[tuple[str, float | None, str]]:
    part = "GPU " + load.device.rpartition(":")[2] if ":" in load.device else load.device
    for dtype, rate in load.matmul.items():
        yield f"matmul {dtype}", rate, part
    yield "copy in GPU memory", load.copy, part
    yield "copy to the GPU", load.to_device, part
    yield "copy from the GPU", load.from_device, part


def encode(summary: NodeSummary) -> bytes:
    """JSON of at most `SUMMARY_BYTES`, without secrets; what does not fit is left out."""
    for shorten in (_as_it_is, _hashed, _without_texts, _without_values):
        data = msgspec.json.encode(shorten(summary))
        if len(data) <= SUMMARY_BYTES:
            return data
    return msgspec.json.encode(NodeSummary(node=summary.node[:255], shortened=True))


def _as_it_is(summary: NodeSummary) -> NodeSummary:
    return summary


def _hashed(summary: NodeSummary) -> NodeSummary:
    """Each value of a variable as a hash, and no texts of problems."""
    variables = summary.compared.get("variables", {})
    hashes = {name: digest(value) for name, value in variables.items()}
    return msgspec.structs.replace(
        _without_texts(summary), compared=summary.compared | {"variables": hashes}
    )


def _without_texts(summary: NodeSummary) -> NodeSummary:
    problems = tuple(msgspec.structs.replace(each, summary="") for each in summary.problems)
    return msgspec.structs.replace(summary, problems=problems, shortened=True)


def _without_values(summary: NodeSummary) -> NodeSummary:
    """Each topic as one hash: that it differs is seen, and the facts say where."""
    hashes = {
        topic: {"all of it": digest(repr(sorted(values.items())))}
        for topic, values in summary.compared.items()
    }
    return msgspec.structs.replace(
        _without_texts(summary), compared=hashes, addresses=(), uuids=summary.uuids[:64]
    )


def decode(data: bytes) -> NodeSummary:
    """A summary from an untrusted node, whose authenticity was verified before.

    Raises ValueError with one line: too long, not a summary, or control characters in a name.
    """
    if len(data) > SUMMARY_BYTES:
        raise ValueError(f"a summary of {len(data):,} bytes; at most {SUMMARY_BYTES:,} are read")
    try:
        summary = msgspec.json.decode(data, type=NodeSummary)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"not a summary of a node: {' '.join(str(error).split())}") from None
    return check(summary)


def check(summary: NodeSummary) -> NodeSummary:
    """The same summary. Raises ValueError for rates and texts that no node of ours has."""
    text = msgspec.json.encode(summary).decode()
    if "\\" in text or not text.isprintable():  # else no text in it has a control character
        map_texts(summary, PRINTABLE)
    if not all(0 < rate < MOST_RATES for each in summary.rates.values() for rate in each):
        raise ValueError("not a summary of a node: a rate that is none")
    return summary


def _printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("not a summary of a node: control characters in a text")
    return text


PRINTABLE: Change = {
    "text": _printable,
    "arguments": tuple,
    "product": _printable,
    "identifier": _printable,
    "node": _printable,
}


def unread_reason(error: Exception | Unknown) -> str:
    """Why a file or a node has no summary, in one line."""
    text = error.reason if isinstance(error, Unknown) else str(error)
    return " ".join(text.split())[:REASON_LONGEST]
