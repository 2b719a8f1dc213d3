"""A rule on dropout as a function."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import objects
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Call

DROPOUTS = {
    "dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
}  # fmt: skip


def functional_dropout(reading: Training) -> Iterator[Match]:
    yield from _attention_dropout(reading)
    yield from _all_dropped(reading)
    yield from _masked_in_evaluation(reading)
    for number, call in reading.numbered(
        reading.methods(*DROPOUTS, "Dropout", "Dropout2d", "Dropout()")
    ):
        owner = reading.function(call.scope)
        if owner.owner not in reading.modules or _is_wanted(reading, call):
            continue
        if owner.name != "forward" and not _runs_in_forward(reading, call.scope, owner.owner):
            continue
        if call.name.startswith("torch.nn.functional.") and call.method in DROPOUTS:
            if "training" in call.keywords or len(call.args) > 2 or call.unpacked:
                continue
            yield Match(call.span, f"{call.method} without training= is on in evaluation, too")
        elif call.name.startswith("torch.nn.Dropout") and any(
            e.receiver_call == number and e.name.endswith("()") for e in reading.calls
        ):
            yield Match(call.span, "a Dropout that is made in forward is on in evaluation, too")


RATES = ("dropout", "lora_dropout", "attn_dropout", "attention_dropout", "hidden_dropout_prob",
         "attention_probs_dropout_prob", "dropout_p", "drop_path_rate")  # fmt: skip


AUGMENTS = {"FrequencyMasking", "TimeMasking", "SpecAugment", "RandomErasing", "TimeStretch",
            "ColorJitter", "RandomHorizontalFlip", "RandomResizedCrop", "RandomCrop"}  # fmt: skip


def _masked_in_evaluation(reading: Training) -> Iterator[Match]:
    """self.freq_mask(x) in forward(), of torchaudio or torchvision: it does not know eval()."""
    for call in reading.calls if AUGMENTS & reading.by_method.keys() else ():
        owner = reading.function(call.scope)
        if owner.name != "forward" or owner.owner not in reading.modules or call.arms:
            continue
        made = objects.known_callees(reading, call) if call.args else []
        if len(made) == 1 and made[0].method in AUGMENTS and made[0].name.startswith("torch"):
            yield Match(
                call.span, f"{made[0].method} in forward() changes inputs in evaluation, too"
            )


def _all_dropped(reading: Training) -> Iterator[Match]:
    """nn.Dropout(1.0), lora_dropout=1.0: nothing passes while the model trains."""
    for call in reading.calls:
        layer = call.name.startswith("torch.nn.Dropout")
        values = [call.keywords[key] for key in RATES if key in call.keywords]
        values += [*call.args[:1], *(call.keywords[k] for k in ("p",) if k in call.keywords)] if (
            layer
        ) else []  # fmt: skip
        if any(isinstance(v.literal, float) and v.literal == 1.0 for v in values):
            yield Match(call.span, "a dropout of 1.0 lets nothing pass while training", "fail")


def _attention_dropout(reading: Training) -> Iterator[Match]:
    """scaled_dot_product_attention(dropout_p=self.dropout) drops in evaluation, too."""
    for call in reading.named("scaled_dot_product_attention"):
        rate = call.keywords.get("dropout_p")
        owner = reading.function(call.scope).owner
        if rate is None or rate.kind != "name" or not rate.name.startswith("self."):
            continue
        if owner in reading.modules and not _is_wanted(reading, call):
            found = reading.assigned_to(rate.name, call.scope)
            if found and not any("train" in name for a in found for name in a.value.names):
                yield Match(call.span, f"dropout_p={rate.name} is on in evaluation, too")


def _runs_in_forward(reading: Training, scope: int, owner: str) -> bool:
    sites = [reading.function(reading.calls[n].scope) for n in reading.call_sites.get(scope, ())]
    return any(site.name == "forward" and site.owner == owner for site in sites)


def _is_wanted(reading: Training, call: Call) -> bool:
    """Under `if self.training`, with p=0, or in a method that samples on purpose."""
    rate = call.given("p", 1)
    zero = rate is not None and rate.kind == "literal" and rate.literal in (0, 0.0)
    name = f"{reading.function(call.scope).owner} {reading.function(call.scope).name}".casefold()
    return (
        zero
        or any("train" in test.text for test in reading.tests(call))
        or any(word in name for word in ("mc", "monte", "bayes", "simcse", "prenet"))
    )


RULES = (
    Rule(
        code="SCR237",
        slug="functional-dropout",
        title="Dropout knows whether the model trains",
        severity="warn",
        find=functional_dropout,
        why="torch.nn.functional.dropout has training=True by default: model.eval() does not "
        "turn it "
        "off, and every evaluation is random.",
        fires=(
            "F.dropout without training=, or nn.Dropout(p)(x), in a method of a module",
            "FrequencyMasking, RandomErasing and the like in forward()",
        ),
        errors=("a dropout of 1.0, of a layer or of a configuration",),
        fix="Pass training=self.training, or use an nn.Dropout of the module.",
        sources=("torch-functional-dropout",),
        words=(
            "dropout_p",
            r"Masking\(",
            r"ropout\w*\s*=\s*1\.0",
            r"Dropout\w*\((?:p=)?1\.0",
            r"(?:\bF|functional)\.\w*dropout",
            r"Dropout\w*\([^\n]*\)\s*\(",
        ),
    ),
)
