"""`pip list`, `pip freeze`, `conda list`: torch, and distributions of NVIDIA's libraries."""

from __future__ import annotations

import re

from doctor.pasted.reading import Reading, cuda_of, hip_of

ROW = re.compile(
    r"\s*(?:\[(?:pip3?|conda|uv)\]\s*)?(torch|nvidia-[a-z]+(?:-cu\d\d)?)(?:\s*==\s*|\s{1,60})"
    r"(\d[\w.+!-]{0,40})(?:\s|$)"
)
HEAD = re.compile(r"\s*(?:Package\s+Version\b|# packages in environment)")


def read(lines: list[str]) -> Reading:
    """All rows. A list alone is a report; rows inside another report complete it."""
    rows = [match for line in lines if (match := ROW.match(line))]
    torch = next((match[2] for match in rows if match[1] == "torch"), None)
    libraries = [f"{match[1]}=={match[2]}" for match in rows if match[1] != "torch"]
    is_list = any(HEAD.match(line) for line in lines) or len(rows) > 1 or "+" in (torch or "")
    if not rows or not (is_list and (torch or libraries)):
        return Reading()
    cuda = cuda_of(torch) if torch else None
    return Reading(
        kinds=("pip list",),
        torch=torch,
        cuda=cuda,
        hip=hip_of(torch) if torch else None,
        packages=tuple(dict.fromkeys(libraries)),
    )
