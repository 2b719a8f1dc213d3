"""One rule for each family of dimensions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from doctor.checks.script.kinds.clashes import clashes
from doctor.checks.script.kinds.needs import needs_of
from doctor.checks.script.rule import Find, Match, Rule
from doctor.checks.script.training import WORDS, Training


class About(TypedDict):
    """What the rule of some dimensions has of them."""

    find: Find
    needs: tuple[str, ...]
    limits: str


def _about(*dimensions: str) -> About:
    def find(reading: Training) -> Iterator[Match]:
        table = reading.cached(clashes)
        for dimension in dimensions:
            yield from table.get(dimension, ())

    return About(find=find, needs=needs_of(*dimensions), limits=LIMITS)


LIMITS = "that values whose kind the file does not state are of the right one."
RULES = (
    Rule(
        code="SCR420",
        slug="kind-of-score",
        title="Logits, probabilities, variances and rates are used as what they are",
        severity="warn",
        **_about("score", "spread", "dropped", "noise", "information"),
        why="A loss of logits of probabilities, a normal distribution of a variance or a dropout "
        "of the share to keep raise no error: the loss falls, towards another optimum.",
        fires=(
            "softmax() of a model for a loss or a distribution that takes logits",
            "log_softmax() where probabilities are required, probabilities for nll_loss or kl_div",
            "a variance, a log-variance or a log standard deviation where a standard deviation is",
            "the share to keep as the p of a dropout",
            "cumprod() of betas, exp() of bits",
        ),
        fix="Convert the value, or pass the one that the call takes.",
        sources=("lightly-1341", "deep-uncertainty-estimation-5"),
    ),
    Rule(
        code="SCR421",
        slug="kind-of-rows",
        title="What is named for training or evaluation holds the rows of that part",
        severity="warn",
        **_about("role"),
        why="A test set that is read with train=True measures what the model has learned by heart, "
        "and a training on the test set is found by nobody.",
        fires=(
            "a name for held-out rows that gets the training split, and the reverse",
            'build_loader(self.train_set, "valid") where there is a valid_set',
        ),
        fix="Read the split that the name says.",
        sources=("detecto-37",),
    ),
    Rule(
        code="SCR422",
        slug="kind-of-image",
        title="Images have the order of channels and the range that is required",
        severity="warn",
        **_about("color", "range", "layout", "plane", "form"),
        why="OpenCV reads BGR and rows first, PIL gives (width, height), ToTensor() makes 0 to 1. "
        "An image in another order or range is a valid array, and the model learns or shows "
        "something else.",
        fires=(
            "cv2.imread() for PIL or matplotlib, RGB for cv2.imwrite() or a conversion from BGR",
            "an image from 0 to 1 that is divided by 255, or from -1 to 1 that is saved",
            "channels last for a convolution, channels first for imshow()",
            "width and height exchanged: of PIL's size, an array's shape, cv2.resize()",
        ),
        fix="Convert the image where it is read.",
        sources=("camerahmr-20",),
        words=(*WORDS, r"\bcv2\b", r"\bPIL\b", "torchvision"),
    ),
    Rule(
        code="SCR423",
        slug="kind-of-geometry",
        title="Boxes and angles have the form that is required",
        severity="warn",
        **_about("box", "angle"),
        why="(x, y, width, height) read as two corners is another box, and the cosine of degrees "
        "is a number like any other: overlaps and rotations are wrong without an error.",
        fires=(
            "boxes in xywh or cxcywh for nms() or box_iou()",
            "degrees for cos(), radians for rotate(), a name that states the other unit",
        ),
        fix="Convert with box_convert(), math.radians() or math.degrees().",
        sources=("owl-vit-object-detection-14",),
        words=(*WORDS, "torchvision"),
    ),
    Rule(
        code="SCR424",
        slug="kind-of-unit",
        title="Times, sizes, shares and counts have the unit that their names and calls state",
        severity="warn",
        **_about("time", "size", "share", "progress"),
        why="Milliseconds named seconds, bytes named GiB, percent compared with 0.9 and epochs "
        "passed as steps are wrong by factors of 100 to 10^9: measurements, thresholds and "
        "schedules mean something else.",
        fires=(
            "a name that states another unit of time or size than the call returns",
            "percent compared with a fraction, and the reverse",
            "epochs times len(loader) named epochs, warmup in epochs of a total in steps",
        ),
        fix="Convert the value, or name it for its unit.",
        sources=("setfit-137",),
    ),
    Rule(
        code="SCR425",
        slug="kind-of-rank",
        title="Ranks of a node and of the whole job are not exchanged",
        severity="warn",
        **_about("rank", "processes"),
        why="On one node both are equal. On two, a global rank names a GPU that is not there, and "
        "a sampler or a process group of local ranks gives two processes one place.",
        fires=(
            "get_rank() or RANK named local_rank, LOCAL_RANK as the rank of a sampler",
            "LOCAL_WORLD_SIZE as the world size",
        ),
        fix='LOCAL_RANK chooses the GPU, RANK and WORLD_SIZE the process.',
        sources=("llama-cookbook-90",),
    ),
    Rule(
        code="SCR426",
        slug="kind-of-label",
        title="Labels and masks have the form that is required",
        severity="warn",
        **_about("label", "mask"),
        why="A tokenizer's mask is 1 for tokens, a padding mask of torch is True for padding: "
        "inverted, attention sees the padding alone. One-hot rows read as indices are classes 0 "
        "and 1.",
        fires=(
            "attention_mask as key_padding_mask, a blocking mask where True means attend",
            "one-hot rows where class indices are required",
            "probabilities as the predicted labels of a metric",
        ),
        fix="~mask.bool() inverts a mask, argmax(-1) makes indices of rows.",
        sources=("torch-multihead", "torch-sdpa"),
    ),
    Rule(
        code="SCR427",
        slug="kind-of-distance",
        title="Distances, similarities and sums of losses are used as what they are",
        severity="warn",
        **_about("distance", "reduction"),
        why="A similarity of positives that is minimized, or the nearest by the largest distance, "
        "takes apart what belongs together; a mean divided by the batch size is a rate that "
        "depends on it.",
        fires=(
            "cosine_similarity() named a distance, cdist() named a similarity",
            "squared distances compared with distances",
            "backward() of the similarity of an anchor and its positive",
            "the nearest by argmax() of distances",
            "a mean that is divided by the batch's size before backward()",
        ),
        fix="1 - similarity is a distance; divide what is summed.",
        sources=("pytorch-metric-learning-454",),
    ),
    Rule(
        code="SCR428",
        slug="kind-of-spectrum",
        title="Spectra are amplitude, power or decibels as required",
        severity="warn",
        **_about("audio"),
        why="Decibels of an amplitude are half of those of its power, and the logarithm of "
        "decibels is NaN for all that is below 0 dB: features differ from those of every other "
        "program.",
        fires=(
            "power_to_db() of an amplitude, amplitude_to_db() of power",
            "a logarithm of decibels, mfcc(S=...) of a spectrum that is not in decibels",
        ),
        fix="power_to_db() for |S| ** 2, amplitude_to_db() for |S|.",
        sources=("librosa-1057",),
        words=(*WORDS, "librosa", "torchaudio"),
    ),
)  # fmt: skip
