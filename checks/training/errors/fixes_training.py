"""Modules, gradients, optimizers, schedules and the libraries of models.

Cause of `doctor.facts.code_errors.CODE` -> its remedy.
"""

from __future__ import annotations

FIXES = {
    "a mode of a schedule": "Pass mode='min' or 'max', and threshold_mode='rel' or 'abs'.",
    "a variable of a branch": (
        "Assign the variable on every path to that line: it is assigned in a branch or a loop that "
        "did not run, or further below in the same function."
    ),
    "a wrapped model": (
        "Ask the model inside the wrapper: model.module for DataParallel and DDP, model._orig_mod "
        "for torch.compile."
    ),
    "no super().__init__()": "Call super().__init__() first in __init__ of the module.",
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
        "Pass labels in the batch: the model computes a loss only if it gets labels=. For a causal "
        "language model DataCollatorForLanguageModeling(tokenizer, mlm=False) makes them. Columns "
        "that forward does not name are removed unless remove_unused_columns=False."
    ),
    "a view of several": (
        "Write that line with a new tensor, x = x * y for x *= y: results of chunk, split, unbind "
        "and of iterating over a tensor cannot be changed in place."
    ),
    "no compiler": (
        "Install a C++ compiler for torch.compile (apt install g++), and the headers of Python "
        "(python3-dev), or train without torch.compile."
    ),
    "an RNN in eval mode": (
        "Call model.train() before the forward pass: cuDNN keeps no state for the backward pass "
        "in eval mode."
    ),
    "an old autograd function": (
        "Make forward and backward static methods (@staticmethod) with ctx as their first "
        "argument, and call Function.apply."
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
    "sparse gradients": (
        "Use torch.optim.SparseAdam for embeddings with sparse=True, or omit sparse=True."
    ),
    "a lazy module": (
        "Run one forward pass in the factory before you return the model: lazy modules get their "
        "shapes there, and an optimizer needs them."
    ),
    "no parameters": (
        "Pass model.parameters() to the optimizer after the layers were created: modules in a "
        "plain list or dict are not registered, nn.ModuleList and nn.ModuleDict are. parameters() "
        "is a generator, which is empty once it was used: list(model.parameters())."
    ),
    "unused in the graph": (
        "Pass allow_unused=True to torch.autograd.grad, or take the gradient of inputs that the "
        "output depends on."
    ),
    "no Trainer": (
        "Do not use self.trainer in training_step, or return (module, batch, loss) from the "
        "factory with a loss of your own."
    ),
    "inference mode": (
        "Use torch.no_grad() instead of torch.inference_mode() around what is not trained: "
        "values of inference mode cannot be used in a computation that is differentiated."
    ),
    "gradients of a function": (
        "Return one gradient for each argument of forward from backward of that "
        "torch.autograd.Function, None for those that need none."
    ),
    "the shape of a gradient": (
        "Let backward of that torch.autograd.Function return gradients of the shapes of "
        "forward's inputs: sum over what forward repeated or broadcast."
    ),
    "a hook": ("Return a gradient of the same shape from the hook, or None to leave it as it is."),
    "a copy of a graph": (
        "Detach what the model keeps of a forward pass, or copy it before its first forward pass."
    ),
    "not a parameter": (
        "Wrap the tensor: layer.weight = nn.Parameter(tensor). To change the values only, "
        "layer.weight.data.copy_(tensor)."
    ),
    "no forward": (
        "Define forward in that module, or call the layers that it holds: nn.ModuleList and "
        "nn.ModuleDict have no forward."
    ),
    "not a module": (
        "Pass instances of modules: nn.ReLU() with parentheses for a class, and a module such "
        "as nn.ReLU() for a function such as torch.relu."
    ),
    "parameters of an optimizer": (
        "Pass an iterable of parameters: model.parameters(), or [parameter] for one."
    ),
    "a learning rate": ("Pass a learning rate of 0 or more."),
    "implementations of an optimizer": ("Pass only one of fused=True and foreach=True."),
    "a tensor as learning rate": (
        "Pass the learning rate as a float (lr=rate.item()), or foreach=False with the tensor; "
        "capturable=True is for CUDA graphs."
    ),
    "an optimizer of sparse gradients": (
        "Use torch.optim.AdamW: SparseAdam is for embeddings with sparse=True only, which it "
        "gets alone."
    ),
    "the end of a schedule": (
        "Let total_steps of the schedule (epochs * steps_per_epoch) be the number of optimizer "
        "steps of the whole training: epochs * len(loader), divided by the steps of gradient "
        "accumulation. If the scheduler is stepped once per epoch, that is the number of "
        "epochs."
    ),
    "a schedule without steps": (
        "Let the number of steps be at least 1: with n // batch_size it is 0 if a batch is "
        "larger than the data. len(loader) is the number of batches."
    ),
    "a resumed schedule": (
        "Omit last_epoch for a new run. To resume, load the states of optimizer and schedule "
        "instead: optimizer.load_state_dict(...), then schedule.load_state_dict(...)."
    ),
    "a schedule of something else": (
        "Pass the optimizer to the schedule, StepLR(optimizer, 10), not the model."
    ),
    "factors of a schedule": (
        "Pass one function, which all groups share, or a list with one for each group of the "
        "optimizer."
    ),
    "momentum of a schedule": ("Pass cycle_momentum=False: this optimizer has no momentum."),
    "a model as weights": (
        "Pass a state dict: model.load_state_dict(loaded.state_dict()), since the file holds a "
        "whole model."
    ),
    "a probability of dropout": (
        "Pass a probability between 0 and 1: 10 percent is nn.Dropout(0.1)."
    ),
    "same padding": (
        "Write the padding as a number where stride is above 1: padding=kernel_size // 2 for an"
        " odd kernel halves the size at a stride of 2 (padding=1 for 3)."
    ),
    "the row of padding": (
        "Choose a padding_idx below num_embeddings, or add rows to the table: num_embeddings "
        "counts the padding token too."
    ),
    "a weight to parametrize": (
        "Apply it to each layer that has that weight (for m in model.modules(): if "
        "isinstance(m, nn.Linear): ...), not to the module that holds the layers."
    ),
    "no padding token in the config": (
        "Set the padding token in the model's configuration: model.config.pad_token_id = "
        "tokenizer.pad_token_id (and tokenizer.pad_token = tokenizer.eos_token if it has none)."
    ),
    "the first token of a decoder": (
        "Set decoder_start_token_id in the model's configuration, from which the inputs of the "
        "decoder are made of the labels: the pad token for T5, the token that begins a text "
        "(decoder.config.bos_token_id, cls_token_id of the tokenizer) for others."
    ),
    "ids and embeddings": (
        "Pass one of input_ids and inputs_embeds; a decoder gets its ids from labels or "
        "decoder_input_ids."
    ),
    "modules of adapters": (
        "Choose target_modules among the linear modules of this model (model.named_modules()), "
        "or pass target_modules='all-linear'."
    ),
    "flash attention is missing": (
        "Install flash-attn into the training environment, which needs a GPU, or load the model"
        " with attn_implementation='sdpa', torch's own kernel."
    ),
    "hyperparameters": (
        "Call self.save_hyperparameters() in __init__ of the LightningModule, and let __init__ "
        "take that name as an argument."
    ),
}
