"""Low-rank updates that a script writes out: their first weights and their scale."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script.rendering import lines, texts_in
from doctor.checks.script.rule import Match
from doctor.checks.script.training import Training
from doctor.facts.script import Call

ZEROS = re.compile(r"torch\.nn\.Parameter\(torch\.zeros(?:_like)?\(")
NESTED = (
    re.compile(r"linear\(.*linear\(.*,self\.(?P<a>\w+)(?:\.weight)?\)\)?,self\.(?P<b>\w+)(?:\.weight)?\)"),
    re.compile(r"@self\.(?P<a>\w+)(?:\.(?:T|t\(\)|mT))?\)?@self\.(?P<b>\w+)"),
    re.compile(r"self\.(?P<a>\w+)@self\.(?P<b>\w+)"),
    re.compile(r"self\.(?P<a>\w+)\((?:\w+\.)*\w*\(?self\.(?P<b>\w+)\("),
    re.compile(r"(?:matmul|mm)\(self\.(?P<a>\w+)(?:\.T)?,self\.(?P<b>\w+)"),
)  # fmt: skip
"""Two factors of the class, one applied to the result of the other."""
INVERSE = re.compile(r"\(?(?:\w+\.)*(?:lora_)?(?:r|rank)/(?:\w+\.)*(?:lora_)?alpha\)?")


def both_zero(reading: Training) -> Iterator[Match]:
    """zeros_(A) and zeros_(B) of x @ A @ B: the gradient of each is a multiple of the other."""
    zeroed: dict[str, dict[str, Match]] = {}
    for line in reading.cached(lines):
        if line.target.startswith("self.") and ZEROS.match(line.text):
            owner = reading.function(line.scope).owner
            name = line.target.removeprefix("self.")
            zeroed.setdefault(owner, {})[name] = Match(line.span, "")
    for call in reading.named("zeros_"):
        name = call.first.name if call.first is not None else call.receiver
        found = re.fullmatch(r"self\.(\w+)(?:\.weight)?(?:\.data)?", name)
        if found and not call.arms and not _has_bias(reading, name):
            owner = reading.function(call.scope).owner
            zeroed.setdefault(owner, {})[found[1]] = Match(call.span, "")
    for owner, names in zeroed.items():
        if len(names) > 1:
            yield from _multiplied(reading, owner, names)


def _has_bias(reading: Training, name: str) -> bool:
    """The factor is a layer, and is not made with bias=False: its bias is a way for gradients."""
    layers = reading.cached(_layers).get(name.partition(".weight")[0], ())
    off = (c.keywords.get("bias") for c in layers)
    return any(value is None or value.literal is not False for value in off)


def _multiplied(reading: Training, owner: str, names: dict[str, Match]) -> Iterator[Match]:
    """Where both factors of a product of the class are among these."""
    redrawn = reading.cached(_redrawn)
    if any(call.receiver == "self" for call in reading.named("load_state_dict")):
        return
    for scope in reading.cached(_methods).get(owner, ()):
        for text in texts_in(reading, scope):
            for pattern in NESTED:
                found = pattern.search(text)
                pair = {found["a"], found["b"]} if found else set()
                if len(pair) == 2 and pair <= names.keys() - redrawn:
                    last = max((names[name] for name in pair), key=lambda m: m.span.order)
                    message = f"{' and '.join(sorted(pair))} are both 0: neither gets a gradient"
                    yield Match(
                        last.span, message, fix="Draw one of them: nn.init.kaiming_uniform_."
                    )
                    return


def _methods(reading: Training) -> dict[str, list[int]]:
    table: dict[str, list[int]] = {}
    for scope, function in enumerate(reading.script.functions):
        table.setdefault(function.owner, []).append(scope)
    return table


def _redrawn(reading: Training) -> set[str]:
    """Attributes that the file changes in place, in whatever way."""
    changed = [call.receiver for call in reading.calls if _changes(call)]
    changed += [v.name for call in reading.calls if _changes(call) for v in call.args]
    changed += [a.target for a in reading.stores if a.target.count(".") > 1 or "[" in a.target]
    return {re.split(r"[.\[]", name.removeprefix("self."))[0] for name in changed}


def _layers(reading: Training) -> dict[str, list[Call]]:
    """Names of linear layers and convolutions."""
    table: dict[str, list[Call]] = {}
    for call in reading.calls:
        for name in call.targets if call.method.startswith(("Linear", "Conv")) else ():
            table.setdefault(name, []).append(call)
    return table


def _changes(call: Call) -> bool:
    """normal_(A), A.data.copy_(x): any function that ends in _, but zeros_."""
    return call.method.endswith("_") and call.method not in ("zeros_", "requires_grad_")


def scale_inverted(reading: Training) -> Iterator[Match]:
    """self.scaling = r / alpha."""
    for line in reading.cached(lines) if reading.mentions("lora") else ():
        if line.target in ("self.scale", "self.scaling") and INVERSE.fullmatch(line.text):
            yield Match(
                line.span,
                "the scale of a low-rank update is alpha / r, not its inverse",
                fix="self.scaling = alpha / r",
            )
