"""Calls, attributes and settings whose result has a kind for certain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

ARRAYS = "torch numpy scipy math jax.numpy"


class Row(Protocol):
    """A row about calls of these names; `module`: about calls of the objects that they make."""

    @property
    def calls(self) -> str: ...

    @property
    def module(self) -> bool: ...


R = TypeVar("R", bound=Row)


def by_call(rows: Iterable[R], *, module: bool) -> dict[str, list[R]]:
    """Rows of functions, or of objects, by the name of each call."""
    table: dict[str, list[R]] = defaultdict(list)
    for each in rows:
        if each.module == module:
            for name in each.calls.split():
                table[name].append(each)
    return dict(table)


@dataclass(frozen=True, slots=True)
class Source:
    """`calls` of the modules `of` ("" for methods of any object) make the `kinds`.

    `option` chooses others by the text of its value in `by`, where it is given; another value, or
    one that the file does not decide, makes none. `module`: calling the object does. `method`: a
    method of that name does, too.
    """

    kinds: tuple[str, ...]
    calls: str
    of: str = ""
    method: bool = False
    module: bool = False
    option: str = ""
    position: int | None = None
    by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


CV2 = ("BGR", "channels last", "0 to 255", "array")
GRAY = ("gray", "0 to 255", "array")
ROLES = {
    "True": ("training data",), "False": ("held-out data",), "train": ("training data",),
    "test": ("held-out data",), "validation": ("held-out data",), "val": ("held-out data",),
}  # fmt: skip
REDUCED = {
    "mean": ("a mean",), "sum": ("a sum",), "none": ("one loss per element",),
    "batchmean": ("a mean",),
}  # fmt: skip
LOSSES = "cross_entropy nll_loss binary_cross_entropy binary_cross_entropy_with_logits mse_loss l1_loss smooth_l1_loss kl_div huber_loss"  # noqa: E501
LOSS_MODULES = "CrossEntropyLoss NLLLoss BCELoss BCEWithLogitsLoss MSELoss L1Loss SmoothL1Loss KLDivLoss HuberLoss"  # noqa: E501
SETS = "CIFAR10 CIFAR100 MNIST FashionMNIST KMNIST QMNIST"
SPLIT_SETS = "SVHN STL10 ImageNet Food101 Flowers102 OxfordIIITPet StanfordCars GTSRB DTD CelebA FGVCAircraft"  # noqa: E501
DECODED = {
    "cv2.IMREAD_GRAYSCALE": GRAY, "0": GRAY, "cv2.IMREAD_COLOR": CV2, "1": CV2,
    "cv2.IMREAD_COLOR_RGB": ("RGB", *CV2[1:]), "cv2.IMREAD_UNCHANGED": (), "-1": (),
}  # fmt: skip

SOURCES = (
    Source(("probabilities", "0 to 1"), "sigmoid expit", "torch scipy", method=True),
    Source(("probabilities",), "softmax", "torch scipy", method=True),
    Source(("probabilities",), "Softmax Sigmoid", "torch.nn", module=True),
    Source(("log-probabilities",), "log_softmax logsigmoid", "torch scipy", method=True),
    Source(("log-probabilities",), "LogSoftmax LogSigmoid", "torch.nn", module=True),
    Source(("a variance",), "var", "torch numpy", method=True),
    Source(("a standard deviation",), "std", "torch numpy", method=True),
    Source((), SETS, "torchvision.datasets", option="train", position=1, by=ROLES),
    Source((), SPLIT_SETS, "torchvision.datasets", option="split", position=1, by=ROLES),
    Source(
        (), "ImageFolder DatasetFolder", "torchvision.datasets", option="root", position=0, by=ROLES
    ),
    Source((), "load_dataset", "datasets", option="split", by=ROLES),
    Source(CV2, "imread", "cv2", option="flags", position=1, by=DECODED),
    Source((), "imdecode", "cv2", option="flags", position=1, by=DECODED),
    Source(("PIL image", "0 to 255"), "open", "PIL.Image"),
    Source(("RGB", "channels first", "0 to 255", "tensor"), "read_image", "torchvision.io"),
    Source(("RGB", "channels last", "0 to 255", "array"), "imread", "imageio skimage"),
    Source(("-1 to 1",), "tanh", "torch", method=True),
    Source(("-1 to 1",), "Tanh", "torch.nn", module=True),
    Source(("radians",), "atan2 arctan2 atan arctan acos arccos asin arcsin", ARRAYS, method=True),
    Source(("radians",), "radians deg2rad", ARRAYS, method=True),
    Source(("degrees",), "degrees rad2deg", ARRAYS, method=True),
    Source(
        ("a fraction",),
        "accuracy_score balanced_accuracy_score f1_score precision_score recall_score "
        "roc_auc_score",
        "sklearn.metrics",
    ),
    Source(("seconds",), "time perf_counter monotonic process_time", "time"),
    Source(("seconds",), "default_timer", "timeit"),
    Source(("seconds",), "total_seconds", "", method=True),
    Source(("nanoseconds",), "time_ns perf_counter_ns monotonic_ns process_time_ns", "time"),
    Source(("milliseconds",), "elapsed_time", "", method=True),
    Source(
        ("bytes",),
        "memory_allocated max_memory_allocated memory_reserved max_memory_reserved",
        "torch.cuda torch.xpu",
    ),
    Source(("bytes",), "mem_get_info", "torch.cuda"),
    Source(("bytes",), "getsize getsizeof", "os.path sys"),
    Source(("bytes",), "element_size", "", method=True),
    Source(("the global rank",), "get_rank", "torch.distributed", option="group", position=0),
    Source(("all processes",), "get_world_size", "torch.distributed", option="group", position=0),
    Source(("the local rank",), "get_local_rank get_node_local_rank", "torch.distributed"),
    Source(("one-hot rows",), "one_hot", "torch"),
    Source(("class indices",), "argmax", "torch numpy", method=True),
    Source(("distances",), "pairwise_distance cdist", "torch"),
    Source(("distances",), "PairwiseDistance", "torch.nn", module=True),
    Source(
        ("distances",),
        "cdist",
        "scipy.spatial.distance",
        option="metric",
        position=2,
        by={"euclidean": ("distances",), "sqeuclidean": ("squared distances",)},
    ),
    Source(("distances",), "euclidean_distances", "sklearn.metrics"),
    Source(
        ("similarities",),
        "cosine_similarity cos_sim",
        "torch sklearn.metrics sentence_transformers.util",
    ),
    Source(("similarities",), "CosineSimilarity", "torch.nn", module=True),
    Source(("a mean",), LOSSES, "torch.nn.functional", option="reduction", by=REDUCED),
    Source(("a mean",), LOSS_MODULES, "torch.nn", module=True, option="reduction", by=REDUCED),
    Source(("nats",), "cross_entropy nll_loss", "torch.nn.functional"),
    Source(("nats",), "CrossEntropyLoss NLLLoss", "torch.nn", module=True),
    Source(
        ("power",),
        "Spectrogram MelSpectrogram",
        "torchaudio.transforms",
        module=True,
        option="power",
        by={"1": ("amplitude",), "2": ("power",), "None": ("complex spectrum",)},
    ),
    Source(("decibels",), "AmplitudeToDB", "torchaudio.transforms", module=True),
    Source(
        ("power",),
        "melspectrogram",
        "librosa.feature",
        option="power",
        by={"1": ("amplitude",), "2": ("power",)},
    ),
    Source(("complex spectrum",), "stft", "librosa torch", method=True),
    Source(("decibels",), "power_to_db amplitude_to_db", "librosa"),
)
ATTRIBUTES = {
    "logits": "logits", "attention_mask": "True for tokens", "total_memory": "bytes",
    "nbytes": "bytes", "process_index": "the global rank",
    "local_process_index": "the local rank",
}  # fmt: skip
"""Attributes of objects, and keys of batches, that have one meaning in the libraries."""
ENVIRONMENT = {
    "RANK": "the global rank", "SLURM_PROCID": "the global rank", "LOCAL_RANK": "the local rank",
    "SLURM_LOCALID": "the local rank", "WORLD_SIZE": "all processes",
    "LOCAL_WORLD_SIZE": "the processes of a node",
}  # fmt: skip
SPLITS = {
    "train": "training data", "test": "held-out data", "validation": "held-out data",
    "val": "held-out data", "dev": "held-out data", "valid": "held-out data",
}  # fmt: skip
COLORS = {"RGB": "RGB", "BGR": "BGR", "HSV": "HSV", "LAB": "LAB", "Lab": "LAB", "GRAY": "gray"}
"""In the names of cv2.cvtColor's codes."""
