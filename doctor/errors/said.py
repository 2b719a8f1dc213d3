"""What the numbers and names of a message add to the remedy of a row: one sentence, before it."""

from __future__ import annotations

import difflib
import functools
import re

from doctor.errors.replacements import (
    OF_ANY_CUDA,
    OF_CUDA,
    OWN_NUMBERS,
    OWNERS,
    PACKAGES,
    PLAIN,
    RENAMED,
    WHEELS,
)
from doctor.errors.said_rows import SAID

OF_EVALUATION = re.compile("val|test")
MOST_NAMES = 200
"""Logged names that are compared with one that was not logged."""


def sentence(id: str, text: str) -> str:
    """What the text's own words add to the remedy of the row; "" where they add nothing."""
    for expression, template in _of(id):
        if match := re.search(expression, text, re.DOTALL):
            groups = {name: value for name, value in match.groupdict().items() if value}
            words = {**groups, **_derived(groups)}
            try:
                return template.format_map(words)
            except KeyError:  # the words mean nothing that is known
                continue
    return ""


@functools.cache
def _of(id: str) -> tuple[tuple[str, str], ...]:
    return tuple((each, said) for ids, each, said in SAID if id in ids.split())


def _ending(wheel: str, major: str) -> str:
    """How the name of a package ends whose library has this number."""
    if wheel in OWN_NUMBERS:
        return OWN_NUMBERS[wheel].get(major, " of that CUDA")
    if wheel in OF_CUDA:
        return f"-cu{major}" if int(major) < 13 else ""
    return "-cu12 (-cu11 or -cu13 for a torch of these)" if wheel in OF_ANY_CUDA else "-cu12"


def _nearest(name: str, names: list[str]) -> str:
    """The names that resemble this one, else the first ones, those of an evaluation first; for one
    of an evaluation none of the training."""
    own = [each for each in names[:MOST_NAMES]
           if not OF_EVALUATION.search(name) or "train" not in each]  # fmt: skip
    near = difflib.get_close_matches(name, own, 3) or own
    return ", ".join(sorted(near, key=lambda each: not OF_EVALUATION.search(each))[:6])


def _derived(groups: dict[str, str]) -> dict[str, str]:
    """What follows from the words of the text, where it is known."""
    words: dict[str, str] = {}
    module = groups.get("module", groups.get("name", ""))
    if package := PACKAGES.get(module) or (module if module in PLAIN else ""):
        words["package"] = package.replace("_", "-") if module in PLAIN else package
    argument, callee = groups.get("argument", ""), groups.get("callee", "")
    if argument in RENAMED and re.search(OWNERS.get(argument, "\\w"), callee):
        words["renamed"] = RENAMED[argument]
    if wheel := WHEELS.get(groups.get("library", "")):
        ending = _ending(wheel, groups["major"])
        words["wheel"] = f"the package nvidia-{wheel}{ending}"
    if driver := groups.get("driver"):
        words["cuda"] = f"{int(driver) // 1000}.{int(driver) % 1000 // 10}"
    if label := groups.get("label"):
        words["classes"] = str(int(label) + 1)
    names = re.findall(r"[\w/.@:-]+(?: [\w@-]+)*", groups.get("valid", ""))
    if near := _nearest(groups.get("name", ""), names):
        words["near"] = near
    method = groups.get("method", "").removesuffix("_")
    words["operand"] = f"Operands of {method}" if method else "Operands"
    return words
