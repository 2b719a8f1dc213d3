"""`pip list`, `pip freeze`, `conda list`: torch, and distributions of NVIDIA's libraries."""

from __future__ import annotations

import re

from doctor.pasted.reading import Reading, cuda_of, hip_of

ROW = re.compile(
    r"\s*(?P<tool>\[(?:pip3?|conda|uv)\]\s*)?(?P<name>torch|torchvision|torchaudio|"
    r"nvidia-[a-z]+(?:-cu\d\d)?)(?:\s*==\s*|\s{1,60})(?P<version>\d[\w.+!-]{0,40})(?:\s|$)"
)
CONDA = re.compile(
    r"\s*(?:\[conda\]\s*)?pytorch\s+(\d[\w.+!-]{0,40})\s+"
    r"(?:py\S{1,8}_cuda(\d\d\.\d)|(?:py\S{1,8}_)?cpu_\S|cuda(\d{2})(\d))\S{0,40}(?:\s|$)"
)
"""conda's build of torch names its CUDA, "pytorch 2.5.1 py3.11_cuda12.4_cudnn9.1.0_0 pytorch" or
"cuda126_generic_py311", or the CPU: "cpu_generic_py311"."""
HEAD = re.compile(r"\s*(?:Package\s+Version\b|# packages in environment)")


def read(lines: list[str]) -> Reading:
    """All rows. A list alone is a report; rows inside another report complete it."""
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
        kinds=("pip list",),
        torch=torch,
        cuda=cuda,
        hip=hip_of(torch) if torch else None,
        packages=tuple(each for each in installed if each.startswith("nvidia-")),
        installed=tuple(installed),
    )
