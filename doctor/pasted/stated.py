"""Facts wherever they stand in a text: a sentence, a program's first lines, a list of packages.

Each fact is looked for by what it is, not by the form around it. It counts only if the whole text
has one value of it: of a text that compares two machines nothing is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from doctor.facts.machine import Gpu
from doctor.hardware.find import family_of
from doctor.pasted.packages import shown
from doctor.pasted.printed import AARCH64
from doctor.pasted.reading import Reading, cuda_of, gpu_named, hip_of
from doctor.pasted.torch_messages import JETSON, MENTIONED, WSL

STATED = "facts in the text"
"""The kind of what this module reads."""
VERSION = r"(\d\.\d{1,2}\.\d{1,2}(?:a0|rc\d|\.dev\d{8})?(?:\+[\w.]{1,23}\w)?)(?!\w|\.\w)"
TORCH = (
    re.compile(
        rf"(?<![\w/.-])(?:py)?torch(?:[ _]version|\.__version__)?['\"*`]{{0,3}}"
        rf"(?:==|\s?(?:[:=@→]|[-=]>|gives|prints|is|returns)|[-(\s])\s{{0,4}}"
        rf"(?:\*\* )?['\"v]{{0,2}}{VERSION}",
        re.IGNORECASE,
    ),
    re.compile(rf"^{VERSION} (?:\d\d\.\d|None)\b"),
)
"""A name and a version, or what print(torch.__version__, torch.version.cuda) prints."""
BUILD = re.compile(
    r"(?!.*\b(?:dgl|torchrec|fbgemm|mmcv)).*?(?<![\w.=-])([12]\.\d{1,2}\.\d{1,2}\+(?:cpu|cu\d{3}))\b(?![.\w])"
)
"""A version with a suffix that torch, torchaudio (which has torch's number) and DGL have."""
IMAGE = re.compile(r"\bpytorch/pytorch:(\d\.\d{1,2}\.\d{1,2})-cuda(\d\d\.\d)")
CUDA = re.compile(
    r"(?:torch\.version\.cuda\W{1,5}|CUDA \(PyTorch\)\W{1,3}|pytorch-cuda\s?[= ]+|"
    r"(?:built|compiled) (?:with|for) CUDA )'?(\d\d\.\d)\b",
    re.IGNORECASE,
)
NUMBER = r"(\d{3}\.\d{1,3}(?:\.\d{1,3})?)(?![\w.])"
DRIVER = (
    re.compile(rf"\bdriver(?:[ _-]?version)?\b[^\w\n]{{0,12}}(?:nvidia )?(?:v:? ?)?{NUMBER}", re.I),
    re.compile(rf"\bKernel Module\s+(?:for \S{{1,20}}\s+)?{NUMBER}"),
    re.compile(rf"^version:\s+{NUMBER}$"),
    re.compile(r"^ii\s+nvidia-(?:driver|utils)-\d{3}\S{0,20}\s+(\d{3}\.\d{1,3}(?:\.\d{1,3})?)-"),
    re.compile(rf"^\S{{1,60}}\s+\w{{3}} \w{{3}}\s+\d{{1,2}} [\d:]{{8}} \d{{4}}\s+{NUMBER}$"),
)
"""Sentences and labels, /proc/driver/nvidia/version, modinfo, dpkg -l and gpustat."""
LABELED = {part: re.compile(rf"nvidia\.com/cuda\.driver\.{part}['\"]?[=:]\s?['\"]?(\d{{2,3}})\b")
           for part in ("major", "minor", "rev")}  # fmt: skip
"""What the discovery of features writes on a node of Kubernetes."""
WISH = re.compile(r"at least|or newer|or later|requires?\b|>=|\bneed|minimum|upgrad|updat|instal|"
                  r"\bwas\b|used to|earlier|before\b|previous|other (?:machine|box|node)|tried",
                  re.IGNORECASE)  # fmt: skip
"""A sentence about another version than the one that is there."""
LISTED = (
    re.compile(r"CUDA:(\d{1,3}) \((.{3,60}?), \d{3,7}Mi?B\)"),
    re.compile(r"(?:Device:|Name:\*\*) cuda:(\d{1,3}) (.{3,60}?)(?: : |$)"),
    re.compile(r"^\[(\d{1,3})\] (.{3,60}?)\s*\| *\d"),
    re.compile(r"^Device (\d{1,3}): \"(.{3,60}?)\"$"),
    re.compile(r"_CudaDeviceProperties\(()name='(.{3,60}?)'"),
)
"""Number and name: Ultralytics, ComfyUI, gpustat, deviceQuery."""
PROPERTIES = re.compile(r"_CudaDeviceProperties\(name='(.{3,60}?)', major=(\d{1,2}), minor=(\d)\b")
PCI = re.compile(
    r"NVIDIA.{0,60}?\[((?:GeForce|RTX|GTX|Quadro|Tesla|TITAN|[ABHLVTP]\d{1,4}|G[BH]\d{3}).{0,40}?)\]"
)
"""lspci, lshw and inxi."""
RADEON = re.compile(r"\W{0,12}AMD (?:Radeon (?:RX|PRO) |Instinct MI)[\dW]\w{2,4}\b")
"""A list names it; a graphics unit of a processor has no such number."""
COUNTED = re.compile(r"\W{0,12}(\d{1,2}) ?[x×] ?(?:NVIDIA )?(?:[ABHL]\d{2,3}|G?B\d{3}|RTX|Tesla)\b")
PRODUCT = re.compile(r"nvidia\.com/gpu\.product['\"]?[=:]\s?['\"]?([\w.-]{3,60})")
CAPABILITY = re.compile(
    r"(?:compute capability|CUDA Capability Major/Minor version number|sm)\W{1,6}(\d{1,2})\.(\d)\b|"
    r"^(?:\S{1,40} ){0,3}\((\d{1,2}), (\d)\)$",
    re.IGNORECASE,
)
ARCHS = re.compile(r"\[(?:'(?:sm|compute)_\w{2,5}'(?:, )?)+\]")
AVAILABLE = re.compile(
    r"(?:is_available(?:\(\))?|CUDA[ _](?:is[ _])?available)[^\w\n]{0,12}"
    r"(?:(?:it )?return(?:s|ed)?|is|gives|prints|says|was)?[^\w\n]{0,5}(True|False)\b",
    re.IGNORECASE,
)
SHM = re.compile(r"\s*\S+\s+(\d[\d.]{0,12})([KMGT]?)i?B?\s+\S+\s+\S+\s+\d{1,3}%\s+/dev/shm$")
"""df, with -h or in blocks of 1 KiB."""
CONFIDENTIAL = re.compile(
    r"\s*(?:CC status: (ON|OFF)|Confidential Compute GPUs? ready state)\b", re.I
)
"""nvidia-smi conf-compute -f and -grs."""
MOST = 64
UNITS = {"": 2**10, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
LISTS = {
    "collect_env", "transformers env", "accelerate env", "an env command", "a list of versions",
    "llamafactory-cli env", "lerobot-info", "sglang check_env",
}  # fmt: skip
"""Reports that name the GPUs where there are any."""


def read(lines: list[str], reports: Sequence[Reading]) -> Reading:
    """What the text states beside the reports. Alone, one fact is no report: two are."""
    torch, driver = _torch(lines), _one(_drivers(lines))
    is_listed = any(each.gpus or each.amd or LISTS & {*each.kinds} for each in reports)
    gpus = () if is_listed else _gpus(lines)
    archs = next((m[0] for line in lines if (m := ARCHS.search(line))), "")
    states = {m[1].lower() for line in lines for m in AVAILABLE.finditer(line)}
    states |= {next_.strip().lower() for line, next_ in pairwise(lines)
               if "cuda.is_available()" in line and next_.strip() in ("True", "False")}  # fmt: skip
    ran = any(map(PROPERTIES.search, lines))
    available = states.pop() == "true" if len(states) == 1 else None
    shm = next((int(float(m[1]) * UNITS[m[2]]) for line in lines if (m := SHM.match(line))), None)
    modes = [m for line in lines if (m := CONFIDENTIAL.match(line))]
    is_jetson, is_wsl = any(map(JETSON.search, lines)), any(map(WSL.search, lines))
    amd = is_wsl and not (is_listed or driver) and _has_amd(lines)
    refused = is_jetson and available is False
    stated = (torch, driver, gpus, archs, available is not None, ran, is_wsl, modes, refused, amd)
    if not shm and sum(map(bool, stated)) < (1 if any(reports) else 2):
        return Reading()
    cuda = cuda_of(torch) if torch else None
    if cuda is None:
        cuda = _one(m[1] for line in lines if (m := CUDA.search(line))) or _image_cuda(lines)
    return Reading(
        kinds=(STATED,),
        torch=torch,
        cuda=cuda,
        hip=hip_of(torch) if torch else None,
        cuda_available=ran or (available if torch or gpus or refused else None),
        driver=driver,
        gpus=gpus,
        amd=amd or None,
        archs=tuple(re.findall(r"\w+_\w+", archs)),
        system="Linux" if is_jetson or is_wsl else None,
        arch="aarch64" if is_jetson or any(map(AARCH64.search, lines)) else None,
        release="-tegra" if is_jetson else "microsoft" if is_wsl else None,
        shm=shm,
        confidential=any((m[1] or "on").lower() == "on" for m in modes) if modes else None,
    )


def _one(values: Iterable[str]) -> str | None:
    """The only value; one that another continues is the same: 2.6.0 and 2.6.0+cu124."""
    found = set(values)
    found = {each for each in found if not any(o != each and o.startswith(each) for o in found)}
    return found.pop() if len(found) == 1 else None


def _torch(lines: list[str]) -> str | None:
    stated = [m[1] for line in lines if not WISH.search(line)
              for pattern in TORCH for m in pattern.finditer(line)]  # fmt: skip
    stated += [row.removeprefix("torch==") for row in shown(lines) if row.startswith("torch==")]
    stated = stated or [m[1] for line in lines if (m := IMAGE.search(line))]
    return _one(stated or (m[1] for line in lines if not WISH.search(line)
                           and (m := BUILD.match(line))))  # fmt: skip


def _image_cuda(lines: list[str]) -> str | None:
    return _one(m[2] for line in lines if (m := IMAGE.search(line)))


def _drivers(lines: list[str]) -> list[str]:
    is_module = any("nvidia" in line and line.startswith("filename:") for line in lines)
    if any(map(WSL.search, lines)):  # the driver there is that of Windows, whatever is installed
        lines = [line for line in lines if not line.startswith("ii ")]
    found = [m[1] for line in lines if not WISH.search(line) or line.startswith("ii ")
             for pattern in DRIVER if (m := pattern.search(line))
             if is_module or not line.startswith("version:")]  # fmt: skip
    parts = [_one(m[1] for line in lines if (m := each.search(line))) for each in LABELED.values()]
    return found or (["".join(f".{part}" for part in parts if part)[1:]] if all(parts[:2]) else [])


def _has_amd(lines: list[str]) -> bool:
    return any(map(RADEON.match, lines)) and not any(map(MENTIONED.search, lines))


def _gpus(lines: list[str]) -> tuple[Gpu, ...]:
    """GPUs that a program lists, else the devices of the bus, else the only model of the text."""
    capability = _capability(lines)
    listed: dict[int, str] = {}
    for line in lines:
        for pattern in LISTED:
            for match in pattern.finditer(line):
                number, name = [part for part in match.groups() if part is not None]
                listed.setdefault(int(number or 0), name)
    names = [listed[number] for number in sorted(listed)]
    names = names or [f"NVIDIA {m[1]}" for line in lines if (m := PCI.search(line))]
    if not names:
        models = {" ".join(name.split()) for line in lines for name in MENTIONED.findall(line)}
        products = {m[1].replace("-", " ") for line in lines if (m := PRODUCT.search(line))}
        known = products or {name for name in models if family_of(name)}
        counts = {int(m[1]) for line in lines if (m := COUNTED.match(line))}
        count = counts.pop() if len(counts) == 1 else 1
        names = [*known] * count if len(known) == 1 else [""] if capability and not known else []
    if capability and len(set(names)) == 1:
        return tuple(
            gpu_named(n, name, capability=capability) for n, name in enumerate(names[:MOST])
        )
    return tuple(gpu_named(number, name) for number, name in enumerate(names[:MOST]))


def _capability(lines: list[str]) -> tuple[int, int] | None:
    found = {(m[2], m[3]) for line in lines for m in PROPERTIES.finditer(line)}
    asked = any("capability" in line for line in lines)
    found |= {(m[1] or m[3], m[2] or m[4]) for line in lines if asked
              for m in CAPABILITY.finditer(line) if not WISH.search(line)}  # fmt: skip
    if len(found) != 1:
        return None
    major, minor = found.pop()
    return int(major), int(minor)
