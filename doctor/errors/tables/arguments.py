"""Arguments that are None, of another type or dtype, or outside of what is allowed."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

NONE = (
    r"'NoneType' object (?:has no attribute|is not (?:callable|iterable|subscriptable))",
    r"must be Tensor, not NoneType",
    r"(?:but got|of type|and) '?NoneType\b",
    r"argument after \*{1,2} must be (?:a mapping|an iterable), not NoneType",
)
NONE_EXAMPLES = (
    "AttributeError: 'NoneType' object has no attribute 'unsqueeze'",
    "TypeError: layer_norm(): argument 'input' (position 1) must be Tensor, not NoneType",
    "TypeError: expected Tensor as element 1 in argument 0, but got NoneType",
    "TypeError: load_dataset() argument after ** must be a mapping, not NoneType",
)
OF_TENSORS = (
    r"dim|ndim|ndimension|size|shape|stride|numel|element_size|to|type|type_as|float|double|long|"
    r"half|bfloat16|bool|int|cuda|cpu|device|dtype|is_cuda|is_floating_point|view|view_as|reshape|"
    r"squeeze|unsqueeze|permute|transpose|t|T|flatten|contiguous|repeat|expand|expand_as|chunk|split|"
    r"unbind|narrow|masked_fill|masked_select|index_select|gather|scatter|fill|zero|new|new_zeros|"
    r"new_ones|new_full|new_tensor|clone|detach|item|tolist|numpy|data|grad|grad_fn|requires_grad|"
    r"retain_grad|backward|add|sub|mul|div|matmul|mm|bmm|pow|sqrt|exp|log|abs|clamp|relu|sigmoid|tanh|"
    r"softmax|log_softmax|sum|mean|std|var|norm|max|min|argmax|argmin|topk|eq|ne|gt|lt|ge|le|logits|"
    r"loss|parameters"
)
"""Attributes of tensors, of what a model returns and of a module."""
CAST = r"result type \w{1,20} can't be cast to the desired output type"
CAST_EXAMPLE = "RuntimeError: result type Float can't be cast to the desired output type Long"
ROWS = (
    Cause(
        id="ignored-label-as-index",
        errors=("IndexError", "RuntimeError"),
        messages=(
            r"index (?:-1|-100|255) is out of bounds for dimension",
            r"Class values must be (?:smaller|non-negative)",
        ),
        examples=(
            "IndexError: index 255 is out of bounds for dimension 0 with size 26",
            "RuntimeError: Class values must be smaller than num_classes.",
        ),
        why="-100, -1 and 255 mark labels that a loss ignores; they are no index.",
        fix="Replace them before they are used as an index, labels.masked_fill(labels == -100, "
        "0), and leave these places out of the result.",
        told_by="the index is -100, -1 or 255",
        sources=("torch-losses",),
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
        sources=("torch-distribution",),
    ),
    Cause(
        id="module-without-return",
        errors=("AttributeError", "TypeError"),
        messages=NONE,
        examples=NONE_EXAMPLES,
        why="A function without return gives None.",
        fix="Return the result at the end of the function whose value is used in that line.",
        told_by="the value is what a module or a function of yours returned",
        sources=("python-exceptions",),
    ),
    Cause(
        id="value-is-none",
        errors=("AttributeError", "TypeError"),
        messages=(
            r"cannot unpack non-iterable NoneType|Could not infer dtype of NoneType|not supported "
            r"between instances of (?:'NoneType'|'\w{1,20}' and 'NoneType)",
            *NONE,
        ),
        examples=("TypeError: cannot unpack non-iterable NoneType object", *NONE_EXAMPLES),
        why="A variable, an attribute or an argument that was not passed is None.",
        fix="Look at where it is assigned: an argument that the call leaves out, a function "
        "without return, dict.get of an absent key, an option that the configuration lacks, or a "
        "layer that __init__ left out. Handle None before that line where it is allowed.",
        wordings=(
            Wording(
                r"expected str, bytes or os\.PathLike object, not NoneType",
                "TypeError: expected str, bytes or os.PathLike object, not NoneType",
                "A path is None where a file or a directory is opened or made.",
                "Give the path that is None in the last line of the traceback that is your own: an "
                "option without default that the command leaves out (argparse gives None), an "
                "environment variable that is not set, a key that the configuration lacks. If that "
                "line loads a tokenizer, the directory lacks its vocabulary file: copy it there "
                "from the base model.",
            ),
        ),
        told_by="the name in that line is a parameter, a variable or an attribute",
        sources=("python-exceptions",),
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
        sources=("torch-rnn",),
        why="nn.LSTM and nn.GRU return (output, state), nn.MultiheadAttention (output, weights).",
        fix="Take the tensor out of the tuple, output[0]. In nn.Sequential that needs a module of "
        "its own, whose forward returns x[0].",
        told_by="the layer before returns more than its output",
    ),
    Cause(
        id="no-tensor",
        errors=("AttributeError", "TypeError"),
        messages=(
            r"expected Tensor as element \d{1,6} in argument",
            r"must be Tensor, not \w",
            rf"'(?:tuple|list|str|dict)' object has no attribute '(?:{OF_TENSORS})_?'",
        ),
        examples=(
            "TypeError: expected Tensor as element 0 in argument 0, but got list",
            "TypeError: cross_entropy_loss(): argument 'target' (position 2) must be Tensor, not "
            "dict",
            "AttributeError: 'list' object has no attribute 'dim'",
        ),
        why="A function of torch got something else than a tensor.",
        fix="Pass a tensor: texts and words as numbers (ids of a tokenizer, names.index(name)), "
        "arrays by torch.from_numpy, a list of tensors by torch.stack, a record of a model of "
        "transformers by its field, .logits, a tuple by its member, x[0], a PackedSequence by "
        "nn.utils.rnn.pad_packed_sequence. Where the model itself was passed, call it: the third "
        "value of a factory is a function loss(module, batch).",
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
        wordings=(
            Wording(
                r"not enough values to unpack \(expected \d, got 0\)",
                "ValueError: not enough values to unpack (expected 3, got 0)",
                "There is nothing to unpack: the value is empty. It is zip(*batch) of a dataset or "
                "batch without samples, or an empty line of a file that is split.",
                "Print the value before the line. A dataset without samples: the lines above name "
                "those that were ignored (labels beyond the number of classes, files that are "
                "missing or damaged). Correct the path, or the labels and the number and names of "
                "the classes, delete cached lists (labels.cache), and print len(dataset). An empty "
                "line: skip it, if not line.strip().",
            ),
            Wording(
                r"not enough values to unpack \(expected 4, got 1\)",
                "ValueError: not enough values to unpack (expected 4, got 1)",
                "The value has one part where the line has four names. Of tn, fp, fn, tp = "
                "confusion_matrix(...).ravel() it is one where labels and predictions have one "
                "class only.",
                "Print the value before the line. confusion_matrix(y_true, y_pred, labels=[0, 1]) "
                "always has four numbers; then look at why there is one class: the split has a "
                "single one, or the model predicts only that. A line that is split needs its own "
                "separator.",
            ),
        ),
        why="The value has more or fewer parts than the line has names: a tuple of a function or a "
        "loader, the shape of a tensor, or a tensor, which is unpacked along its first dimension.",
        fix="Print the value, or its shape, before the line. For a function or a loader that "
        "returns another number of parts, assign as many names, _ for one that is not needed. For "
        "a shape, the tensor has a dimension too many (squeeze) or too few (unsqueeze). A tensor "
        "is transposed first, x.t(), or taken apart by .unbind(-1).",
        sources=("python-exceptions",),
    ),
    Cause(
        id="division-by-zero",
        errors=("ZeroDivisionError", "RuntimeError"),
        messages=(r"ZeroDivisionError(?!\()", r"(?:division|modulo) by zero"),
        examples=("RuntimeError: ZeroDivisionError", "ZeroDivisionError: division by zero"),
        why="A number of Python, or whole numbers of a tensor, are divided by 0, which raises; "
        "tensors of floats give inf.",
        fix="Look at why the divisor is 0: an empty group, a schedule with T_max, step_size or "
        "total_steps of 0. A number of steps or batches, or the length of a loader, is 0 where the "
        "data have fewer rows than a batch (drop_last) or none are left: lower the batch size, or "
        "give more data. Where groups may be empty, divisor.clamp(min=1), or leave them out.",
        sources=("python-exceptions",),
    ),
    Cause(
        id="integers-for-floats",
        errors=("NotImplementedError", "RuntimeError"),
        messages=("not implemented for '(?:Long|Int)'",),
        examples=(
            "NotImplementedError: \"log_softmax_lastdim_kernel_impl\" not implemented for 'Long'",
        ),
        wordings=(
            Wording(
                r"nll_loss\w{0,60}\"? not implemented for '(?:Int|Short|Char|Byte)'",
                'RuntimeError: "nll_loss_forward_reduce_cuda_kernel_2d_index" not implemented '
                "for 'Int'",
                "Class labels of cross_entropy and nll_loss are int64.",
                "Convert the labels: labels.long(), or dtype=torch.long where they are made.",
            ),
        ),
        why="The operation is for floats: a loss got the labels first, or a layer integers or "
        "booleans.",
        fix="Change the order to loss(prediction, target), or convert the tensor with .float().",
        sources=("torch-losses",),
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
        sources=("torch-embedding",),
    ),
    Cause(
        id="images-of-bytes",
        refines=("dtype-mismatch",),
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
        "One-hot labels of integers become indices with argmax over the dimension of the classes.",
        told_by="the function is a loss",
        sources=("torch-losses",),
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
)
