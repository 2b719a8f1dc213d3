"""What is said of an error from the arguments of the call, and from what was observed beside it."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from doctor._util.records import Ended
from doctor.checks.training.errors.explain import describe, explain
from doctor.checks.training.errors.explanation import Explanation, broadcast
from doctor.facts.diagnosis import Cut
from doctor.facts.own_model import BatchTensor, OwnModel
from doctor.facts.raised import Operand, Raised


def own(message: str = "", batch: tuple[BatchTensor, ...] = (), **fields: Any) -> OwnModel:
    head = re.match(r"(\w+Error): ", message)
    text = message[head.end() :] if head else message
    raised = Raised(error=head[1] if head else "RuntimeError", message=text, **fields)
    ended = Ended(how="error", detail=message)
    return OwnModel(description="train.py:make", built=ended, raised=raised, batch=batch)


def tensor(text: str) -> Operand:
    """ "input [4, 8] int64"; float32 by default."""
    match = re.fullmatch(r"([\w\[\]]*?) ?\[([\d, ]*)\] ?(\w*)(?: \(([\w.]+)\))?", text)
    assert match, text
    sizes = tuple(int(each) for each in match[2].split(",") if each.strip())
    dtype = match[3] or "float32"
    return Operand(name=match[1], shape=sizes, dtype=dtype, device="cpu", parameter=match[4] or "")


def explained(function: str, *operands: str, message: str = "", **fields: Any) -> Explanation:
    arguments = tuple(tensor(each) for each in operands)
    explanation = explain(own(message, function=function, operands=arguments, **fields))
    assert explanation
    return explanation


CALLS = {
    ("linear", "input [4, 1352]", "weight [5, 1568]"): "in_features=1352",
    ("linear", "input [4, 8, 5, 5]", "weight [5, 200]"): "flatten(1)",
    ("linear", "input [4, 16, 50]", "weight [5, 16]"): "transpose(1, 2)",
    ("matmul", "[4, 7, 16]", "[4, 7, 16]"): "b.transpose(-2, -1)",
    ("bmm", "[4, 16, 7]", "[4, 16, 5]"): "a.transpose(-2, -1)",
    ("mm", "[4, 3]", "[5, 6]"): "last but one",
    ("conv1d", "input [4, 50, 6]", "weight [8, 6, 3]"): "transpose(1, 2)",
    ("conv2d", "input [4, 16, 16, 3]", "weight [8, 3, 3, 3]"): "permute(0, 3, 1, 2)",
    ("conv2d", "input [6, 28, 28]", "weight [8, 1, 3, 3]"): "unsqueeze(1)",
    ("conv2d", "input [6, 4, 9, 9]", "weight [8, 3, 3, 3]"): "x[:, :3]",
    ("conv2d", "input [6, 32, 9, 9]", "weight [8, 16, 3, 3]"): "in_channels=32",
    ("batch_norm", "input [4, 7, 16]", "running_mean [16]"): "transpose(1, 2)",
    ("batch_norm", "input [4, 8, 5, 5]", "running_mean [16]"): "num_features=8",
    ("cat", "tensors[0] [2, 8, 25, 25]", "tensors[1] [2, 8, 24, 24]"): "F.interpolate",
    ("cat", "tensors[0] [2, 8]", "tensors[1] [2, 5]"): "dim=1",
    ("cat", "tensors[0] [2, 8]", "tensors[1] [2, 8, 3]"): "unsqueeze",
    ("stack", "tensors[0] [3, 8]", "tensors[1] [3, 9]"): "before torch.stack",
    ("masked_fill", "[3, 4, 7, 7]", "[3, 7] bool"): "x[:, None, None]",
    ("add", "[4, 12, 16]", "[1, 8, 16] float32 (positions)"): "Make positions larger",
    ("add", "[4, 8, 12, 12]", "[4, 8, 6, 6]"): "same stride",
    ("mul", "[4, 7, 5]", "[4, 5, 7]"): "transpose(-2, -1)",
    ("sub", "[4, 7]", "[4, 6]"): "dimension 1",
    ("__getitem__", "self [4, 8, 31]", "key [4, 9] bool"): "Cut the mask",
    ("gather", "[6, 5]", "[6] int64"): "unsqueeze(-1)",
    ("scaled_dot_product_attention", "query [3, 4, 7, 8]", "key [3, 4, 7, 8]",
     "attn_mask [3, 7] bool"): "mask[:, None, None]",
    ("cross_entropy", "input [4, 8, 31]", "target [4, 8] int64"): "transpose(1, 2)",
    ("cross_entropy", "input [2, 6, 7, 5]", "target [2, 6, 7] int64"): "movedim(-1, 1)",
    ("cross_entropy", "input [6, 5]", "target [6, 5] int64"): "argmax(1)",
    ("cross_entropy", "input [6, 5]", "target [6, 1] int64"): "squeeze(1)",
    ("cross_entropy", "input [6, 5]", "target [6] int32"): ".long()",
    ("cross_entropy", "input [6, 5]", "target [6]"): ".long()",
    ("cross_entropy", "input [32, 5]", "target [4, 8] int64"): "labels.flatten()",
    ("nll_loss", "input [14, 5]", "target [10] int64"): "one label for each",
    ("binary_cross_entropy_with_logits", "input [6, 1]", "target [6]"): "squeeze(-1)",
    ("binary_cross_entropy_with_logits", "input [6]", "target [6, 1]"): "labels.squeeze(1)",
    ("binary_cross_entropy_with_logits", "input [6, 1]", "target [6, 1] int64"): ".float()",
    ("binary_cross_entropy", "input [6, 5]", "target [6]"): "cross_entropy",
    ("cross_entropy", "input [32, 10]", "target [8] int64"): "flatten(1)",
    ("mse_loss", "input [6, 5]", "target [6]"): "out_features=1",
    ("l1_loss", "input [6, 5]", "target [4, 3]"): "same shape",
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_sizes_and_dtypes_of_a_call_are_explained(call: tuple[str, ...]) -> None:
    assert CALLS[call] in explained(*call).fix


MESSAGES = {
    ("linear", "mat1 and mat2", "input [3, 8]", "weight [8, 4]"): "in_features=8",
    ("multi_head_attention_forward", "mat1 and mat2", "query [3, 4, 16]", "key [5, 4, 32]",
     "in_proj_weight [48, 16]"): "kdim=32",
    ("multi_head_attention_forward", "The shape of the 2D attn_mask is torch.Size([10, 10]), but "
     "should be (7, 7).", "query [7, 4, 16]"): "mask[:7, :7]",
    ("conv_transpose2d", "Given transposed=1", "[2, 8, 8, 8]", "[4, 8, 2, 2]"): "in_channels=8",
    ("affine_grid", "Expected size for first two dimensions of batch2 tensor to be: [4, 3] but "
     "got: [3, 3].", "theta [3, 2, 3]"): "same number of samples",
    ("__setitem__", "index 6 is out of bounds for dimension 0 with size 6", "self [6]"): "0 to 5",
    ("__setitem__", "The expanded size of the tensor (3) must match the existing size (6) at "
     "non-singleton dimension 0.  Target sizes: [3, 5].  Tensor sizes: [6, 5]", "self [6, 5]"):
        "larger place",
    ("__getitem__", "too many indices for tensor of dimension 2", "self [6, 8]"): "at most 2",
    ("expand", "The expanded size of the tensor (20) must match the existing size (16) at "
     "non-singleton dimension 1.  Target sizes: [2, 20].  Tensor sizes: [1, 16]", "[1, 16]"):
        "size 1 only",
    ("cross_entropy", "not implemented for 'Long'", "input [6] int64", "target [6, 5]"): "Exchange",
    ("binary_cross_entropy_with_logits", "Target size", "input [6, 5]", "target [6, 4]"):
        "out_features=4",
    ("view", "shape '[32, 144]' is invalid for input of size 1440", "[10, 4, 6, 6]"): "x.size(0)",
    ("view", "shape '[4, 7, 3, 5]' is invalid for input of size 448", "[4, 7, 16]"): "is 16:",
    ("reshape", "shape '[-1, 7]' is invalid for input of size 40", "[4, 10]"): "product is 40",
    ("einsum", "einsum(): the number of subscripts in the equation (2) does not match the number "
     "of dimensions (3) for operand 0", "[4, 7, 8]"): "operand 0",
    ("split", "split_with_sizes expects split_sizes to sum exactly to 48 (input tensor's size at "
     "dimension -1), but got split_sizes=[16, 16]", "[4, 48]"): "add up to 48",
    ("expand", "The expanded size of the tensor (8) must match the existing size (4) at "
     "non-singleton dimension 1.  Target sizes: [4, 8].  Tensor sizes: [4]", "[4]"): "x[:, None]",
    ("permute", "permute(sparse_coo): number of dimensions in the tensor input does not match the "
     "length of the desired ordering of dimensions i.e. input.dim() = 3", "[4, 7, 8]"): "all 3",
    ("sub", "DefaultCPUAllocator: can't allocate memory", "[60000, 1]", "[60000]"): "same shape",
    ("linear", "mat1 and mat2 must have the same dtype, but got Double and Float",
     "input [4, 8] float64", "weight [5, 8] float32 (first.weight)"): "Convert input with .float()",
    ("linear", "mat1 and mat2 must have the same dtype, but got Float and Half",
     "input [4, 8]", "weight [5, 8] float16 (first.weight)"): "autocast",
    ("conv2d", "Input type (unsigned char) and bias type (float) should be the same",
     "input [4, 3, 8, 8] uint8", "weight [4, 3, 3, 3]"): "/ 255",
    ("index_add", "index_add_(): self (Float) and source (BFloat16) must have the same scalar type",
     "[4, 16]", "[9] int64", "[9, 16] bfloat16"): "dtype=",
    ("embedding", "Expected tensor for argument #1 'indices' to have one of the following scalar "
     "types: Long, Int; but got torch.FloatTensor", "input [4, 8]"): "ids.long()",
    ("add_", "result type Float can't be cast to the desired output type Long",
     "[5] int64", "[5]"): "torch.zeros(n)",
    ("linear", "linear(): argument 'input' (position 1) must be Tensor, not numpy.ndarray",
     "weight [5, 8]"): "from_numpy",
    ("__iter__", "TypeError: 'MLP' object is not iterable", "params [1]"): "[parameter]",
    ("clamp_", "a leaf Variable that requires grad is being used in an in-place operation.",
     "[16, 8] float32 (first.weight)"): "first.weight under torch.no_grad()",
    ("__setitem__", "a view of a leaf Variable that requires grad is being used in an in-place "
     "operation.", "[4, 6]"): "clone()",
}  # fmt: skip


@pytest.mark.parametrize("call", MESSAGES)
def test_the_message_and_the_arguments_are_read_together(call: tuple[str, ...]) -> None:
    function, message, *operands = call
    assert MESSAGES[call] in explained(function, *operands, message=message).fix


OBSERVED: dict[str, tuple[dict[str, str], str]] = {
    "TypeError: layer_norm(): argument 'input' (position 1) must be Tensor, not NoneType": (
        {"returned None": "encoder (Encoder)"}, "forward of Encoder"),
    "AttributeError: 'NoneType' object has no attribute 'unsqueeze'": (
        {"none": "mask", "argument of": "forward"}, "Pass mask to forward"),
    "TypeError: 'NoneType' object is not iterable": ({"none": "rows"}, "where rows is assigned"),
    "TypeError: linear(): argument 'input' (position 1) must be Tensor, not tuple": (
        {"returned tuple": "0 (LSTM)"}, "x[0]"),
    "NameError: name 'optmizer' is not defined": (
        {"undefined": "optmizer", "similar": "optimizer"}, "Write optimizer"),
    "NameError: name 'F' is not defined": ({"undefined": "F", "similar": ""}, "Import F"),
    "AttributeError: 'Net' object has no attribute 'dense_2'": (
        {"owner": "Net", "lacks": "dense_2", "similar": "dense2", "members": "dense1, dense2"},
        "Write dense2"),
    "AttributeError: 'Net' object has no attribute 'pool'": (
        {"owner": "Net", "lacks": "pool", "similar": "", "members": "conv, fc"}, "Create pool"),
    "KeyError: 'label'": (
        {"container": "batch", "keys": "x, labels", "similar": "labels"}, "Write 'labels'"),
    "ValueError: too many values to unpack (expected 2)": (
        {"container": "batch", "count": "3", "parts": "[6, 8] float32, 1, 2"}, "parts, 3"),
    "TypeError: list indices must be integers or slices, not str": (
        {"container": "batch", "count": "2", "parts": "1, 2"}, "batch[0]"),
    "TypeError: Net.forward() got an unexpected keyword argument 'inputs'": (
        {"accepts": "features, labels", "needs": "features, labels", "keyword": "inputs",
         "passed": "inputs, labels", "similar": "", "of the model": "yes"},
        "Rename inputs in the batch to features,"),
    "TypeError: Net.forward() got an unexpected keyword argument 'x'": (
        {"accepts": "batch", "needs": "batch", "keyword": "x", "of the model": "yes"},
        "model(batch)"),
    "TypeError: Net.forward() takes 2 positional arguments but 3 were given": (
        {"accepts": "x", "needs": "x", "of the model": "yes"}, "module(*batch)"),
    "TypeError: Trainer.__init__() got an unexpected keyword argument 'tokenizer'": (
        {"accepts": "model, processing_class", "needs": "", "keyword": "tokenizer", "similar": ""},
        "Write processing_class="),
    "TypeError: Linear.__init__() got an unexpected keyword argument 'depth'": (
        {"accepts": "in_features, out_features", "needs": "", "keyword": "depth", "similar": ""},
        "in that line"),
    'NotImplementedError: Module [ModuleList] is missing the required "forward" function': (
        {"owner": "ModuleList", "similar": ""}, "one by one"),
    'NotImplementedError: Module [Net] is missing the required "forward" function': (
        {"owner": "Net", "similar": "foward"}, "Rename foward"),
    "RuntimeError: Boolean value of Tensor with more than one value is ambiguous": (
        {"through": "MSELoss.__init__"}, "nn.MSELoss()(prediction, target)"),
    'NotImplementedError: Module [G] is missing the required "forward" function': (
        {"owner": "G", "of the base": "yes"}, "super().forward()"),
    "AttributeError: 'dict' object has no attribute 'width'": (
        {"owner": "dict", "lacks": "width", "dict": "config"}, "config['width']"),
    "TypeError: Linear.__init__() missing 1 required positional argument: 'out_features'": (
        {"accepts": "in_features, out_features", "needs": "in_features, out_features"},
        "Pass out_features"),
    "TypeError: 'bool' object is not callable": ({"shadows": "train"}, "another name"),
    "TypeError: make.<locals>.<lambda>() takes 2 positional arguments but 3 were given": (
        {"hook of": "Linear", "hook": "<lambda>"}, "(module, args, output)"),
    "TypeError: cross_entropy_loss(): argument 'input' (position 1) must be Tensor, not list": (
        {"returned list": "the model (Net)"}, "output[0]"),
    "TypeError: cross_entropy_loss(): argument 'input' (position 1) must be Tensor, not Net": (
        {"is the model": "output"}, "loss(module, batch)"),
    "ZeroDivisionError: integer modulo by zero": (
        {"schedule": "CosineAnnealingLR with T_max=0"}, "T_max"),
    "RuntimeError: Trying to backward through the graph a second time  ": (
        {"calls backward": "a.py, line 9 (`d.backward()`)", "another loss": "yes"}, "detach()"),
    "ValueError: too many values to unpack (expected 2) ": (
        {"container": "edges", "rows": "90", "shape": "[90, 2]"}, "edges.t()"),
    "TypeError: 'tuple' object is not callable": ({"a tuple": "self.out"}, "the comma"),
    "AttributeError: 'LoRA' object has no attribute 'weight'": (
        {"owner": "LoRA", "lacks": "weight", "members": "a, b", "read by": "activation.py, line 9"},
        "a property weight"),
    "KeyError: 'mask'": ({"incomplete": "sample 2 lacks mask"}, "same keys"),
    "RuntimeError: stack expects each tensor to be equal size, but got [3] and [4]": (
        {"unequal": "'words' of the samples: [3], [4]"}, "collate_fn"),
    "TypeError: default_collate: found <class 'NoneType'>": (
        {"none in": "part 0 of sample 3"}, "for every sample"),
    "IndexError: list index out of range": (
        {"sample": "5", "dataset": "Rows", "length": "8"}, "let __len__ return their number"),
    "KeyError: 0": ({"sample": "0", "dataset": "Rows", "keys": "1, 2"}, ".iloc"),
    "ValueError: optimizer got an empty parameter list": (
        {"models": "model has 4"}, "list(model.parameters())"),
    "RuntimeError: hook '<lambda>' has changed the size of value": (
        {"hooks": "fc.weight: <lambda> in train.py, line 3"}, "same shape"),
    "RuntimeError: modified by an inplace operation": (
        {"operation": "SigmoidBackward0", "saved": "a.py, line 1 (`y`)",
         "changed": "a.py, line 2 (`y += 1`)"}, "a.py, line 2 without an in-place change"),
    "RuntimeError: is modified by an inplace operation: [16, 1]": (
        {"operation": "AddmmBackward0", "saved": "a.py, line 1 (`y`)", "parameters": "fc.weight",
         "changed": "a.py, line 2 (`optimizer.step()`)"}, "step the optimizers then"),
    "RuntimeError: been modified by an inplace operation: [31, 8]": (
        {"operation": "MmBackward0", "saved": "a.py, line 1 (`y`)", "parameters": "table.weight",
         "changed": "a.py, line 2 (`self.table(ids)`)"}, "weight.clone()"),
    "RuntimeError: variables modified by an inplace operation": (
        {"operation": "SigmoidBackward0", "saved": "a.py, line 1 (`y`)"}, "max_norm"),
    "RuntimeError: Trying to backward through the graph a second time": (
        {"calls backward": "a.py, line 9 (`loss.backward()`)"}, "leave out a.py, line 9"),
    "RuntimeError: Trying to backward through the graph a second time ": (
        {"kept": "hidden"}, "hidden = hidden.detach()"),
    "RuntimeError: Only Tensors created explicitly support the deepcopy protocol": (
        {"with graph": "last"}, "last = value.detach()"),
    "ValueError: Target modules {'query'} not found in the base model.": (
        {"linear": "q_proj, v_proj"}, "q_proj, v_proj"),
    "ValueError: some parameters appear in more than one parameter group": (
        {"shared": "head.weight"}, "into one group"),
    "RuntimeError: The size of tensor a (4) must match the size of tensor b (8)": (
        {"optimizer": "AdamW", "state": "exp_avg of fc.weight is [4], the parameter [8]"},
        "this very model"),
    "KeyError: 'momentum'": (
        {"optimizer": "SGD", "absent": "momentum", "instead": "betas"}, "that SGD saved"),
    "AssertionError: Expected `key_padded_mask.shape[0]` to be 7, but got 4": (
        {"batch_first": "False", "inputs": "query [4, 7, 8], key_padding_mask [4, 7]"},
        "batch_first=True"),
}  # fmt: skip


@pytest.mark.parametrize("message", OBSERVED)
def test_what_was_observed_is_the_remedy(message: str) -> None:
    observed, text = OBSERVED[message]
    explanation = explain(own(message, observed=observed))
    assert explanation
    assert text in explanation.fix


RECURRENT = {
    ("input.size(-1) must be equal to input_size. Expected 10, got 12", "True"): "input_size=12",
    ("Expected hidden size (1, 7, 16), got [1, 4, 16]", "False"): "batch_first=True",
    ("Expected hidden[0] size (1, 4, 16), got [1, 6, 16]", "True"): "with 4 in its second",
}


@pytest.mark.parametrize("case", RECURRENT)
def test_a_recurrent_layer_names_its_sizes(case: tuple[str, str]) -> None:
    message, first = case
    observed = {"batch_first": first, "inputs": "input [4, 7, 12], hx [1, 4, 16]"}
    explanation = explain(own(message, module="cell", module_type="GRU(10, 16)", observed=observed))
    assert explanation
    assert RECURRENT[case] in explanation.fix


HEAD = "Error(s) in loading state_dict for Net:\n\t"
STATES = {
    f'{HEAD}Missing key(s) in state_dict: "fc.weight". \n\tUnexpected key(s) in state_dict: '
    '"epoch", "model". ': "checkpoint['model']",
    f'{HEAD}Missing key(s) in state_dict: "a.weight", "a.bias". \n\tUnexpected key(s) in '
    'state_dict: "module.a.weight", "module.a.bias". ': "removeprefix('module.')",
    f'{HEAD}Missing key(s) in state_dict: "net.a.weight". \n\tUnexpected key(s) in '
    'state_dict: "a.weight". ': "model.net.load_state_dict",
    f"{HEAD}size mismatch for fc.weight: copying a param with shape torch.Size([9, 4]) from "
    "checkpoint, the shape in current model is torch.Size([5, 4]).": "v.shape == own[k].shape",
}


@pytest.mark.parametrize("message", STATES)
def test_the_keys_of_a_state_dict_are_compared(message: str) -> None:
    explanation = explain(own(message))
    assert explanation
    assert STATES[message] in explanation.fix


LOSSES = {
    "TypeError: training_step returned no loss but NoneType": "end of training_step",
    "TypeError: the loss function returned no loss but float 1.5": "without .item()",
    "TypeError: the forward pass returned no loss but CausalLMOutput with logits": "Rename label",
    "TypeError: training_step returned no loss but dict with train_loss": "the key 'loss'",
}


@pytest.mark.parametrize("message", LOSSES)
def test_what_is_no_loss_names_its_cause(message: str) -> None:
    batch = tuple(BatchTensor(name=n, dtype="int64", shape=(2, 7)) for n in ("input_ids", "label"))
    explanation = explain(own(message, batch))
    assert explanation
    assert LOSSES[message] in explanation.fix


def test_a_loss_without_a_graph_names_where_the_path_ends() -> None:
    cut = Cut(kind="indices", name="argmax", place="train.py, line 3", code="x.argmax(-1)")
    message = "element 0 of tensors does not require grad and does not have a grad_fn"
    explanation = explain(own(message, cuts=(cut,)))
    assert explanation
    assert "argmax in train.py, line 3" in explanation.cause
    decorated = {"decorated": "forward in train.py, line 9"}
    explanation = explain(own(message, cuts=(cut,), observed=decorated))
    assert explanation
    assert "the decorator that runs forward" in explanation.fix


@pytest.mark.parametrize(
    ("function", "operands", "message"),
    [
        ("linear", ("input [4, 8]", "weight [5, 8]"), "CUDA error: out of memory"),
        ("matmul", ("[4, 8]", "[8, 5]"), "CUBLAS_STATUS_EXECUTION_FAILED"),
        ("cross_entropy", ("input [6, 5]", "target [6] int64"), "Target 7 is out of bounds."),
        ("add", ("[4, 8]", "[8]"), "unknown"),
        ("conv2d", ("input [4, 3, 8, 8]", "weight [4, 3, 3, 3]"), "unknown"),
        ("my_function", ("[4]", "[5]"), "unknown"),
    ],
)
def test_arguments_that_fit_explain_nothing(
    function: str, operands: tuple[str, ...], message: str
) -> None:
    arguments = tuple(tensor(each) for each in operands)
    assert explain(own(message, function=function, operands=arguments)) is None


def test_tensors_on_two_devices_are_named() -> None:
    on_gpu = Operand(name="input", shape=(4, 8), dtype="float32", device="cuda:0")
    weight = Operand(name="weight", shape=(5, 8), dtype="float32", device="cpu")
    message = "Expected all tensors to be on the same device, but found at least two devices"
    explanation = explain(own(message, function="linear", operands=(on_gpu, weight)))
    assert explanation
    assert "input on cuda:0, weight on cpu" in explanation.cause
    assert "nn.ModuleList" in explanation.fix


def test_the_summary_has_the_module_and_the_call() -> None:
    operands = tuple(map(tensor, ("input [4, 9]", "weight [5, 8] float32 (head.weight)")))
    text = describe(
        own("m", module="head", module_type="Linear(8, 5)", function="linear", operands=operands)
    )
    assert (
        text
        == "; in module head, Linear(8, 5); linear got input [4, 9] float32, weight [5, 8] float32"
    )
    assert describe(own("m", observed={"values": "n is 0"})) == "; there n is 0"
    assert describe(own("m")) == ""


def test_shapes_broadcast_as_torch_does_it() -> None:
    assert broadcast((4, 1), (5,)) == (4, 5)
    assert broadcast((4, 3), (4,)) is None
    assert broadcast((), (2, 3)) == (2, 3)
    assert broadcast((0, 3), (1, 3)) == (0, 3)


def test_positions_of_a_library_model_are_named() -> None:
    message = (
        "The expanded size of the tensor (20) must match the existing size (16) at non-singleton "
        "dimension 1.  Target sizes: [2, 20].  Tensor sizes: [1, 16]"
    )
    fields = {"function": "expand", "module": "bert.embeddings", "operands": (tensor("[1, 16]"),)}
    explanation = explain(own(message, **fields))
    assert explanation
    assert "max_length=16" in explanation.fix


def test_rows_that_are_a_part_of_the_batch_are_named() -> None:
    operands = (tensor("input [3, 8]"), tensor("weight [8, 4]"))
    explanation = explain(
        own("mat1", function="linear", operands=operands, observed={"samples": "6"})
    )
    assert explanation
    assert "3 rows, the batch 6 samples" in explanation.cause
    assert "dim=-1" in explanation.fix


@pytest.mark.parametrize("built", [True, False])
def test_a_factory_or_a_loss_with_other_parameters(built: bool) -> None:
    record = own("TypeError: make() missing 1 required positional argument: 'config'")
    if built:
        record = msgspec.structs.replace(record, built=Ended(how="ok"))
    explanation = explain(record)
    assert explanation
    assert ("loss(module, batch)" if built else "def make():") in explanation.fix
