"""What is proven of an error by the arguments of the call and by what was observed beside it."""

from __future__ import annotations

import re
import typing
from typing import Any

import msgspec
import pytest
from own_code import Well
from paths import ROOT

from doctor._util.records import Ended
from doctor.checks.training import own_failures
from doctor.checks.training.errors.explain import (
    OWN_PROOFS,
    PROOFS,
    PROPOSED,
    Explained,
    describe,
    explain,
    possible_causes,
)
from doctor.checks.training.errors.words import WORDS, words
from doctor.errors.causes import BY_ID
from doctor.errors.match import holds, with_message
from doctor.facts import observations as seen
from doctor.facts.diagnosis import Cut
from doctor.facts.own_model import BatchTensor, OwnModel
from doctor.facts.raised import Operand, Raised

PARENTS = {"NotImplementedError": ("RuntimeError",), "KeyError": ("LookupError",)}


def own(message: str = "", *seen_there: Any, batch: Any = (), **fields: Any) -> OwnModel:
    head = re.match(r"(\w+Error): ?", message)
    error = head[1] if head else "RuntimeError"
    raised = Raised(
        errors=(error, *PARENTS.get(error, ()), "Exception"),
        message=message[head.end() :] if head else message,
        observations=seen_there,
        **{"place": "train.py, line 5"} | fields,
    )
    ended = Ended(how="error", detail=message)
    return OwnModel(description="train.py:make", built=ended, raised=raised, batch=batch)


def tensor(text: str) -> Operand:
    """ "input [4, 8] int64 (fc.weight)"; float32 by default."""
    match = re.fullmatch(r"([\w\[\]]*?) ?\[([\d, ]*)\] ?(\w*)(?: \(([\w.]+)\))?", text)
    assert match, text
    sizes = tuple(int(each) for each in match[2].split(",") if each.strip())
    dtype = match[3] or "float32"
    return Operand(name=match[1], shape=sizes, dtype=dtype, device="cpu", parameter=match[4] or "")


def number(name: str, *values: int) -> Operand:
    return Operand(name=name, kind="int", value=str(values), numbers=values)


def ids(proven: tuple[Explained, ...]) -> list[str]:
    return [each.cause.id for each in proven]


def text(proven: tuple[Explained, ...]) -> str:
    return f"{proven[0].seen.cause}. {proven[0].fix}"


CALLS = {
    ("linear", "input [4, 1352]", "weight [5, 1568]"): "layer-size in_features=1352",
    ("linear", "input [4, 8, 5, 5]", "weight [5, 200]"): "linear-unflattened .flatten(1)",
    ("linear", "input [30, 64, 5, 3]", "weight [4, 128]"): "layer-size set in_features=960.",
    ("linear", "input [4, 14, 14, 96]", "weight [5, 128]"): "layer-size Set in_features=96",
    ("binary_cross_entropy", "input [4, 2]", "target [4]"): "outputs-and-targets CrossEntropy",
    ("linear", "input [4, 16, 50]", "weight [5, 16]"): "order-of-dimensions transpose(1, 2)",
    ("matmul", "[4, 7, 16]", "[4, 7, 16]"): "order-of-dimensions transpose(-2, -1)",
    ("mm", "[4, 3]", "[5, 6]"): "layer-size inner sizes are 3 and 5",
    ("conv1d", "input [4, 50, 6]", "weight [8, 6, 3]"): "order-of-dimensions transpose(1, 2)",
    ("conv2d", "input [4, 16, 16, 3]", "weight [8, 3, 3, 3]"):
        "order-of-dimensions permute(0, 3, 1, 2)",
    ("conv2d", "input [6, 28, 28]", "weight [8, 1, 3, 3]"): "missing-dimension unsqueeze(1)",
    ("conv2d", "input [6, 32, 9, 9]", "weight [8, 16, 3, 3]"): "layer-size in_channels=32",
    ("conv2d", "input [4, 24, 16, 16]", "weight [8, 16, 3, 3]"): "layer-size in_channels=24",
    ("conv2d", "input [4, 16, 16, 24]", "weight [8, 24, 3, 3]"):
        "order-of-dimensions permute(0, 3, 1, 2)",
    ("batch_norm", "input [4, 7, 16]", "running_mean [16]"): "order-of-dimensions transpose(1, 2)",
    ("batch_norm", "input [4, 8, 5, 5]", "running_mean [16]"): "layer-size num_features=8",
    ("layer_norm", "input [4, 8, 5, 5]", "weight [8]"): "order-of-dimensions nn.GroupNorm",
    ("conv_transpose2d", "[2, 8, 8, 8]", "[4, 8, 2, 2]"): "layer-size in_channels=8",
    ("cat", "tensors[0] [2, 8, 25, 25]", "tensors[1] [2, 8, 24, 24]"): "odd-images F.interpolate",
    ("cat", "tensors[0] [2, 8]", "tensors[1] [3, 5]"): "joined-sizes differ in dimension 1",
    ("multi_head_attention_forward", "query [6, 9, 32]", "key [5, 9, 48]", "value [5, 9, 48]",
     "in_proj_weight [96, 32]"): "layer-size kdim=48, vdim=48",
    ("stack", "tensors[0] [3, 8]", "tensors[1] [3, 9]"): "joined-sizes differ in dimension 1",
    ("masked_fill", "[3, 4, 7, 7]", "[3, 7] bool"): "missing-dimension x[:, None, None]",
    ("mul", "[6, 16, 16, 16]", "[6, 16]"): "missing-dimension x[:, :, None, None]",
    ("add", "[4, 12, 16]", "[1, 8, 16] float32 (positions)"): "short-parameter positions has 8",
    ("masked_fill", "[12, 10, 10]", "[3, 10, 10] bool"): "differing-sizes interleave(4, dim=0)",
    ("masked_fill", "[12, 10, 10]", "[5, 10, 10] bool"): "differing-sizes Make these sizes equal",
    ("add", "[4, 8, 12, 12]", "[4, 8, 6, 6]"): "differing-sizes same stride",
    ("add", "[9, 32, 8, 8]", "[9, 16, 16, 16]"):
        "differing-sizes nn.Conv2d(16, 32, kernel_size=1, stride=2)",
    ("add", "[9, 32, 16, 16]", "[9, 16, 16, 16]"): "differing-sizes kernel_size=1, stride=1)",
    ("add", "[9, 32, 5, 5]", "[9, 32, 7, 7]"): "differing-sizes Make these sizes equal",
    ("mul", "[9, 32, 8, 8]", "[9, 16, 16, 16]"): "differing-sizes Make these sizes equal",
    ("add", "[9, 20, 32]", "[9, 20, 16]"): "differing-sizes Make these sizes equal",
    ("mul", "[4, 7, 5]", "[4, 5, 7]"): "order-of-dimensions transpose(-2, -1)",
    ("__getitem__", "self [4, 8, 31]", "key [4, 9] bool"): "differing-sizes 8 against 9",
    ("scaled_dot_product_attention", "query [3, 4, 7, 8]", "key [3, 4, 7, 8]",
     "attn_mask [3, 7] bool"): "missing-dimension attn_mask[:, None, None]",
    ("cross_entropy", "input [4, 8, 31]", "target [4, 8] int64"):
        "order-of-dimensions transpose(1, 2)",
    ("cross_entropy", "input [4, 5, 9]", "target [9, 4] int64"):
        "order-of-dimensions target.transpose(0, 1)",
    ("cross_entropy", "input [6, 5]", "target [6, 5] int64"): "dtype-of-labels argmax(1)",
    ("cross_entropy", "input [6, 5]", "target [6, 1] int64"): "extra-dimension squeeze(1)",
    ("cross_entropy", "input [6, 5]", "target [6] int32"): "dtype-of-labels .long()",
    ("cross_entropy", "input [32, 5]", "target [4, 8] int64"): "rows-and-labels .flatten()",
    ("cross_entropy", "input [32, 10]", "target [8] int64"): "rows-and-labels 4 for each",
    ("binary_cross_entropy", "input [6, 1]", "target [6]"): "extra-dimension squeeze(1)",
    ("binary_cross_entropy", "input [6, 1]", "target [6, 1] int64"): "dtype-of-labels .float()",
    ("mse_loss", "input [6, 5]", "target [6]"): "outputs-and-targets out_features=1",
    ("mse_loss", "input [6, 8, 5]", "target [6, 8, 2]"): "outputs-and-targets out_features=2",
    ("mse_loss", "input [8, 1, 32, 32]", "target [8, 1, 28, 28]"):
        "outputs-and-targets output[..., :28, :28]",
    ("l1_loss", "input [8, 2, 14, 14]", "target [8, 1, 28, 28]"):
        "outputs-and-targets (out_channels=1)",
    ("mse_loss", "input [6, 30, 5]", "target [6, 10, 5]"): "outputs-and-targets Where it has",
    ("mse_loss", "input [8, 4, 100]", "target [8, 2, 100]"):
        "outputs-and-targets (out_channels=2)",
    ("l1_loss", "input [8, 100, 4]", "target [8, 7, 4]"): "outputs-and-targets depends on the task",
    ("binary_cross_entropy", "input [8, 10, 28, 28]", "target [8, 1, 28, 28]"):
        "outputs-and-targets target.squeeze(1).long()",
    ("mse_loss", "input [8, 3, 32, 32]", "target [8, 28, 28, 3]"):
        "outputs-and-targets target.permute(0, 3, 1, 2), then",
    ("cross_entropy", "input [8, 1]", "target [8, 1] int64"):
        "dtype-of-labels over one output cross_entropy is always 0",
    ("cross_entropy", "input [8, 1, 9, 9]", "target [8, 1, 9, 9] int64"):
        "dtype-of-labels binary_cross_entropy_with_logits",
    ("cross_entropy", "input [8, 5]", "target [8, 5] int64"):
        "dtype-of-labels have several or none",
    ("cross_entropy", "input [8, 7, 5]", "target [8, 7, 5] int64"):
        "dtype-of-labels logits.transpose(1, 2) of [samples",
    ("multi_head_attention_forward", "query [4, 10, 32]", "key [4, 32, 49]", "value [4, 32, 49]",
     "in_proj_weight [96, 32]"): "layer-size key.transpose(1, 2)",
    ("add", "[4, 8, 20, 20]", "[4, 8, 10, 10]"): "differing-sizes cut a mask or a bias",
    ("sub", "[60000, 1]", "[60000]"): "memory-of-a-broadcast 3,600,000,000 values",
    ("cross_entropy", "input [32, 32]", "target [16] int64"): "rows-and-labels arange(n) + n",
    ("embedding", "input [4, 8]", "weight [9, 3]"): "embedding-of-floats .long()",
    ("conv2d", "input [4, 3, 8, 8] uint8", "weight [4, 3, 3, 3]"): "images-of-bytes / 255",
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_the_arguments_of_a_call_prove_its_cause_whatever_the_message_is(call: Any) -> None:
    function, *operands = call
    cause, _, part = CALLS[call].partition(" ")
    arguments = tuple(map(tensor, operands))
    proven = explain(own("other words", function=function, operands=arguments))
    assert proven[0].cause.id == cause
    assert part in text(proven)


NUMBERS = {
    ("view", 32, 144): ("[10, 4, 6, 6]", "view-size x.size(0)"),
    ("view", 4, 7, 3, 5): ("[4, 7, 16]", "view-size needs 420"),
    ("reshape", -1, 7): ("[4, 10]", "view-size a multiple of 7"),
    ("view", -1, 3136): ("[16, 64, 8, 8]", "view-size set in_features=4096"),
    ("view", 16, 300): ("[16, 10, 20]", "view-size set in_features=200"),
    ("view", -1, 3072): ("[2, 5, 3, 36, 36]", "view-size Choose sizes"),  # rows of frames
    ("view", -1, 1024): ("[2, 5, 28, 28]", "view-size Choose sizes"),
    ("view", -1, 21): ("[4, 8, 8, 20]", "view-size Choose sizes"),  # of pixels
    ("view", -1, 64): ("[2, 7, 4, 15]", "view-size Choose sizes"),  # of heads
    ("view", 4, 9): ("[4, 9, 31]", "view-size Choose sizes"),
    ("view", -1, 32): ("[4, 10, 31]", "view-size Choose sizes"),  # rows of tokens
    ("expand", 2, 20): ("[1, 16]", "differing-sizes does not expand to [2, 20]"),
    ("expand", 4, 8): ("[4]", "missing-dimension unsqueeze(1)"),
    ("permute", 0, 2, 1): ("[4, 2, 2, 2]", "number-of-dimensions 4 dimensions"),
}


@pytest.mark.parametrize("call", NUMBERS)
def test_whole_numbers_among_the_arguments_are_read(call: Any) -> None:
    function, *numbers = call
    x, expected = NUMBERS[call]
    cause, _, part = expected.partition(" ")
    arguments = (tensor(x), *(number(" " * n, each) for n, each in enumerate(numbers, 1)))
    proven = explain(own("", function=function, operands=arguments))
    assert proven[0].cause.id == cause
    assert part in text(proven)


@pytest.mark.parametrize(
    ("shapes", "axis", "part"),
    [
        (("[30, 1, 4]", "[30, 3]"), 1, "x.squeeze(1) for those of [30, 1, 4]"),
        (("[8, 1, 16]", "[8, 5]"), -1, "[8, 1, 5], or x.squeeze(1)"),  # one step of a decoder
        (("[8, 7, 16]", "[8, 16]"), 1, "Write x.unsqueeze(1) for those of [8, 16]: [8, 1, 16]."),
        (("[8, 1, 16]", "[8, 16]"), 1, "[8, 1, 16], or x.squeeze(1)"),
        (("[8, 1, 9, 9]", "[8, 9, 9]"), 1, "Write x.unsqueeze(1) for those of [8, 9, 9]"),
        (("[8, 7, 16]", "[8, 7]"), 2, "[8, 7, 1], or x[:, None].expand(-1, 7, -1)"),
        (("[8, 7, 16]", "[8, 5]"), 2, "x[:, None].expand(-1, 7, -1)"),
        (("[8, 7, 16]", "[8, 5]"), 1, "keep the one that is missing"),
        (("[1, 7, 16]", "[4, 16]"), 0, "keep the one that is missing"),
        (("[8, 3, 7, 16]", "[8, 5]"), -1, "keep the one that is missing"),
    ],
)
def test_tensors_of_two_numbers_of_dimensions(shapes: Any, axis: int, part: str) -> None:
    tensors = (*(tensor(f"tensors[{n}] {each}") for n, each in enumerate(shapes)),
               number("dim", axis))  # fmt: skip
    record = own(
        "RuntimeError: Tensors must have same number of dimensions: got 3 and 2",
        function="cat",
        operands=tensors,
    )
    assert part in fix_of(record)


LINE = seen.Line(place="a.py, line 2", code="y += 1")
LAYOUT = seen.Layout(
    batch_first=False,
    inputs={"input": (4, 7, 12), "hx": (1, 4, 16)},
    options={"input_size": 10, "hidden_size": 16, "num_layers": 1},
)
RANGE = seen.IndexRange(
    least=0, size=5, low=-100, high=-100, some=(-100,), outside=3, values=9, distinct=1
)
VIOLATION = seen.Violation(
    distribution="Normal", parameter="scale", constraint="GreaterThan(lower_bound=0.0)",
    violations=3, checked=8, unit="values", low=-2.0, high=-1.0,
)  # fmt: skip
FUNCTION = seen.OwnFunction(
    name="Scale", place="a.py, line 3", backward="a.py, line 9", parameters=("ctx", "x", "factor"),
    arguments=("x", "factor"), shapes=((6, 5), None), applied=LINE, outputs=2,
)  # fmt: skip
DISTRIBUTION = "ValueError: Expected parameter"
TWICE = "Trying to backward through the graph a second time"
OBSERVED: dict[str, tuple[Any, str]] = {
    "TypeError: layer_norm(): argument 'input' (position 1) must be Tensor, not NoneType": (
        seen.Returned(module="encoder", kind="Encoder", value="None"),
        "module-without-return forward of Encoder"),
    "AttributeError: 'NoneType' object has no attribute 'unsqueeze'": (
        seen.NoneValue(name="mask", function="forward"), "value-is-none Pass mask to"),
    "TypeError: 'NoneType' object is not iterable": (
        seen.NoneValue(name="rows"), "value-is-none None: rows"),
    "TypeError: linear(): argument 'input' (position 1) must be Tensor, not tuple": (
        seen.Returned(module="0", kind="LSTM", value="tuple"), "module-returns-tuple x[0]"),
    "ValueError: too many values to unpack (expected 2)": (
        seen.Parts(name="edges", count=90, shape=(90, 2)), "unpacked-rows edges.t()"),
    "ValueError: not enough values to unpack (expected 3, got 2)": (
        seen.Parts(name="pair", count=2, parts=("1", "2")), "unpacked-rows pair has 2 parts"),
    "KeyError: 'label'": (
        seen.Missing(kind="key", name="", owner="batch", members=("x", "labels")),
        "missing-key batch has the keys x, labels"),
    "AttributeError: 'Net' object has no attribute 'fc2'": (
        seen.Missing(kind="attribute", name="fc2", owner="Net", similar=("fc1",)),
        "attribute-missing Net has fc1"),
    "NameError: name 'optmizer' is not defined": (
        seen.Missing(kind="name", name="optmizer", similar=("optimizer",)),
        "name-undefined there is optimizer"),
    "TypeError: MLP.forward() missing 1 required positional argument: 'y'": (
        seen.Signature(accepts=("x", "y"), needs=("x", "y"), of_model=True),
        "arguments-of-forward it accepts x, y"),
    "TypeError: f() got an unexpected keyword argument 'c'": (
        seen.Signature(accepts=("a",), passed=("c",)), "call-arguments it accepts a; it got c"),
    "TypeError: 'bool' object is not callable": (
        seen.Variable(name="train", kind="attribute"), "not-callable train is an attribute"),
    "IndexError: list index out of range": (
        seen.Sample(index=5, dataset="Rows", length=8), "index-of-list Rows has 8 samples"),
    "ValueError: Tried to step 3 times. The specified number of total steps is 2": (
        seen.Schedule(kind="OneCycleLR", numbers={"total_steps": 2}),
        "schedule-end OneCycleLR with total_steps=2"),
    "IndexError: index -100 is out of bounds": (
        RANGE, "ignored-label-as-index labels == -100"),
    "IndexError: index 7 is out of bounds": (
        msgspec.structs.replace(RANGE, low=5, high=7, some=(5, 7), distinct=2),
        "index-out-of-range 3 of 9 values are 5, 7; allowed are 0 to 4"),
    f"{DISTRIBUTION} scale": (VIOLATION, "distribution-parameters 3 of 8 values of scale"),
    f"{DISTRIBUTION} probs": (
        msgspec.structs.replace(VIOLATION, constraint="Simplex()"),
        "distribution-parameters softmax"),
    f"{DISTRIBUTION} matrix": (
        msgspec.structs.replace(VIOLATION, constraint="PositiveDefinite()", unit="rows", low=None),
        "distribution-parameters scale_tril"),
    "ValueError: Expected value argument": (
        msgspec.structs.replace(VIOLATION, parameter="value"),
        "sample-outside-support Number actions"),
    "RuntimeError: one of them has been modified by an inplace operation": (
        seen.Saved(operation="Sigmoid", line=LINE, changed=(LINE,)),
        "value-changed-in-place a.py, line 2 (`y += 1`) changes"),
    "RuntimeError: modified by an inplace operation: [16, 1]": (
        seen.Saved(operation="Addmm", line=LINE, changed=(LINE,), parameters=("fc.weight",)),
        "parameter-changed-before-backward fc.weight"),
    f"RuntimeError: {TWICE}": (seen.BackwardCall(line=LINE), "backward-in-the-loss a.py, line 2"),
    f"RuntimeError: {TWICE}  ": (
        seen.KeptGraph(names=("hidden",), where="training"),
        "graph-of-another-step Detach hidden"),
    f"RuntimeError: {TWICE}   ": (
        seen.KeptGraph(names=("table",), where="once"),
        "graph-of-another-step Compute table anew in each forward pass"),
    "TypeError: Scale.backward() takes 2 positional arguments but 3 were given": (
        FUNCTION, "gradients-of-own-function backward(ctx, grad_0, grad_1) of Scale"),
    "KeyError: 'mask'": (
        seen.AbsentInSamples(fields=("mask",), samples=(2,)),
        "absent-in-samples sample 2 lacks mask"),
    "TypeError: object of type 'NoneType' has no len()": (
        seen.AbsentInSamples(fields=(), samples=(3,), none=True),
        "absent-in-samples sample 3 is None"),
    "RuntimeError: stack expects each tensor to be equal size, but got [3] and [4]": (
        seen.UnequalSamples(field="'words'", sizes=((3,), (4,))),
        "unequal-samples 'words' of the samples: [3], [4]"),
    "RuntimeError: input.size(-1) must be equal to input_size. Expected 10, got 12": (
        LAYOUT, "recurrent-state batch_first=True"),
    "ValueError: some parameters appear in more than one parameter group": (
        seen.SharedParameters(names=("head.weight",)), "shared-parameters head.weight"),
    "RuntimeError: The size of tensor a (4) must match the size of tensor b (8)": (
        seen.OptimizerState(optimizer="AdamW", key="exp_avg", parameter="fc.weight", shape=(4,),
                            required=(8,)), "state-of-another-optimizer exp_avg of fc.weight"),
    "KeyError: 'momentum'": (
        seen.OptimizerGroups(optimizer="SGD", absent=("momentum",), others=("betas",)),
        "state-of-another-optimizer SGD lack momentum and have betas"),
    "RuntimeError: Error(s) in loading state_dict for Net: Unexpected key(s) in state_dict": (
        seen.StateKeys(missing=("fc.weight",), unexpected=("epoch", "model")),
        "state-dict-keys checkpoint['model']"),
    "RuntimeError: Error(s) in loading state_dict for Net:": (
        seen.StateKeys(missing=("a.weight",), unexpected=("module.a.weight",)),
        "prefixed-keys removeprefix('module.')"),
    "RuntimeError: Error(s) in loading state_dict for Net: ": (
        seen.StateKeys(missing=("net.a.weight",), unexpected=("a.weight",)),
        "prefixed-keys model.net.load_state_dict"),
    "RuntimeError: Error(s) in loading state_dict for Net: Missing key(s) in state_dict": (
        seen.StateKeys(missing=("norm.weight",)), "state-dict-keys the file lacks norm.weight"),
    "ValueError: You must specify exactly one of input_ids or inputs_embeds": (
        seen.TransformerInputs(refused=True, decoder=True, smooths_labels=True),
        "decoder-without-inputs takes the labels out"),
    "ValueError: You cannot specify both input_ids and inputs_embeds at the same time": (
        seen.TransformerInputs(refused=True, ids=True, embeddings=True),
        "ids-and-embeddings the model gets both"),
    "ValueError: You must specify exactly one of input_ids or inputs_embeds ": (
        seen.TransformerInputs(refused=True), "ids-and-embeddings Pass input_ids"),
}  # fmt: skip


@pytest.mark.parametrize("message", OBSERVED)
def test_what_was_observed_proves_a_cause(message: str) -> None:
    observation, expected = OBSERVED[message]
    cause, _, part = expected.partition(" ")
    proven = explain(own(message, observation))
    assert proven[0].cause.id == cause
    assert part in text(proven)
    bystander = explain(own("SystemError: " + message.partition(": ")[2], observation))
    assert cause not in ids(bystander)


ARGUMENTS = {
    ("TypeError", "linear(): argument 'input' (position 1) must be Tensor, not numpy.ndarray"):
        (Operand(name="input", kind="ndarray", shape=(6, 8)), "no-tensor from_numpy"),
    ("TypeError", "cross_entropy_loss(): argument 'target' must be Tensor, not tuple"):
        (Operand(name="target", kind="tuple", value="('cat', 'dog')"), "no-tensor names.index"),
    ("TypeError", "'method' object is not iterable"):
        (Operand(name="params", kind="method", value="method object"), "no-parameters parentheses"),
    ("RuntimeError", "a leaf Variable that requires grad is being used in an in-place operation."):
        (tensor("x [4] float32 (first.weight)"), "parameter-changed-in-place first.weight"),
}  # fmt: skip


@pytest.mark.parametrize("error", ARGUMENTS)
def test_an_argument_of_another_kind_counts_where_the_message_proposes_it(error: Any) -> None:
    operand, expected = ARGUMENTS[error]
    cause, _, part = expected.partition(" ")
    fields = {"function": "clamp_", "operands": (operand,)}
    proven = explain(own(f"{error[0]}: {error[1]}", **fields))
    assert proven[0].cause.id == cause
    assert part in text(proven)
    assert explain(own(f"{error[0]}: of another matter", **fields)) == ()


MIXED = {
    "mat1 and mat2 must have the same dtype, but got Double and Float":
        ("linear", "input [4, 8] float64", "weight [5, 8] float32", "dtype-mismatch"),
    "index_add_(): self (Float) and source (BFloat16) must have the same scalar type":
        ("index_add_", "[4, 16]", "[9, 16] bfloat16", "dtype-mismatch"),
}  # fmt: skip


@pytest.mark.parametrize("message", MIXED)
def test_dtypes_are_named(message: str) -> None:
    function, *operands, cause = MIXED[message]
    proven = explain(own(message, function=function, operands=tuple(map(tensor, operands))))
    assert ids(proven) == [cause]


NO_CUDA = "AssertionError: Torch not compiled with CUDA enabled"


def test_a_device_that_is_written_into_the_code_is_proposed() -> None:
    (row,) = possible_causes(own(NO_CUDA, function="linspace", operands=()))
    assert row.id == "cuda-unavailable"
    assert "device=x.device" in row.fix
    assert ".to(x.device)" in row.fix


OUTPUT = Operand(name="input", shape=(64, 1), dtype="bfloat16", device="cpu")


@pytest.mark.parametrize(
    ("message", "function", "fix"),
    [
        ("all elements of input should be between 0 and 1", "binary_cross_entropy",
         "Use binary_cross_entropy_with_logits"),
        ("normal expects all elements of std >= 0.0", "normal", "Pass valid parameters"),
    ],
)  # fmt: skip
def test_a_message_of_one_cause_needs_no_proof_by_the_arguments(
    message: str, function: str, fix: str
) -> None:
    raised = own(f"RuntimeError: {message}", function=function, operands=(OUTPUT,))
    assert not explain(raised)
    assert [row.fix.startswith(fix) for row in possible_causes(raised)] == [True]


def test_the_field_of_a_dict_and_a_missing_argument_are_named() -> None:
    output = Operand(name="input", kind="dict", value="{'logits'}")
    message = (
        "TypeError: cross_entropy_loss(): argument 'input' (position 1) must be Tensor, not dict"
    )
    of_dict = own(message, function="cross_entropy", operands=(output, tensor("target [8] int64")))
    assert "output['logits']" in fix_of(of_dict)
    several = Operand(name="input", kind="dict", value="{'features', 'logits'}")
    assert "output['logits']" in fix_of(own(message, function="cross_entropy", operands=(several,)))
    undecided = Operand(name="input", kind="dict", value="{'boxes', 'masks'}")
    proven = fix_of(own(message, function="cross_entropy", operands=(undecided,)))
    assert proven.startswith("Pass a tensor")
    signature = seen.Signature(accepts=("x", "lengths"), of_model=True)
    missing = "TypeError: Net.forward() missing 1 required positional argument: 'lengths'"
    assert fix_of(own(missing, signature)).startswith("Pass lengths to the forward pass")
    several = "TypeError: Net.forward() missing 2 required positional arguments: 'y' and 'z'"
    assert fix_of(own(several, signature)).startswith("Compare the call with the parameters")


def test_a_mask_of_numbers_is_no_mask_in_another_order() -> None:
    message = "AssertionError: only bool and floating types of key_padding_mask are supported"
    sizes = {"query": (8, 12, 32), "key_padding_mask": (8, 12)}
    layout = seen.Layout(batch_first=True, inputs=sizes)
    operands = (tensor("query [8, 12, 32]"), tensor("key_padding_mask [8, 12] int64"))
    raised = own(message, layout, function="MultiheadAttention", operands=operands)
    assert not explain(raised)
    turned = seen.Layout(batch_first=True, inputs={**sizes, "query": (12, 8, 32)})
    other = own(message, turned, function="multi_head_attention_forward", operands=operands)
    assert "transpose the mask" in fix_of(other)


def test_a_message_of_several_causes_that_the_arguments_refute_leaves_none() -> None:
    message = "RuntimeError: running_mean should contain 7 elements not 16"
    raised = own(message, function="batch_norm", operands=(OUTPUT,))
    assert not explain(raised)
    assert not possible_causes(raised)


def test_tensors_on_two_devices_are_named() -> None:
    on_gpu = Operand(name="input", shape=(4, 8), dtype="float32", device="cuda:0")
    weight = Operand(name="weight", shape=(5, 8), dtype="float32", device="cpu")
    message = "Expected all tensors to be on the same device, but found at least two devices"
    proven = explain(own(message, function="linear", operands=(on_gpu, weight)))
    assert "input is on cuda:0, weight is on cpu" in text(proven)


def test_a_criterion_that_gets_its_tensors_too_early() -> None:
    message = "Boolean value of Tensor with more than one value is ambiguous"
    fields = {"function": "__bool__", "caller": "MSELoss.__init__", "operands": (tensor("[6]"),)}
    assert "nn.MSELoss()(prediction, target)" in text(explain(own(message, **fields)))


@pytest.mark.parametrize("error", ["RuntimeError", "AcceleratorError"])
def test_a_subclass_of_the_error_has_the_same_causes_and_another_error_none(error: str) -> None:
    operands = (tensor("input [4, 9]"), tensor("weight [5, 8]"))
    record = own("", function="linear", operands=operands)
    assert record.raised
    for errors, expected in (
        ((error, "RuntimeError", "Exception"), ["layer-size"]),
        (("OutOfMemory", "Exception"), []),
    ):
        raised = msgspec.structs.replace(record.raised, errors=errors)
        assert ids(explain(msgspec.structs.replace(record, raised=raised))) == expected


def test_all_causes_are_kept_specific_ones_first() -> None:
    operands = (tensor("input [4, 8, 5, 5]"), tensor("weight [5, 200]"))
    record = own("", function="linear", operands=operands, module="head")
    assert ids(explain(record)) == ["linear-unflattened", "layer-size"]
    verdict = own_failures.build_failure(record, explain(record))
    assert "flatten(1)" in (verdict.fix or "")
    assert "Also possible, layer-size: Set in_features=5 in head" in (verdict.fix or "")


@pytest.mark.parametrize("message", [*OBSERVED, *MIXED, *(": ".join(each) for each in ARGUMENTS)])
def test_what_is_not_observed_is_possible_by_its_message_at_most(message: str) -> None:
    record = own(message)
    assert explain(record) == ()
    known = {*with_message(message), *possible_causes(record)}
    assert set(possible_causes(record)) <= known
    unworded = {
        each.id
        for each in possible_causes(record)
        if not any(holds(wording.message, message) for wording in each.wordings)
    }
    assert not unworded & set(OWN_PROOFS)


def test_possible_causes_come_with_what_distinguishes_them() -> None:
    record = own("AttributeError: 'NoneType' object has no attribute 'shape'")
    fix = own_failures.build_failure(record, explain(record)).fix or ""
    assert "Causes that have this message:" in fix
    assert "a variable or an attribute (value-is-none): Look at" in fix


def test_proofs_belong_to_rows_and_say_which_errors_they_are_for() -> None:
    proofs = {*PROOFS, *OWN_PROOFS}
    assert proofs <= set(BY_ID)
    assert set(PROPOSED) <= proofs
    assert [name for name in proofs if not BY_ID[name].errors] == []


# Kinds of observations

KINDS = [each for each in typing.get_args(seen.AnyObservation) if each is not seen.Unread]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_each_kind_is_written_by_a_probe_and_read_by_a_check(kind: type) -> None:
    probes = ROOT.joinpath("doctor", "probes", "training_side").rglob("*.py")
    written = [each for each in probes if f'"type": "{kind.__name__}"' in each.read_text("utf-8")]
    assert written
    checks = ROOT.joinpath("checks", "training").rglob("*.py")
    read = [each for each in checks if re.search(rf"\b{kind.__name__}\b", each.read_text("utf-8"))]
    assert read


def test_what_could_not_be_read_is_said() -> None:
    assert words(seen.Unread(kind="FromTheFuture", reason="unknown")) == (
        "not read: FromTheFuture, unknown"
    )
    assert set(WORDS) <= {*KINDS, seen.Unread}


# The description


def test_the_summary_has_the_module_and_the_call() -> None:
    operands = tuple(map(tensor, ("input [4, 9]", "weight [5, 8] float32 (head.weight)")))
    record = own(
        "m", module="head", module_type="Linear(8, 5)", function="linear", operands=operands
    )
    call = "linear got input [4, 9] float32, weight [5, 8] float32"
    assert describe(record) == f"; in module head, Linear(8, 5); {call}"
    assert describe(own("m", seen.Value(name="n", text="0"))) == "; there n is 0"
    assert describe(own("m")) == ""


DESCRIBED = {
    "there is optimizer": seen.Missing(kind="name", name="optmizer", similar=("optimizer",)),
    "Net has dense2, dense1": seen.Missing(
        kind="attribute", name="dense_2", owner="Net", members=("dense1", "dense2"),
        similar=("dense2", "dense1")),
    "batch has the keys x, labels": seen.Missing(
        kind="key", name="label", owner="batch", members=("x", "labels")),
    "config is a dict, whose field is config['width']": seen.Missing(
        kind="attribute", name="width", owner="dict", dict_of="config"),
    "it accepts a, b, and needs a; it got c": seen.Signature(
        accepts=("a", "b"), needs=("a",), passed=("c",)),
    "batch has 3 parts: [6], 1, 2": seen.Parts(name="batch", count=3, parts=("[6]", "1", "2")),
    "train is an attribute that hides": seen.Variable(name="train", kind="attribute"),
    "self.out is a tuple with one member": seen.Variable(name="self.out", kind="one-tuple"),
    "2 of 5 values of the divisor are 0, at [2] and [3]": seen.ZeroDivisor(
        zeros=2, values=5, at=((2,), (3,))),
    "a hook is registered on fc.weight: f in a.py, line 2": seen.Hook(
        kind="gradient", function="f", on="fc.weight", place="a.py, line 2"),
    "floor_divide is in a.py, line 2": seen.Operation(name="floor_divide", line=LINE),
    "attributes with a graph: last": seen.KeptGraph(names=("last",), where="copied"),
    "CosineAnnealingLR with T_max=0": seen.Schedule(
        kind="CosineAnnealingLR", numbers={"T_max": 0}),
    "model has 4 parameters, 0 trainable": seen.ParameterCount(
        model="model", parameters=4, trainable=0),
    "Rows has 8 samples by its __len__ and raises for sample 5": seen.Sample(
        index=5, dataset="Rows", length=8),
    "linear modules of this model: q_proj, v_proj": seen.LinearModules(
        names=("q_proj", "v_proj")),
}  # fmt: skip


@pytest.mark.parametrize("part", DESCRIBED)
def test_observations_without_a_proof_are_described(part: str) -> None:
    record = own("ValueError: m", DESCRIBED[part])
    assert part in describe(record)
    assert part in own_failures.build_failure(record, explain(record)).summary


def test_what_the_cause_says_is_not_said_twice() -> None:
    record = own("KeyError: 'mask'", seen.AbsentInSamples(fields=("mask",), samples=(2,)))
    assert (
        own_failures.build_failure(record, explain(record)).summary.count("sample 2 lacks mask")
        == 1
    )


# Several observations together


def test_a_loss_without_a_graph_names_where_the_path_ends() -> None:
    cut = Cut(kind="indices", name="argmax", place="train.py, line 3", code="x.argmax(-1)")
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    assert "argmax in train.py, line 3" in text(explain(own(message, cuts=(cut,))))
    ended = Cut(kind="no_grad", name="linear", place="train.py, line 9")
    decorated = own(message, seen.NoGradFunction(function="forward"), cuts=(ended,))
    assert "a decorator around it" in text(explain(decorated))
    assert "forward runs without gradients" in describe(decorated)


def test_heads_of_keys_are_repeated_for_those_of_queries() -> None:
    def fix(heads: int) -> str:
        keys = tensor(f"key [4, {heads}, 6, 4]"), tensor(f"value [4, {heads}, 6, 4]")
        operands = (tensor("query [4, 8, 6, 4]"), *keys)
        proven = explain(own("", function="scaled_dot_product_attention", operands=operands))
        return text(proven) if proven else ""

    assert "enable_gqa=True" in fix(4)
    assert "enable_gqa" not in fix(3) + fix(8)
    assert fix(3).endswith("(num_key_value_heads of config.json): 1, 2, 4, 8.")


def test_a_trainer_that_removes_the_labels_is_named() -> None:
    message = "ValueError: The model did not return a loss from the inputs, only: logits"
    record = msgspec.structs.replace(own(message), removed_columns=("stars",))
    assert "rename_column" in text(explain(record))
    assert not explain(own(message))


def test_a_source_of_a_size_is_named() -> None:
    joined = seen.Joined(function="cat", shapes=((8, 16), (8, 1)), place="train.py, line 4")
    operands = (tensor("input [8, 17]"), tensor("weight [5, 20]"))
    proven = explain(own("", joined, function="linear", operands=operands))
    assert "17: cat of [8, 16] and [8, 1] in train.py, line 4" in text(proven)


@pytest.mark.parametrize(
    ("before", "after", "rows", "fix"),
    [
        ((8, 16, 4, 4), (32, 64), 32, "x.flatten(1) in t.py, line 4, in place of view(): it makes"),
        ((8, 6, 2, 4, 4), (16, 6, 4, 4), 16, "x.reshape(len(x), -1, 4, 4)"),
        ((8, 4, 12), (32, 12), 32, ""),  # steps that are joined stay as they are
        ((8, 16, 4, 4), (32, 64), 16, ""),
    ],
)
def test_a_view_that_takes_samples_for_other_rows(
    before: tuple[int, ...], after: tuple[int, ...], rows: int, fix: str
) -> None:
    view = seen.Regrouped(function="view", before=before, after=after, place="t.py, line 4")
    operands = (tensor(f"input [{rows}, 10]"), tensor("target [8] int64"))
    proven = explain(own("ValueError: m", view, function="cross_entropy", operands=operands))
    assert ("in place of view()" in proven[0].fix, fix in proven[0].fix) == (bool(fix), True)


def test_rows_of_zeros_and_ones_that_were_flattened() -> None:
    operands = (tensor("input [8, 4]"), tensor("target [32] int64"))
    record = msgspec.structs.replace(
        own("ValueError: m", function="cross_entropy", operands=operands),
        batch=(BatchTensor(name="[0]", dtype="float32", shape=(8, 12)),),
    )
    assert "labels.argmax(1)" in explain(record)[0].fix


@pytest.mark.parametrize(
    ("parameters", "held", "fix"),
    [
        (0, "layers are in blocks, a list", "nn.ModuleList([...])"),
        (0, "tensors are in w", "nn.Parameter("),
        (0, "Net.__int__ is not called by Python", "Rename that method to __init__"),
        (0, "", "Make the layers in __init__"),
        (4, "", "Call requires_grad_(True) on the part of net"),
    ],
)
def test_an_optimizer_beside_a_model_without_parameters(
    parameters: int, held: str, fix: str
) -> None:
    count = seen.ParameterCount(model="net", parameters=parameters, trainable=0, held=held)
    record = own("ValueError: optimizer got an empty parameter list", count)
    assert fix in explain(record)[0].fix


def test_a_mask_with_the_samples_first_beside_a_query_with_the_length_first() -> None:
    def causes(query: tuple[int, ...]) -> list[str]:
        inputs = {"query": query, "key_padding_mask": (4, 7)}
        layout = seen.Layout(batch_first=False, inputs=inputs)
        operand = Operand(name="query", shape=query, dtype="float32")
        fields = {"function": "multi_head_attention_forward", "operands": (operand,)}
        proven = explain(own("AssertionError: shape", layout, **fields))
        assert not proven or "batch_first=True" in text(proven)
        return ids(proven)

    assert causes((4, 7, 8)) == ["attention-mask-shape"]
    assert causes((7, 4, 8)) == []
    assert causes((5, 7, 8)) == []


def test_a_mask_is_repeated_for_its_heads() -> None:
    layout = seen.Layout(batch_first=True, inputs={"query": (8, 6, 16), "attn_mask": (8, 6, 6)})
    proven = explain(own("shape", layout, operands=(number("num_heads", 4),)))
    assert "[32, 6, 6]" in text(proven)
    assert "repeat_interleave(4, dim=0)" in text(proven)


def recurrent(state: tuple[int, ...], **options: int) -> str:
    options = {"input_size": 12, "hidden_size": 16, "num_layers": 1, **options}
    inputs = {"input": (4, 7, 12), "hx[0]": state}
    layout = seen.Layout(batch_first=True, inputs=inputs, options=options)
    return text(explain(own("", layout, module="cell", module_type="LSTM(12, 16)")))


def test_a_recurrent_layer_names_its_sizes() -> None:
    assert "takes [1, 4, 16]" in recurrent((1, 6, 16))
    assert "takes [4, 4, 16]" in recurrent((2, 4, 16), num_layers=2, bidirectional=1)
    assert "a tuple of two states" in text(
        explain(own("IndexError: m", LAYOUT, module="cell", module_type="LSTM(10, 16)"))
    )


# With the batch


def batch(**shapes: tuple[int, ...]) -> tuple[BatchTensor, ...]:
    return tuple(BatchTensor(name=n, dtype="int64", shape=shape) for n, shape in shapes.items())


def of_lengths(rows: int, labels: int, samples: int, *more: Any) -> str:
    operands = (tensor(f"input [{rows}, 90]"), tensor(f"target [{labels}] int64"))
    every = batch(input_ids=(samples, labels // samples), labels=(samples, labels // samples))
    fields = {"function": "cross_entropy", "operands": operands, "batch": every}
    return text(explain(own("ValueError: batch_size", *more, **fields)))


def test_lengths_are_named_for_each_sample() -> None:
    embedded = seen.TransformerInputs(embeddings=True, positions=20)
    found = of_lengths(60, 36, 3, embedded)
    assert "in each of 3 samples 20 predictions against 12 labels (input_ids, labels" in found
    assert "inputs_embeds has 20 positions" in found
    assert "logits[:, 8:]" in of_lengths(60, 36, 3)
    assert "Cut the labels to the 8 positions" in of_lengths(24, 36, 3)
    assert "samples" not in of_lengths(32, 24, 7).partition(". ")[0]  # no multiple of them


@pytest.mark.parametrize(("longest", "named"), [(7, True), (6, False)])
def test_sequences_with_the_length_first_are_named(longest: int, named: bool) -> None:
    lists = tuple(
        BatchTensor(name=f"x[{n}]", dtype="int64", shape=(longest - n,)) for n in range(4)
    )
    operands = (tensor("input [7, 3]"), tensor("target [4] int64"))
    fields = {"function": "cross_entropy", "operands": operands, "batch": lists}
    proven = explain(own("ValueError: batch_size", **fields))
    assert ("samples-second" in ids(proven)) is named


@pytest.mark.parametrize(("first", "named"), [(9, True), (8, False)])
def test_lengths_of_the_batch_show_which_dimension_is_the_length(first: int, named: bool) -> None:
    every = (
        BatchTensor(name="x", dtype="float32", shape=(first, 4, 3)),
        BatchTensor(name="lengths", dtype="int64", shape=(4,), low=5, high=9),
    )
    layout = seen.Layout(batch_first=True)
    proven = explain(own("start (16) + length (4) exceeds", layout, batch=every))
    assert ("largest of lengths" in text(proven) if proven else False) is named


def test_a_factory_that_takes_parameters_is_among_the_causes() -> None:
    record = own("TypeError: make() missing 1 required positional argument: 'config'", place="")
    assert "def make():" in (own_failures.build_failure(record, explain(record)).fix or "")


def test_a_training_without_an_error_has_no_cause() -> None:
    assert explain(Well().own) == ()
    assert describe(Well().own) == ""
    assert possible_causes(Well().own) == ()


@pytest.mark.parametrize(
    ("function", "operands", "message"),
    [
        ("linear", ("input [4, 8]", "weight [5, 8]"), "CUDA error: out of memory"),
        ("matmul", ("[4, 8]", "[8, 5]"), "CUBLAS_STATUS_EXECUTION_FAILED"),
        ("cross_entropy", ("input [6, 5]", "target [6] int64"), "Target 7 is out of bounds."),
        ("add", ("[4, 8]", "[8]"), "unknown"),
        ("my_function", ("[4]", "[5]"), "unknown"),
    ],
)
def test_arguments_that_fit_prove_nothing(function: str, operands: Any, message: str) -> None:
    arguments = tuple(map(tensor, operands))
    assert explain(own(message, function=function, operands=arguments)) == ()


def fix_of(record: OwnModel) -> str:
    proven = explain(record)
    return proven[0].fix if proven else ""


BEYOND = seen.IndexRange(
    least=-7, size=7, low=7, high=48, some=(7, 8, 9), outside=240, values=256, distinct=42
)


@pytest.mark.parametrize(
    ("table", "index", "fix"),
    [
        ("self [7, 3] (attn.table)", BEYOND, "Create attn.table with 49 entries"),
        ("self [7, 3]", BEYOND, "Fix the index"),
        ("self [7, 3] (attn.table)", msgspec.structs.replace(BEYOND, low=-9, high=-9), "Fix the"),
    ],
)
def test_a_table_that_is_too_short_gets_its_length(
    table: str, index: seen.IndexRange, fix: str
) -> None:
    call = {"function": "__getitem__", "operands": (tensor(table), tensor("key [256] int64"))}
    assert fix_of(own("IndexError: index 24 is out of bounds", index, **call)).startswith(fix)


@pytest.mark.parametrize(
    ("owner", "place", "fix"),
    [
        ("T5Config", "", "Pass decoder_start_token_id= where T5Config(...) is made, the same"),
        ("T5Config", "train.py, line 5", "Compare the name"),
        ("Trainer", "", "Compare the name"),
    ],
)
def test_a_setting_that_a_library_reads_is_passed(owner: str, place: str, fix: str) -> None:
    absent = seen.Missing(kind="attribute", name="decoder_start_token_id", owner=owner)
    message = f"AttributeError: '{owner}' object has no attribute 'decoder_start_token_id'"
    assert fix_of(own(message, absent, place=place)).startswith(fix)


def test_two_losses_of_a_step_name_what_they_share() -> None:
    shared = seen.BackwardCall(line=LINE, shared=("fake",))
    assert fix_of(own(f"RuntimeError: {TWICE}", shared)).startswith("Detach fake in the loss")


@pytest.mark.parametrize(
    ("function", "target", "fix"),
    [
        ("cross_entropy", "target [8] int32", "cross_entropy takes class indices as int64"),
        ("binary_cross_entropy_with_logits", "target [8, 4] int64", "takes floats, labels.float()"),
    ],
)
def test_labels_are_converted_as_the_loss_takes_them(function: str, target: str, fix: str) -> None:
    call = {"function": function, "operands": (tensor("input [8, 4]"), tensor(target))}
    assert fix in fix_of(own("RuntimeError: expected scalar type Long but found Int", **call))


def test_a_layer_norm_of_another_size_says_when_to_transpose() -> None:
    call = {
        "function": "layer_norm",
        "module": "norm",
        "module_type": "LayerNorm((50,))",
        "operands": (tensor("input [16, 50, 32]"), tensor("weight [50] (norm.weight)")),
    }
    fix = fix_of(own("RuntimeError: Given normalized_shape=[50]", **call))
    assert fix.startswith("Set normalized_shape=32 in norm if the features come last")
    assert "x = norm(x.transpose(1, 2)).transpose(1, 2)" in fix


def test_a_batch_norm_of_another_order_is_exchanged_there_and_back() -> None:
    call = {
        "function": "batch_norm",
        "module": "features.bn",
        "module_type": "BatchNorm1d(20)",
        "operands": (tensor("input [14, 9, 20]"), tensor("running_mean [20]")),
    }
    fix = fix_of(own("RuntimeError: running_mean should contain 9 elements not 20", **call))
    assert "x = bn(x.transpose(1, 2)).transpose(1, 2)" in fix


def test_a_norm_of_images_with_channels_last_is_permuted_there_and_back() -> None:
    call = {
        "function": "batch_norm",
        "operands": (tensor("input [4, 7, 9, 16]"), tensor("running_mean [16]")),
    }
    fix = fix_of(own("RuntimeError: running_mean should contain 7 elements not 16", **call))
    assert re.search(r"\(x\.(transpose\(1, 3\)\)\.transpose\(1, 3\)|permute)", fix)


def test_values_for_each_step_are_no_proof_of_the_order_of_a_mask() -> None:
    layout = seen.Layout(batch_first=False, inputs={"key_padding_mask": (6, 9)}, options={})
    record = own(
        "AssertionError: Expected key_padded_mask.shape[0] to be 9, but got 6",
        layout,
        batch=(BatchTensor(name="times", dtype="float32", shape=(6,)),),
        function="multi_head_attention_forward",
        module="attention",
        operands=(tensor("query [6, 9, 32]"),),
    )
    assert fix_of(record).startswith("A padding mask has its samples first")


@pytest.mark.parametrize(
    ("index", "fix"),
    [
        ("[300] int64", "Write x[:, None].expand(-1, 32) for the argument"),
        ("[300, 32] int64", ""),
        ("[32] int64", ""),
    ],
)
def test_an_index_of_scatter_is_expanded_over_the_features(index: str, fix: str) -> None:
    tensors = tuple(map(tensor, (" [80, 32]", f" {index}", " [300, 32]")))
    message = "RuntimeError: Index tensor must have the same number of dimensions as self tensor"
    record = own(message, function="scatter_add", operands=tensors)
    assert fix_of(record).startswith(fix)
    assert ("Write" in fix_of(record)) is bool(fix)
