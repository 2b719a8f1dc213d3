"""What the trials of the user's model show: changed samples, changed tokens, shapes, gradients."""

from __future__ import annotations

import re
from collections.abc import Sequence

from doctor.errors.tables import symptoms_inputs
from doctor.facts.own_model import Trial

FOUND = {
    "broadcast": (
        "the output of a Linear is compared with every target: {operation}",
        symptoms_inputs.AGAINST_ALL.fix,
    ),
    "crossed": (
        "a value for each sample meets another dimension, which has as many entries by chance, so "
        "that each sample gets the values of others: {operation}",
        "Give the values of the samples their own dimension: value[:, None, None, None] or "
        "value.view(-1, 1, 1, 1) beside [N, C, H, W], keepdim=True in a reduction, mask[:, None, "
        ":] beside [N, T, T]. With another batch size this line raises.",
    ),
    "rows": (
        "as many rows of a parameter or buffer are taken as there are samples, so that a sample "
        "gets the row of its place in the batch: {operation}",
        "Slice positions by the length of the sequence, its second dimension where the samples "
        "come first: pe[:, :x.size(1)] with a table [1, length, width]; the table [length, 1, "
        "width] of the PyTorch tutorial is for inputs [length, samples, width].",
    ),
    "samples": (
        "the output of a sample changes with another one of the batch: {operation}",
        "Normalize over the classes or keys: neither over the samples nor over an axis of size 1.",
    ),
    "samples exchanged": (
        "the output of a sample changes with another one of the batch: {operation}",
        "Exchange axes with transpose(0, 1): a view keeps the order of the values. Rows that were "
        "joined from [samples, steps] are view(samples, steps, -1).transpose(0, 1) with the steps "
        "first.",
    ),
    "samples as time": (
        "the output of a sample changes with another one of the batch: {operation}",
        "Pass batch_first=True where that layer is created: the samples come first in its input.",
    ),
    "offset": (
        "the output of a sample changes with another one of the batch, and the last sample is "
        "left out: {operation}",
        "Where the samples are flattened to [samples * nodes, width], the rows of sample i begin "
        "at i * nodes: index = node + sample * nodes, with the number of nodes per sample, not "
        "that of samples or neighbors.",
    ),
    "tokens": (
        "the prediction of a token changes with a later one: {operation}",
        "Mask the later tokens with nn.Transformer.generate_square_subsequent_mask(length): "
        "tgt_mask= of nn.Transformer and nn.TransformerDecoder, mask= of nn.TransformerEncoder, "
        "attn_mask= of nn.MultiheadAttention; is_causal=True of scaled_dot_product_attention. "
        "Unmasked, the loss falls because the model copies its labels.",
    ),
    "positions": (
        "the prediction of a token changes with a later one, from {operation} on, and no attention "
        "without a mask is the reason",
        "Look there for a mask in the wrong direction (a boolean attn_mask of "
        "nn.MultiheadAttention and nn.TransformerEncoder is True where attention is forbidden: "
        "triu(..., 1), that of scaled_dot_product_attention where it is allowed: tril), for heads "
        "that are merged without .transpose(1, 2) before the reshape, and for a convolution or a "
        "mean over time that is not causal. The loss falls because the model sees its labels.",
    ),
    "unshifted": (
        "the prediction of a token depends on the token itself, its label: {operation} compares "
        "the predictions with labels that are not shifted",
        "Predict the next token: the model gets ids[:, :-1] and the loss ids[:, 1:], or compare "
        "logits[:, :-1] with ids[:, 1:]. Otherwise the loss falls because the model copies what "
        "it gets.",
    ),
    "twice": (
        "the prediction of a token is compared with the token after the next one: the labels are "
        "shifted once in the data or in forward, and once more before {operation}",
        "Shift once, and drop the other one. A model of transformers shifts the labels itself: "
        "pass labels=input_ids, the same tokens at the same places, with -100 where nothing is to "
        "be learned. Shifted labels belong to a loss of your own that takes them as they are.",
    ),
    "alike": (
        "all rows of the similarities of the samples with one another have the same label, so that "
        "every sample is to match the same one: {operation}",
        "Give each row its own number as its label, torch.arange(len(logits)): sample i belongs to "
        "row i.",
    ),
    "map": (
        "the map of a convolution, [N, C, H, W], is cut into rows along its lines, so that each "
        "row holds values of one channel at several places: {operation}",
        "Put the channels last before the change of shape: x.permute(0, 2, 3, 1).reshape(...) with "
        "the same sizes.",
    ),
    "axes": (
        "a view has the shape that a transpose would have, and keeps the order of the values, so "
        "that each place holds a value of another one: {operation}",
        "Exchange axes with transpose() or permute(), and change the shape afterwards: "
        "x.permute(0, 3, 1, 2) for images [N, H, W, C]; x.view(N, T, heads, width).transpose(1, 2) "
        "to split heads, and x.transpose(1, 2).reshape(N, T, heads * width) to join them.",
    ),
    "patches": (
        "a view gives images the shape of their patches, and its rows are runs of the values of a "
        "channel, one line of pixels after the other: {operation}",
        "Move the axes between two reshapes: x.reshape(N, C, H // p, p, W // p, p)"
        ".permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2), or F.unfold(x, p, stride=p)"
        ".transpose(1, 2). The way back from patches to images is the same in the other order.",
    ),
    "queries": (
        "the weights of attention do not sum to 1 over what they are multiplied with: {operation}",
        "Normalize over the keys, the last dimension of the scores: scores.softmax(dim=-1).",
    ),
    "masked rows": (
        "a mask of attention is the same for all keys of a query, so that it hides none of them "
        "from the others: {operation}",
        "Give a mask of the keys the last dimension: mask[:, None, None, :], or "
        "mask.unsqueeze(1).unsqueeze(2), beside scores [N, heads, queries, keys].",
    ),
    "doubled": (
        "a residual sum adds a tensor to itself, and not what its block got: {operation}",
        "Keep the input of the block before its layers change it, residual = x, and add that: "
        "x = x + residual. Where twice the value is meant, write 2 * x.",
    ),
    "future": (
        "the predictions change with the last of the values that they are compared with: "
        "{operation}",
        "Compute the inputs, and statistics that normalize them, from the values before the ones "
        "to be predicted: series[:, :history].mean(1). The loss is too low otherwise, and no "
        "forecast has these values.",
    ),
    "rounding": (
        "the gradient consists of rounding errors, which float64 does not have: {operation}",
        "Look for what makes the loss independent of it: a weight that is divided by its own sum "
        "(with one expert, keep its probability: normalize for k > 1 only, or add a loss that "
        "balances the experts), a softmax or a norm over one value, a value that is subtracted "
        "again, or one for each channel, as of the time step, that is added before a GroupNorm "
        "with one channel per group, which removes it. An optimizer such as Adam enlarges rounding "
        "errors to full steps.",
    ),
    "penalty": (
        "almost all of the loss depends on the weights alone, and not on the batch: {operation}",
        "Lower the factor of the penalty until it is a small part of the loss at the start: 1e-5 "
        "to 1e-4 is usual for a sum of squares, or leave it to weight_decay of the optimizer. "
        "Divide a divergence of weights by the number of samples of the whole training set.",
    ),
    "last": (
        "the step raises with as few samples as the last batch of an epoch has, {operation}",
        "Take the number of samples from the input, x.size(0), where a view, a mask or a state "
        "is made, and make a recurrent state anew for each batch; or leave that batch out: "
        "drop_last=True in the DataLoader, which batch norms need if it has one sample. A loop "
        "that leaves it out itself needs nothing.",
    ),
    "functions": (
        "for a gradient of zeros, {operation} returns one that is not zero: it does not use what "
        "it is passed",
        "Multiply the derivative by grad_output, the argument of backward: return grad_output * "
        "derivative. What lies below gets a wrong gradient otherwise.",
    ),
    "dropout": (
        "values are dropped in eval(), too: {operation}",
        "Pass training=self.training to a dropout of torch.nn.functional, dropout_p=self.p if "
        "self.training else 0.0 to scaled_dot_product_attention, or use nn.Dropout, held as an "
        "attribute or in nn.ModuleList.",
    ),
    "buffers": (
        "an evaluation in eval() moves buffers that are saved: {operation}",
        "Update running statistics only if self.training, as batch norms do: evaluation changes "
        "the model otherwise.",
    ),
}
"""What a trial found -> its description, and its fix."""
ALONE = "Expected more than 1 value per channel"
ONE_SAMPLE = (
    "Leave the last batch out, drop_last=True in the DataLoader: a batch norm needs two samples. "
    "Or choose a batch size that leaves no single one, or GroupNorm or LayerNorm, which need none."
)
HEADS = (
    "What the axes stand for decides. To join heads, [N * heads, T, width]: x.view(N, heads, T, "
    "width).transpose(1, 2).reshape(N, T, heads * width), and to split them x.view(N, T, heads, "
    "width).transpose(1, 2).reshape(N * heads, T, width). Without heads, exchange the axes with "
    "transpose() or permute(): a view keeps the order of the values."
)
IF_FIRST = "; if samples come first in the batch: "
OVER_SAMPLES = re.compile(r"over the samples \(dim (\d+)\) of \[([\d, ]+)\]")
VIEWED = re.compile(r"\[([\d, ]+)\] as \[([\d, ]+)\]")
UNNAMED = {
    "samples": "the output of a sample changes with another one of the batch, as graphs, "
    "contrastive losses and experts want it, and a softmax over the wrong dimension does not",
    "tokens": "the prediction of a token changes with a later one, though each attention has a "
    "mask: look at its direction, and at what is reshaped before it",
}


def named(trials: Sequence[Trial]) -> tuple[str, str] | None:
    """The first that names an operation, as a clause and its fix."""
    for trial in trials:
        if trial.found in FOUND and trial.operation:
            text, fix = FOUND[_case(trial)]
            place = f" in {trial.place}" if trial.place else ""
            fix = ONE_SAMPLE if ALONE in trial.operation else fix
            fix = _along(trial.operation) or _exchange(trial) or fix
            return text.format(operation=trial.operation + place) + "; required: not so", fix
    return None


def _case(trial: Trial) -> str:
    if trial.found == "samples" and "without batch_first" in trial.operation:
        return "samples as time"
    exchanged = trial.found == "samples" and "exchanges axes" in trial.operation
    return "samples exchanged" if exchanged else trial.found


def _along(operation: str) -> str:
    """The remedy of a softmax over the samples where one other axis has several values; or ""."""
    sizes = OVER_SAMPLES.search(operation)
    each = sizes[2].split(", ") if sizes else []
    samples = int(sizes[1]) if sizes else 0
    rest = [axis for axis, size in enumerate(each) if axis != samples and size != "1"]
    if len(rest) != 1:
        return ""
    return f"Normalize along dim={rest[0]}, the only other axis of more than one value."


def _exchange(trial: Trial) -> str:
    """What to write in place of a view that has the shape of a transpose; "" if several fit."""
    sizes = VIEWED.search(trial.operation) if trial.found in ("axes", "map") else None
    if sizes is None:
        return ""
    before, after = (tuple(map(int, each.split(", "))) for each in sizes.groups())
    if _may_be_heads(before, after):
        return HEADS
    code = _exchanging(before, after)
    return f"Write {code} there, in place of the view, which keeps the order of the values." * bool(
        code
    )


def _may_be_heads(before: tuple[int, ...], after: tuple[int, ...]) -> bool:
    """[N * heads, T, C] as [N, T, heads * C], or the other way: only its sizes say [C, T, N]."""
    if len(before) != 3 or after != before[::-1]:
        return False
    small, large = sorted((before[0], before[2]))
    return small > 0 and large % small == 0


def _of_more_axes(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    """Frames that are joined with the samples, and taken apart again; rows that become a map."""
    if len(before) > 3 and after[:2] == (before[0] * before[2], before[1]):
        return f"x.transpose(1, 2).reshape(-1, {', '.join(map(str, after[1:]))})"
    if len(after) > 3 and before[:2] == (after[0] * after[2], after[1]):
        parts = ", ".join(map(str, (after[2], after[1], *after[3:])))
        return f"x.reshape(-1, {parts}).transpose(1, 2)"
    if len(after) == len(before) + 1 > 3 and (before[-1], before[-2]) == (
        after[-3],
        after[-2] * after[-1],
    ):
        return f"x.transpose(-2, -1).reshape({', '.join(map(str, ('x.size(0)', *after[1:])))})"
    return ""


def _exchanging(before: tuple[int, ...], after: tuple[int, ...]) -> str:
    if len(before) == len(after) == len(set(before)):
        order = [before.index(size) for size in after if size in before]
        return f"x.permute({', '.join(map(str, order))})" if len(order) == len(before) else ""
    rest = ", ".join(map(str, ("x.size(0)", *after[1:])))
    if len(before) == 4 and after[1:] == (before[2] * before[3], before[1]):
        return "x.flatten(2).transpose(1, 2)"
    if len(before) == 4 and after[1:] == (before[2], before[1] * before[3]):
        return f"x.transpose(1, 2).reshape({rest})"
    if len(before) == 3 and after[2:] == (before[1], before[2] // after[1]):
        return f"x.view(x.size(0), {before[1]}, {after[1]}, -1).transpose(1, 2)"
    if len(before) == 4 and len(after) == 2 and after[1] == before[1]:
        return f"x.permute(0, 2, 3, 1).reshape(-1, {after[1]})"
    return _of_more_axes(before, after)


def notes(trials: Sequence[Trial]) -> list[str]:
    """What was tried, and what was found without a cause that is known."""
    tried = [each.name for each in trials if each.applies]
    remarks = [
        f"note: {UNNAMED[each.found]}{IF_FIRST * bool(each.place)}{each.place}"
        for each in trials
        if each.found in UNNAMED and not each.operation
    ]
    unused = [each.operation for each in trials if each.found == "unused"]
    remarks += [f"note: the loss does not depend on {each} of the batch" for each in unused]
    return [*remarks, f"tried in a copy: {', '.join(tried)}"] if tried else remarks
