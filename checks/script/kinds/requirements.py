"""Arguments of calls that take one kind."""

from __future__ import annotations

from dataclasses import dataclass

from doctor.checks.script.kinds.sources import ARRAYS
from doctor.checks.script.rule import Severity


@dataclass(frozen=True, slots=True)
class Requirement:
    """The argument `name` or `position` of `calls` is of one of the kinds `takes`, where its kind
    in the dimension of these is known; `dimension` where none is right.

    Position -1 is what a method is called on. `unless`: keywords with which it is not judged.
    """

    takes: tuple[str, ...]
    calls: str
    of: str
    name: str = ""
    position: int | None = None
    module: bool = False
    dimension: str = ""
    unless: tuple[str, ...] = ()
    alone: bool = False
    """Judged only where no argument follows by position."""
    named: bool = True
    """The name of a value is evidence enough, where only such values have it."""
    severity: Severity | None = None
    """Where it differs from the rule's: on one node both ranks are equal."""
    code: str = ""
    """Of the rule of another package that reports it."""
    when: tuple[str, ...] = ()
    """A keyword, and the texts of its value, "None" without it: judged with these alone."""


DISTRIBUTIONS = "Categorical Bernoulli OneHotCategorical RelaxedOneHotCategorical Multinomial"
LABELS = "f1_score accuracy_score precision_score recall_score confusion_matrix classification_report balanced_accuracy_score cohen_kappa_score jaccard_score matthews_corrcoef"  # noqa: E501
DIST = "torch.distributions"
FUNCTIONAL = "torch.nn.functional"
OPS = "torchvision.ops"
IOUS = (
    "box_iou generalized_box_iou distance_box_iou complete_box_iou generalized_box_iou_loss "
    "distance_box_iou_loss complete_box_iou_loss"
)
TRANSFORMS = "torchvision.transforms"

REQUIREMENTS = (
    Requirement(("logits",), "sigmoid_focal_loss", OPS, "inputs", 0),
    Requirement(("logits", "log-probabilities"), DISTRIBUTIONS, DIST, "logits", 1, code="SCR306"),
    Requirement(("probabilities",), DISTRIBUTIONS, DIST, "probs", 0),
    Requirement(("probabilities",), "multinomial", "torch", "input", 0),
    Requirement(("probabilities",), "bernoulli", "torch", "input", 0),
    Requirement(("probabilities",), "binary_cross_entropy", FUNCTIONAL, "input", 0),
    Requirement(("probabilities",), "BCELoss", "torch.nn", "input", 0, module=True),
    Requirement((), LABELS, "sklearn.metrics", "y_pred", 1, dimension="score"),
    Requirement(("class indices",), "confusion_matrix", "sklearn.metrics", "y_pred", 1),
    Requirement(("class indices",), "confusion_matrix", "sklearn.metrics", "y_true", 0),
    Requirement(("probabilities",), "log log2 log10", "torch numpy", "input", 0, named=False),
    Requirement(("probabilities",), "log log2 log10", "", position=-1, named=False),
    Requirement(("a mean", "one loss per element"), "exp", "torch math numpy", "input", 0),
    Requirement(("steps",), "*Arguments", "", "max_steps"),
    Requirement(("steps",), "*Arguments", "", "warmup_steps"),
    Requirement(("epochs",), "*Arguments", "", "num_train_epochs"),
    Requirement(("a standard deviation",), "Normal LogNormal", DIST, "scale", 1),
    Requirement(("a standard deviation",), "normal", "torch", "std", 1),
    Requirement(("a variance",), "gaussian_nll_loss", FUNCTIONAL, "var", 2),
    Requirement(("a variance",), "GaussianNLLLoss", "torch.nn", "var", 2, module=True),
    Requirement(("a variance",), "MultivariateNormal", DIST, "covariance_matrix", 1),
    Requirement(("training data",), "*Trainer", "", "train_dataset"),
    Requirement(("held-out data",), "*Trainer", "", "eval_dataset"),
    Requirement(("RGB", "gray"), "fromarray", "PIL.Image", "obj", 0, unless=("mode",), alone=True),
    Requirement(("RGB", "gray"), "imshow", "matplotlib.pyplot", "X", 0),
    Requirement(("BGR", "gray"), "imwrite", "cv2", "img", 1),
    Requirement(("BGR", "gray"), "imshow", "cv2", "mat", 1),
    Requirement(("0 to 255",), "fromarray", "PIL.Image", "obj", 0, unless=("mode",),
                alone=True),
    Requirement(("0 to 1",), "save_image", "torchvision.utils", "tensor", 0, unless=("normalize",)),
    Requirement(("0 to 1",), "normalize", f"{TRANSFORMS}.functional", "tensor", 0),
    Requirement(("channels last",), "fromarray", "PIL.Image", "obj", 0),
    Requirement(("channels last",), "imshow", "matplotlib.pyplot", "X", 0),
    Requirement(("channels last",), "imwrite", "cv2", "img", 1),
    Requirement(("channels last",), "resize cvtColor warpAffine", "cv2", "src", 0),
    Requirement(("channels first",), "conv2d max_pool2d avg_pool2d", FUNCTIONAL, "input", 0),
    Requirement(("channels first",), "save_image make_grid", "torchvision.utils", "tensor", 0),
    Requirement(("(width, height)",), "resize", "cv2", "dsize", 1),
    Requirement(("(height, width)",), "interpolate", FUNCTIONAL, "size", 1),
    Requirement(("(height, width)",), "resize center_crop", f"{TRANSFORMS}.functional", "size", 1),
    Requirement(("(height, width)",), "Resize CenterCrop RandomCrop", TRANSFORMS, "size", 0),
    Requirement(("xyxy",), "nms batched_nms", OPS, "boxes", 0),
    Requirement(("xyxy",), "box_area clip_boxes_to_image remove_small_boxes", OPS, "boxes", 0),
    Requirement(
        ("xyxy",), IOUS, OPS, "boxes1", 0
    ),
    Requirement(
        ("xyxy",), IOUS, OPS, "boxes2", 1
    ),
    Requirement(("xyxy",), "roi_align roi_pool", OPS, "boxes", 1),
    Requirement(("xyxy",), "draw_bounding_boxes", "torchvision.utils", "boxes", 1),
    Requirement(("radians",), "sin cos tan", ARRAYS, "x", 0),
    Requirement(("radians",), "degrees rad2deg", ARRAYS, "x", 0),
    Requirement(("degrees",), "radians deg2rad", ARRAYS, "x", 0),
    Requirement(("degrees",), "rotate", f"{TRANSFORMS}.functional", "angle", 1),
    Requirement(("degrees",), "affine", f"{TRANSFORMS}.functional", "angle", 1),
    Requirement(("degrees",), "RandomRotation RandomAffine", TRANSFORMS, "degrees", 0),
    Requirement(("degrees",), "getRotationMatrix2D", "cv2", "angle", 1),
    Requirement(("seconds",), "sleep", "time asyncio", "secs", 0),
    Requirement(("the global rank",), "init_process_group", "torch.distributed", "rank",
                severity="note"),
    Requirement(("all processes",), "init_process_group", "torch.distributed", "world_size"),
    Requirement(("all processes",), "DistributedSampler", "torch.utils.data", "num_replicas", 1,
                code="SCR381"),
    Requirement(("class indices",), "nll_loss", FUNCTIONAL, "target", 1),
    Requirement(("class indices",), "NLLLoss", "torch.nn", "target", 1, module=True),
    Requirement(("class indices",), "one_hot embedding", FUNCTIONAL, "input", 0),
    Requirement(("class indices",), "Embedding", "torch.nn", "input", 0, module=True),
    Requirement(("power",), "power_to_db", "librosa", "S", 0),
    Requirement(("amplitude",), "amplitude_to_db", "librosa", "S", 0),
    Requirement(("power",), "AmplitudeToDB", "torchaudio.transforms", "x", 0, module=True,
                when=("stype", "power", "None")),
    Requirement(("amplitude",), "AmplitudeToDB", "torchaudio.transforms", "x", 0, module=True,
                when=("stype", "magnitude")),
    Requirement(("decibels",), "mfcc", "librosa.feature", "S"),
    Requirement(("amplitude", "power"), "log log10 log1p log2", "torch numpy", "input", 0),
    Requirement(("amplitude", "power"), "log log10 log1p", "", position=-1),
    Requirement(("the share to drop",), "Dropout Dropout1d Dropout2d Dropout3d AlphaDropout",
                "torch.nn", "p", 0),
    Requirement(("the share to drop",), "dropout dropout2d alpha_dropout", FUNCTIONAL, "p", 1),
    Requirement(("the share to drop",), "DropPath", "timm", "drop_prob", 0),
    Requirement(("alphas",), "cumprod", "torch numpy", "input", 0),
    Requirement(("nats",), "exp", "torch math numpy", "input", 0, named=False),
)  # fmt: skip
KEYWORDS = {
    "key_padding_mask": "True for what is ignored",
    "src_key_padding_mask": "True for what is ignored",
    "tgt_key_padding_mask": "True for what is ignored",
    "memory_key_padding_mask": "True for what is ignored",
}
"""Keywords that mean the same in every call that has them."""
