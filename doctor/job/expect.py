"""What the user expects of the machine, as the job file spells it, and how it is compared.

Sizes stay as written, so that a report can quote them; GB is 1000**3 bytes and GiB 1024**3.
"""

from __future__ import annotations

import fnmatch
import re
from typing import TYPE_CHECKING, Annotated

import msgspec

if TYPE_CHECKING:
    from packaging.specifiers import SpecifierSet

SIZE = r"^\s*\d{1,9}(\.\d{1,6})?\s*([kKMGTP]i?)?B\s*$"
VERSIONS = r"^\s*((===?|!=|~=|[<>]=?)\s*)?\d[\w.+*]*(\s*,\s*(===?|!=|~=|[<>]=?)\s*\d[\w.+*]*)*\s*$"
POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}

Size = Annotated[str, msgspec.Meta(pattern=SIZE, examples=["80GB", "79.5GiB"])]
Versions = Annotated[str, msgspec.Meta(pattern=VERSIONS, examples=[">=570", "2.11", ">=12.8,<14"])]
Text = Annotated[str, msgspec.Meta(min_length=1)]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class Expect(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Table [expect] of the job file. None: no expectation."""

    gpu: Text | None = None
    """A pattern on the GPU's name; without * ? [ it matches whole words."""
    count: Positive | None = None
    """Minimum number of GPUs that the job can use."""
    memory: Size | None = None
    """Minimum of each GPU."""
    driver: Versions | None = None
    torch: Versions | None = None
    cuda: Versions | None = None
    """The CUDA that torch was built with."""
    shm: Size | None = None
    host_memory: Size | None = None
    cpus: Positive | None = None
    disk: dict[Text, Size] = {}
    """Directory -> minimum of free space."""


def parse_size(text: str) -> int:
    """Bytes of "80GB" (decimal) or "79.5GiB" (binary). Raises ValueError."""
    if not re.fullmatch(SIZE, text):
        raise ValueError(f"{text!r} is not a size; write one such as 80GB or 79.5GiB")
    match = re.match(r"\s*([\d.]+)\s*([KMGTP]?)(i?)", text.upper().replace("I", "i"))
    assert match
    unit: int = (1024 if match[3] else 1000) ** POWERS[match[2]]
    return round(float(match[1]) * unit)


def matches_name(pattern: str, name: str) -> bool:
    """Whether a pattern matches a name, in any case: a glob on all of it, or whole words in it.

    "A100" matches "NVIDIA A100-SXM4-80GB" and not "NVIDIA RTX A1000".
    """
    pattern, name = pattern.strip().casefold(), name.casefold()
    if any(letter in pattern for letter in "*?["):
        return fnmatch.fnmatchcase(name, pattern)
    return re.search(rf"(?<![a-z0-9]){re.escape(pattern)}(?![a-z0-9])", name) is not None


def matches_version(expected: str, version: str) -> bool:
    """Whether a version is one of those expected: "2.11" stands for 2.11 and every 2.11.x.

    The local part (+cu130) is not compared. Raises ValueError where either is not a version.
    """
    from packaging.version import InvalidVersion, Version

    try:
        public = Version(version).public
        return specifiers(expected).contains(public, prereleases=True)
    except InvalidVersion:
        raise ValueError(f"{version!r} is not a version that can be compared") from None


def specifiers(expected: str) -> SpecifierSet:
    """ ">=570,<600", or "570" for 570 and every 570.x. Raises ValueError."""
    from packaging.specifiers import SpecifierSet

    parts = [part.strip() for part in expected.split(",")]
    plain = [part if part[:1] in "<>=!~" else f"=={part.removesuffix('.*')}.*" for part in parts]
    return SpecifierSet(",".join(plain))
