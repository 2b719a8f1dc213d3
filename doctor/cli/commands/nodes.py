"""Commands on several nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from doctor.cli import options, panels
from doctor.cli.flag_groups import set_flags
from doctor.cli.fleet.options import Ledger, NodesFrom, Topology
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
    nodes_from: NodesFrom = "",
    topology: Topology = None,
    ledger: Ledger = None,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
) -> int:
    """Compare the facts of several nodes.

    Names who is missing, differs or is slower; each node is judged by all checks. Exit codes as for
    run.
    """
    from doctor.cli.fleet.compare import CompareOptions, compare_files
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    report = compare_files(
        facts,
        set_flags(selection),
        config,
        CompareOptions(
            expect_nodes=expect_nodes,
            nodes_from=nodes_from,
            topology=topology,
            ledger=ledger,
            keep_names=output.redact is False,
        ),
        fail_on=output.fail_on,
    )
    return delivery.deliver(report, output_options)


def ledger(
    action: Annotated[
        Literal["list", "show", "forget"],
        typer.Argument(metavar="ACTION", help="list, show or forget."),
    ],
    directory: Annotated[
        Path, typer.Argument(metavar="DIRECTORY", help="The ledger, as --ledger names it.")
    ],
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME]", help="A GPU's UUID, a host's name, or what list prints for them."
        ),
    ] = "",
    format: Annotated[
        Literal["console", "plain", "json", "jsonl"],
        panels.output("Output format: one machine per line in jsonl (default: console)."),
    ] = "console",
    output: options.AlsoTo = None,
    quiet: options.Quiet = False,
) -> int:
    """Print or forget what is known of machines.

    A ledger is what `doctor compare --ledger` writes.
    """
    from functools import partial

    from doctor._util.errors import UserError
    from doctor.cli import ledger as known
    from doctor.report.delivery import deliver_text, output_options
    from doctor.report.ledger import FORMATS, render

    if (action == "list") is bool(name):
        raise UserError(f"doctor ledger {action} takes {'no' if action == 'list' else 'a'} NAME")
    outputs = output_options(format, output or (), formats=FORMATS)
    if action == "list":
        record = known.listed(directory)
    else:
        record = (known.show if action == "show" else known.forget)(directory, name)
    if quiet and action != "forget":
        record = known.only_failed(record)
    deliver_text(partial(render, record), outputs)
    return 0
