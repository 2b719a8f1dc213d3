"""Rules on the test of the GPU that chooses a dtype."""

from __future__ import annotations

from collections.abc import Iterator

from doctor.checks.script import amp, evaluate
from doctor.checks.script.casts import HALVES, cast_dtype, casts_of, load_dtypes
from doctor.checks.script.rule import Match, Rule
from doctor.checks.script.training import Training
from doctor.facts.script import Arms, Call
from doctor.script.fixes import makers
from doctor.script.fixes.makers import Fix

PRECISION_WORDS = ("bf16", "fp16", "float16", "half", "amp", "precision", "dtype", "mixed", "capab")
NOT_TRAINED = (
    "ref", "reward", "teacher", "embed", "judge", "draft", "critic_ref", "vae", "text_enc",
)  # fmt: skip
TESTS = (
    "get_device_capability", "is_bf16_supported", "is_bf16_available", "is_bfloat16_supported",
    "is_torch_bf16_available", "is_torch_bf16_gpu_available", "is_ampere",
)  # fmt: skip


def has_capability_test(reading: Training) -> bool:
    """A test of the GPU or a helper that chooses the dtype."""
    return (
        any(not _only_reported(reading, number) for number in reading.methods(*TESTS))
        or reading.mentions(
            "bf16_supported",
            "bfloat16_supported",
            "support_bf16",
            "supports_bf16",
            "is_ampere",
            "bf16_ready",
            "has_bf16",
        )
        or (bool(reading.methods("get_device_properties")) and _compares_major(reading))
    )


def _compares_major(reading: Training) -> bool:
    """The major version of the GPU is compared, not only printed."""
    return any(
        "major" in name
        for each in reading.comparisons
        for side in (each.left, each.right)
        for name in side.all_names
    )


def bf16_unchecked(reading: Training) -> Iterator[Match]:
    if has_capability_test(reading):
        return
    below = reading.machine.capability is not None and reading.machine.capability < (8, 0)
    if reading.machine.capability is not None and not below:
        return
    for call, what in _bf16_literals(reading, by_name=below):
        if reading.is_flagged(call, *PRECISION_WORDS) or reading.is_evaluation(call):
            continue
        message = f"{what} requires a GPU of compute capability 8.0 or later"
        if below and reading.machine.capability:
            message += (
                f"; this one is {reading.machine.capability[0]}.{reading.machine.capability[1]}"
            )
        yield Match(call.span, message, "fail" if below else "note")


def _bf16_literals(reading: Training, by_name: bool) -> Iterator[tuple[Call, str]]:
    """Literal dtypes and bf16=True; `by_name`: also "bf16-mixed" and bfloat16()."""
    for number in amp.autocasts(reading):
        call = reading.calls[number]
        if amp.autocast_dtypes(reading, call) == {"bf16"}:
            yield call, "autocast in bf16"
    for number in reading.arguments:
        call = reading.calls[number]
        if evaluate.truth(reading, evaluate.argument(reading, call, "bf16"), call):
            yield call, "bf16=True"
    yield from _bf16_weights(reading, by_name)
    if by_name:
        yield from _named_precisions(reading)


def _bf16_weights(reading: Training, by_name: bool) -> Iterator[tuple[Call, str]]:
    for number, call in reading.numbered(reading.loads):
        trains = number <= reading.training_ends.get(call.scope, number)
        if trains and load_dtypes(reading, call) == {"bf16"}:
            yield call, "loading in bf16"
    for number in {n for trained in reading.trained for n in casts_of(reading, trained)}:
        call = reading.calls[number]
        if cast_dtype(reading, call) == {"bf16"} and (by_name or call.method == "to"):
            yield call, "a cast to bf16"


def _named_precisions(reading: Training) -> Iterator[tuple[Call, str]]:
    """mixed_precision="bf16" of accelerate, precision="bf16-mixed" of Lightning."""
    for call in reading.named("Accelerator", "Trainer", "Fabric"):
        for key in ("mixed_precision", "precision"):
            texts = evaluate.literals(reading, evaluate.argument(reading, call, key), call)
            if texts and all(isinstance(text, str) and "bf16" in text for text in texts):
                yield call, f"{key} bf16"


def emulated_check(reading: Training) -> Iterator[Match]:
    for number, call in reading.numbered(reading.methods("is_bf16_supported")):
        if not call.name.startswith("torch.cuda"):
            continue
        if call.args or call.keywords or call.statement or reading.is_evaluation(call):
            continue
        if _only_reported(reading, number) or _checks_capability(reading, call, number):
            continue
        message = "is_bf16_supported() is True on GPUs that only emulate bf16"
        yield Match(call.span, message)


def _only_reported(reading: Training, number: int) -> bool:
    """It is printed or asserted, and decides nothing."""
    users = [call for call in reading.calls if any(number in v.calls for v in call.values)]
    names = {call.method for call in users}
    return bool(names) and names <= {"print", "info", "debug", "warning", "log", "format", "str"}


def _checks_capability(reading: Training, call: Call, number: int) -> bool:
    """The same condition asks for the capability, too."""
    for branch in reading.branches:
        test = branch.test
        if test is not None and number in test.calls and "capability" in test.text:
            return True
    return any("capability" in test.text for test in reading.tests(call))


def loaded_before_branch(reading: Training) -> Iterator[Match]:
    tests = set(reading.methods("get_device_capability", "is_bf16_supported"))
    if not tests:
        return
    choices = [
        each
        for each in reading.assignments
        if (evaluate.dtype(reading, each.value) in HALVES and _chosen_by(reading, each.arms, tests))
        or (
            each.value.kind == "choice"
            and tests & set(each.value.calls)
            and any(evaluate.dtype(reading, item) in HALVES for item in each.value.items)
        )
    ]
    for trained in reading.trained:
        for number, call in reading.numbered(trained.lineage.calls):
            if number not in reading.loads or not load_dtypes(reading, call) <= HALVES:
                continue
            later = [c for c in choices if c.scope == call.scope and c.position > number]
            if load_dtypes(reading, call) and later and not call.arms:
                message = "the weights are loaded in a fixed dtype before the GPU is asked"
                yield Match(call.span, message)


def _chosen_by(reading: Training, arms: Arms, tests: set[int]) -> bool:
    for branch, _ in arms:
        test = reading.test_of(branch)
        if test is None:
            continue
        calls = set(test.calls)
        for name in test.all_names:
            for each in reading.assigned.get((0, name), ()):
                calls |= set(each.value.calls)
        if calls & tests:
            return True
    return False


RULES = (
    Rule(
        code="SCR114",
        slug="bf16-without-capability-check",
        title="bf16 is chosen after asking the GPU",
        severity="note",
        find=bf16_unchecked,
        training=True,
        why="GPUs below compute capability 8.0 (V100, T4, RTX 20xx) emulate bf16 slowly or refuse "
        "it. Which GPU a rental gives is known at run time only.",
        fires=("a literal bf16 without a test of the GPU or a flag that decides it",),
        errors=("the same on a machine whose GPU is below 8.0",),
        fix="Choose the autocast dtype by torch.cuda.get_device_capability() >= (8, 0): bf16 "
        "there, else fp16 with a GradScaler.",
        sources=("titan-matrix", "ps-P3"),
        fixes=Fix(makers.platform_dtype, safe=False),
    ),
    Rule(
        code="SCR115",
        slug="emulated-bf16-check",
        title="The test for bf16 leaves out emulation",
        severity="warn",
        find=emulated_check,
        training=True,
        why="Since torch 2.3 torch.cuda.is_bf16_supported() is True on Turing and Volta, which "
        "emulate bf16: training works, several times slower.",
        fires=("torch.cuda.is_bf16_supported() without arguments chooses a dtype",),
        fix="Call is_bf16_supported(including_emulation=False) (torch 2.4 and later) or compare "
        "get_device_capability() with (8, 0).",
        sources=("ps-P3",),
        fixes=Fix(makers.including_emulation),
    ),
    Rule(
        code="SCR117",
        slug="model-loaded-before-dtype-branch",
        title="The dtype is chosen before the weights are loaded",
        severity="warn",
        find=loaded_before_branch,
        training=True,
        why="A test of the GPU that comes after from_pretrained does not change the weights that "
        "were already loaded in a fixed dtype.",
        fires=("from_pretrained in a literal half dtype before the branch that chooses one",),
        fix="Move the test above from_pretrained, and let it choose the autocast dtype.",
        needs=("from_pretrained", "from_config", "from_single_file"),
        sources=("titan-why",),
    ),
)
