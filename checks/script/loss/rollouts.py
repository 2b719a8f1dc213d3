"""A rule on groups of answers: several samples of one prompt stand beside each other."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.naming import words
from doctor.checks.script.rendering import lines, lines_of, render, texts_in
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training

PROMPTS = {"prompts", "prompt", "questions", "queries", "chats", "texts", "messages", "problems",
           "inputs", "input", "ids", "batch", "states", "contexts", "conversations"}  # fmt: skip
COUNTS = {"num", "n", "nb", "number", "count", "size", "len", "total", "unique", "max", "per"}
REWARDS = {"reward", "rewards", "scores", "score", "r", "rew", "rews", "returns", "ret"}


def groups(reading: Training) -> Iterator[Match]:
    sizes = dict(_grouped(reading))
    if not sizes:
        return
    yield from _tiled(reading, set(sizes.values()))
    yield from _one_mean(reading, sizes)
    yield from _over_prompts(reading, sizes)
    yield from _of_prompts(reading)


def _grouped(reading: Training) -> Iterator[tuple[str, str]]:
    """(grouped, K) of grouped = rewards.view(-1, K): K neighbours are a group."""
    for number, call in reading.numbered(reading.methods("view", "reshape")):
        given = call.args[0].items if len(call.args) == 1 else call.args
        if len(given) != 2 or not set(words(call.receiver)) & REWARDS:
            continue
        first, size = (render(reading, v) for v in given)
        if first == "-1" or first.startswith(("len(", "batch", "B", "P", "n", "b")):
            yield (call.targets[0] if len(call.targets) == 1 else f"@{number}"), size


def _tiled(reading: Training, sizes: set[str]) -> Iterator[Match]:
    """prompts * K, or ids.repeat(K, 1): K rounds of all prompts."""
    for line in reading.cached(lines):
        product = re.fullmatch(r"\((?P<name>[\w.]+)\*(?P<size>[\w.]+)\)", line.text)
        if product is None or product["size"] not in sizes or "beam" in product["size"]:
            continue
        if _in_rounds(reading, product["size"], line.scope):
            continue
        if set(words(product["name"])) & PROMPTS and _is_list(reading, product["name"], line.scope):
            message = (
                f"{product['name']} * {product['size']} repeats all prompts in turn: "
                "the groups mix them"
            )
            yield Match(line.span, message)
            return
    for call in reading.named("repeat"):
        sizes_given = [render(reading, v) for v in call.args]
        named = set(words(call.receiver)) & PROMPTS
        if named and len(sizes_given) == 2 and sizes_given[0] in sizes and sizes_given[1] == "1":
            yield Match(
                call.span,
                f"repeat({sizes_given[0]}, 1) repeats all prompts in turn: the groups mix them",
            )
            return


def _in_rounds(reading: Training, size: str, scope: int) -> bool:
    """rewards.view(K, -1) in the same function: a row is a round of all prompts."""
    return any(
        call.scope == scope and call.args and render(reading, call.args[0]) == size
        for call in reading.named("view", "reshape")
    )


def _is_list(reading: Training, name: str, scope: int) -> bool:
    """Nothing says that it is a number or a tensor."""
    found = reading.assigned_to(name, scope)
    return not COUNTS & set(words(name)) and not any(
        a.value.kind == "literal" or "torch." in render(reading, a.value) for a in found
    )


def _one_mean(reading: Training, sizes: dict[str, str]) -> Iterator[Match]:
    """(grouped - grouped.mean()) / grouped.std(): the mean of all groups."""
    for line in reading.cached(lines):
        yield from _whole(line.text, line.span, sizes)
    for _scope, function in enumerate(reading.script.functions):
        spans = function.exit_spans or (function.span,) * len(function.returns)
        for value, span in zip(function.returns, spans, strict=True):
            yield from _whole(render(reading, value), span, sizes)


def _whole(text: str, span: object, sizes: dict[str, str]) -> Iterator[Match]:
    for name in sizes:
        if re.search(rf"\(\({re.escape(name)}-{re.escape(name)}\.mean\(\)\)/", text):
            message = (
                f"{name}.mean() is that of all groups: each has its own, mean(1, keepdim=True)"
            )
            yield Match(span, message, "warn")  # type: ignore[arg-type]


SAMPLES = re.compile(r"group|generation|sample|rollout|completion|per_prompt|(?:^|\.)[GKgk]$")
"""What the number of answers to one prompt is called."""


def _over_prompts(reading: Training, sizes: dict[str, str]) -> Iterator[Match]:
    """grouped - grouped.mean(dim=0) of rewards.view(-1, K): the mean of the first answers."""
    names = {name: size for name, size in sizes.items() if SAMPLES.search(size)}
    for line in reading.cached(lines) if names else ():
        for name in names:
            less = re.search(rf"\({re.escape(name)}-(\w+)\)", line.text)
            held = lines_of(reading, line.scope, less[1]) if less else []
            text = held[0].text if len(held) == 1 else line.text.partition(f"({name}-")[2]
            if re.match(rf"{re.escape(name)}\.mean\((?:dim=|axis=)?0\b", text):
                message = "the mean is over the prompts: the answers to one prompt are axis 1"
                yield Match(line.span, message, fix="mean(dim=1, keepdim=True)")


MEANS = re.compile(
    r"\w*reward\w*\.(?:view|reshape)\(-1,(?P<size>[\w.]+)\)\.(?:mean|std)\((?:dim=|axis=)?0\)"
)


def _of_prompts(reading: Training) -> Iterator[Match]:
    """mean = rewards.view(-1, K).mean(dim=0), which is taken off the rewards."""
    for line in reading.cached(lines):
        found = MEANS.fullmatch(line.text)
        if found is None or not SAMPLES.search(found["size"]):
            continue
        own = texts_in(reading, line.scope)
        if any(re.search(rf"-{line.target}\b|/\(*{line.target}\b", text) for text in own) or any(
            re.match(rf"{line.target}\.(?:repeat|expand|tile)", text) for text in own
        ):
            message = "the mean is over the prompts: the answers to one prompt are axis 1"
            yield Match(line.span, message, fix="mean(dim=1), with repeat_interleave(K)")
            return


RULES = (
    Rule(
        code="SCR407",
        slug="groups-of-rollouts",
        title="The answers to one prompt are one group",
        severity="fail",
        find=groups,
        why="GRPO compares the answers to one prompt. prompts * K puts p1, p2, p1, p2 in a row, of "
        "which view(-1, K) makes groups of different prompts: easy prompts are rewarded, "
        "not good answers.",
        fires=(
            "prompts * K or ids.repeat(K, 1), and rewards.view(-1, K)",
            "grouped - grouped.mean(dim=0) of grouped = rewards.view(-1, K)",
            "grouped - grouped.mean() over all groups (a warning)",
        ),
        fix="[p for p in prompts for _ in range(K)], or ids.repeat_interleave(K, dim=0).",
        sources=("r1-v-67", "grpo-flat-2"),
        needs=("view", "reshape"),
    ),
)
