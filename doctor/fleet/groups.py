"""The switch or rack of each node: Slurm's topology.conf, or a file that names them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.fleet.expected import parse_names

SWITCH = re.compile(r"^\s*(?:SwitchName|BlockName)\s*=\s*(\S+)", re.IGNORECASE)
NODES = re.compile(r"\bNodes\s*=\s*(\S+)", re.IGNORECASE)
PLAIN = re.compile(r"^\s*([^\s:=]{1,100})\s*[:=]\s*(\S.*)$")


def parse_groups(text: str) -> dict[str, str]:
    """Node -> its switch, block or rack. Raises ValueError.

    Lines of Slurm's topology.conf (SwitchName=s1 Nodes=gpu-[01-16]), or "rack1: gpu-[01-16]".
    Switches of switches have no nodes of their own.
    """
    groups: dict[str, str] = {}
    for number, line in enumerate(_lines(text), 1):
        name, nodes = _parts(line, number)
        for node in parse_names(nodes) if nodes else ():
            groups[node] = name
    if not groups:
        raise ValueError("no line such as SwitchName=s1 Nodes=gpu-[01-16]")
    return groups


def _lines(text: str) -> Iterator[str]:
    joined = re.sub(r"\\\n", " ", text)
    for line in joined.splitlines():
        if content := line.partition("#")[0].strip():
            yield content


def _parts(line: str, number: int) -> tuple[str, str]:
    if switch := SWITCH.match(line):
        nodes = NODES.search(line)
        return switch[1], nodes[1] if nodes else ""
    if plain := PLAIN.match(line):
        return plain[1], plain[2]
    raise ValueError(f"line {number} is neither of topology.conf nor NAME: NODES")
