"""The names of a machine and of its user, and what replaces them in text of others."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from doctor._util.secrets import HIDDEN
from doctor.collect.host import identity
from doctor.facts.host import Host

EXEMPT = frozenset(
    {
        "admin", "cluster", "cpu", "cuda", "debian", "docker", "gpu", "host", "jovyan", "local",
        "localdomain", "localhost", "machine", "nobody", "node", "nvidia", "python", "root",
        "ubuntu", "user",
    }
)  # fmt: skip
"""Names that identify nobody, 20 at most; so are those of one character and of digits alone."""
LONGEST = 4096
"""Characters of a value or a path that go into a pattern."""
LONGEST_NAME = 255
"""RFC 1035, and NAME_MAX of a home directory: what is longer is no name of a host or a user."""
FILES = (
    "bin|cfg|ckpt|csv|cu|gguf|gz|html|ini|ipynb|json|jsonl|log|md|npy|npz|parquet|pkl|pt|pth|py|pyc"
    "|safetensors|sh|so|tar|toml|txt|ya?ml|zip|zst"
)
"""What follows the name of a file: train.py is no machine called train."""
NODE = re.compile(
    r"(?m)(?:^(?:\[[\w-]{1,20}\]:? ?)?(?=[\w.-]{1,255}:\d+:\d+ \[\d+\] NCCL )"
    r"|srun: error: (?=[\w.-]{1,255}: tasks? )|^ *host +: |connect to \[)(?P<name>[\w.-]{1,255})"
)
"""A node, where programs that start or connect ranks print its name."""
SYSTEM = ("/dev/", "/proc/", "/sys/")
"""No home directory is there, while remedies refer to paths there: /dev/shm."""


@dataclass(frozen=True)
class Names:
    """Names in lower case, and what replaces each."""

    replacements: dict[str, str]

    def redact(self, text: str) -> str:
        """The text without these names, where they are whole words and in any case."""
        folded = text.casefold()
        if not any(name in folded for name in self.replacements):
            return text
        return self._pattern.sub(
            lambda match: self.replacements.get(match[0].casefold(), HIDDEN), text
        )

    def without(self, names: Iterable[str]) -> Names:
        """The same without these names, which are left as they are."""
        kept = {name.casefold() for name in names}
        if kept.isdisjoint(self.replacements):
            return self
        return Names({name: by for name, by in self.replacements.items() if name not in kept})

    @functools.cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest_first = sorted(self.replacements, key=len, reverse=True)
        names = "|".join(map(re.escape, longest_first))
        return re.compile(rf"(?<![\w.-])(?:{names})(?![\w-])(?!\.(?:{FILES})\b)", re.IGNORECASE)


def names_of(hosts: Iterable[Host]) -> Names:
    """The names of these machines and their users: "[host]", "[domain]" and "[user]"."""
    replacements: dict[str, str] = {}
    for host in hosts:
        for name, replacement in _names(host):
            folded = name.casefold()
            if len(name) <= LONGEST_NAME and not is_exempt(folded):
                replacements.setdefault(folded, replacement)
    return Names(replacements)


def _names(host: Host) -> Iterator[tuple[str, str]]:
    label, _, domain = host.name.partition(".")
    yield host.name, "[host]"
    yield label, "[host]"
    if "." in domain:
        yield domain, "[domain]"
    yield host.user, "[user]"
    if not (host.home + "/").startswith(SYSTEM):
        yield host.home.rstrip("/").rpartition("/")[2], "[user]"


def is_exempt(name: str) -> bool:
    """Whether a name, in lower case, is left as it is."""
    return len(name) < 2 or name in EXEMPT or not any(map(str.isalpha, name))


def this_machine() -> Host:
    """The names of this machine and its user: a log or a path may contain them."""
    return Host(system="", **identity())


def pseudonyms(nodes: Iterable[str]) -> Names:
    """ "node-01", "node-02" for the names of nodes, in the order of their names."""
    names = sorted({name.casefold() for name in nodes if 0 < len(name) <= LONGEST_NAME})
    ordered = sorted(names, key=_natural)
    width = max(2, len(str(len(ordered))))
    return Names({name: f"node-{number:0{width}}" for number, name in enumerate(ordered, 1)})


def nodes_in(text: str) -> Iterator[str]:
    """The names of nodes in lines of NCCL, of srun, of a store's client and of torchrun's summary
    of a failure.
    """
    for match in NODE.finditer(text):
        if not is_exempt((match["name"] or "").casefold()):
            yield match["name"]


def _natural(name: str) -> list[tuple[int, str]]:
    """gpu-2 before gpu-10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
