"""The report of `doctor scan`, for people and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from doctor import __version__
from doctor._util.records import Unknown
from doctor._util.units import count, gb, shown
from doctor.checkpoint.flat_form import to_flat
from doctor.checkpoint.records import Checkpoint, History, Movement, Optimizer, Share
from doctor.report.footer import footer_lines
from doctor.report.formats import json as report_json
from doctor.report.formats.plain import text
from doctor.report.line import Line
from doctor.report.lines import family_lines
from doctor.report.origin import origin_of
from doctor.report.report import Report
from doctor.report.scan_result import Row, Scan
from doctor.report.scan_runs import runs_table
from doctor.report.terminal import encodable, show_lines

if TYPE_CHECKING:
    from rich.console import Console

MOST_IMPORTS = 40
"""Globals that are listed; JSON lists all of them."""


def show(scan: Scan, console: Console) -> None:
    """Print to `console`; the list of all tensors is not wrapped."""
    show_lines(_head(scan), console)
    for line in _rows(scan):
        print(encodable(line, sys.stdout))
    show_lines(_findings(scan), console)


def plain_text(scan: Scan) -> str:
    """The report as text: no colour, no wrapping."""
    return "\n".join([text(_head(scan)), *_rows(scan), text(_findings(scan))])


def _head(scan: Scan) -> Iterator[Line]:
    checkpoint = scan.checkpoint
    yield Line(f"doctor {__version__}", "", "bold")
    yield from _origin(scan)
    yield Line("  checkpoint  ", shown(scan.path, 500))
    if isinstance(checkpoint, Unknown):
        return
    yield Line("  layout      ", " · ".join(_layout(checkpoint)))
    if checkpoint.training.history:
        yield Line("  run         ", _run(checkpoint.training.history))
    elif checkpoint.training.steps is not None:
        yield Line("  run         ", f"step {checkpoint.training.steps:,}")
    if checkpoint.training.optimizer is not None:
        yield Line("  optimizer   ", " · ".join(_optimizer(checkpoint.training.optimizer)))
    if checkpoint.loading.imports:
        yield from _imports(checkpoint)
    yield from _beside(checkpoint)
    if checkpoint.contents.shares:
        yield Line()
        yield from _table(checkpoint.contents.shares)
    yield from runs_table(checkpoint.siblings)
    if isinstance(checkpoint.movement, Movement):
        yield Line()
        yield from _changes(checkpoint.movement)


def _origin(scan: Scan) -> Iterator[Line]:
    origin = origin_of(scan.report.facts)
    for name, value in (("examined", origin.started), ("command", origin.command)):
        if value:
            yield Line(f"  {name:<12}", shown(value, 1000))


def _layout(checkpoint: Checkpoint) -> Iterator[str]:
    yield checkpoint.layout
    yield "1 file" if checkpoint.files.count == 1 else f"{checkpoint.files.count:,} files"
    yield gb(checkpoint.files.bytes)
    if checkpoint.contents.tensors:
        yield f"{checkpoint.contents.tensors:,} tensors"
        as_stored = " as stored" if checkpoint.model.quantized else ""
        yield f"{count(checkpoint.contents.parameters)} parameters{as_stored}"
    if checkpoint.model.model_type:
        yield f"model type {shown(checkpoint.model.model_type, 60)}"


def _run(history: History) -> str:
    step = f"step {history.steps:,}"
    if not history.covered:
        return step
    return f"{step} · sum of learning rates {history.lr_sum:.4g} ({history.covered:,} steps logged)"


def _optimizer(optimizer: Optimizer | Unknown) -> Iterator[str]:
    if isinstance(optimizer, Unknown):
        yield f"unknown: {optimizer.reason}"
        return
    yield shown(optimizer.kind, 60)
    yield f"{optimizer.entries:,} of {optimizer.parameters:,} parameters have state"
    if optimizer.moments:
        yield f"moments {_by_dtype(optimizer.moments)}"
    if optimizer.masters:
        yield f"master weights {_by_dtype(optimizer.masters)}"
    if optimizer.step_max is not None:
        lowest = (
            f"{optimizer.step_min:g}-"
            if optimizer.step_min not in (None, optimizer.step_max)
            else ""
        )
        yield f"step {lowest}{optimizer.step_max:g}"
    if optimizer.lr:
        yield f"learning rate {', '.join(dict.fromkeys(f'{rate:g}' for rate in optimizer.lr[:8]))}"


def _by_dtype(counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return shown(next(iter(counts)), 40)
    return ", ".join(f"{shown(dtype, 40)} × {number:,}" for dtype, number in counts.items())


def _imports(checkpoint: Checkpoint) -> Iterator[Line]:
    refused, dangerous = set(checkpoint.loading.refused), set(checkpoint.loading.dangerous)
    names = [
        shown(name, 120)
        + " (dangerous)" * (name in dangerous)
        + " (refused by weights_only)" * (name in refused)
        for name in sorted(
            checkpoint.loading.imports,
            key=lambda name: (name not in dangerous, name not in refused, name),
        )
    ]
    more = [f"and {len(names) - MOST_IMPORTS:,} more"] if len(names) > MOST_IMPORTS else []
    yield Line("  imports     ", ", ".join(names[:MOST_IMPORTS] + more))


def _beside(checkpoint: Checkpoint) -> Iterator[Line]:
    """Pickles beside the weights, those with dangerous imports first."""
    dangerous = set(checkpoint.loading.dangerous)
    beside = sorted(
        checkpoint.loading.beside.items(), key=lambda item: dangerous.isdisjoint(item[1])
    )
    for file, imports in beside[:MOST_IMPORTS]:
        names = sorted(imports, key=lambda name: (name not in dangerous, name))
        each = [shown(name, 120) + " (dangerous)" * (name in dangerous) for name in names]
        more = [f"and {len(each) - 5:,} more"] if len(each) > 5 else []
        yield Line("  beside      ", f"{file} imports {', '.join(each[:5] + more) or 'nothing'}")
    if len(beside) > MOST_IMPORTS:
        yield Line("  beside      ", f"and {len(beside) - MOST_IMPORTS:,} more pickles")


def _table(shares: tuple[Share, ...]) -> Iterator[Line]:
    rows = [
        (share.dtype, share.kind, f"{share.tensors:,}", count(share.parameters), gb(share.bytes))
        for share in shares
    ]
    heads = ("dtype", "part", "tensors", "parameters", "bytes")
    widths = [max(map(len, column)) for column in zip(heads, *rows, strict=True)]
    yield Line(_row(heads, widths), "", "bold")
    previous = ""
    for row in rows:
        dtype = "" if row[0] == previous else row[0]
        previous = row[0]
        yield Line(_row((dtype, *row[1:]), widths))


def _row(cells: tuple[str, ...], widths: list[int]) -> str:
    left = (cell.ljust(width) for cell, width in zip(cells[:2], widths[:2], strict=True))
    right = (cell.rjust(width) for cell, width in zip(cells[2:], widths[2:], strict=True))
    return "  " + "  ".join([*left, *right])


def _changes(movement: Movement) -> Iterator[Line]:
    yield Line("  parameters changed since the baseline", "", "bold")
    for kind, (changed, compared) in movement.kinds.items():
        yield Line(f"  {kind:<12}", f"{changed:,} of {compared:,}")


def _rows(scan: Scan) -> Iterator[str]:
    if not scan.rows:
        return
    yield ""
    widths = [max(map(len, column)) for column in zip(*map(_short, scan.rows), strict=True)]
    for row in scan.rows:
        name, dtype, shape, size = _short(row)
        cells = (name.ljust(widths[0]), dtype.ljust(widths[1]), shape.ljust(widths[2]))
        yield "  ".join(("", *cells, size.rjust(widths[3]), shown(row[3], 300)))


def _short(row: Row) -> tuple[str, str, str, str]:
    name, dtype, shape, _, size = row
    return shown(name, 500), shown(dtype, 40), "×".join(map(str, shape)) or "scalar", f"{size:,}"


def _findings(scan: Scan) -> Iterator[Line]:
    yield from family_lines("CKP", list(scan.report.findings), "normal")
    *counted, verdict = footer_lines(scan.report)
    yield from counted
    yield replace(verdict, body=_next_action(scan.report))


def _next_action(report: Report) -> str:
    """As for a run, but a scan covers the checkpoint alone and says so."""
    return report.next_action.replace("all checks passed", "all checkpoint checks passed")


def json_text(scan: Scan) -> str:
    """One object; fields are only ever added within a schema version."""
    checkpoint, origin = scan.checkpoint, origin_of(scan.report.facts)
    fields: dict[str, Any] = {
        "schema_version": report_json.SCHEMA_VERSION,
        "doctor": __version__,
        "path": scan.path,
        "verdict": str(scan.report.outcome),
        "exit_code": scan.report.exit_code,
        "checkpoint": _untagged(to_flat(msgspec.to_builtins(checkpoint))),
        "counts": scan.report.counts,
        "findings": [report_json.finding_object(finding) for finding in scan.report.findings],
        "seconds": round(scan.report.facts.seconds, 3),
        "started": origin.started,
        "command": origin.command,
    }
    if isinstance(checkpoint, Unknown):
        fields |= {"checkpoint": None, "reason": checkpoint.reason}
    if scan.rows is not None:
        fields["tensors"] = [
            dict(zip(("name", "dtype", "shape", "file", "bytes"), row, strict=True))
            for row in scan.rows
        ]
    return json.dumps(fields, indent=2)


def _untagged(data: Any) -> Any:
    """Sections without their tags; an Unknown within them is {"reason": ...}."""
    if isinstance(data, dict):
        return {
            key: _untagged(value)
            for key, value in data.items()
            if not (key == "type" and isinstance(value, str))
        }
    return [_untagged(value) for value in data] if isinstance(data, list | tuple) else data
