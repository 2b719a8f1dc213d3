"""`nvidia-smi -q`, as text or as XML (`-x`), whole or cut off."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from doctor.pasted.reading import Reading, ReportError, cuda_number
from doctor.pasted.smi_gpus import gpus_of, watched_of
from doctor.pasted.smi_load import slow_of

Tree = dict[str, Any]
"""Name in lower case with underscores -> text, or a tree."""

LOG = re.compile(r"\s*=+\s*NVSMI LOG\s*=+")
ROW = re.compile(r"( *)([A-Za-z][\w ()/.#-]{0,60}?)\s*(?::(?: (.{0,200}))?)?$")
GPU = re.compile(r"\s{0,4}GPU ([\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.\d)\s*$")
TAG = re.compile(r"<(/?)([A-Za-z][\w-]{0,80})((?:\s[^<>]{0,200})?)>([^<>]{0,400})")
ID = re.compile(r'id="([^"]{1,40})"')
DEEPEST = 12
MOST_TAGS = 400_000
MOST_GPUS = 1024


SECTION = re.compile(
    r"\s*(?:GPU [\dA-Fa-f]{4,8}:[\dA-Fa-f]{2}:[\dA-Fa-f]{2}\.\d|ECC (?:Errors|Mode)|Remapped Rows|"
    r"Retired Pages|Clocks (?:Event|Throttle) Reasons|MIG Mode|GPU Link Info|Link Width|"
    r"PCIe Generation|Fabric|GPU Reset Status)\s*$"
)
"""With one of them a part of the log begins whose head was not copied."""
FILTERED = re.compile(
    r"\s*(?:HW (?:Thermal |Power Brake )?Slowdown|SW Thermal Slowdown|"
    r"(?:Current|Default) Power Limit|Remapping Failure Occurred|Reset Required)\s*: \S"
)
"""Rows whose label alone says what they are, as grep prints them."""
OF_ONE = re.compile(
    r"nvidia-smi\b.{0,60}?\s(?:-i|--id)[= ]?(\d{1,2})\b.{0,60}?\s-q|"
    r"nvidia-smi\b.{0,60}?\s-q\b.{0,60}?\s(?:-i|--id)[= ]?(\d{1,2})\b"
)
"""The command that prints the log of one GPU, with its number."""
ELEMENT = re.compile(
    r"\s*<(?:gpu id=|(?:nvidia_smi_log|ecc_errors|ecc_mode|remapped_rows|retired_pages|mig_mode|"
    r"fabric|pci_gpu_link_info|clocks_(?:event|throttle)_reasons)\b)"
)


def read(lines: list[str]) -> Reading:
    """The first log in the lines, or the parts of one. Raises ReportError for XML that declares
    entities."""
    xml = next((n for n, line in enumerate(lines) if ELEMENT.match(line)), None)
    log = next((n for n, line in enumerate(lines) if LOG.match(line)), None)
    if xml is not None:
        head, gpus = _read_xml(lines, xml)
    elif log is not None:
        head, gpus = _read_text(lines[log + 1 :])
    elif parts := list(_parts(lines)):
        head, gpus = _read_text(parts)
        gpus = gpus or [("", tree) for tree in map(_head, _repeated(parts)) if tree]
    else:
        return Reading()
    if not gpus and log is None and head:
        gpus = [("", head)]
    alone = next((int(m[1] or m[2]) for line in lines if (m := OF_ONE.search(line))), 0)
    first = alone if len(gpus) == 1 else 0
    return Reading(
        kinds=("nvidia-smi -q",),
        driver=_stated(head, "kmd_version", "driver_version"),
        driver_cuda=cuda_number(_stated(head, "cuda_umd_version", "cuda_version")),
        gpus=gpus_of(gpus, first),
        watched=watched_of(gpus, first),
        reported=tuple(slow_of(gpus, lines, first)),
    )


def _head(lines: list[str]) -> Tree:
    return _read_text(lines)[0]


def _repeated(parts: list[str]) -> list[list[str]]:
    """The parts of several GPUs whose headings were left out, by the heading that comes again."""
    groups: list[list[str]] = [[]]
    for line in parts:
        begins = SECTION.match(line) or FILTERED.match(line)
        if begins and any(_same_label(line, each) for each in groups[-1]):
            groups.append([])
        groups[-1].append(line)
    return groups


def _same_label(line: str, other: str) -> bool:
    return line.partition(":")[0] == other.partition(":")[0]


def _parts(lines: list[str]) -> Iterator[str]:
    """The lines from each heading of a part up to the first that is no row."""
    is_part = False
    for number, line in enumerate(lines):
        following = next(filter(None, lines[number + 1 : number + 3]), "")
        is_part = bool(
            (is_part and (not line or ROW.match(line)))
            or (SECTION.match(line) and ROW.match(following))
            or FILTERED.match(line)
        )
        if is_part:
            yield line


def _stated(head: Tree, *names: str) -> str | None:
    """The first of these labels, of which drivers since 610 have the newer ones, with a version."""
    values = (head.get(name) for name in names)
    return next((v for v in values if isinstance(v, str) and re.match(r"\d+\.", v)), None)


def _read_text(lines: Iterable[str]) -> tuple[Tree, list[tuple[str, Tree]]]:
    """The head, and each GPU's bus id with its tree. Indentation gives the depth."""
    head: Tree = {}
    gpus: list[tuple[str, Tree]] = []
    stack: list[tuple[int, Tree]] = [(-1, head)]
    for line in lines:
        if LOG.match(line) or len(gpus) > MOST_GPUS:
            break
        if match := GPU.match(line):
            gpus.append((match[1], {}))
            stack = [(-1, gpus[-1][1])]
        elif row := ROW.match(line.rstrip(" \\")):
            _place(stack, len(row[1]), _name(row[2]), row[3])
    return head, gpus[:MOST_GPUS]


def _place(stack: list[tuple[int, Tree]], depth: int, name: str, value: str | None) -> None:
    """Put a row below the last one that is indented less: a value, or a branch without one."""
    while len(stack) > 1 and stack[-1][0] >= depth:
        stack.pop()
    if value is not None:
        stack[-1][1].setdefault(name, value.strip())
    elif len(stack) < DEEPEST:
        branch = stack[-1][1].setdefault(name, {})
        stack.append((depth, branch if isinstance(branch, dict) else {}))


def _read_xml(lines: list[str], begin: int) -> tuple[Tree, list[tuple[str, Tree]]]:
    """The same from XML. Tags alone are read: no entity is expanded and no file is opened."""
    if any("<!ENTITY" in line for line in lines[: begin + 1]):
        raise ReportError("the XML declares entities, which no report of nvidia-smi does")
    head: Tree = {}
    gpus: list[tuple[str, Tree]] = []
    stack: list[Tree] = [head]
    tags = islice(TAG.finditer("\n".join(lines[begin:])), MOST_TAGS)
    for close, name, attributes, text in (match.groups() for match in tags):
        if (close and name == "nvidia_smi_log") or len(gpus) == MOST_GPUS:
            break
        if close:
            stack = stack[:-1]
        elif name == "gpu" and len(stack) == 1:
            id_ = ID.search(attributes)
            gpus.append((id_[1] if id_ else "", {}))
            stack.append(gpus[-1][1])
        elif name == "nvidia_smi_log":
            stack = [head]
        elif not attributes.endswith("/"):
            stack.append(_enter(stack, _name(name), text.strip()))
    return head, gpus


def _enter(stack: list[Tree], name: str, text: str) -> Tree:
    """Store a leaf or begin a branch; the first of several with one name is kept."""
    branch: Tree = {}
    if stack and len(stack) < DEEPEST:
        stack[-1].setdefault(name, text or branch)
    return branch


def _name(label: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", label.strip().lower()).strip("_")
