"""Rules on the layout of what a loss receives, and on the last layer before it."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.ends import ends, ends_in_linear
from doctor.checks.script.loss.layer_before import has_batch_first
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.loss.low_rank import both_zero
from doctor.checks.script.loss.reductions import of_classes, over_ignored, over_padding
from doctor.checks.script.outcomes import outcomes
from doctor.checks.script.rendering import expanded, render, texts_in
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call, Value

MOVES = ("permute", "transpose", "swapaxes", "movedim", "rearrange", "moveaxis", "einsum")
IMAGES = ("unet", "segmentation", "deeplab", "fcn_resnet", "conv2d", "convtranspose2d", "segnet")
SEQUENCES = ("LSTM", "GRU", "RNN", "TransformerEncoder", "TransformerDecoder")


def layout(reading: Training) -> Iterator[Match]:
    moved = any(name in reading.by_method for name in MOVES)
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if len(call.args) < 2 or kind != "cross_entropy":
            continue
        texts = [expanded(reading, value, call, 1) for value in call.args[:2]]
        flat = re.fullmatch(r"\w+\.(?:view|reshape)\(-1,[\w.]+\)", texts[0])
        pixels = re.fullmatch(r"\w*(?:mask|seg|m)\w*\.(?:long\(\)\.)?"
                              r"(?:view\(-1\)|reshape\(-1\)|flatten\(\))"
                              r"(?:\.long\(\))?", texts[1])  # fmt: skip
        if flat and pixels and reading.mentions(*IMAGES) and not moved:
            yield Match(
                call.span, "classes are the second axis: view(-1, classes) mixes pixels and classes"
            )
        turned = re.fullmatch(r"(\w+)\.(?:view|reshape)\((?:\1\.size\(0\)|\1\.shape\[0\]|\w+),"
                              r"(?:[\w.]+),-1\)", texts[0])  # fmt: skip
        plain = reading.methods(*SEQUENCES) and not moved and not reading.mentions("conv")
        if turned and plain:
            yield Match(
                call.span, "view() does not exchange time and classes: transpose(1, 2) does"
            )
        if reading.methods(*SEQUENCES) and not reading.mentions("conv"):
            yield from _viewed_by_target(reading, call)
    for number in reading.methods("CTCLoss", "ctc_loss"):
        yield from _ctc(reading, reading.calls[number], moved)
    if moved and "CTCLoss" in reading.by_method:
        yield from _ctc_of_layers(reading)


def _viewed_by_target(reading: Training, call: Call) -> Iterator[Match]:
    """logits.view(y.size(0), -1, y.size(1)) of what a Linear made: (batch, time, classes)."""
    view, target = reading.call_of(call.args[0]), call.args[1]
    source = objects.operand(view) if view is not None else None
    if view is None or source is None or view.method not in ("view", "reshape"):
        return
    given = view.args[0].items if len(view.args) == 1 else view.args
    texts = [render(reading, value) for value in given]
    names = "|".join(re.escape(v.name) for v in (source, target) if v.kind == "name" and v.name)
    axes = [
        re.fullmatch(rf"(?:{names})\.(?:size\({axis}\)|shape\[{axis}\])", text)
        for axis, text in zip((0, 1), (texts[0], texts[-1]), strict=True)
    ] if len(texts) == 3 and names else [None]  # fmt: skip
    if all(axes) and ends_in_linear(reading, source, call):
        yield Match(view.span, "view() does not exchange time and classes: transpose(1, 2) does")


def _ctc_of_layers(reading: Training) -> Iterator[Match]:
    """The same of a file that moves other axes: of the value that this loss receives."""
    for call in reading.calls:
        made = objects.known_callees(reading, call) if len(call.args) == 4 else []
        ctc = made and all(m.name == "torch.nn.CTCLoss" for m in made)
        if ctc and has_batch_first(reading, call.args[0], call):
            message = "CTC takes (time, batch, classes): the layers have the batch first"
            yield Match(call.span, message)


def _ctc(reading: Training, call: Call, moved: bool) -> Iterator[Match]:
    """CTC takes the time first."""
    first = [
        c for c in reading.calls
        if (value := c.keywords.get("batch_first")) is not None and value.literal is True
        and c.method in (*SEQUENCES, "TransformerEncoderLayer")
    ]  # fmt: skip
    if first and not moved and call.name.startswith("torch."):
        yield Match(call.span, "CTC takes (time, batch, classes): the layers have the batch first")


def last_layer(reading: Training) -> Iterator[Match]:
    """A ReLU makes of half of the logits 0."""
    yield from ends(reading)
    yield from of_classes(reading)
    yield from over_padding(reading)
    yield from over_ignored(reading)
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        value = evaluate.argument(reading, call, "input", 0)
        if kind not in ("cross_entropy", "bce_logits") or value is None:
            continue
        if outcomes(reading, value, call.scope, number, call.arms) == {"relu"}:
            yield Match(call.span, "logits go through a ReLU: none is below 0")
    for number in reading.methods("Sequential") if "test" not in reading.script.path else ():
        yield from _linear_twice(reading, reading.calls[number])
    yield from _overlap_of_logits(reading)
    yield from _labels_of_pairs(reading)


def _linear_twice(reading: Training, call: Call) -> Iterator[Match]:
    """Linear layers in a row are one linear layer."""
    made = [reading.call_of(v) for v in call.args]
    names = [m.name if m is not None else "" for m in made]
    plain = ("torch.nn.Linear", "torch.nn.Dropout")
    rows = [n for n in names if n in plain]
    if call.unpacked or names.count("torch.nn.Linear") < 3 or not call.name.startswith("torch."):
        return
    if all(n in (*plain, "torch.nn.Flatten") for n in names) and len(rows) >= 3:
        yield Match(
            call.span,
            f"{names.count('torch.nn.Linear')} linear layers without an activation "
            "between them are one",
        )


OVERLAPS = re.compile(r"dice|tversky|jaccard|iou_loss|soft_?iou", re.IGNORECASE)


def _overlap_of_logits(reading: Training) -> Iterator[Match]:
    """dice_loss(logits, target), which nowhere takes a sigmoid."""
    for scope, function in enumerate(reading.script.functions):
        name = f"{function.owner} {function.name}"
        if not OVERLAPS.search(name) or function.name not in ("forward", function.name):
            continue
        inside = reading.calls_in(scope)
        if any(re.search("sigmoid|softmax|exp|argmax|round|one_hot", c.name) for c in inside):
            continue
        bodies = texts_in(reading, scope)
        if any(">" in text or "sigmoid" in text for text in bodies):
            continue
        for site, call in reading.numbered(reading.call_sites.get(scope, ())):
            value = call.first
            if value is not None and outcomes(reading, value, call.scope, site, call.arms) <= {
                "logit",
                "logits",
            }:
                yield Match(
                    call.span, f"{call.method} receives logits: overlaps are of probabilities"
                )


def _labels_of_pairs(reading: Training) -> Iterator[Match]:
    """Losses of pairs take labels of 1 and -1."""
    wanted = {"CosineEmbeddingLoss": 2, "MarginRankingLoss": 2, "HingeEmbeddingLoss": 1}
    for call in reading.calls if reading.methods(*wanted) else ():
        made = objects.callee(reading, call) if len(call.args) in (2, 3) else []
        kinds = {m.method for m in made if m is not None and m.name.startswith("torch.nn.")}
        if len(made) != 1 or not kinds & wanted.keys():
            continue
        kind = kinds.pop()
        if len(call.args) <= wanted[kind]:
            continue
        text = expanded(reading, call.args[wanted[kind]], call, 2)
        zero = re.search(r"^torch\.zeros(?:_like)?\(|==|^\w+\.float\(\)$", text)
        if zero and not re.search(r"\*2|2\*|-1|where", text):
            yield Match(call.span, f"{kind} takes labels of 1 and -1, not 1 and 0")


def started(reading: Training) -> Iterator[Match]:
    """All weights of linear layers are one number."""
    yield from _fans_of_bias(reading)
    for call in reading.named("zeros_", "constant_", "ones_"):
        value = call.args[0].name if call.args else ""
        if not call.name.startswith("torch.nn.init.") or not value.endswith(".weight"):
            continue
        layers = _layers_tested(reading, call)
        applied = any(
            v.name == reading.function(call.scope).name
            for other in reading.named("apply") for v in other.args
        )  # fmt: skip
        same = call.method != "ones_" or layers
        if applied and same and layers and not re.search("Norm|Embedding", layers):
            yield Match(
                call.span,
                f"all weights of {value.partition('.')[0]} are equal: its units learn the same",
            )


FANS = {"xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_"}


def _is_count(value: Value) -> bool:
    """One number, and no shape under a name."""
    named = value.kind == "name" and not re.search(r"shape|size$|dims$", value.name)
    return named or isinstance(value.literal, int)


def _is_of_layer(reading: Training, name: str, call: Call) -> bool:
    """A Linear or a convolution, by what made it or by the test around."""
    made = objects.makers_at(reading, Value("name", name=name), call)
    layers = ("Linear", "Conv1d", "Conv2d", "Conv3d")
    known = bool(made) and all(m is not None and m.method in layers for m in made)
    return known or bool(_layers_tested(reading, call))


def _fans_of_bias(reading: Training) -> Iterator[Match]:
    """xavier_uniform_(layer.bias): one axis has no fan in and fan out."""
    for call in reading.named(*FANS):
        value = call.args[0].name.removesuffix(".data") if call.args else ""
        made = [m for a in reading.assigned_to(value, call.scope) for m in reading.inside(a.value)]
        one = [m for m in made if m.method in ("Tensor", "empty", "zeros", "ones", "rand", "randn")]
        known = made and len(one) == 1 and len(one[0].args) == 1 and _is_count(one[0].args[0])
        layer = not made and _is_of_layer(reading, value.removesuffix(".bias"), call)
        if call.name.startswith("torch.nn.init.") and value.endswith(".bias") and (known or layer):
            message = f"{value} has one axis, and {call.method} needs two: it raises"
            yield Match(call.span, message, fix="nn.init.zeros_(layer.bias).")


def _layers_tested(reading: Training, call: Call) -> str:
    """The test around that names linear or convolutional layers."""
    held = [reading.test_of(branch) for branch, arm in call.arms if arm == 0]
    texts = [test.text for test in held if test is not None and "isinstance" in test.text]
    return next((t for t in texts if re.search(r"Linear|Conv", t)), "")


RULES = (
    Rule(
        code="SCR367",
        slug="loss-layout",
        title="Losses receive classes, time and batch in their places",
        severity="fail",
        find=layout,
        why="view() keeps the order of numbers: to exchange axes takes transpose() or permute(). "
        "Otherwise the numbers of one pixel or step become classes of others, and the loss hardly "
        "falls.",
        fires=(
            "out.view(-1, classes) of images, against mask.view(-1)",
            "out.view(batch, classes, -1) of the output of a recurrent layer or a Transformer",
            "logits.view(y.size(0), -1, y.size(1)) of what a Linear made",
            "CTCLoss on the output of layers with batch_first=True",
        ),
        fix="Pass (N, C, H, W) as it is, out.transpose(1, 2), or log_probs.transpose(0, 1) to CTC.",
        sources=("torch-cross-entropy",),
        needs=("cross_entropy", "CrossEntropyLoss", "CTCLoss", "ctc_loss"),
    ),
    Rule(
        code="SCR368",
        slug="last-layer",
        title="The last layer and the labels have the range of the loss",
        severity="warn",
        find=last_layer,
        why="Logits may be any number, overlaps are of probabilities, and losses of pairs push "
        "apart where the label is -1: at 0 they push nothing.",
        fires=(
            "a ReLU whose result cross-entropy receives",
            "three Linear layers in a row without an activation",
            "a Dice, Tversky or IoU loss of this file on logits, without a sigmoid",
            "CosineEmbeddingLoss or MarginRankingLoss with labels of 0",
            "(loss * mask).mean() of losses of tokens; a Dropout behind the last layer",
            "cross_entropy(x, y, reduction='none', ignore_index=-100).mean()",
            "betas of an optimizer in the other order; BatchNorm1d and batches of one",
        ),
        errors=("y.long() as the target of a binary cross-entropy",),
        fix="Omit the last activation; (loss * mask).sum() / mask.sum(); take the sigmoid first; "
        "pass 2 * same - 1.",
        sources=("torch-cross-entropy",),
        needs=("cross_entropy", "CrossEntropyLoss", "BCEWithLogitsLoss", "CosineEmbeddingLoss",
               "MarginRankingLoss", "HingeEmbeddingLoss", "Sequential", "BCELoss",
               "binary_cross_entropy", "binary_cross_entropy_with_logits"),
    ),
    Rule(
        code="SCR369",
        slug="weights-all-equal",
        title="Layers start with weights that differ",
        severity="fail",
        find=each_of(started, both_zero),
        why="Units with equal weights get equal gradients: they stay one unit, or, at 0 behind a "
        "ReLU, get none.",
        fires=(
            "zeros_ or constant_ on the weight of each Linear or Conv, by apply()",
            "both factors of a low-rank update start at 0",
            "xavier_uniform_ and the like of a bias, which raises",
        ),
        fix="Keep the default, or use xavier_uniform_ or kaiming_normal_; zero biases only.",
        sources=("torch-init",),
        needs=("zeros_", "constant_", "ones_", "zeros", *sorted(FANS)),
    ),
)  # fmt: skip
