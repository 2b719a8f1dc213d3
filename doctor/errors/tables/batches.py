"""Samples, batches, lengths and inputs that a model or a loss refuses."""

from __future__ import annotations

from doctor.errors.cause import Cause, Wording

ROWS_OF_BATCH = (r"Expected input batch_size \(\d{1,12}\) to match target batch_size",)
ROWS_EXAMPLES = ("ValueError: Expected input batch_size (60) to match target batch_size (36).",)
EXACTLY = (
    r"exactly one of input_ids or inputs_embeds",
    r"both input_ids and inputs_embeds at the same time",
)
EXACTLY_EXAMPLES = (
    "ValueError: You must specify exactly one of input_ids or inputs_embeds",
    "ValueError: You cannot specify both input_ids and inputs_embeds at the same time",
)

ROWS = (
    Cause(id="factory-with-parameters",
        errors=("TypeError",),
        messages=(r"(?<![\w.])(?!__|forward\b|backward\b)\w{1,60}\(\) (?:takes \d{1,3} positional "
            r"arguments? but \d{1,3} (?:was|were) given|missing \d{1,3} required positional)",),
        examples=("TypeError: make() takes 0 positional arguments but 1 was given",
            "TypeError: loss() missing 1 required positional argument: 'batch'"),
        why="The factory of --model is called without arguments, its loss as loss(module, batch), "
            "a criterion as criterion(output, target).",
        fix="Name a factory without parameters, a function around it:\ndef make():\n    return "
            "build(config)\nGive its third value, the loss, the arguments that it is called with.",
        told_by="the function is the one that --model names, or its third value",
        sources=("python-exceptions",),
    ),
    Cause(id="arguments-of-forward",
        errors=("TypeError",),
        messages=(r"forward\(\) takes \d{1,3} positional",
            r"forward\(\) missing \d{1,3} required positional",
            r"forward\(\) got an unexpected keyword"),
        examples=("TypeError: MLP.forward() takes 2 positional arguments but 3 were given",
            "TypeError: MLP.forward() missing 1 required positional argument: 'y'",
            "TypeError: MLP.forward() got an unexpected keyword argument 'x'"),
        why="The forward pass is called with other arguments than its parameters.",
        fix="Compare the call with the parameters of that forward. The forward of a library takes "
            "what its installed release knows: an argument of a newer release needs that release, "
            "one of your own a forward of your own. A batch that is a "
            "tuple or list is passed as module(*batch), a "
            "dict as module(**batch), a tensor as module(batch). In doctor run --model return, "
            "for a batch of (inputs, labels), the criterion as the third value, (module, batch, "
            "nn.CrossEntropyLoss()), or a "
            "function loss(module, batch), which picks the fields.",
        told_by="the function is the forward of a module", sources=("python-exceptions",),
    ),
    Cause(id="absent-in-samples",
        errors=("KeyError", "TypeError", "AttributeError", "RuntimeError", "ValueError"),
        messages=(r"object of type 'NoneType' has no len\(\)",
            r"default_collate: batch must contain tensors",
            r"KeyError: '[^']{1,60}'"),
        examples=("TypeError: object of type 'NoneType' has no len()",
            "KeyError: 'mask'",
            "TypeError: default_collate: batch must contain tensors, numpy arrays, numbers, dicts "
              "or lists; found <class 'NoneType'>"),
        why="Some samples lack a field, or it is None in them.",
        fix="Return the same fields from __getitem__ for every sample, with a default where there "
            "is no value, or leave such samples out in collate_fn: torch takes the keys of the "
            "first one.",
        told_by="it is raised while a batch is made, and other samples have the field",
        sources=("torch-collate",),
    ),
    Cause(id="unequal-samples",
        errors=("RuntimeError", "ValueError"),
        messages=(r"stack expects each tensor to be equal size",
            r"expected sequence of length \d{1,9} at dim \d",
            r"each element in list of batch should be of equal size",
            r"setting an array element with a sequence"),
        examples=("RuntimeError: stack expects each tensor to be equal size, but got [3] at entry "
              "0 and [4] at entry 1",
            "ValueError: expected sequence of length 6 at dim 1 (got 7)",
            "RuntimeError: each element in list of batch should be of equal size",
            "ValueError: setting an array element with a sequence. The requested array has an "
              "inhomogeneous shape after 1 dimensions."),
        wordings=(
            Wording(r"stack expects each tensor to be equal size, but got \[([134]), \d{2,5}, "
                r"\d{2,5}\] "
                r"at entry \d{1,5} and \[(?!\1,)[134], \d{2,5}, \d{2,5}\]",
                "RuntimeError: stack expects each tensor to be equal size, but got [3, 224, "
                "224] at entry 0 and [1, 224, 224] at entry 5",
                "The images of a batch have different numbers of channels: some are grey, or have "
                "an alpha channel.",
                "Open every image with Image.open(path).convert('RGB') (torchvision's "
                "decode_image: mode='RGB'), and resize all to one size."),
        ),
        why="Samples of different sizes, or lists of different lengths, are to become one tensor.",
        fix="Pad or resize the samples of a batch to one size in collate_fn: "
            "torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD) for "
            "sequences, a transform for images, for texts padding=True of the tokenizer or "
            "DataCollatorWithPadding, with labels of tokens DataCollatorForSeq2Seq (as "
            "data_collator of the Trainer).",
        told_by="the loader raises, and no line of the model", sources=("torch-collate",),
    ),
    Cause(id="packed-lengths",
        errors=("RuntimeError",),
        messages=(r"lengths` array must be sorted in decreasing order",
            r"'lengths' argument should be a 1D CPU int64 tensor"),
        examples=("RuntimeError: `lengths` array must be sorted in decreasing order when "
              "`enforce_sorted` is True.",
            "RuntimeError: 'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0 "
              "Long tensor"),
        wordings=(
            Wording(r"Length of all samples has to be greater than 0",
                "RuntimeError: Length of all samples has to be greater than 0, but found an "
                    "element in 'lengths' that is <= 0",
                "A sample of the batch has no elements: its length is 0.",
                "Leave out samples without elements in the data set or collate_fn, or pass "
                    "lengths.clamp(min=1) to pack_padded_sequence, which then reads one padding "
                    "token of them."),),
        why="pack_padded_sequence takes whole numbers above 0 on the CPU, one for each sample, the "
            "longest first unless it is told to sort.",
        fix="Pass enforce_sorted=False to pack_padded_sequence, or sort the batch by length, the "
            "longest first; lengths.cpu() for lengths on a GPU.",
        sources=("torch-pack",),
    ),
    Cause(id="list-indexed-by-name",
        errors=("TypeError",),
        refines=("number-of-dimensions",),
        messages=(r"(?:list|tuple) indices must be integers or slices, not str",
            r"^[^\n\[]{0,200}\w\[(?:'\w{1,40}'|\"\w{1,40}\")\][^\n\[]{0,200}\n(?:[^\n]{0,200}\n)?"
            r"[^\n]{0,30}IndexError: too many indices for tensor"),
        examples=("TypeError: list indices must be integers or slices, not str",
            "    images = sample['input'].to(device)\nIndexError: too many indices for tensor of "
            "dimension 1"),
        why="The batch is a list, a tuple or a tensor, whose parts have positions and no names.",
        fix="Use positions, batch[0], or let the dataset return a dict: print(dataset[0]), and "
            "look at what its transforms return.",
        sources=("python-exceptions",),
    ),
    Cause(id="no-loss-returned", sources=("pytorch-lightning-7750",),
        errors=("TypeError",),
        messages=(r"returned no loss but (?!\w{0,60}Output)\w",),
        examples=("TypeError: training_step returned no loss but NoneType",),
        why="A forward pass, training_step or a loss function must return the loss as a tensor.",
        fix="Return the loss at the end of the function, the tensor itself without .item() or "
            "float(), in a dict under the key 'loss', and no generator (yield). Or return (module, "
            "batch, loss) from the factory, where loss(module, batch) is a scalar tensor:\nreturn "
            "model, batch, lambda model, batch: criterion(model(batch['x']), batch['y'])\ndoctor "
            "explain model",
    ),
    Cause(id="loss-of-several-values",
        errors=("ValueError", "RuntimeError"),
        messages=(r"the loss has the shape \[[\d, ]{1,60}\] and is not a scalar",
            r"grad can be implicitly created only for scalar outputs"),
        wordings=(
            Wording(r"Mismatch in shape: grad_output\[\d\] has a shape of torch\.Size\(\[1\]\) and "
                r"output\[\d\] has a shape of torch\.Size\(\[\]\)",
                "RuntimeError: Mismatch in shape: grad_output[0] has a shape of torch.Size([1]) "
                "and output[0] has a shape of torch.Size([]).",
                "The loss is a scalar without dimensions, as since torch 0.4, and the gradient "
                "that is passed to backward is a tensor of one dimension.",
                "Leave it out, loss.backward(), or pass one of the same shape: "
                "loss.backward(torch.ones_like(loss)), torch.tensor(-1.0) where it was -1; "
                "torch.autograd.backward(losses, [torch.ones_like(each) for each in losses])."),),
        examples=("ValueError: the loss has the shape [6] and is not a scalar",
            "RuntimeError: grad can be implicitly created only for scalar outputs"),
        why="backward() starts from one number.",
        fix="Reduce a loss of several values: loss.mean(), or reduction='mean' of the criterion. "
            "If it is the output of the model and not a loss, return (module, batch, loss) from "
            "the factory.\nreturn model, batch, lambda model, batch: criterion(model(batch['x']), "
            "batch['y'])\ndoctor explain model",
        sources=("torch-autograd",),
    ),
    Cause(id="samples-second",
        errors=("ValueError", "RuntimeError"),
        messages=(*ROWS_OF_BATCH, r"start \(\d{1,9}\) \+ length \(\d{1,9}\) exceeds dimension"),
        examples=(*ROWS_EXAMPLES,
            "RuntimeError: start (16) + length (4) exceeds dimension size (16)."),
        why="pad_sequence without batch_first=True returns the length first, and the model takes "
            "the first dimension for the samples.",
        fix="Put the samples first: pad_sequence(sequences, batch_first=True), or x.transpose(0, "
            "1) before the model, and batch_first=True in recurrent layers.",
        told_by="the predictions are as many as the longest sequence has positions",
        sources=("torch-nll-loss",),
    ),
    Cause(id="labels-of-another-length",
        errors=("ValueError", "RuntimeError"),
        messages=ROWS_OF_BATCH,
        examples=ROWS_EXAMPLES,
        why="The model computes more or fewer positions than the labels have, or one of the two "
            "was shifted alone.",
        fix="Shift both: logits[..., :-1, :] with labels[..., 1:]. "
            "Prepend -100 to the labels for positions that the model puts before its input, leave "
            "these out of the logits, or cut the labels to the positions that are computed.",
        told_by="both numbers are multiples of the samples", sources=("torch-nll-loss",),
        wordings=(
            Wording(r"Expected input batch_size \(\d{1,12}\) to match target batch_size \(0\)",
                "ValueError: Expected input batch_size (1324) to match target batch_size (0).",
                "The labels are empty: the batch has none, or only one position, which the shift "
                    "by one uses up.",
                "Print labels.shape as the collator returns them and as forward gets them. With "
                    "several GPUs in one process (DataParallel, which a notebook starts) the "
                    "labels may be split in another way than the inputs: use one GPU, "
                    "CUDA_VISIBLE_DEVICES=0, or torchrun. Else the collator or "
                    "remove_unused_columns drops them."),),
    ),
    Cause(id="rows-and-labels",
        errors=("ValueError", "RuntimeError"),
        messages=(*ROWS_OF_BATCH,),
        examples=(*ROWS_EXAMPLES,),
        why="A loss of classes takes one label for each prediction.",
        fix="If each sample has one label, a view(-1, n) before the last layer has put a part of "
            "its features into the batch: flatten(1) or view(len(x), -1) keeps the batch. If the "
            "model predicts each token or pixel, pass one label for each and flatten both alike, "
            "logits.flatten(0, -2) with labels.flatten().",
        sources=("torch-nll-loss",),
    ),
    Cause(id="ids-and-embeddings", sources=("transformers-llama",),
        errors=("ValueError",),
        messages=EXACTLY,
        examples=EXACTLY_EXAMPLES,
        why="A model of transformers takes either input_ids or inputs_embeds.",
        fix="Pass only one of input_ids and inputs_embeds: leave the other out of the call, or of "
            "the batch.",
        told_by="the model has no decoder of its own",
    ),
    Cause(id="decoder-without-inputs",
        errors=("ValueError",),
        messages=(r"one of (?:decoder_)?input_ids or (?:decoder_)?inputs_embeds|cannot be both "
              r"None",),
        examples=("ValueError: You must specify exactly one of input_ids or inputs_embeds",),
        wordings=(
            Wording(r"decoder_start_token_id has to be defined|set the decoder_start_token_id",
                "ValueError: Make sure to set the decoder_start_token_id attribute of the model's "
                    "configuration.",
                "The inputs of a decoder are made of the labels, beginning with a token that the "
                    "configuration lacks.",
                "Set decoder_start_token_id in the model's configuration, from which the inputs of "
                    "the decoder are made of the labels: the pad token for T5, the token that "
                    "begins a text (decoder.config.bos_token_id, cls_token_id of the tokenizer) "
                    "for others."),),
        why="The decoder makes its inputs from the labels, and got none.",
        fix="Pass labels, or decoder_input_ids. Where the loss is computed outside of the model, "
            "as by a Trainer with label_smoothing_factor, DataCollatorForSeq2Seq(tokenizer, "
            "model=model) makes decoder_input_ids.",
        told_by="the model is an encoder with a decoder", sources=("transformers-encoder-decoder",),
    ),
)  # fmt: skip
