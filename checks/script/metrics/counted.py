"""Rules on what is read, kept or counted once too often or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterator

from doctor.checks.script import evaluate, objects
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.metrics import whole
from doctor.checks.script.metrics.encoded import encoded_by_target
from doctor.checks.script.metrics.folds import models_of_folds
from doctor.checks.script.metrics.nodes import ONE_GRAPH, nodes_held_out
from doctor.checks.script.model.last_tokens import behind_the_text
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import expanded, render, statements, texts_in, written_out
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.training import Training
from doctor.facts.script import Call

RECURRENT = ("LSTM", "GRU", "RNN")


def prepared_apart(reading: Training) -> Iterator[Match]:
    """Words counted in both parts; copies before the split."""
    for call in reading.named("fit_transform", "fit"):
        text = render(reading, call.args[0]) if call.args else ""
        if re.fullmatch(r"\(\w*train\w*\+\w*(?:test|val|dev)\w*\)", text):
            yield Match(call.span, "it is fitted to training and test texts together")
    for call in reading.named("train_test_split"):
        for value in call.args[:1]:
            text = expanded(reading, value, call, 2)
            found = re.search(r"(?:concatenate|cat|vstack)\(\((\w+),(.*)\)", text)
            if found and re.search(rf"\b{found[1]}\b", found[2]):
                yield Match(
                    call.span, f"changed copies of {found[1]} are on both sides of the split"
                )


WITH_NORMS = re.compile(
    r"res_?ne(?:t|xt)|vgg\d+_bn|dense_?net|mobile_?net|efficient_?net|regnet", re.IGNORECASE
)
"""Architectures with batch norm, by the names that torchvision, timm and papers give them."""
OTHER_NORMS = re.compile(r"resnet_?v2|_gn|nf_|_evo|group_?norm|norm_layer", re.IGNORECASE)
"""Names of those that may have another norm, or none."""


def averaged_norms(reading: Training) -> Iterator[Match]:
    """AveragedModel of a network with batch norm that is evaluated as it is."""
    if not reading.methods("AveragedModel") or reading.mentions(
        "update_bn", "buffers", "groupnorm", "group_norm", "frozenbatchnorm"
    ):
        return
    written = any("BatchNorm" in name for name in reading.by_method)
    for call in reading.named("AveragedModel"):
        made = objects.makers_at(reading, call.args[0], call) if call.args else []
        names = [f"{m.method} {m.first.literal if m.first else ''}" for m in made if m is not None]
        names += [key for m in made if m is not None for key in m.keywords]
        norms = written or any(WITH_NORMS.search(name) for name in names)
        norms &= not any(OTHER_NORMS.search(name) for name in names)
        known = written or any(m and m.name.startswith("torchvision.models.") for m in made)
        if norms and any(other.receiver in call.targets for other in reading.named("eval")):
            yield Match(
                call.span,
                "statistics of batch norm are not those of the average: update_bn()",
                None if known else "warn",
                fix="update_bn(train_loader, model) of the average, before it is evaluated.",
            )


def padded_end(reading: Training) -> Iterator[Match]:
    """out[:, -1] of padded sequences is the state after the padding."""
    if not reading.methods("pad_sequence") or reading.mentions("pack_padded", "pack_sequence"):
        return
    if reading.mentions("lengths", "lens", "seq_len", "gather", "flip", "padding_side"):
        return
    for call in reading.calls:
        made = objects.callee(reading, call) if call.targets else []
        recurrent = made and all(
            m is not None and m.name.startswith("torch.nn.") and m.method in RECURRENT for m in made
        )
        if not recurrent or not reading.function(call.scope).owner:
            continue
        for text, span, scope in reading.cached(statements):
            name = re.escape(call.targets[0])
            if scope == call.scope and re.search(rf"\b{name}\[:,-1(?:,:)?\]", text):
                yield Match(
                    span,
                    f"{call.targets[0]}[:, -1] is the state behind the padding of short sequences",
                )


def padding_averaged(reading: Training) -> Iterator[Match]:
    """embedding(ids).mean(1) of sequences that pad_sequence made equally long."""
    if not reading.methods("pad_sequence") or reading.mentions(
        "mask", "lengths", "lens", "seq_len", "pack_padded", "count", "offsets"
    ):
        return
    for call in reading.named("mean"):
        axis = call.given("dim", 0)
        inner = objects.operand(call)
        if inner is not None and inner.kind == "name":
            found = objects.last_definition(reading, inner.name, call)
            inner = found[0] if len(found) == 1 else None
        if inner is None or inner.kind != "call" or axis is None or axis.literal not in (1, -2):
            continue
        made = objects.callee(reading, reading.calls[inner.call])
        if made and all(m is not None and m.name == "torch.nn.Embedding" for m in made):
            yield Match(call.span, "padding counts in the mean, the more the shorter a text is")


def padding_counted(reading: Training) -> Iterator[Match]:
    """Targets are padded with a class, and the loss does not leave it out."""
    pads = reading.named("pad_sequence")
    if len(pads) < 2 or reading.mentions("ignore_index", "pack_padded", "lengths", "lens"):
        return
    values = [
        c.keywords.get("padding_value") or (c.args[2] if len(c.args) > 2 else None) for c in pads
    ]
    if any(v is not None and v.literal == -100 for v in values):
        return
    masked = reading.mentions("mask") and not _are_whole_targets(reading)
    for call in reading.named("CrossEntropyLoss", "cross_entropy") if not masked else ():
        if call.name.startswith("torch.") and not (call.keywords.get("weight") or call.args[2:]):
            yield Match(
                call.span, "padding of the targets counts as a class: ignore_index is not set"
            )


SHIFTED = re.compile(r"\w+\[:,1:\](?:\.\w+\((?:-1)?\))*")


def _are_whole_targets(reading: Training) -> bool:
    """Each cross-entropy is of x[:, 1:] in one row, and no mask is a factor beside it."""
    calls = [reading.calls[n] for n, kind in loss_calls(reading) if kind == "cross_entropy"]
    targets = [
        written_out(reading, c.scope, render(reading, c.args[1])) for c in calls if len(c.args) > 1
    ]
    near = [text for scope in {c.scope for c in calls} for text in texts_in(reading, scope)]
    factor = any(re.search(r"\*\(?\w*mask|\[\w*mask\w*\]|reduction='none'", t) for t in near)
    return bool(targets) and all(map(SHIFTED.fullmatch, targets)) and not factor


def several_labels(reading: Training) -> Iterator[Match]:
    """Cross-entropy on labels that are read with a sigmoid."""
    decided = any(
        re.search(r"\.sigmoid\(|sigmoid\(", f"{render(reading, c.left)}{render(reading, c.right)}")
        for c in reading.comparisons if c.operator in (">", ">=")
    )  # fmt: skip
    for number, kind in loss_calls(reading):
        call = reading.calls[number]
        if kind != "cross_entropy" or len(call.args) < 2 or not decided:
            continue
        if re.fullmatch(
            r"\w+\.float\(\)|\w+\.to\(torch\.float(?:32)?\)", render(reading, call.args[1])
        ):
            yield Match(
                call.span,
                "a softmax over labels that may hold together: they are read with a sigmoid",
            )


OF_A_WINDOW = {"Running", "RunningMean", "RunningSum"}
"""Metrics of the last values alone, which forget by themselves."""
OF_THE_RUN = {"SumMetric", "MaxMetric", "MinMetric", "MeanMetric", "MinMaxMetric", "MetricTracker"}
"""Metrics that may be meant for the whole run."""


def of_epoch(reading: Training) -> Iterator[Match]:
    """A metric of torchmetrics that is computed in each epoch and never reset."""
    for number, call in reading.numbered(reading.methods("compute")):
        again = call.loops or reading.function(call.scope).name in EPOCH_ENDS
        if not again or not call.receiver or call.args:
            continue
        found = evaluate.receivers(reading, call)
        made = [_unmoved(reading, reading.calls[v.call]) for v in found if v.kind == "call"]
        if len(made) != 1 or not made[0].name.startswith("torchmetrics.") or made[0].loops:
            continue
        if made[0].method in OF_A_WINDOW | OF_THE_RUN or _is_made_anew(reading, call):
            continue
        others = {c.method for c in reading.calls if c.receiver == call.receiver}
        others |= {"update" for c in reading.calls if c.name == call.receiver}
        others |= {"reset" for c in reading.named("reset") if not _is_metric(reading, c)}
        others |= {"reset" for c in reading.named("log", "log_dict") for v in flatten(c.values)
                   if v.kind == "name" and v.name == call.receiver}  # fmt: skip
        if "update" in others and "reset" not in others and number:
            yield Match(call.span, f"{call.receiver} counts all epochs so far: reset() is missing")


def _is_made_anew(reading: Training, call: Call) -> bool:
    """self.metric = ... in a method that is not the constructor."""
    given = reading.assigned_to(call.receiver, call.scope) if "." in call.receiver else ()
    return any(reading.function(each.scope).name != "__init__" for each in given)


EPOCH_ENDS = {"on_train_epoch_end", "on_validation_epoch_end", "training_epoch_end",
              "validation_epoch_end"}  # fmt: skip
"""Hooks of Lightning that run once an epoch."""


def _is_metric(reading: Training, reset: Call) -> bool:
    """reset() of one metric of the file, which is not that of all of them."""
    made = reading.calls_of(evaluate.receivers(reading, reset)) if reset.receiver else []
    names = [_unmoved(reading, each).name for each in made]
    return any(n.startswith("torchmetrics.") and "Collection" not in n for n in names)


def _unmoved(reading: Training, call: Call) -> Call:
    """RunningMean(window=10) below .to(device)."""
    while call.method in ("to", "cuda") and call.receiver_call >= 0:
        call = reading.calls[call.receiver_call]
    return call


RULES = (
    Rule(
        code="SCR376",
        slug="held-out-in-training",
        title="What is held out is neither in the loss nor in a feature",
        severity="fail",
        find=each_of(nodes_held_out, encoded_by_target, models_of_folds, prepared_apart),
        why="A result on nodes, rows or folds that trained the model says nothing of new data.",
        fires=(
            "loss(out, data.y) without a mask, beside data.test_mask or a train_mask of the file",
            "groupby(...)[target].transform('mean') before the split, or means that map() puts in",
            "words of training and test texts",
            "changed copies of the rows before the split",
            "a model that is made before the loop over folds and trained in it",
        ),
        fix="loss(out[data.train_mask], data.y[data.train_mask]); encode within the training part; "
        "make the model in the loop.",
        sources=("sklearn-pitfalls", "lfmc-from-sar-5", "radimagenet-5"),
        needs=("test_mask", "val_mask", "train_mask", "train_idx", *ONE_GRAPH, "groupby",
               "fit_transform", "train_test_split",
               "KFold", "StratifiedKFold", "GroupKFold"),
    ),
    Rule(
        code="SCR377",
        slug="padding-of-sequences",
        title="Padding of sequences is neither read nor learned",
        severity="warn",
        find=each_of(behind_the_text, padded_end, padding_averaged, padding_counted),
        why="The last place of a short sequence is padding: its state has run over zeros, and a "
        "class for padding is most of the targets.",
        fires=(
            "out[:, -1] of a recurrent layer, and pad_sequence without lengths",
            "embedding(ids).mean(1), and pad_sequence without lengths or a mask",
            "cross-entropy without ignore_index, and targets that pad_sequence fills with a class",
        ),
        errors=(
            "hidden[:, -1] of AutoModel with an attention_mask, and padding_side = 'right'",
        ),
        fix="pack_padded_sequence, or out[range(n), lengths - 1]; padding_value=-100 for targets.",
        sources=("torch-cross-entropy",),
        needs=("pad_sequence", "padding_side"),
    ),
    Rule(
        code="SCR378",
        slug="several-labels-of-a-sample",
        title="Labels that may hold together have a sigmoid each",
        severity="fail",
        find=several_labels,
        why="Softmax makes the classes compete: two labels of one sample push each other down, and "
        "outputs are no probabilities of a sigmoid.",
        fires=("cross_entropy(out, y.float()), and sigmoid(out) > 0.5 in the evaluation",),
        fix="BCEWithLogitsLoss.",
        sources=("torch-bce-logits",),
        needs=("sigmoid",),
    ),
    Rule(
        code="SCR379",
        slug="metric-of-one-epoch",
        title="A metric is of one epoch, and of what it counts",
        severity="fail",
        find=each_of(of_epoch, whole.of_process, averaged_norms, whole.of_all_processes),
        why="torchmetrics goes on counting until reset(); a count that all_reduce summed is of all "
        "processes.",
        fires=(
            "update() and compute() of a metric in the loop over epochs, or at the end of an epoch "
            "of Lightning, without reset()",
            "AveragedModel of a network with batch norm, evaluated without update_bn()",
            "a sum of all_reduce() divided by len(loader) or len(loader.sampler)",
            "all_reduce() of the mean of a process, and no division by the number of processes",
        ),
        fix="metric.reset() after compute(); divide by a count that is summed, too.",
        sources=("torch-distributed-sampler",),
        needs=("torchmetrics", "all_reduce", "AveragedModel"),
    ),
)  # fmt: skip
