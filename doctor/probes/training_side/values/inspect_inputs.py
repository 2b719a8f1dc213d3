"""What is unusual in the inputs of an operation whose result is not finite.

One rule per kind of operation; an operation without a rule is described by the range of its inputs.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from ..foreign import Arguments, Foreign, Options


def remarks(
    name: str, result: torch.Tensor, args: Arguments, options: Options
) -> Tuple[List[str], bool]:
    """What explains the result, and whether that is certain: the operation is not defined there.

    Never raises.
    """
    if name in COMPOSITES:
        return [COMPOSITES[name]], True
    rule = RULES.get(name.rstrip("_"))
    first = args[0] if args and isinstance(args[0], torch.Tensor) else None
    try:
        lines = rule(first, args, options) if rule and first is not None else []
        lines = lines or _empty(first)
        if lines:
            return lines, True
        return _constants(args, options) or _invalid(args) or _overflow(result, args), False
    except Exception:
        return [], False


def count(condition: torch.Tensor) -> Tuple[int, int]:
    return int(condition.sum()), condition.numel()


LISTED = 3
"""Positions in a remark, at most; of more values only the number is reported."""


def positions(condition: torch.Tensor) -> str:
    """ ", at [3, 0]": the indices of the few values for which it holds, else ""."""
    bad, total = count(condition)
    square = condition.dim() > 1 and condition.shape[-1] == condition.shape[-2]
    if square and condition.shape[-1] == bad > 1 and bool(condition.diagonal(0, -2, -1).all()):
        return ", on the diagonal"
    if not condition.dim() or total == 1 or not 0 < bad <= LISTED or bad == total:
        return ""
    return ", at %s" % " and ".join(map(str, condition.nonzero().tolist()))


def values(condition: torch.Tensor, text: str, unit: str = "values") -> List[str]:
    """["3 of 64 values TEXT, at [3, 0]"], [] if there are none."""
    bad, total = count(condition)
    return ["%d of %d %s %s%s" % (bad, total, unit, text, positions(condition))] if bad else []


def not_positive(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    """For a logarithm: whether its invalid inputs are 0 or negative."""
    bad, negative = int((x <= 0).sum()), int((x < 0).sum())
    kind = {0: "all 0", bad: "all negative"}.get(negative, "%d negative" % negative)
    lines = values(x <= 0, "are 0 or less (%s)" % kind)
    return lines + [HALF] * (bool(lines) and x.dtype == torch.float16)


HALF = "in float16 an epsilon below 3e-8 is 0"


Rule = Callable[[torch.Tensor, Any, Dict[str, Any]], List[str]]


def outside(condition: Callable[[torch.Tensor], torch.Tensor], text: str) -> Rule:
    return lambda x, args, options: values(condition(x), text)


def divisor(x: Optional[torch.Tensor], args: Arguments, options: Options) -> List[str]:
    other = args[1] if len(args) > 1 else None
    if isinstance(other, torch.Tensor):
        lines = values(other == 0, "of the divisor are 0")
        return lines + [HALF] * (bool(lines) and other.dtype == torch.float16)
    return ["the divisor is 0"] if other == 0 else []


def rows(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    """For a softmax: rows that are -inf throughout, as a mask of all keys makes them."""
    dim = args[1] if len(args) > 1 and isinstance(args[1], int) else -1
    empty = (x == -math.inf).all(dim)
    masked = values(empty, "are -inf throughout: everything is masked there", "rows")
    return masked or values(x == math.inf, "are +inf")


def attention(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    """For a fused attention: rows of the additive mask that are -inf throughout."""
    masks = [options.get("attn_mask"), options.get("attn_bias"), *args[3:5]]
    for mask in masks:
        if isinstance(mask, torch.Tensor) and mask.dim() >= 2:
            empty = ~mask if mask.dtype == torch.bool else mask == -math.inf
            if lines := values(empty.all(-1), "of the mask hide every key", "rows"):
                return lines
    return []


def counted(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    """For the mean of a cross entropy: labels that all are ignored, or have a weight of 0."""
    target, weight, ignored = args[1], args[2], args[4]
    labels = target[target != ignored]
    if not labels.numel():
        return ["all %d labels are ignored" % target.numel()]
    if weight is not None and not bool(weight[labels].any()):
        return ["the weights of all %d labels that count are 0" % labels.numel()]
    return []


def product(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    other = args[1] if len(args) > 1 else None
    if isinstance(other, (int, float)):
        other = torch.tensor(float(other))
    if not isinstance(other, torch.Tensor):
        return []
    return values((x == 0) & other.isinf() | x.isinf() & (other == 0), "are 0 * inf")


def power(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    exponent = args[1] if len(args) > 1 else None
    if isinstance(exponent, torch.Tensor):
        fractional = exponent != exponent.round()
        lines = values((x < 0) & fractional, "are negative, raised to a fractional power")
        return lines or values((x == 0) & (exponent < 0), "are 0, raised to a negative power")
    if isinstance(exponent, (int, float)):
        if exponent < 0 and bool((x == 0).any()):
            return values(x == 0, "are 0, raised to the power %g" % exponent)
        if exponent != int(exponent):
            return values(x < 0, "are negative, raised to the power %g" % exponent)
    return []


def exponential(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    limit = math.log(torch.finfo(x.dtype).max)
    largest = float(x.max())
    if largest <= limit:
        return []
    name = str(x.dtype).replace("torch.", "")
    return ["exp overflows above %.4g in %s; the largest value is %.4g" % (limit, name, largest)]


def variance(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    correction = options.get("correction", 1)
    dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else range(x.dim())
    size = math.prod(x.shape[dim] for dim in dims)
    if correction is not None and size <= correction:
        return ["the unbiased variance of %d value is not defined" % size]
    return []


def log_sum(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    dims = args[1] if len(args) > 1 and isinstance(args[1], (list, tuple)) else [-1]
    empty = x == -math.inf
    for dim in sorted((each % max(x.dim(), 1) for each in dims), reverse=True):
        empty = empty.all(dim)
    return values(empty, "are -inf throughout: nothing is selected there", "rows")


def direction(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    """For a weight norm: rows of the direction whose norm is 0, by which it divides."""
    dim = args[2] if len(args) > 2 and isinstance(args[2], int) else 0
    norms = torch.linalg.vector_norm(x.movedim(dim, 0).flatten(1), dim=1)
    return values(norms == 0, "of the direction have a norm of 0, by which it divides", "rows")


def norm(x: torch.Tensor, args: Arguments, options: Options) -> List[str]:
    """For a batch norm: constant channels without an epsilon, a running variance below 0."""
    eps = next((each for each in reversed(args) if isinstance(each, float)), None)
    lines = []
    running = args[RUNNING_VARIANCE] if len(args) > RUNNING_VARIANCE else None
    if isinstance(running, torch.Tensor) and bool((running < 0).any()):
        lines += values(running < 0, "of the running variance are negative")
    if eps == 0.0:
        lines.append("eps is 0, so an input of constant values is divided by 0")
    return lines


COMPOSITES = {"logdet": "the determinant of the matrix is negative, or 0"}
"""Functions that make a NaN or -inf of their own for some inputs -> those inputs."""
RULES: Dict[str, Rule] = {
    "div": divisor, "true_divide": divisor, "remainder": divisor, "fmod": divisor,
    "reciprocal": outside(lambda x: x == 0, "are 0"), "log": not_positive, "log2": not_positive,
    "log10": not_positive, "log1p": outside(lambda x: x <= -1, "are -1 or less"),
    "sqrt": outside(lambda x: x < 0, "are negative"),
    "rsqrt": outside(lambda x: x <= 0, "are 0 or less"),
    "acos": outside(lambda x: x.abs() > 1, "are outside [-1, 1]"),
    "asin": outside(lambda x: x.abs() > 1, "are outside [-1, 1]"),
    "atanh": outside(lambda x: x.abs() >= 1, "are outside (-1, 1)"),
    "acosh": outside(lambda x: x < 1, "are below 1"),
    "erfinv": outside(lambda x: x.abs() >= 1, "are outside (-1, 1)"),
    "logit": outside(lambda x: (x <= 0) | (x >= 1), "are outside (0, 1)"),
    "lgamma": outside(lambda x: (x <= 0) & (x == x.floor()), "are whole numbers of 0 or less"),
    "digamma": outside(lambda x: (x <= 0) & (x == x.floor()), "are whole numbers of 0 or less"),
    "mul": product, "nll_loss_forward": counted, "nll_loss2d_forward": counted, "pow": power,
    "exp": exponential, "exp2": exponential, "expm1": exponential, "sinh": exponential,
    "cosh": exponential, "logsumexp": log_sum, "_weight_norm": direction,
    "_weight_norm_interface": direction, "_softmax": rows, "_log_softmax": rows,
    "_safe_softmax": rows, "softmax": rows, "log_softmax": rows, "var": variance, "std": variance,
    "var_mean": variance, "std_mean": variance, "native_batch_norm": norm,
    "_native_batch_norm_legit": norm, "native_layer_norm": norm, "native_group_norm": norm,
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "_scaled_dot_product_flash_attention": attention,
    "_scaled_dot_product_efficient_attention": attention,
    "_scaled_dot_product_cudnn_attention": attention,
    "_scaled_dot_product_fused_attention_overrideable": attention,
}  # fmt: skip


def culprit(name: str, args: Arguments, lines: Sequence[str] = ()) -> Optional[torch.Tensor]:
    """The input whose values explain the result; `lines` are the remarks on them."""
    if any(" already" in each for each in lines):
        return next((each for each in _flat(args) if not bool(torch.isfinite(each).all())), None)
    second = name.rstrip("_") in ("div", "true_divide", "remainder", "fmod")
    index = RUNNING_VARIANCE if any("running variance" in each for each in lines) else int(second)
    each = args[index] if len(args) > index else None
    return each if isinstance(each, torch.Tensor) else None


RUNNING_VARIANCE = 4
"""Its position among the arguments of a batch norm."""


def _constants(args: Arguments, options: Options) -> List[str]:
    """A number that is not finite in the code itself."""
    numbers = [each for each in (*args, *options.values()) if isinstance(each, float)]
    bad = [each for each in numbers if not math.isfinite(each)]
    return ["a constant in the code is %s" % bad[0]] if bad else []


def _invalid(args: Arguments) -> List[str]:
    """Inputs that are not finite themselves: values of the batch, of weights, or of a mask."""
    return next(filter(None, (invalid(each, "an input") for each in _flat(args))), [])


def invalid(value: torch.Tensor, name: str) -> List[str]:
    """How many of its values are not finite, and which; [] if all are."""
    if not value.is_floating_point():
        return []
    kinds = {"NaN": value.isnan(), "inf": value == math.inf, "-inf": value == -math.inf}
    there = " or ".join(kind for kind, condition in kinds.items() if bool(condition.any()))
    return values(~torch.isfinite(value), "of %s are %s already" % (name, there))


def _empty(first: Optional[torch.Tensor]) -> List[str]:
    return ["the tensor has no values"] if first is not None and not first.numel() else []


def _overflow(result: torch.Tensor, args: Arguments) -> List[str]:
    """The range of the inputs, and the limit of the result's dtype."""
    floats = [each for each in _flat(args) if each.is_floating_point() and each.numel()]
    if not floats:
        return []
    largest = max(float(each.detach().abs().max()) for each in floats)
    name = str(result.dtype).replace("torch.", "")
    limit = torch.finfo(result.dtype).max
    text = "the largest input is %.5g; %s holds up to %.5g" % (largest, name, limit)
    if not math.isfinite(largest):
        return []
    return [text] if bool((result.abs() == math.inf).any()) or largest > limit**0.5 else []


def _flat(value: Foreign) -> List[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for each in value for tensor in _flat(each)]
    return []
