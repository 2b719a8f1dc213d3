"""`pip list`, `pip freeze`, `conda list`: torch, and distributions of NVIDIA's libraries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from doctor.facts.host import Reported
from doctor.pasted.reading import Reading, cuda_of, hip_of

ROW = re.compile(
    r"\s*(?P<tool>\[(?:pip3?|conda|uv)\]\s*)?(?P<name>torch|torchvision|torchaudio|"
    r"nvidia-[a-z]+(?:-cu\d\d)?)(?:\s*==\s*|\s{1,60})(?P<version>\d[\w.+!-]{0,40})(?:\s|$)"
)
LISTING = "pip list"
"""The kind of a list of packages, which says what is installed and not what runs."""
CONDA = re.compile(
    r"\s*(?:\[conda\]\s*)?pytorch\s+(\d[\w.+!-]{0,40})\s+"
    r"(?:py\S{1,8}_cuda(\d\d\.\d)|(?:py\S{1,8}_)?cpu_\S|cuda(\d{2})(\d))\S{0,40}(?:\s|$)"
)
"""conda's build of torch names its CUDA, "pytorch 2.5.1 py3.11_cuda12.4_cudnn9.1.0_0 pytorch" or
"cuda126_generic_py311", or the CPU: "cpu_generic_py311"."""
SHOWN = re.compile(r"Name: (\S{3,40})$")
SHOWN_VERSION = re.compile(r"Version: (\d\S{0,40})$")
"""The first lines of `pip show`."""
NO_OPERATOR = re.compile(r"operator torchvision::nms does not exist")
NCCL = re.compile(r"nvidia-nccl-cu(\d\d)==(\d[\d.]{2,12})$")
USING = re.compile(r"\busing nccl==(\d[\d.]{2,12}\d)|\bNCCL version (\d[\d.]{2,12}\d)")
"""The NCCL that a process has loaded, as vLLM, NCCL and torch print it."""
NO_SYMBOL = re.compile(r"undefined symbol: nccl")
HUB = re.compile(r"\btorch\.hub\.\w{3,8}\(\s?['\"]pytorch/vision")
OF_A_DAY = re.compile(r"dev|\da\d")
"""A nightly or a build of the source: its number tells no pair."""
PAIRED = 15
"""torchvision 0.15 is for torch 2.0, and so on."""
HEAD = re.compile(r"\s*(?:Package\s+Version\b|# packages in environment)")


def read(lines: list[str]) -> Reading:
    """All rows. A list alone is a report; rows inside another report complete it."""
    lines = [*lines, *shown(lines)]
    rows = [match for line in lines if (match := ROW.match(line))]
    conda = next((match for line in lines if (match := CONDA.match(line))), None)
    torch = next((row["version"] for row in rows if row["name"] == "torch"), conda and conda[1])
    installed = dict.fromkeys(f"{row['name']}=={row['version']}" for row in rows)
    is_list = any(row["tool"] for row in rows) or any(HEAD.match(line) for line in lines)
    is_list = is_list or len(rows) > 1 or "+" in (torch or "") or conda is not None
    if not ((is_list and installed) or conda):
        return Reading()
    cuda = cuda_of(torch) if torch else None
    if cuda is None and conda:
        cuda = conda[2] or (f"{conda[3]}.{conda[4]}" if conda[3] else "")
    return Reading(
        kinds=(LISTING,),
        torch=torch,
        cuda=cuda,
        hip=hip_of(torch) if torch else None,
        packages=tuple(each for each in installed if each.startswith("nvidia-")),
        installed=tuple(installed),
    )


def shown(lines: Sequence[str]) -> list[str]:
    """What `pip show` prints of packages, as rows of `pip freeze`."""
    return [
        f"{name[1]}=={version[1]}"
        for each, next_ in pairwise(lines)
        if (name := SHOWN.match(each)) and (version := SHOWN_VERSION.match(next_))
    ]


def with_loaded_nccl(reading: Reading, lines: Sequence[str]) -> Reading:
    """The reading without packages of NCCL beside the one of torch's CUDA, where the text shows
    that this one is loaded."""
    rows = {match[1]: match for each in reading.packages if (match := NCCL.match(each))}
    own = rows.pop((reading.cuda or "").partition(".")[0], None)
    loaded = {m[1] or m[2] for line in lines if (m := USING.search(line))}
    if own is None or not rows or loaded != {own[2]} or any(map(NO_SYMBOL.search, lines)):
        return reading
    others = {match[0] for match in rows.values()}
    found = tuple(
        Reported(
            cause="nccl-packages-listed",
            line=f"nvidia-nccl-cu{number} is listed beside the NCCL that is loaded, {own[2]}",
        )
        for number in rows
    )
    return replace(
        reading,
        packages=tuple(each for each in reading.packages if each not in others),
        reported=(*reading.reported, *found),
    )


def without_code(lines: Sequence[str]) -> Iterator[Reported]:
    """torchvision that misses its operators although its release is that of the only torch."""
    pair = _pair(lines)
    if pair and pair.vision == pair.wanted:
        text = f"torch {pair.torch} and torchvision {pair.own} are of one release"
        hub = " in torch.hub" * any(map(HUB.search, lines))
        line = f"{text}, and its compiled part did not load{hub}"
        yield Reported(cause="torchvision-code-missing", line=line)


def wanted_vision(lines: Sequence[str]) -> str:
    """What the error of missing operators does not say: the torchvision of the only torch."""
    pair = _pair(lines)
    is_other = pair is not None and pair.vision != pair.wanted
    return f"; torch {pair.torch} takes torchvision 0.{pair.wanted}" if pair and is_other else ""


class Pair(NamedTuple):
    """The versions of torch and torchvision, and torchvision's minor one: is and should be."""

    torch: str
    own: str
    vision: int
    wanted: int


def _pair(lines: Sequence[str]) -> Pair | None:
    """None where nothing misses an operator, or one is not listed, or in two versions."""
    if not any(map(NO_OPERATOR.search, lines)):
        return None
    rows = {(match["name"], match["version"])
            for line in (*lines, *shown(lines)) if (match := ROW.match(line))}  # fmt: skip
    versions = [[own for name, own in rows if name == each] for each in ("torch", "torchvision")]
    if [len(each) for each in versions] != [1, 1]:
        return None
    (torch,), (vision,) = versions
    if OF_A_DAY.search(torch) or OF_A_DAY.search(vision):
        return None
    release, own = re.match(r"2\.(\d{1,2})\.", torch), re.match(r"0\.(\d{1,2})\.", vision)
    return Pair(torch, vision, int(own[1]), int(release[1]) + PAIRED) if release and own else None
