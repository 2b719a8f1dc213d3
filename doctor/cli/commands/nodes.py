"""Commands on several nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from doctor.cli import options, panels
from doctor.cli.flag_groups import set_flags
from doctor.cli.requested_output import requested_output


def compare(
    facts: Annotated[
        list[Path],
        typer.Argument(
            metavar="FACTS...",
            help="Files written by --save-facts, one for each node, or directories of them.",
        ),
    ],
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    expect_nodes: Annotated[
        int | None,
        panels.scope("How many nodes there must be.", "--expect-nodes", min=1, metavar="N"),
    ] = None,
    nodes_from: Annotated[
        str,
        panels.scope(
            "Names of the nodes that must be there: a file or a list such as gpu-[01-16].",
            "--nodes-from",
            metavar="FILE|LIST",
        ),
    ] = "",
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
) -> int:
    """Compare the facts of several nodes, and judge each.

    Each node is judged by all checks. Exit codes as for run.
    """
    from doctor.cli.compare import CompareOptions, compare_files
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    report = compare_files(
        facts,
        set_flags(selection),
        config,
        CompareOptions(expect_nodes=expect_nodes, nodes_from=nodes_from),
        fail_on=output.fail_on,
        progress=not output.quiet,
    )
    return delivery.deliver(report, output_options)
