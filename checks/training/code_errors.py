"""Errors of the user's own code that no change of kernels or numbers avoids, and their fixes.

The causes are those of `doctor.facts.error_texts.CODE`.
"""

from __future__ import annotations

import re

from doctor.facts.error_texts import CODE, code_error
from doctor.judge.check import Owner
from doctor.judge.error_patterns import ErrorPattern

CODE_FIXES = {
    "weights only": (
        "Load a file of tensors only (save state_dict()), or allow the classes that it names with "
        "torch.serialization.add_safe_globals. weights_only=False runs code from the file: only "
        "for files that you trust. `doctor scan FILE` lists what it imports, or says what else "
        "the file is."
    ),
    "a GPU's file": (
        "Pass map_location='cpu' to torch.load: the file was saved from a GPU that this process "
        "does not have."
    ),
    "no checkpoint": (
        "Look at the first bytes of the file (head -c 100): it is not what torch.save writes, but "
        "for example a web page or a git-LFS pointer of a download. `doctor scan FILE` names its "
        "type."
    ),
    "an empty dataset": "Check the path and the filter of the dataset: it has no samples.",
    "files of workers": (
        "Raise the limit of open files (ulimit -n 65536), call "
        "torch.multiprocessing.set_sharing_strategy('file_system'), and check /dev/shm (MEM003)."
    ),
    "a batch of other things": (
        "Return tensors, numpy arrays or numbers from __getitem__, or pass a collate_fn that "
        "converts the samples: images need a transform such as ToTensor, and None must be left "
        "out."
    ),
    "storage of a sample": (
        "Return samples that own their memory, x.clone(), and that all have the same shape: a "
        "worker of the DataLoader cannot stack the others."
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
    "a wrapped model": (
        "Ask the model inside the wrapper: model.module for DataParallel and DDP, model._orig_mod "
        "for torch.compile."
    ),
    "no super().__init__()": "Call super().__init__() first in __init__ of the module.",
    "lengths of sequences": (
        "Pass lengths.cpu() to pack_padded_sequence, all above 0, and enforce_sorted=False unless "
        "the batch is sorted by length."
    ),
    "the shape of a mask": (
        "Give attn_mask the shape (queries, keys), or (batch * heads, queries, keys), and "
        "key_padding_mask (batch, keys); both bool, True where a key is hidden."
    ),
    "integers with a gradient": (
        "Make parameters from floats: torch.tensor([1.0, 2.0]), or .float()."
    ),
    "no leaf": (
        "Pass leaf tensors to the optimizer: create the parameter in its final form, "
        "nn.Parameter(x.to(device).view(shape)), and not as the result of an operation on one."
    ),
    "a parameter in two groups": (
        "Pass each parameter once: leave those of the first group out of the second, by id()."
    ),
    "the meta device": (
        "Materialize the model with module.to_empty(device=...) and load its weights, or build it "
        "outside of torch.device('meta') and without init_empty_weights."
    ),
    "no labels": (
        "Pass labels in the batch: the model computes a loss only if it gets them. Columns that "
        "forward does not name are removed unless remove_unused_columns=False."
    ),
    "no padding token": (
        "Set tokenizer.pad_token = tokenizer.eos_token, or add a token of its own and call "
        "resize_token_embeddings."
    ),
    "texts of other lengths": (
        "Pass padding=True and truncation=True to the tokenizer, or use a data collator that "
        "pads; labels need padding of their own (DataCollatorForSeq2Seq, "
        "DataCollatorForTokenClassification)."
    ),
    "flash in fp32": (
        "Load the model in bf16 or fp16, or use attn_implementation='sdpa': flash attention has "
        "no kernel for fp32."
    ),
    "an RNN in eval mode": (
        "Call model.train() before the forward pass: cuDNN keeps no state for the backward pass "
        "in eval mode."
    ),
    "a generator of another device": (
        "Create the generator on the device of the tensors, torch.Generator(device=...); a "
        "DataLoader shuffles on the CPU, so do not set a default device of cuda around it."
    ),
    "a tensor without dimensions": (
        "Keep a dimension: the tensor is a single number there, as after squeeze() or a "
        "reduction. unsqueeze(0) or reshape(1) adds one."
    ),
    "an old autograd function": (
        "Make forward and backward static methods (@staticmethod) with ctx as their first "
        "argument, and call Function.apply."
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
    "an optimizer's state": (
        "Load the optimizer's state into an optimizer of the same groups, each with the same "
        "number of parameters: it was saved by another model, or before parameters were added or "
        "frozen. To go on without it, load the weights only and start a new optimizer."
    ),
    "a checkpointed function": (
        "Let the checkpointed function compute the same both times: it runs again in the backward "
        "pass, so it must not append to a list or cache, count calls, or depend on random numbers "
        "outside of torch, and autocast must be the same."
    ),
    "a constant beyond the dtype": (
        "Replace the constant by torch.finfo(x.dtype).min, or by float('-inf') for a mask: fp16 "
        "holds numbers up to 65504 only."
    ),
    "strides": (
        "Write reshape instead of view in that line, or call contiguous() before it: the number "
        "of values fits, their order in memory does not, as after transpose or permute."
    ),
    "a killed worker": (
        "Look at why the worker process ended: memory (MEM002) or shared memory (/dev/shm, "
        "MEM003) that ran out, a crash in a library, or an exit in the dataset. With "
        "num_workers=0 an error of the dataset itself shows."
    ),
    "several losses in the graph": (
        "Return the loss from the factory's loss function before backward() is called: the doctor "
        "calls it. If the code calls backward() itself on purpose, pass retain_graph=True there; "
        "if a tensor of the previous step is used again (a hidden state, a running loss), "
        "detach() it first; if it was computed once from parameters, in __init__ or in the "
        "factory, compute it in forward."
    ),
    "changed in place": (
        "Replace the in-place operation (x += y, x[i] = y, relu_) by one that returns a new "
        "tensor (x = x + y, torch.where). torch.autograd.set_detect_anomaly(True) names the "
        "forward line whose value was overwritten."
    ),
    "two devices": (
        "Create new tensors on the device of the inputs (torch.arange(n, device=x.device)), "
        "register constants with register_buffer, and move nothing by hand: the doctor moves the "
        "model and the batch to the job's device."
    ),
    "no CUDA": (
        "Write the device as torch.device('cuda' if torch.cuda.is_available() else 'cpu'): the "
        "code asks for a GPU, and this torch has no CUDA. If the job trains on a GPU, install a "
        "CUDA build (TOR001)."
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
    "unequal samples": (
        "Pad the samples of a batch to one length in collate_fn (for example "
        "torch.nn.utils.rnn.pad_sequence, or transformers' DataCollatorWithPadding)."
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
    "dimensions of an initialization": (
        "Initialize matrices only, if p.dim() > 1: biases and the weights of norms have one "
        "dimension."
    ),
    "recursion": (
        "Look for a function that calls itself: a forward that calls self(x), or a __getattr__ "
        "that reads an attribute which is not there yet (nn.Module needs "
        "super().__getattr__(name))."
    ),
    "an expanded tensor": (
        "Call clone() on the tensor before it is written to: expand and broadcast_to make views "
        "in which many elements share one place in memory."
    ),
    "numpy in half precision": (
        "Call .float() before .numpy(): numpy has no bfloat16, which autocast returns."
    ),
    "numpy": (
        "Call detach().cpu() before numpy(), and do not compute a part of the loss in numpy: no "
        "gradient flows through it."
    ),
    "no scalar": "Reduce the loss to a scalar: loss.mean() or reduction='mean'.",
    "gradient of a tensor": (
        "Call requires_grad_() on the tensor that torch.autograd.grad or backward(inputs=...) "
        "differentiates with respect to, before it is used: a batch does not require a gradient "
        "by itself."
    ),
    "no graph": (
        "Make the loss depend on a trainable parameter: look for .detach(), .item(), no_grad() "
        "and frozen weights. With LoRA and reentrant gradient checkpointing (the default of "
        "transformers 4.31 to 4.57) call model.enable_input_require_grads(), or pass "
        "gradient_checkpointing_kwargs={'use_reentrant': False}; both work in either order."
    ),
    "host memory": (
        "Reduce what the code allocates on the host, or give the machine or container more "
        "memory: see MEM002. A shape that is far too large often comes from an outer product by "
        "broadcasting, (n, 1) with (1, n) or (n,)."
    ),
    "relative import": (
        "Name the file inside its package, and give the package an __init__.py: the doctor then "
        "imports it as package.module."
    ),
    "a missing name": (
        "Compare the installed version of that package with the one that the code was written for "
        "(pip show). If the message names a circular import or a file of your own, rename that "
        "file or move the import."
    ),
    "a missing package": (
        "Install the package into the training environment, or select another one with --python. "
        "If it is a module of your own, run the doctor in the directory from which you start the "
        "training."
    ),
    "the network": (
        "Download the model or the data beforehand and load it from a local path "
        "(local_files_only=True), or check network and token: the factory tried to reach a "
        "server."
    ),
    "a process group": (
        "Initialize torch.distributed only if it was started by a launcher ('RANK' in "
        "os.environ): the doctor runs one process. Or set RANK=0, WORLD_SIZE=1, LOCAL_RANK=0, "
        "MASTER_ADDR=localhost and MASTER_PORT=29500 in the factory."
    ),
    "a worker": (
        "Try num_workers=0 to see the real error. Datasets and collate_fn must be picklable for "
        "spawned workers (no lambdas, no open files), and the loader must not be built while the "
        "file is imported."
    ),
    "sparse gradients": (
        "Use torch.optim.SparseAdam for embeddings with sparse=True, or omit sparse=True."
    ),
    "a lazy module": (
        "Run one forward pass in the factory before you return the model: lazy modules get their "
        "shapes there, and an optimizer needs them."
    ),
    "a state dict": (
        "Compare the keys. Where each unexpected key is a missing one with a prefix (module. of "
        "DataParallel and DDP, _orig_mod. of torch.compile), remove it: "
        "{key.removeprefix('module.'): value for key, value in state.items()}. Otherwise load the "
        "file into the model that wrote it; strict=False skips what does not match without an "
        "error. `doctor scan FILE` lists its tensors."
    ),
    "a missing file": (
        "Check the path: it is relative to the directory in which the doctor was started. Build "
        "it from Path(__file__).parent to be independent of that."
    ),
    "no parameters": (
        "Pass model.parameters() to the optimizer after the layers were created: modules in a "
        "plain list or dict are not registered, nn.ModuleList and nn.ModuleDict are. parameters() "
        "is a generator, which is empty once it was used: list(model.parameters())."
    ),
    "heads": "Choose a width that is a multiple of the number of heads.",
    "an ambiguous truth": (
        "Compare tensors with torch.equal, or reduce the condition by .any() or .all()."
    ),
    "unused in the graph": (
        "Pass allow_unused=True to torch.autograd.grad, or take the gradient of inputs that the "
        "output depends on."
    ),
    "no Trainer": (
        "Do not use self.trainer in training_step, or return (module, batch, loss) from the "
        "factory with a loss of your own."
    ),
    "data that ends": (
        "Check the file that is read there: it is empty or cut off (compare its size, download it "
        "again; `doctor scan FILE` reads checkpoints). If it reads from another process, that "
        "process has ended."
    ),
    "None": (
        "Look for what returns None there: a function without return, dict.get of an absent key, "
        "or a Dataset whose __getitem__ returns None for a sample, which collate_fn must leave "
        "out."
    ),
    "a dimension": (
        "Print the shape before that line: the tensor has fewer dimensions than the code expects, "
        "as after squeeze() or an index that removes one."
    ),
    "a Python index": (
        "Print the length of that list before the line: it is shorter than the code expects."
    ),
    "input()": "Do not read from the terminal: the doctor gives the code no input.",
}

OWNERS = {"a missing package": Owner.ENVIRONMENT}
ARGUMENTS = re.compile(
    r"positional arguments? but \d+ (?:was|were) given|missing \d+ required positional argument"
    r"|unexpected keyword argument"
)
ARGUMENTS_FIX = (
    "Fit the batch to the forward pass: a tuple or list is passed as module(*batch), a dict as "
    "module(**batch), a tensor as module(batch). For a batch of (inputs, labels) return the "
    "criterion as the third value, (module, batch, nn.CrossEntropyLoss()), or a function "
    "loss(module, batch)."
)


def find_fix(detail: str) -> ErrorPattern | None:
    """The fix of an error of the code itself, None if it is not known."""
    if ARGUMENTS.search(detail):
        return ErrorPattern((), ARGUMENTS_FIX, Owner.JOB)
    cause = code_error(detail)
    if cause is None:
        return None
    return ErrorPattern(CODE[cause], CODE_FIXES[cause], OWNERS.get(cause, Owner.JOB))
