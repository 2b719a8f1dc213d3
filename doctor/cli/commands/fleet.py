"""Commands that are started on each of several nodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from doctor.cli import job_options, options, panels
from doctor.cli.flag_groups import set_flags
from doctor.cli.fleet.options import Collectives, FleetFlags, Ledger, Topology
from doctor.cli.requested_output import requested_output

if TYPE_CHECKING:
    from doctor.cli.fleet.node import FleetOptions


OF_A_MODEL = ("model", "hf", "arguments", "data", "lora", "weights", "layers", "compile",
              "expect_no_grad", "rehearse", "ranks")  # fmt: skip
"""Settings that a further measurement of the machine leaves out: no step is taken."""
ALONE = "one node: nothing was compared; start the command on each node of the job"


def run(
    fleet: FleetFlags,
    training: job_options.TrainingFlags,
    job: job_options.JobFlags,
    selection: options.SelectionFlags,
    run_flags: job_options.RunFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    collectives: Collectives = None,
    topology: Topology = None,
    ledger: Ledger = None,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
) -> int:
    """Examine this node as doctor run does, and compare it with the others.

    Node 0 prints the report on all. Exit codes: the node's own, on node 0 the fleet's.
    """
    from doctor import catalog
    from doctor.cli.fleet.compare import CompareOptions
    from doctor.cli.fleet.node import this_node
    from doctor.cli.fleet.run import meet
    from doctor.cli.fleet.run_report import Judging
    from doctor.cli.inputs import resolve
    from doctor.cli.run import run
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    flags = set_flags(training, job, run_flags)
    selected, of_fleet = _divided(set_flags(selection))
    # Mistakes that every node would make end the command here, before the others are met.
    of_node = replace(config, inject=[w for w in config.inject or () if not _is_fleets(w)])
    inputs = resolve({**flags, **selected}, of_node, None, catalog.MACHINE_CHECKS)
    node = this_node(_options(fleet, collectives), inputs.request.job.python)
    examine = partial(run, {**flags, **selected}, of_node, fail_on=output.fail_on)
    if node.member.nodes == 1:
        report = examine(progress=not output.quiet)
        report = replace(report, notes=(*report.notes, ALONE))
        return delivery.deliver(report, output_options)
    injected = [word for word in config.inject or () if _is_fleets(word)]
    machine = {name: value for name, value in flags.items() if name not in OF_A_MODEL}
    measure = partial(run, {**machine, **selected, "smoke": False}, of_node)
    judging = Judging(
        flags=of_fleet,
        config=replace(config, inject=injected),
        fail_on=output.fail_on,
        options=CompareOptions(topology=topology, ledger=ledger, keep_names=output.redact is False),
    )
    return meet(node, examine, measure, output_options, judging)


def scan(
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A directory or file that all nodes see.")
    ],
    fleet: FleetFlags,
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    deep: options.Deep = False,
    readers: Annotated[
        int | None,
        panels.scope("How many nodes read at once (default: all).", min=1, metavar="N"),
    ] = None,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
) -> int:
    """Examine one checkpoint with all nodes, and whether all see the same files.

    Node 0 prints the report. Exit codes as for run.
    """
    from doctor.checkpoint.io.addresses import check_exists
    from doctor.cli import scan as alone
    from doctor.cli.fleet import scan as together
    from doctor.cli.fleet.node import this_node
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    selected = set_flags(selection)
    check_exists(path, "PATH")
    node = this_node(replace(_options(fleet), deadline=fleet.deadline or together.DEADLINE), None)
    if node.member.nodes == 1:
        report = alone.scan(
            path, selected, config, alone.ScanOptions(deep=deep), fail_on=output.fail_on
        )
        return delivery.deliver(report, output_options)
    what = together.SharedScan(path=path, deep=deep, readers=readers)
    return together.meet(node, what, output_options, selected, config, output.fail_on)


def triage(
    logs: Annotated[
        list[str],
        typer.Argument(metavar="LOG...", help="Files or directories with a log per rank."),
    ],
    fleet: FleetFlags,
    selection: options.SelectionFlags,
    config: options.ConfigFlags,
    output: options.OutputFlags,
    save_facts: options.SaveFacts = None,
    shared: options.Shared = False,
) -> int:
    """Name the first cause in the logs of all nodes, each read once.

    Node 0 prints the report. Exit codes as for run.
    """
    from doctor.cli import triage as alone
    from doctor.cli.fleet import triage as together
    from doctor.cli.fleet.node import this_node
    from doctor.report import delivery

    output_options = requested_output(output, save_facts, shared=shared)
    selected = set_flags(selection)
    node = this_node(_options(fleet), None)
    if node.member.nodes == 1:
        report = alone.triage(logs, selected, config, fail_on=output.fail_on)
        return delivery.deliver(report, output_options)
    return together.meet(node, logs, output_options, selected, config, output.fail_on)


def _is_fleets(word: str) -> bool:
    from doctor import catalog

    return all(code.startswith("FLT") for code in catalog.codes(word))


def _divided(selected: dict[str, Any]) -> tuple[dict[str, object], dict[str, object]]:
    """--only and --skip for the checks of a node, and for those of the fleet."""
    node: dict[str, object] = {}
    fleet: dict[str, object] = {}
    for flag, values in selected.items():
        words = [word for value in values for word in value.split(",") if word.strip()]
        for group, chosen in (
            (node, tuple(word for word in words if not _is_fleets(word))),
            (fleet, tuple(word for word in words if _is_fleets(word))),
        ):
            if chosen:
                group[flag] = chosen
    return node, fleet


def _options(flags: FleetFlags, collectives: bool | None = None) -> FleetOptions:
    from doctor.cli.fleet.node import FleetOptions

    return FleetOptions(**set_flags(flags), collectives=collectives)


FLEET: dict[str, tuple[Callable[..., int], str]] = {
    "run": (run, "srun --ntasks-per-node=1 doctor fleet run --checkpoint /data/llama"),
    "scan": (scan, "srun --ntasks-per-node=1 doctor fleet scan /shared/llama --deep"),
    "triage": (triage, "srun --ntasks-per-node=1 doctor fleet triage /shared/logs"),
}
"""Function and example of each command below `doctor fleet`."""
