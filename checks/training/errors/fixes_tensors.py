"""Tensors that a function refuses: shapes, dtypes, devices.

Cause of `doctor.facts.code_errors.CODE` -> its remedy.
"""

from __future__ import annotations

FIXES = {
    "the size of images": (
        "Resize the images to the image_size of the model's configuration, as its image processor "
        "does, or pass interpolate_pos_encoding=True to the forward pass."
    ),
    "mps": (
        "Choose the device by what is there: 'mps' is for PyTorch on a Mac. The doctor moves the "
        "model to the job's device."
    ),
    "the name of a device": "Write the device as 'cuda', 'cuda:0', 'mps' or 'cpu'.",
    "weights of classes": (
        "Give weight= one value for each class, in the order of the classes: as many as the last "
        "layer has outputs."
    ),
    "a slice of floats": "Write // for / where the index is computed: it must be a whole number.",
    "one-hot of floats": "Convert the labels first: F.one_hot(labels.long(), classes).",
    "a kernel for integers": (
        "Convert the tensor with .float(): this operation is for floats, and it got integers or "
        "booleans."
    ),
    "text as a tensor": (
        "Convert texts and objects to numbers first: class names to indices with a dict, texts "
        "with a tokenizer, columns of a table with astype(float)."
    ),
    "dimensions of an input": (
        "Give the layer an input with the dimensions that it names: unsqueeze(0) adds the "
        "dimension of the batch, unsqueeze(1) that of one channel, and flatten(1) removes those "
        "behind the first."
    ),
    "an image that is too small": (
        "Use larger images, or fewer poolings and strides before that layer: the kernel is larger "
        "than what is left of the image."
    ),
    "targets with channels": (
        "Pass the labels of a segmentation as class indices of shape (batch, height, width): "
        "squeeze(1) removes a dimension of one channel, argmax(1) turns one-hot masks into "
        "indices."
    ),
    "one-hot targets": (
        "Pass class indices of shape (batch,): targets.squeeze(1) for a column, targets.argmax(1) "
        "for one-hot labels."
    ),
    "classes in the second place": (
        "Put the classes into the second dimension for cross_entropy: logits.transpose(1, 2), or "
        "flatten both, logits.flatten(0, 1) with labels.flatten()."
    ),
    "a state of another batch": (
        "Create the hidden state for the batch at hand, torch.zeros(layers, x.size(0), hidden), "
        "whose dimensions batch_first=True does not change. If the batch is the first dimension of "
        "the input, give the layer batch_first=True. The last batch of a DataLoader is smaller."
    ),
    "statistics of a norm": ("Match num_features of the batch norm to the channels of its input."),
    "one element": (
        "Join tensors with torch.stack instead of torch.tensor, and reduce a tensor (mean, sum) "
        "before .item() or float()."
    ),
    "a tuple of outputs": (
        "Take the tensor out of the tuple or list: nn.LSTM, nn.GRU and nn.MultiheadAttention "
        "return (output, state), and some models a list of outputs; torch.stack joins a list of "
        "tensors."
    ),
    "another type than a tensor": (
        "Pass a tensor there: torch.as_tensor(x) for arrays, lists and numbers, and the encoded "
        "ids for a text. A NoneType comes from a function without return, such as a forward."
    ),
    "lengths of sequences": (
        "Pass lengths.cpu() to pack_padded_sequence, all above 0, and enforce_sorted=False unless "
        "the batch is sorted by length."
    ),
    "the shape of a mask": (
        "Give attn_mask the shape (queries, keys), or (batch * heads, queries, keys), and "
        "key_padding_mask (batch, keys); both bool, True where a key is hidden."
    ),
    "a tensor without dimensions": (
        "Keep a dimension: the tensor is a single number there, as after squeeze() or a "
        "reduction. unsqueeze(0) or reshape(1) adds one."
    ),
    "lengths for CTC": (
        "Pass lengths of the sequences after the model's strides, at most the length of the "
        "input, and targets that are shorter than it."
    ),
    "a mask of numbers": ("Pass a mask of booleans: mask.bool(), or mask == 0 for what is hidden."),
    "groups of channels": (
        "Choose numbers that divide: channels by groups (or num_groups), width by heads, the "
        "channels before a PixelShuffle by the square of its factor."
    ),
    "numbers of dimensions": (
        "Print the shapes before that line: the tensors have different numbers of dimensions; "
        "unsqueeze adds one."
    ),
    "a constant beyond the dtype": (
        "Replace the constant by torch.finfo(x.dtype).min, or by float('-inf') for a mask: fp16 "
        "holds numbers up to 65504 only."
    ),
    "strides": (
        "Write reshape instead of view in that line, or call contiguous() before it: the number "
        "of values fits, their order in memory does not, as after transpose or permute."
    ),
    "two devices": (
        "Create new tensors on the device of the inputs (torch.arange(n, device=x.device)), "
        "register constants with register_buffer, and move nothing by hand: the doctor moves the "
        "model and the batch to the job's device."
    ),
    "channels": (
        "Match the number of channels: the first layer expects another number than the batch has. "
        "Images are (batch, channels, height, width); permute(0, 3, 1, 2) turns (batch, height, "
        "width, channels) into that, and gray images need in_channels=1."
    ),
    "matrix shapes": (
        "Match the inner dimensions of the two matrices (print their shapes before that line): "
        "for a linear layer, in_features is the last dimension of its input, and after a "
        "convolution flatten(1) gives channels * height * width; for the product of two "
        "activations transpose one, as in q @ k.transpose(-2, -1)."
    ),
    "batch sizes": (
        "Give prediction and target the shape that the loss needs: logits (batch, classes) with "
        "labels (batch,), for tokens logits.flatten(0, 1) with labels.flatten(), for a regression "
        "two equal shapes, as squeeze(-1) makes them."
    ),
    "sizes of two tensors": (
        "Print the shapes of both tensors in that line: sizes that differ must be 1 in one of "
        "them. Prediction and target of a regression need equal shapes, as squeeze(-1) makes "
        "them; a residual connection needs a branch that keeps the shape."
    ),
    "shapes": ("Print the shapes before that line: the sizes do not fit."),
    "one spatial element": (
        "Give the instance norm more than one value in each channel: larger images, fewer poolings "
        "and strides before it, or another norm (GroupNorm, LayerNorm) where one pixel is left."
    ),
    "one value per channel": (
        "Use at least two samples per batch (drop_last=True in the DataLoader), or a norm that "
        "does not depend on the batch (GroupNorm, LayerNorm)."
    ),
    "target dtype": (
        "Convert the labels: cross_entropy and nll_loss need class indices as int64 "
        "(labels.long()), binary_cross_entropy_with_logits and mse_loss need floats "
        "(labels.float())."
    ),
    "index dtype": "Pass token ids to the embedding as int64: ids.long().",
    "mixed dtypes": (
        "Cast inputs to the dtype of the weights, or leave the weights in fp32 and compute under "
        "autocast (--recipe amp). numpy arrays are float64: torch.from_numpy(x).float()."
    ),
    "probabilities": (
        "Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) on the raw outputs: "
        "binary_cross_entropy needs probabilities between 0 and 1."
    ),
    "unsafe under autocast": (
        "Use binary_cross_entropy_with_logits (BCEWithLogitsLoss) and omit the sigmoid: "
        "binary_cross_entropy is not allowed under autocast."
    ),
    "numpy in half precision": (
        "Call .float() before .numpy(): numpy has no bfloat16, which autocast returns."
    ),
    "numpy": (
        "Call detach().cpu() before numpy(), and do not compute a part of the loss in numpy: no "
        "gradient flows through it."
    ),
    "heads": "Choose a width that is a multiple of the number of heads.",
    "an ambiguous truth": (
        "Compare tensors with torch.equal, or reduce the condition by .any() or .all()."
    ),
    "a dimension": (
        "Print the shape before that line: the tensor has fewer dimensions than the code expects, "
        "as after squeeze() or an index that removes one."
    ),
    "flash in fp32": (
        "Load the model in bf16 or fp16, or use attn_implementation='sdpa': flash attention has "
        "no kernel for fp32."
    ),
    "a generator of another device": (
        "Create the generator on the device of the tensors, torch.Generator(device=...); a "
        "DataLoader shuffles on the CPU, so do not set a default device of cuda around it."
    ),
    "lists of other lengths": (
        "Pad the lists to one length before they become a tensor: pad_sequence of "
        "torch.nn.utils.rnn, padding=True of a tokenizer, or a data collator that pads "
        "(DataCollatorWithPadding, DataCollatorForSeq2Seq for labels) as the Trainer's "
        "data_collator."
    ),
    "a mean of integers": (
        "Convert before the mean: x.float().mean(). Integers have no mean in torch."
    ),
    "arithmetic with a mask": (
        "Invert a mask with ~mask, and calculate with mask.float(): a bool tensor cannot be "
        "subtracted."
    ),
    "a mask of integers": (
        "Convert the mask with mask.bool(), True where a key is hidden: a mask of a tokenizer has "
        "1 where there is text, so key_padding_mask=mask == 0."
    ),
    "the size of an interpolation": (
        "Pass either size= or scale_factor= to interpolate, not both."
    ),
    "dimensions of an interpolation": (
        "Give interpolate the dimensions of its mode, samples and channels first: [batch, "
        "channels, time] for linear, [batch, channels, height, width] for bilinear and bicubic, "
        "one more for trilinear. unsqueeze(1) adds the channel."
    ),
    "a divergence": (
        "Compare distributions of one kind, or estimate the divergence from samples: "
        "x = p.rsample(); (p.log_prob(x) - q.log_prob(x)).mean()."
    ),
    "windows": (
        "Choose a window of at most the length of that dimension, or pad it first: "
        "torch.nn.functional.pad(x, (0, size - x.shape[-1]))."
    ),
    "values for a mask": (
        "Select the same rows of the value: out[mask] = value[mask]. A mask takes as many rows as "
        "it has True."
    ),
    "the shape of an index": (
        "Give the index of scatter the shape of what it writes: index.expand_as(source), and "
        "index.unsqueeze(-1).expand(-1, channels) for whole rows. scatter with a smaller index "
        "writes a part only, and its backward pass needs equal shapes; index_add writes whole "
        "rows by an index with one dimension."
    ),
    "an index of floats": ("Convert the index with .long(): an index is int64 or a bool mask."),
    "features of a recurrent layer": (
        "Set input_size of the layer to the last size of its input, which the message names as "
        "the second number."
    ),
    "an empty list": (
        "Check the list before torch.stack or torch.cat: it is empty, as after a loop or a "
        "filter that took nothing."
    ),
    "an empty selection": (
        "Check the tensor before the reduction: it has no elements, as after a mask that is "
        "False throughout."
    ),
    "a size that is called": ("Write x.shape without parentheses, or x.size()."),
    "sizes of a layer": (
        "Pass whole numbers as sizes: // instead of / for a division, int(...) for a value of a"
        " configuration, and not None."
    ),
}
