"""Sizes that do not fit, distinguished by the arguments of the call."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

PRODUCT = (
    r"shapes cannot be multiplied|mat1 dim 1 must match mat2 dim 0",
    r"size mismatch, m1: \[",
)
PRODUCT_EXAMPLES = (
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (96x32 and 1024x10)",
    "RuntimeError: size mismatch, m1: [96 x 32], m2: [1024 x 10] at /pytorch/aten/src/TH/generic",
)
BATCHES = r"Expected size for first two dimensions of batch2 tensor to be"
BATCHES_EXAMPLE = (
    "RuntimeError: Expected size for first two dimensions of batch2 tensor to be: [4, 16] but got: "
    "[4, 7]."
)
CHANNELS = r"expected input\s?\[[\d, ]{1,60}\] to have \d{1,9} channels"
CHANNELS_EXAMPLE = (
    "RuntimeError: Given groups=1, weight of size [4, 3, 3, 3], expected input[4, 16, 16, 3] to "
    "have 3 channels, but got 16 channels instead"
)
STATISTICS = r"running_mean should contain \d{1,9} elements not \d{1,9}"
STATISTICS_EXAMPLE = "RuntimeError: running_mean should contain 7 elements not 16"
NORMALIZED = r"expected input with shape \[\*, [\d, ]{1,60}\], but got input of size"
NORMALIZED_EXAMPLE = (
    "RuntimeError: Given normalized_shape=[8], expected input with shape [*, 8], but got input of "
    "size[2, 8, 6, 6]"
)
BROADCAST = r"The size of tensor a \(\d{1,12}\) must match the size of tensor b"
BROADCAST_EXAMPLE = (
    "RuntimeError: The size of tensor a (8) must match the size of tensor b (16) at non-singleton "
    "dimension 3"
)
TARGET = (r"Expected target size \[[\d, ]{1,60}\], got", r"size mismatch \(got input: \[")
TARGET_EXAMPLES = (
    "RuntimeError: Expected target size [4, 31], got [4, 8]",
    "RuntimeError: size mismatch (got input: [2, 6, 7, 5] , target: [2, 6, 7]",
)
ROWS_OF_BATCH = r"Expected input batch_size \(\d{1,12}\) to match target batch_size"
ROWS_EXAMPLE = "ValueError: Expected input batch_size (32) to match target batch_size (8)."
SAME_SIZE = r"Target size \(torch\.Size\(\[[\d, ]{0,60}\]\)\) must be the same as input size"
SAME_SIZE_EXAMPLE = (
    "ValueError: Target size (torch.Size([8])) must be the same as input size (torch.Size([8, 1]))"
)

ROWS = (
    Cause(id="linear-unflattened",
        errors=("RuntimeError",),
        messages=PRODUCT,
        examples=PRODUCT_EXAMPLES,
        why="A Linear works on the last dimension; feature maps or pixels are first joined into "
            "one.",
        fix="Flatten all dimensions but the batch before the first Linear: x = x.flatten(1), or "
            "nn.Flatten().",
        told_by="in_features is the product of several dimensions of the input",
        sources=("torch-linear",),
    ),
    Cause(id="extra-dimension",
        errors=("ValueError", "RuntimeError"),
        messages=(r"[Uu]sing a target size .{1,60} that is different to the input size|"
              r"multi-target not supported",
            SAME_SIZE,
            r"0D or 1D target tensor expected, multi-target not supported",
            r"only batches of spatial targets supported"),
        wordings=(
            Wording(r"too many values to unpack",
                "ValueError: too many values to unpack (expected 2)",
                "The line has a name for each dimension of a tensor or array, which has more of "
                    "them.",
                "Print the shape before the line. Pictures or tokens of a processor "
                    "(return_tensors='pt') have a dimension of samples already: "
                    "pixel_values.squeeze(0) in the dataset, before the collator adds its own. A "
                    "colour picture has channels: height, width = picture.shape[:2]."),),
        examples=("UserWarning: Using a target size (torch.Size([64])) that is different to the "
              "input size (torch.Size([64, 1])). This will likely lead to incorrect results due to "
              "broadcasting.",
            SAME_SIZE_EXAMPLE,
            "RuntimeError: 0D or 1D target tensor expected, multi-target not supported",
            "RuntimeError: only batches of spatial targets supported (3D tensors) but got targets "
              "of dimension: 4"),
        why="One of prediction and target has a dimension that the other lacks: one of size 1, or "
            "that of one-hot labels.",
        fix="Remove it with squeeze: labels.squeeze(1), or prediction.squeeze(-1). argmax(1) turns "
            "one-hot labels into class indices.",
        told_by="the shapes are equal but for one dimension", sources=("torch-functional",),
    ),
    Cause(id="order-of-dimensions",
        errors=("ValueError", "RuntimeError"),
        messages=(*PRODUCT,
            BATCHES,
            CHANNELS,
            STATISTICS,
            *TARGET,
            ROWS_OF_BATCH,
            r"expected input with shape \[\*, [\d, ]{1,60}\], but got input of size",
            r"Expected batch2_sizes\[0\]",
            r"input and target batch or spatial sizes don't match"),
        examples=(*PRODUCT_EXAMPLES,
            BATCHES_EXAMPLE,
            CHANNELS_EXAMPLE,
            STATISTICS_EXAMPLE,
            *TARGET_EXAMPLES,
            ROWS_EXAMPLE,
            "RuntimeError: Given normalized_shape=[8], expected input with shape [*, 8], but got "
              "input of size[2, 8, 6, 6]",
            "RuntimeError: Expected batch2_sizes[0] == bs && batch2_sizes[1] == contraction_size "
              "to be true, but got false.",
            "RuntimeError: input and target batch or spatial sizes don't match: target [2, 7, 5], "
              "input [2, 6, 5, 7]"),
        why="A layer or a loss takes its channels, features or classes in another dimension than "
            "the tensor has them.",
        fix="Put the dimensions into the order that is taken: transpose(1, 2) for three, "
            "permute(0, 3, 1, 2) for images with channels last; a @ b.transpose(-2, -1) for a "
            "product; logits.transpose(1, 2) for cross_entropy, which takes the classes second; "
            "nn.GroupNorm(1, channels) to normalize channels that come second.",
        told_by="the size that is expected stands in another dimension", sources=("torch-docs",),
    ),
    Cause(id="missing-dimension",
        errors=("RuntimeError", "ValueError"),
        messages=(BROADCAST,
            CHANNELS,
            r"Index tensor must have the same number of dimensions as",
            r"expanded size of the tensor \(\d{1,12}\) must match the existing size",
            r"Size does not match at dimension \d+ expected index"),
        wordings=(
            Wording(r"not enough values to unpack \(expected [2-9], got [2-9]\)",
                "ValueError: not enough values to unpack (expected 4, got 3)",
                "The line has a name for each dimension of a tensor or array, which has fewer of "
                    "them.",
                "Print the shape before the line. A single sample lacks the dimension of samples, "
                    "x.unsqueeze(0); a grey picture lacks that of channels, x.unsqueeze(1) in a "
                    "batch."),),
        examples=(BROADCAST_EXAMPLE,
            CHANNELS_EXAMPLE,
            "RuntimeError: Index tensor must have the same number of dimensions as input tensor",
            "RuntimeError: The expanded size of the tensor (20) must match the existing size (16) "
              "at non-singleton dimension 1.  Target sizes: [2, 20].  Tensor sizes: [1, 16]",
            "RuntimeError: Size does not match at dimension 0 expected index [8, 1] to be smaller "
              "than self [4, 10] apart from dimension 1"),
        why="Shapes are aligned at the end: a tensor of fewer dimensions needs its missing ones "
            "where the other has more.",
        fix="Add dimensions of size 1: x[:, None, None, None] for one number per image, mask[:, "
            "None, None] for a mask of keys, images.unsqueeze(1) for one channel, "
            "index.unsqueeze(-1) for gather: values.gather(1, index.unsqueeze(1)).squeeze(1) picks "
            "one value for each row.",
        told_by="the tensor has fewer dimensions than the other", sources=("torch-expand",),
    ),
    Cause(id="recurrent-state",
        errors=("RuntimeError", "IndexError"),
        messages=(r"Expected hidden(?:\[\d\])? size \(\d{1,9}, \d{1,9}, \d{1,9}\), got",
            r"index 1 is out of bounds for dimension 0 with size 1\b"),
        examples=("RuntimeError: Expected hidden size (1, 7, 16), got [1, 4, 16]",
            "IndexError: index 1 is out of bounds for dimension 0 with size 1"),
        why="The state of nn.RNN, nn.LSTM and nn.GRU is [layers * directions, samples, "
            "hidden_size], whatever batch_first is.",
        fix="Create the state for the batch at hand with these sizes, num_layers times 2 if "
            "bidirectional, or pass none: it is zeros then. An LSTM takes a tuple of two, (h, c).",
        sources=("torch-rnn",),
    ),
    Cause(id="layer-size",
        errors=("RuntimeError",),
        messages=(*PRODUCT,
            CHANNELS,
            STATISTICS,
            NORMALIZED,
            BATCHES,
            r"input\.size\(-1\) must be equal to input_size"),
        examples=(*PRODUCT_EXAMPLES,
            BATCHES_EXAMPLE,
            CHANNELS_EXAMPLE,
            STATISTICS_EXAMPLE,
            NORMALIZED_EXAMPLE,
            "RuntimeError: input.size(-1) must be equal to input_size. Expected 10, got 12"),
        why="The layer was made for another number of features or channels than its input has.",
        fix="Make both equal, by in_features, in_channels or num_features of the layer or by what "
            "comes before. In (AxB and CxD), B is the number that the layer gets and C the number "
            "that it takes.",
        told_by="the layer before has another number of outputs", sources=("torch-linear",),
    ),
    Cause(id="short-parameter",
        errors=("RuntimeError",),
        messages=(BROADCAST,),
        examples=(BROADCAST_EXAMPLE,),
        why="A parameter that is added to the input, such as a table of positions, has another "
            "length.",
        fix="Make the parameter as long as the input, with a position for a class token, or cut "
            "the longer one.",
        told_by="one of the tensors is a parameter of the model", sources=("torch-expand",),
    ),
    Cause(id="outputs-and-targets",
        errors=("ValueError", "RuntimeError"),
        messages=(SAME_SIZE, BROADCAST),
        examples=(SAME_SIZE_EXAMPLE, BROADCAST_EXAMPLE),
        why="The last layer has another number of outputs than there are targets for a sample.",
        fix="Give the last layer as many outputs as a sample has targets; one value needs "
            "out_features=1, one class of several cross_entropy with labels.long().",
        told_by="the function is a loss, and only the last dimension differs",
    ),
    Cause(id="odd-images",
        errors=("RuntimeError",),
        messages=(r"Sizes of tensors must match except in dimension",),
        examples=("RuntimeError: Sizes of tensors must match except in dimension 1. Expected size "
              "25 but got size 24 for tensor number 1 in the list.",),
        why="An odd side is halved by a pooling and doubled to another number, so that the images "
            "of a skip connection differ by a pixel.",
        fix="Make both images the same size: use images whose sides are multiples of 2 for each "
            "halving (F.pad), or resize, F.interpolate(deep, size=skip.shape[-2:]).",
        told_by="four dimensions, and the last two differ by a few pixels",
        sources=("torch-tensor-shape",),
    ),
    Cause(id="joined-sizes",
        errors=("RuntimeError",),
        messages=(r"Sizes of tensors must match except in dimension",
            r"stack expects each tensor to be equal size"),
        examples=("RuntimeError: Sizes of tensors must match except in dimension 0. Expected size "
              "8 but got size 5 for tensor number 1 in the list.",
            "RuntimeError: stack expects each tensor to be equal size, but got [3, 4] at entry 0 "
              "and [3, 2] at entry 2"),
        why="Tensors are joined along one dimension and differ in another one.",
        fix="Join them along the dimension that differs, torch.cat(..., dim=n), or pad or cut them "
            "to equal sizes before.",
        sources=("torch-tensor-shape",),
    ),
    Cause(id="memory-of-a-broadcast",
        errors=("RuntimeError",),
        messages=(r"can't allocate memory: you tried to allocate",),
        examples=("RuntimeError: [enforce fail at alloc_cpu.cpp:127] err == 0. "
              "DefaultCPUAllocator: can't allocate memory: you tried to allocate 144000000000000 "
              "bytes. Error code 12",),
        why="Two shapes such as [N] and [N, 1] broadcast to [N, N], with N a large number.",
        fix="Give both tensors the same shape (squeeze, or unsqueeze the other one too): they are "
            "combined pair by pair. If all pairs are wanted, compute them in chunks.",
        told_by="the amount is far above that of the tensors in that line",
    ),
    Cause(id="view-size",
        errors=("RuntimeError",),
        messages=(r"shape '\[[-\d, ]{1,80}\]' is invalid for input of size",
            r"cannot reshape (?:array of size|tensor of 0 elements)"),
        examples=("RuntimeError: shape '[32, 144]' is invalid for input of size 1440",
            "ValueError: cannot reshape array of size 784 into shape (32,28)"),
        why="A view or reshape holds as many values as its tensor.",
        fix="Choose sizes with that product, with -1 for one of them, and x.size(0) for the batch. "
            "A width is divided into heads only if it is a multiple of their number.",
        sources=("torch-infer-size",),
    ),
    Cause(id="number-of-dimensions",
        errors=("IndexError", "RuntimeError"),
        messages=(r"too many indices for (?:tensor of dimension|array)",
            r"number of dimensions in the tensor input does not match the length of",
            r"Dimension out of range \(expected to be in range",
            r"must have same number of dimensions",
            r"the number of sizes provided .{0,20}must be greater or equal to the number"),
        examples=("IndexError: Dimension out of range (expected to be in range of [-1, 0], but got "
              "1)",
            "RuntimeError: Tensors must have same number of dimensions: got 3 and 2",
            "RuntimeError: expand(torch.FloatTensor{[4, 8]}, size=[8]): the number of sizes "
              "provided (1) must be greater or equal to the number of dimensions in the tensor (2)",
            "IndexError: too many indices for tensor of dimension 2",
            "RuntimeError: permute(sparse_coo): number of dimensions in the tensor input does not "
              "match the length of the desired ordering of dimensions i.e. input.dim() = 4 is not "
              "equal to len(dims) = 3"),
        why="An index or permute names another number of dimensions than the tensor has.",
        fix="Name as many dimensions as there are, or keep the one that is missing: squeeze() and "
            "an index remove one, unsqueeze adds one.",
    ),
    Cause(id="differing-sizes",
        errors=("RuntimeError", "IndexError"),
        messages=(BROADCAST,
            r"expanded size of the tensor \(\d{1,12}\) must match the existing size",
            r"shape of the mask \[[\d, ]{1,60}\] at index \d{1,3} does not match the shape of",
            r"cannot be broadcast to indexing result",
            r"operands could not be broadcast together|could not broadcast input array|boolean "
              r"index did not match"),
        examples=(BROADCAST_EXAMPLE,
            "RuntimeError: The expanded size of the tensor (20) must match the existing size (16) "
              "at non-singleton dimension 1.  Target sizes: [2, 20].  Tensor sizes: [1, 16]",
            "IndexError: The shape of the mask [4, 9] at index 1 does not match the shape of the "
              "indexed tensor [4, 8, 31] at index 1",
            "RuntimeError: shape mismatch: value tensor of shape [3, 8] cannot be broadcast to "
              "indexing result of shape [5, 8]",
            "ValueError: operands could not be broadcast together with shapes (32,10) (10,32)"),
        why="Two tensors are combined whose sizes differ, and neither is 1.",
        fix="Make the sizes equal, or 1 in one of them: truncate samples to the model's positions, "
            "cut a mask as its tensor (x[mask] compares the dimensions from the left), give both "
            "branches of a residual block the same stride.",
        sources=("torch-expand",),
    ),
)  # fmt: skip
