"""Dtypes and kinds of values that do not fit."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="dtype-of-operation",
        errors=("RuntimeError", "IndexError", "TypeError", "ValueError"),
        wordings=(
            Wording(r"tensors used as indices must be|expected (?:tensor|scalar type) "
                r".{0,20}int64 for index|(?:gather|scatter\w{0,9}|index_\w{3,7})\(\): Expected "
                r"(?:dtype int(?:32(?:/| or )int)?64|a long tensor) for index",
                "RuntimeError: gather(): Expected dtype int64 for index",
                "Indices of an embedding or of x[index] are integers (int64) or a bool mask.",
                "Convert the index to int64 where it is made: index.long(), ids.long(). An array "
                "or tensor that holds whole numbers beside floats is one of floats, and so is "
                "each of its columns. A mask of 0 and 1 becomes one with mask.bool().",
                more=("RuntimeError: scatter(): Expected dtype int64 for index",
                    "RuntimeError: index_add_(): Expected dtype int32/int64 for index but got: "
                    "Double",
                    "RuntimeError: index_select(): Expected dtype int32 or int64 for index",
                    "RuntimeError: index_copy_(): Expected a long tensor for index, but got "
                    "Float")),
            Wording("could not infer output dtype",
                "RuntimeError: mean(): could not infer output dtype. Input dtype must be either "
                "a floating point or complex dtype. Got: Long",
                "Integers have no mean or deviation in torch.",
                "Convert before the mean: x.float().mean(). Integers have no mean in torch."),
            Wording("one_hot is only applicable to index tensor",
                "RuntimeError: one_hot is only applicable to index tensor of type LongTensor.",
                "one_hot takes int64 labels.",
                "Convert the labels first: F.one_hot(labels.long(), classes)."),
            Wording("value cannot be converted to type .{0,40}without overflow",
                "RuntimeError: value cannot be converted to type at::Half without overflow",
                "A constant is larger than the dtype holds: fp16 ends at 65504.",
                "Replace the constant by torch.finfo(x.dtype).min, or by float('-inf') for a "
                "mask: fp16 holds numbers up to 65504 only."),
            Wording("only bool and floating types of|only supports boolean masks|condition to "
                "be a boolean tensor|expected BoolTensor for mask|with a bool tensor is not "
                "supported|on a bool tensor is not supported",
                "AssertionError: only bool and floating types of key_padding_mask are supported",
                "The mask holds integers or floats where booleans are wanted (where, "
                "masked_fill, attention), or booleans are subtracted.",
                "Pass a mask of booleans: mask.bool(), or mask == 0 for what is hidden. Invert "
                "it with ~mask, and calculate with mask.float(). key_padding_mask is True where "
                "a key is hidden, while the mask of a tokenizer has 1 where there is text.",
                more=("RuntimeError: masked_fill_ only supports boolean masks, but got mask "
                    "with dtype long int",
                    "RuntimeError: masked_select: expected BoolTensor for mask",
                    "RuntimeError: where expected condition to be a boolean tensor, but got a "
                    "tensor with dtype Float",
                    "RuntimeError: Negation, the `-` operator, on a bool tensor is not "
                    "supported.",
                    "RuntimeError: Subtraction, the `-` operator, with a bool tensor is not "
                    "supported.")),
            Wording(r"too many dimensions 'str'|new\(\): invalid data type 'str'|can't convert "
                r"np\.ndarray of type numpy\.",
                "TypeError: new(): invalid data type 'str'",
                "A tensor holds numbers; a sample or a column holds texts or Python objects.",
                "Convert texts and objects to numbers first: class names to indices with a "
                "dict, texts with a tokenizer, columns of a table with astype(float).",
                more=("TypeError: can't convert np.ndarray of type numpy.object_. The only "
                    "supported types are: float64, float32",
                    "ValueError: too many dimensions 'str'")),
            Wording("TextEncodeInput must be Union|text input must be of type `?str",
                "TypeError: TextEncodeInput must be Union[TextInputSequence, "
                "Tuple[InputSequence, InputSequence]]",
                "The tokenizer got something other than texts: an empty field (None or NaN), a "
                "number, a list of messages, or a whole column object.",
                'Drop or fill empty fields (dataset.filter(lambda row: isinstance(row["text"], '
                "str))), convert with str(), turn messages into text with "
                "tokenizer.apply_chat_template(..., tokenize=False), and columns into lists."),
            Wording("only one element tensors can be converted to Python scalars|cannot be "
                "converted to Scalar|only integer tensors of a single element can be converted",
                "RuntimeError: a Tensor with 3 elements cannot be converted to Scalar",
                "A tensor with several values is used as one Python number.",
                "Join tensors with torch.stack instead of torch.tensor, and reduce a tensor "
                "(mean, sum) before .item() or float().",
                more=("TypeError: only integer tensors of a single element can be converted to "
                    "an index",
                    "ValueError: only one element tensors can be converted to Python scalars"))),
        why="The function takes one dtype only: int64 for indices and labels, floats for means, "
            "numbers within the range of the dtype.",
        sources=("torch-functional",)),
    Cause(id="ambiguous-truth",
        errors=("RuntimeError", "ValueError"),
        messages=("Boolean value of Tensor with more than one value is ambiguous",
            "truth value of an array with more than one element is ambiguous"),
        examples=("ValueError: The truth value of an array with more than one element is "
            "ambiguous. Use a.any() or a.all()",
            "RuntimeError: Boolean value of Tensor with more than one value is ambiguous"),
        why="A condition (if, and, or, ==) got a tensor with several values; a criterion such "
            "as nn.CrossEntropyLoss does where it gets the tensors when it is created.",
        fix="Compare tensors with torch.equal, or reduce the condition with .any() or .all(). "
            "Create a criterion first, then call it: nn.CrossEntropyLoss()(output, labels)."),
    Cause(id="half-precision-kernel",
        errors=("RuntimeError", "NotImplementedError"),
        messages=(r"not implemented for '(?:BFloat16|Half|Float8_\w{4,10})'",),
        examples=("NotImplementedError: \"cdist_cuda\" not implemented for 'Half'",),
        sources=("pytorch-101932",),
        why="torch has no kernel for this operation in half precision, and autocast does not "
            "convert its input.",
        fix="Compute this operation in fp32: torch has no kernel for it in half precision, and "
            "autocast does not convert its input. Upgrade torch if it is old: newer versions "
            "have more such kernels (triu and tril in bf16 since torch 2.1). On a CPU most "
            "half-precision kernels are missing: use float32 there. Else call it with "
            "x.float():\nwith torch.autocast('cuda', enabled=False):"),
)  # fmt: skip
