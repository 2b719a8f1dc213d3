"""Arguments that are None, of another type or dtype, or outside of what is allowed."""

from __future__ import annotations

from doctor.errors.cause import Cause

NONE = (
    r"'NoneType' object (?:has no attribute|is not (?:callable|iterable|subscriptable))",
    r"must be Tensor, not NoneType",
    r"(?:but got|of type|and) '?NoneType\b",
)
NONE_EXAMPLES = (
    "AttributeError: 'NoneType' object has no attribute 'unsqueeze'",
    "TypeError: layer_norm(): argument 'input' (position 1) must be Tensor, not NoneType",
    "TypeError: expected Tensor as element 1 in argument 0, but got NoneType",
)
DTYPES = (
    r"must have the same dtype, but got",
    r"(?:self|source|expected|have) \w{0,20}\s?\(?\w{1,20}\)?.{0,40} the same scalar type",
    r"expected scalar type \w{1,20} but found",
    r"Index put requires the source and destination dtypes match",
    r"should be the same",
)
DTYPE_EXAMPLES = (
    "RuntimeError: mat1 and mat2 must have the same dtype, but got Double and BFloat16",
    "RuntimeError: index_add_(): self (Float) and source (BFloat16) must have the same scalar type",
    "RuntimeError: expected scalar type Float but found Double",
    "RuntimeError: Index put requires the source and destination dtypes match, got Float for the "
    "destination and BFloat16 for the source.",
    "RuntimeError: Input type (unsigned char) and bias type (float) should be the same",
)
CAST = r"result type \w{1,20} can't be cast to the desired output type"
CAST_EXAMPLE = "RuntimeError: result type Float can't be cast to the desired output type Long"
OUTSIDE = (
    r"index -?\d{1,19} is out of bounds for dimension",
    r"Class values must be (?:smaller|non-negative)",
)
OUTSIDE_EXAMPLES = (
    "IndexError: index 42 is out of bounds for dimension 0 with size 26",
    "RuntimeError: Class values must be smaller than num_classes.",
)

ROWS = (
    Cause(
        id="ignored-label-as-index",
        errors=("IndexError", "RuntimeError"),
        messages=OUTSIDE,
        examples=OUTSIDE_EXAMPLES,
        why="-100, -1 and 255 mark labels that a loss ignores; they are no index.",
        fix="Replace them before they are used as an index, labels.masked_fill(labels == -100, 0), "
        "and leave these places out of the result.",
        told_by="the index is -100, -1 or 255",
    ),
    Cause(
        id="index-beyond-its-table",
        errors=("IndexError", "RuntimeError"),
        messages=OUTSIDE,
        examples=OUTSIDE_EXAMPLES,
        why="An index is larger than what it indexes, or below 0.",
        fix="Let the index stay within the size, or make the tensor larger that it reads or "
        "writes: labels that begin with 1, positions beyond a maximal length, indices of another "
        "table and nodes that a filter removed are the usual reasons. bincount and one_hot count "
        "from 0.",
    ),
    Cause(
        id="distribution-of-probabilities",
        errors=("ValueError",),
        messages=(r"to satisfy the constraint (?:Interval\(lower_bound=0|Simplex\()",),
        examples=(
            "ValueError: Expected parameter probs (Tensor of shape (16,)) of distribution "
            "Bernoulli(probs: torch.Size([16])) to satisfy the constraint "
            "Interval(lower_bound=0.0, upper_bound=1.0), but found invalid values:",
        ),
        why="probs= takes probabilities, and a layer without activation gives any number.",
        fix="Pass logits= of a layer without activation in place of probs=, or make probabilities "
        "first: torch.sigmoid for each value, torch.softmax over classes.",
    ),
    Cause(
        id="distribution-of-positive-scale",
        errors=("ValueError",),
        messages=(r"to satisfy the constraint (?:GreaterThan|Positive\b)",),
        examples=(
            "ValueError: Expected parameter scale (Tensor of shape (24, 3)) of distribution "
            "Normal(loc: torch.Size([24, 3]), scale: torch.Size([24, 3])) to satisfy the "
            "constraint GreaterThan(lower_bound=0.0), but found invalid values:",
        ),
        why="The parameter of a distribution must be above 0, and a network gives any number.",
        fix="Make the parameter positive: torch.nn.functional.softplus(x) + 1e-6, or exp of a "
        "logarithm that the network gives; relu and abs reach 0.",
    ),
    Cause(
        id="distribution-of-definite-matrix",
        errors=("ValueError",),
        messages=(
            r"to satisfy the constraint Positive(?:Semi)?definite",
            r"to satisfy the constraint Lower(?:Cholesky|Triangular)",
        ),
        examples=(
            "ValueError: Expected parameter covariance_matrix (Tensor of shape (16, 3, 3)) of "
            "distribution MultivariateNormal() to satisfy the constraint PositiveDefinite(), but "
            "found invalid values:",
            "ValueError: Expected parameter scale_tril (Tensor of shape (16, 3, 3)) of "
            "distribution MultivariateNormal() to satisfy the constraint LowerCholesky(), but "
            "found invalid values:",
        ),
        why="A covariance must be symmetric with eigenvalues above 0; a network gives any matrix.",
        fix="Build it so that it is positive definite: L @ L.mT + 1e-4 * torch.eye(n), or pass "
        "scale_tril=L, a lower triangle whose diagonal went through softplus: torch.tril(x, -1) + "
        "torch.diag_embed(torch.nn.functional.softplus(diagonal) + 1e-6).",
    ),
    Cause(
        id="sample-outside-support",
        errors=("ValueError",),
        messages=(r"Expected value argument .{0,80}to be within the support",),
        examples=(
            "ValueError: Expected value argument (Tensor of shape (16,)) to be within the support "
            "(IntegerInterval(lower_bound=0, upper_bound=3)) of the distribution Categorical()",
        ),
        why="log_prob gets values that the distribution cannot draw.",
        fix="Bring the values into the range (torch.sigmoid, exp, .round(), another scale of the "
        "data), or choose a distribution of such values. Number actions or classes from 0.",
    ),
    Cause(
        id="module-without-return",
        errors=("AttributeError", "TypeError"),
        messages=NONE,
        examples=NONE_EXAMPLES,
        why="A function without return gives None.",
        fix="Return the result at the end of the function whose value is used in that line.",
        told_by="the value is what a module or a function of yours returned",
    ),
    Cause(
        id="argument-not-passed",
        errors=("AttributeError", "TypeError"),
        messages=NONE,
        examples=NONE_EXAMPLES,
        why="A parameter with the default None was not passed.",
        fix="Pass it, or handle None before that line.",
        told_by="the name in that line is a parameter of the function",
    ),
    Cause(
        id="value-is-none",
        errors=("AttributeError", "TypeError"),
        messages=NONE,
        examples=NONE_EXAMPLES,
        why="A variable or an attribute is None.",
        fix="Look at where it is assigned: a function without return, dict.get of an absent key, "
        "an option that the configuration lacks, or a layer that __init__ left out.",
        told_by="the name in that line is a variable or an attribute",
    ),
    Cause(
        id="criterion-created-with-tensors",
        errors=("RuntimeError",),
        messages=(r"Boolean value of Tensor with more than one value is ambiguous",),
        examples=("RuntimeError: Boolean value of Tensor with more than one value is ambiguous",),
        why="A criterion such as nn.CrossEntropyLoss gets its options where it is created, and the "
        "tensors where it is called.",
        fix="Create the criterion first, then call it: nn.CrossEntropyLoss()(prediction, target). "
        "Elsewhere: an if, while or assert needs one value, .any() or .all().",
    ),
    Cause(
        id="module-returns-tuple",
        errors=("AttributeError", "TypeError"),
        messages=(
            r"must be Tensor, not (?:tuple|list)",
            r"'(?:tuple|list)' object has no attribute",
        ),
        examples=(
            "TypeError: linear(): argument 'input' (position 1) must be Tensor, not tuple",
            "AttributeError: 'tuple' object has no attribute 'relu'",
        ),
        why="nn.LSTM and nn.GRU return (output, state), nn.MultiheadAttention (output, weights).",
        fix="Take the tensor out of the tuple, output[0]. In nn.Sequential that needs a module of "
        "its own, whose forward returns x[0].",
        told_by="the layer before returns more than its output",
    ),
    Cause(
        id="no-tensor",
        errors=("AttributeError", "TypeError"),
        messages=(r"must be Tensor, not \w", r"'(?:tuple|list|str|dict)' object has no attribute"),
        examples=(
            "TypeError: cross_entropy_loss(): argument 'target' (position 2) must be Tensor, not "
            "dict",
            "AttributeError: 'list' object has no attribute 'dim'",
        ),
        why="A function of torch got something else than a tensor.",
        fix="Pass a tensor: texts and words as numbers (ids of a tokenizer, names.index(name)), "
        "arrays by torch.from_numpy, a list of tensors by torch.stack, a record of a model of "
        "transformers by its field, .logits, a tuple by its member, x[0], a PackedSequence by "
        "nn.utils.rnn.pad_packed_sequence. Where "
        "the model itself was passed, call it: the third value of a factory is a function "
        "loss(module, batch).",
        told_by="the argument is no tensor where it is made",
    ),
    Cause(
        id="unpacked-rows",
        errors=("ValueError",),
        messages=(r"too many values to unpack", r"not enough values to unpack"),
        examples=(
            "ValueError: too many values to unpack (expected 2)",
            "ValueError: not enough values to unpack (expected 3, got 2)",
        ),
        why="Unpacking goes along the first dimension of a tensor, or the parts of a tuple.",
        fix="Assign as many names as there are parts, _ for one that is not needed. A tensor is "
        "transposed first, x.t(), or taken apart by .unbind(-1).",
    ),
    Cause(
        id="number-as-text",
        errors=("TypeError",),
        messages=(r"not supported between instances of '\w{1,20}' and '\w{1,20}'",),
        examples=("TypeError: '<=' not supported between instances of 'float' and 'str'",),
        why="YAML reads 1e-4 as a text.",
        fix="Convert it with float(...), or write 1.0e-4 in YAML.",
    ),
    Cause(
        id="module-without-forward",
        errors=("NotImplementedError",),
        messages=(r"is missing the required \"forward\" function",),
        examples=(
            'NotImplementedError: Module [ModuleList] is missing the required "forward" function',
        ),
        why="The module has no forward: its name is misspelt, its indentation wrong, or the module "
        "only holds others.",
        fix="Define forward in the module, at the indentation of its __init__. Call the layers of "
        "an nn.ModuleList one by one (for layer in self.layers: x = layer(x)), or hold them in "
        "nn.Sequential; leave out super().forward().",
    ),
    Cause(
        id="division-by-zero",
        errors=("ZeroDivisionError", "RuntimeError"),
        messages=(r"ZeroDivisionError", r"(?:division|modulo) by zero"),
        examples=("RuntimeError: ZeroDivisionError", "ZeroDivisionError: division by zero"),
        why="Whole numbers are divided by 0, which raises; floats give inf.",
        fix="Look at why the divisor is 0: an empty group, a count or a length of 0, a schedule "
        "with T_max, step_size or total_steps of 0. Clamp it, divisor.clamp(min=1), or leave these "
        "elements out.",
    ),
    Cause(
        id="exchanged-arguments",
        errors=("NotImplementedError", "RuntimeError"),
        messages=(r"not implemented for '(?:Long|Int)'",),
        examples=(
            "NotImplementedError: \"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        ),
        why="The operation is for floats: a loss got the labels first, or a layer integers.",
        fix="Change the order to loss(prediction, target), or convert the tensor with .float().",
    ),
    Cause(
        id="embedding-of-floats",
        errors=("RuntimeError",),
        messages=(r"argument #1 'indices' to have one of the following scalar types",),
        examples=(
            "RuntimeError: Expected tensor for argument #1 'indices' to have one of the following "
            "scalar types: Long, Int; but got torch.FloatTensor instead (while checking arguments "
            "for embedding)",
        ),
        why="An embedding takes whole numbers, and the ids are floats.",
        fix="Pass the ids as int64, as a tokenizer returns them: ids.long(), before anything "
        "scales or normalizes them or joins them with floats.",
    ),
    Cause(
        id="images-of-bytes",
        errors=("RuntimeError",),
        messages=(r"Input type \((?:unsigned char|torch\.\w{0,5}ByteTensor)\) and",),
        examples=(
            "RuntimeError: Input type (unsigned char) and bias type (float) should be the same",
        ),
        why="Images are read as bytes, and a layer takes floats.",
        fix="Convert the images to floats, images.float() / 255, or let a transform do it "
        "(ToTensor, ConvertImageDtype).",
    ),
    Cause(
        id="dtype-of-labels",
        errors=("RuntimeError",),
        messages=(
            r"expected target dtype to be Long or Byte",
            r"expected scalar type Long but found",
            r"Expected floating point type for target with class probabilities",
            CAST,
        ),
        examples=(
            "RuntimeError: expected target dtype to be Long or Byte, but got Float",
            "RuntimeError: expected scalar type Long but found Float",
            "RuntimeError: Expected floating point type for target with class probabilities, got "
            "Long",
            CAST_EXAMPLE,
        ),
        why="A loss takes its labels in one dtype.",
        fix="Convert the labels: cross_entropy takes class indices as int64, labels.long(), or a "
        "probability for each class as floats; binary_cross_entropy takes floats, labels.float(). "
        "One-hot labels of integers become indices with labels.argmax(1).",
        told_by="the function is a loss",
    ),
    Cause(
        id="result-in-integers",
        errors=("RuntimeError",),
        messages=(CAST,),
        examples=(CAST_EXAMPLE,),
        why="An operation in place keeps the dtype of its tensor.",
        fix="Create the tensor that is changed in place as floats, torch.zeros(n), instead of "
        "integers.",
        told_by="the function changes its first argument in place",
    ),
    Cause(
        id="two-devices",
        errors=("RuntimeError",),
        messages=(
            r"is not on the expected device",
            r"Expected all tensors to be on the same device",
        ),
        examples=(
            "RuntimeError: Tensor on device meta is not on the expected device cpu!",
            "RuntimeError: Expected all tensors to be on the same device, but found at least two "
            "devices, cuda:0 and cpu!",
        ),
        why="The arguments of an operation are on two devices.",
        fix="Create new tensors on the device of the inputs (torch.arange(n, device=x.device)), "
        "register constants with register_buffer, and layers as attributes or in nn.ModuleList, so "
        "that the model's .to(device) moves them.",
    ),
    Cause(
        id="mixed-dtypes",
        errors=("RuntimeError",),
        messages=DTYPES,
        examples=DTYPE_EXAMPLES,
        why="The arguments of an operation have two dtypes that it does not convert.",
        fix="Give all of them one dtype: x.float() for arrays of numpy, which are float64; "
        "value.to(x.dtype) for what a layer returns under autocast, in half precision, beside "
        "tensors of torch.zeros, which are float32 unless they get dtype=. Leave the weights in "
        "fp32 and compute under autocast.",
    ),
)
