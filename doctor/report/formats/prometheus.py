"""The report for the textfile collector of Prometheus' node exporter: gauges."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterable, Iterator

from doctor.facts.fleet import Fleet
from doctor.judge.check import Status
from doctor.report.fleet import RANKS
from doctor.report.origin import origin_of
from doctor.report.report import Outcome, Report

Sample = tuple[dict[str, str], float]


def render(report: Report) -> str:
    """Gauges with their help, in the text format."""
    return "\n".join(line for name, help, samples in _gauges(report)
                     for line in _gauge(name, help, samples))  # fmt: skip


def _gauge(name: str, help: str, samples: Iterable[Sample]) -> Iterator[str]:
    lines = [f"{name}{_labels(labels)} {value:g}" for labels, value in samples]
    if lines:
        yield f"# HELP {name} {help}"
        yield f"# TYPE {name} gauge"
        yield from lines


def _labels(labels: dict[str, str]) -> str:
    if not labels:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items()) + "}"


def _escaped(text: str) -> str:
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text.replace("\\", r"\\").replace('"', r"\"")


def _gauges(report: Report) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    yield (
        "doctor_verdict",
        "1 for the verdict of the last run.",
        [({"verdict": str(each)}, float(each is report.outcome)) for each in Outcome],
    )
    yield (
        "doctor_checks",
        "Checks by status.",
        [({"status": name}, float(count)) for name, count in report.counts.items()],
    )
    problems = [f for s in (Status.FAIL, Status.WARN) for f in report.with_status(s)]
    yield (
        "doctor_problem",
        "1 for a check that failed or warned.",
        [
            ({"code": f.check.code, "slug": f.check.slug, "status": str(f.status)}, 1.0)
            for f in problems
        ],
    )
    yield "doctor_run_timestamp_seconds", "When the examination began.", _started(report)
    yield "doctor_run_seconds", "How long it took.", [({}, report.facts.seconds)]
    if isinstance(report.facts.fleet, Fleet):
        yield from _of_fleet(report.facts.fleet)


def _started(report: Report) -> Iterator[Sample]:
    if started := origin_of(report.facts).started:
        yield {}, datetime.datetime.fromisoformat(started).timestamp()


def _of_fleet(fleet: Fleet) -> Iterator[tuple[str, str, Iterable[Sample]]]:
    counts = Counter(line.outcome for line in fleet.nodes)
    yield (
        "doctor_fleet_nodes",
        "Nodes by verdict.",
        [({"verdict": str(name)}, float(counts[name])) for name in RANKS],
    )
    absent = max(len(fleet.missing), (fleet.expected or 0) - len(fleet.nodes), 0)
    yield "doctor_fleet_missing", "Expected nodes that did not report.", [({}, float(absent))]
    yield (
        "doctor_node_ready",
        "1 for a node whose own checks passed.",
        [({"node": line.node}, float(line.outcome == "ready")) for line in fleet.nodes],
    )
    yield (
        "doctor_node_slowdown",
        "Times that a node is slower than its class, where it was measured slow.",
        [({"node": each.node, "metric": each.metric}, each.factor) for each in fleet.slow],
    )
