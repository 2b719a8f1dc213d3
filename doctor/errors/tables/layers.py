"""Inputs and settings that a layer refuses."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS = (
    Cause(id="attention-mask-shape",
        errors=("RuntimeError", "AssertionError", "ValueError"),
        messages=(r"attn_mask is torch\.Size",
            r"Expected attn_mask shape to be",
            r"key_padding_mask shape of|key_padding_mask\.shape",
            r"key_padded_mask\.shape"),
        examples=("AssertionError: Expected attn_mask shape to be (4, 4) but got torch.Size([5, "
              "5])",
            "AssertionError: expecting key_padding_mask shape of (4, 7), but got torch.Size([7, "
              "4])",
            "RuntimeError: The shape of the 3D attn_mask is torch.Size([8, 6, 6]), but should be "
              "(32, 6, 6).",
            "AssertionError: Expected key_padded_mask.shape[0] to be 7, but got 4"),
        why="A mask of attention has another shape than queries and keys, or the samples come "
            "first and the attention takes the length first.",
        fix="Give attn_mask the shape (queries, keys), or (batch * heads, queries, keys), "
            "mask.repeat_interleave(num_heads, dim=0), and key_padding_mask (batch, keys); both "
            "bool, True where a key is hidden. Pass batch_first=True to the layer if the samples "
            "come first in its input.",
        sources=("torch-functional",),
    ),
    Cause(id="layer-arguments",
        errors=("ValueError", "NotImplementedError", "RuntimeError", "AssertionError", "TypeError"),
        wordings=(
            Wording(r"Input and output sizes should be greater than 0|only one of size or "
                r"scale_factor should be defined|Input Error: Only 3D, 4D and 5D input Tensors "
                r"supported",
                "RuntimeError: Input and output sizes should be greater than 0, but got input (H: "
                    "196, W: 0)",
                "interpolate takes either the new size or a factor, and its mode is for a certain "
                    "number of dimensions.",
                "Pass either size= or scale_factor= to interpolate, not both. Give it the "
                    "dimensions of its mode, samples and channels first: [batch, channels, time] "
                    "for linear, [batch, channels, height, width] for bilinear and bicubic, one "
                    "more for trilinear. unsqueeze(1) adds the channel. A size of 0 is an empty "
                    "input: a crop, a mask or a map of labels without any element; leave such "
                    "samples out."),
            Wording(r"(?:input|target)_lengths must be of size",
                "RuntimeError: input_lengths must be of size batch_size",
                "ctc_loss takes log-probabilities with the time first, [T, N, C], and one length "
                    "for each sample. Of [N, T, C] it takes the samples for the time.",
                "Pass log_probs.transpose(0, 1) to ctc_loss where the samples come first in it, as "
                    "in the output of a batch_first layer: it takes [T, N, C]. The lengths are one "
                    "number for each of the N samples, torch.full((N,), T) for whole sequences."),
            Wording(r"Expected input_lengths to have value|Expected tensor to have size at least "
                r"\d+ at dimension \d+, but got size \d+ for argument",
                "RuntimeError: Expected input_lengths to have value at most 10, but got value 12 "
                    "(while checking arguments for ctc_loss_cpu)",
                "The lengths for CTC are those of the frames before the model's strides, or a "
                    "target is longer than its input.",
                "Pass lengths of the sequences after the model's strides, at most the length of "
                    "the input, and targets that are shorter than it."),
            Wording(r"Fan in and fan out can not be computed",
                "ValueError: Fan in and fan out can not be computed for tensor with fewer than 2 "
                    "dimensions",
                "Xavier and Kaiming initialization are for tensors with at least two dimensions; "
                    "biases and weights of norms have one.",
                "Initialize matrices only, if p.dim() > 1: biases and the weights of norms have "
                    "one dimension."),
            Wording(r"Padding_idx must be within num_embeddings",
                "AssertionError: Padding_idx must be within num_embeddings",
                "padding_idx counts as a row of the table.",
                "Choose a padding_idx below num_embeddings, or add rows to the table: "
                    "num_embeddings counts the padding token too."),
            Wording(r"padding='same' is not supported for strided",
                "ValueError: padding='same' is not supported for strided convolutions",
                "padding='same' keeps the size, which a stride above 1 does not.",
                "Write the padding as a number where stride is above 1: padding=kernel_size // 2 "
                    "for an odd kernel halves the size at a stride of 2 (padding=1 for 3)."),
            Wording(r"weight tensor should be defined either for all",
                "RuntimeError: weight tensor should be defined either for all 5 classes or no "
                    "classes but got weight tensor of shape: [3]",
                "weight= of the loss has another length than there are classes.",
                "Give weight= one value for each class, in the order of the classes: as many as "
                    "the last layer has outputs."),
            Wording(r"Expected more than 1 value per channel|Expected more than 1 spatial element",
                "ValueError: Expected more than 1 value per channel when training, got input size "
                    "torch.Size([1, 6])",
                "A norm in training computes a variance, over the batch or over one channel of an "
                    "image, which needs two values.",
                "Use more samples per batch, 8 or more (two become 1 and -1), and drop_last=True "
                    "in the DataLoader where only the last batch has one; for an instance norm "
                    "larger images or fewer poolings and strides before it; or a norm that does "
                    "not depend on the batch (GroupNorm, LayerNorm).",
                more=("ValueError: Expected more than 1 spatial element when training, got input "
                      "size torch.Size([6, 8, 1, 1])",)),
            Wording(r"Kernel size can't be greater than actual input size|Padding size should be "
                r"less than the corresponding input|Output size is too small|Calculated padded "
                r"input size per channel",
                "RuntimeError: Calculated padded input size per channel: (2 x 2). Kernel size: (3 "
                    "x 3). Kernel size can't be greater than actual input size",
                "After poolings and strides less of the image is left than the next kernel covers.",
                "Use larger images, or fewer poolings and strides before that layer: the kernel is "
                    "larger than what is left of the image.",
                more=("RuntimeError: Given input size: (4x1x1). Calculated output size: (4x0x0). "
                      "Output size is too small",)),
            Wording(r"doesn't match model \(",
                "ValueError: Input image size (48*48) doesn't match model (32*32).",
                "The images have another size than the model's configuration.",
                "Resize the images to the image_size of the model's configuration, as its image "
                    "processor does, or pass interpolate_pos_encoding=True to the forward pass."),
            Wording(r"Expected \d-dimensional input for \d-dimensional weight|Expected \dD "
                r"\(unbatched\) or \dD \(batched\) input|expected \dD (?:or \dD )?input|Expected "
                r"\dD or \dD, but|input must have \d dimensions|For (?:un)?batched \d-D input|"
                r"Expected input to be 2D or 3D",
                "RuntimeError: Expected 4-dimensional input for 4-dimensional weight [64, 3, 7, "
                    "7], but got 3-dimensional input",
                "A layer got an input with another number of dimensions than it is for.",
                "Give the layer an input with the dimensions that it names: unsqueeze(0) adds the "
                    "dimension of the batch, unsqueeze(1) that of one channel, and flatten(1) "
                    "removes those behind the first.",
                more=("ValueError: expected 4D input (got 2D input)",
                    "RuntimeError: input must have 3 dimensions, got 2",
                    "RuntimeError: For batched 3-D input, hx should also be 3-D but got 2-D tensor",
                    "AssertionError: GRU: Expected input to be 2D or 3D, got 4D instead",
                    "ValueError: LSTM: Expected 2D or 3D, but got 4D",
                    "RuntimeError: Expected 3D (unbatched) or 4D (batched) input to conv2d, but "
                      "got input of size: [3]")),
            Wording(r"must be tuple of ints|invalid combination of arguments - got \(tuple|failed "
                r"to unpack the object at pos|object cannot be interpreted as an integer|slice "
                r"indices must be integers",
                "TypeError: empty() received an invalid combination of arguments - got (tuple, "
                    "dtype=NoneType, device=NoneType), but expected one of:",
                "A size or a count is not a whole number: a division gives a float, and texts of a "
                    "configuration are strings.",
                "Pass whole numbers as sizes: // instead of / for a division, int(...) for a value "
                    "of a configuration, and not None.",
                more=("TypeError: empty(): argument 'size' failed to unpack the object at pos 1 "
                      "with error " '"type must be tuple of ints,but got float"',
                    "TypeError: 'float' object cannot be interpreted as an integer",
                    "TypeError: slice indices must be integers or None or have an __index__ "
                      "method"))),
        why="A layer or a function of torch.nn got an argument or an input that contradicts the "
            "others.",
        sources=("torch-functional", "torch-rnn"),
    ),
)  # fmt: skip
