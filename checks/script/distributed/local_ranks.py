"""The rank that chooses the GPU, read from an argument that torchrun does not pass."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script.reading import flatten
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training

LAUNCHERS = {"torchrun"}


def argument_not_passed(reading: Training) -> Iterator[Match]:
    """add_argument("--local_rank"), started by torchrun, and LOCAL_RANK is read nowhere."""
    launches = [each for each in reading.script.launches if each.program in LAUNCHERS]
    if not launches or len(launches) != len(reading.script.launches):
        return
    if any(each.arguments.keys() & {"local_rank", "local-rank"} for each in launches):
        return
    for call in reading.named("add_argument"):
        flags = {str(value.literal) for value in call.args}
        if not flags & {"--local_rank", "--local-rank"}:
            continue
        if _reads_environment(reading) or (
            "default" in call.keywords and call.keywords["default"].calls
        ):
            return
        yield Match(
            call.span,
            "torchrun passes no --local_rank: every process takes its default, the first GPU",
        )
        return


def _reads_environment(reading: Training) -> bool:
    names = (
        text
        for value, _, _ in reading.expressions
        for each in flatten([value])
        for text in (str(each.literal), *each.all_names)
    )
    return any("LOCAL_RANK" in text for text in names) or reading.mentions(
        "local_rank()", "get_local_rank", "local_process_index", "get_node_local_rank"
    )
