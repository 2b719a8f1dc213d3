"""Operations that keep a kind, and those that make another one of it."""

from __future__ import annotations

ALL = frozenset(
    """to cuda cpu clone detach contiguous float double half bfloat16 type type_as item
    requires_grad_ squeeze unsqueeze copy deepcopy expand expand_as int round bool clip clamp
    repeat gather_for_metrics all_reduce nan_to_num squeeze_ unsqueeze_ diag_embed diag astype long
    tolist data retain_grad pin_memory resize flip hflip vflip warpAffine GaussianBlur
    copyMakeBorder crop center_crop""".split()  # noqa: SIM905 - a table, read by people
)
"""Functions and methods that return what they get in another form: no kind is lost."""
RESHAPES = frozenset(("view", "reshape", "flatten", "permute", "transpose", "swapaxes", "moveaxis"))
"""They keep what is no order of axes."""
POOLS = frozenset(("median", "max", "min", "amax", "amin", "quantile", "nanmean"))
"""They keep units and scores, and lose places."""
JOINS = frozenset(("cat", "stack", "concat", "concatenate", "vstack", "hstack"))
KEPT_BY = {
    "mean": ("score", "distance", "time", "size", "angle", "range", "audio", "share",
             "information"),
    "sum": ("time", "size", "distance", "angle"),
    "abs": ("time", "size", "distance", "angle", "color", "layout", "form"),
}  # fmt: skip
"""Dimensions that these keep."""
LOST_BY = {
    "int": ("range",), "long": ("range",), "round": ("share", "score", "range"),
    "bool": ("range", "score"), "clip": ("range",), "clamp": ("range",), "astype": ("range",),
    "unsqueeze": ("form",), "unsqueeze_": ("form",), "all_reduce": ("reduction",),
    "tolist": ("form", "plane"),
}  # fmt: skip
FORMS = {
    "array": "array", "asarray": "array", "numpy": "array", "from_numpy": "tensor",
    "tensor": "tensor", "as_tensor": "tensor", "ascontiguousarray": "array",
    "fromarray": "PIL image", "to_pil_image": "PIL image",
}  # fmt: skip
"""They make an object of another class of the same pixels."""
MAKES = {
    ("exp", "log-probabilities"): "probabilities",
    ("exp", "a log-variance"): "a variance",
    ("exp", "a log standard deviation"): "a standard deviation",
    ("log", "probabilities"): "log-probabilities",
    ("log", "a variance"): "a log-variance",
    ("log", "a standard deviation"): "a log standard deviation",
    ("sqrt", "a variance"): "a standard deviation",
    ("sqrt", "squared distances"): "distances",
    ("sqrt", "power"): "amplitude",
    ("square", "a standard deviation"): "a variance",
    ("square", "distances"): "squared distances",
    ("square", "amplitude"): "power",
    ("abs", "complex spectrum"): "amplitude",
    ("mean", "matches"): "a fraction",
    ("mean", "one loss per element"): "a mean",
    ("sum", "one loss per element"): "a sum",
    ("complement", "the share to keep"): "the share to drop",
    ("complement", "the share to drop"): "the share to keep",
    ("complement", "similarities"): "distances",
    ("complement", "betas"): "alphas",
    ("complement", "a fraction"): "a fraction",
    ("complement", "probabilities"): "probabilities",
    ("complement", "True for tokens"): "True for what is ignored",
    ("complement", "True for what is ignored"): "True for tokens",
    ("negative", "similarities"): "distances",
    ("negative", "distances"): "similarities",
    ("negative", "radians"): "radians",
    ("negative", "degrees"): "degrees",
    ("cumprod", "alphas"): "running products of alphas",
}
"""What an operation makes of a kind: all other kinds are lost by it."""
OPERATIONS = {
    "exp": "exp", "log": "log", "sqrt": "sqrt", "square": "square", "abs": "abs", "mean": "mean",
    "sum": "sum", "logical_not": "complement", "neg": "negative", "absolute": "abs",
    "cumprod": "cumprod", "exp_": "exp", "sqrt_": "sqrt",
}  # fmt: skip
ORDERS = {
    ("2,0,1", "channels last"): "channels first", ("0,3,1,2", "channels last"): "channels first",
    ("1,2,0", "channels first"): "channels last", ("0,2,3,1", "channels first"): "channels last",
}  # fmt: skip
"""Orders of axes that move the channels."""
REMEDIES = {
    ("logits", "probabilities"): "softmax or sigmoid makes probabilities of logits",
    ("probabilities", "logits"): "pass the logits themselves, or use what takes probabilities",
    ("log-probabilities", "logits"): "pass the logits themselves",
    ("probabilities", "log-probabilities"): "use log_softmax in place of softmax",
    ("logits", "log-probabilities"): "use log_softmax",
    ("log-probabilities", "probabilities"): "use .exp(), or softmax in place of log_softmax",
    ("a log-variance", "a standard deviation"): "use (0.5 * logvar).exp()",
    ("a variance", "a standard deviation"): "use .sqrt()",
    ("a log standard deviation", "a standard deviation"): "use .exp()",
    ("a standard deviation", "a variance"): "use its square",
    ("a log-variance", "a variance"): "use .exp()",
    ("a log standard deviation", "a log-variance"): "use 2 * log_std",
    ("a log-variance", "a log standard deviation"): "use 0.5 * logvar",
    ("BGR", "RGB"): "use cv2.cvtColor(image, cv2.COLOR_BGR2RGB)",
    ("RGB", "BGR"): "use cv2.cvtColor(image, cv2.COLOR_RGB2BGR)",
    ("0 to 1", "0 to 255"): "multiply by 255, or leave the division out",
    ("-1 to 1", "0 to 1"): "use x * 0.5 + 0.5",
    ("-1 to 1", "0 to 255"): "use x * 127.5 + 127.5",
    ("standardized", "0 to 1"): "use x * std + mean",
    ("channels last", "channels first"): "use permute(2, 0, 1)",
    ("channels first", "channels last"): "use permute(1, 2, 0)",
    ("(width, height)", "(height, width)"): "use size[::-1]",
    ("(height, width)", "(width, height)"): "use shape[1::-1]",
    ("a width", "a height"): "exchange the two names",
    ("a height", "a width"): "exchange the two names",
    ("radians", "degrees"): "use math.degrees or torch.rad2deg",
    ("degrees", "radians"): "use math.radians or torch.deg2rad",
    ("a fraction", "percent"): "multiply by 100, or compare with a fraction",
    ("percent", "a fraction"): "divide by 100, or compare with percent",
    ("epochs", "steps"): "multiply by len(loader)",
    ("steps", "epochs"): "divide by len(loader), or rename it",
    ("the global rank", "the local rank"): 'use int(os.environ["LOCAL_RANK"])',
    ("the local rank", "the global rank"): 'use dist.get_rank() or int(os.environ["RANK"])',
    ("the processes of a node", "all processes"): "use dist.get_world_size()",
    ("one-hot rows", "class indices"): "use argmax(-1), or the indices themselves",
    ("class indices", "one-hot rows"): "use F.one_hot",
    ("True for tokens", "True for what is ignored"): "invert the mask: ~mask.bool()",
    ("True for what is ignored", "True for tokens"): "invert the mask: ~mask",
    ("similarities", "distances"): "use 1 - similarity",
    ("distances", "similarities"): "use the negative distance",
    ("squared distances", "distances"): "use sqrt()",
    ("distances", "squared distances"): "use the square",
    ("a mean", "a sum"): 'leave the division out, or use reduction="sum"',
    ("amplitude", "power"): "use the square, or the conversion for amplitudes",
    ("power", "amplitude"): "use the square root, or the conversion for power",
    ("decibels", "power"): "leave the second logarithm out",
    ("power", "decibels"): "use power_to_db",
    ("the share to keep", "the share to drop"): "use 1 - keep_prob",
    ("the share to drop", "the share to keep"): "use 1 - p",
    ("betas", "alphas"): "use 1 - betas",
    ("bits", "nats"): "use 2 ** bits, or leave the division by log(2) out",
    ("nats", "bits"): "use exp, or divide by math.log(2)",
    ("training data", "held-out data"): "use the held-out rows",
    ("held-out data", "training data"): "use the training rows",
}
"""How the first becomes the second."""


def remedy(given: str, wanted: str, *, units: bool = False) -> str:
    """The conversion, as a sentence."""
    text = REMEDIES.get((given, wanted))
    if text is None:
        text = f"convert {given} to {wanted}" if units else f"pass {wanted} in place of {given}"
    return text[:1].upper() + text[1:] + "."
