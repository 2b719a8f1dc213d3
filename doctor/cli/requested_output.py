"""Where reports go, by the output flags."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from doctor.cli import options
from doctor.cli.fact_names import expanded

if TYPE_CHECKING:
    from doctor.report.delivery import OutputOptions


def requested_output(
    output: options.OutputFlags,
    save_facts: Path | None = None,
    *,
    shared: bool = False,
    one_line: bool = False,
    stdout_taken: bool = False,
) -> OutputOptions:
    """The flags as the delivery of reports takes them. Raises UserError.

    `stdout_taken`: stdout belongs to the training.
    """
    from doctor.report import delivery

    return delivery.output_options(
        output.format,
        output.output or (),
        output.color,
        save_facts=expanded(save_facts),
        one_line=one_line,
        stdout_taken=stdout_taken,
        annotate=output.annotate,
        keep_names=output.redact is False,
        hide_nodes=output.redact is True,
        verbose=output.verbose,
        quiet=output.quiet,
        shared=shared,
    )
