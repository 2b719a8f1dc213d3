"""Symptoms of samples, their order and their labels, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="same-data-again", sources=("torch-distributed-sampler",),
        words=(
            "same|identical|equal loss|losses every|all|each|across rank|ranks|gpu|gpus|"
            "process|processes",
            "same|identical|repeated>data$|dataset|batch|batches|samples|order every|each|again|"
            "after|across|all|ranks !output !effective !inputs !eval() !seed !same_machine",
            "@not shuffle|shuffled|shuffling",
            "rank|ranks|gpus|processes same|identical|equal>images|batch$|batches|samples|examples|"
            "inputs|data$ !batch_size !@oom",
            "whole|entire|full|all|complete dataset|data$|samples every|each|all gpu|rank|"
            "process|worker|gpus !memory",
            "steps|iterations same|as_many|not_divid gpus|ddp epoch",
        ),
        examples=("same batches on all ranks", "same order every epoch",
            "data is not shuffled after resume"),
        why="set_epoch is not called, every rank has the whole dataset, workers have one seed, or "
            "the position in the data was not saved.",
        fix="Print the ids of the first batch per rank and epoch: they must differ; "
            "DistributedSampler with set_epoch(epoch).",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="workers-share-randomness", sources=("torch-worker",),
        words=(
            "worker|workers|num_workers same|identical|duplicat|equal|repeat random|randomness|"
            "augment|noise|crop|crops|seed|numbers",
        ),
        examples=("each worker gives the same random augmentations",),
        why="A generator that the dataset made before the workers start is copied into each of "
            "them; a seed that is set in __getitem__ or worker_init_fn alike for all does the "
            "same. torch and random are seeded by worker, numpy's global one since torch 1.9.",
        fix="Draw from torch, or make the generator inside the worker: worker_init_fn with "
            "np.random.default_rng(torch.initial_seed()) for each; on several ranks the seed must "
            "contain the rank.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
    Cause(id="pause-at-each-epoch",
        words=(
            "start|starts|begin|begins|beginning|between|before|switch>each|every|new|next|epochs|"
            "the>epoch pause|paus|nothing|idle|idles|delay|wait|gap|half_a_minute|minute|minutes|"
            "seconds|stall|freez|hang|stands_still !@loss !@memory !after !process",
            "between>epoch|epochs pause|paus|nothing|idle|idles|delay|wait|gap|minute|minutes|"
            "seconds|stall !@loss !@memory",
            "first>batch|step|iteration>each|every|new>epoch slow|long|longer|minute|minutes|"
            "seconds|wait|delay",
            "before|until>first>batch|step|iteration each|every|new|next>epoch wait|delay|hang|"
            "stall|pause|minute|minutes|seconds|long|slow !@loss !@memory",
            "worker|workers each|every|new>epoch restart|respawn|reopen|start|spawn|creat|anew|"
            "again slow|wait|delay|hang|stall|pause|minute|minutes|seconds|long !@loss !@memory "
            "!crash|die",
            "each|every|new|next>epoch>start|begin>with|slow|only_after>pause|wait|delay|gap|"
            "seconds|minute|minutes|slow !@loss",
        ),
        examples=("training pauses at the beginning of each epoch",
            "the first batch of every epoch takes a minute",
            "workers respawn every epoch and it waits for minutes before the first batch"),
        why="The DataLoader starts its workers anew for each epoch: each imports the libraries, "
            "receives a copy of the data set, and fills its queue before the first batch. Else "
            "something runs between two epochs: an evaluation, a checkpoint, a sampler that "
            "shuffles a very long list, a cache that is read again.",
        fix="Set persistent_workers=True (dataloader_persistent_workers of the Trainer). A light "
            "data set starts faster: files opened in the worker, arrays or memory-mapped files in "
            "place of long lists of Python objects. If the pause stays, py-spy dump --pid of the "
            "main process says what it does then.",
        role="symptom",
        commands=("doctor lint train.py", "py-spy dump --pid PID"),
        sources=("torch-dataloader",),
    ),
    Cause(id="labels-all-masked", sources=("unsloth-1128",),
        words=(
            "labels|label|targets all|every|most|only -100|masked|ignored",
            "labels|targets -100 all|every|only|most|everything",
        ),
        examples=("most labels are masked", "targets are all ignored"),
        why="The response template was not found in the tokens, samples are cut before the answer, "
            "or padding and end token are one.",
        fix="Decode the labels that are not -100 of three samples; compare the template's token "
            "ids within a text, not alone; raise max_length.",
        role="symptom",
        commands=("doctor guard -- python train.py", "doctor run --model FILE.py:factory"),
    ),
    Cause(id="beginning-token-twice", sources=("openrlhf-393", "soup-781"),
        words=(
            "bos$|bos_token|begin_of_text|beginning_token|start_token two|twice|double|duplicat|"
            "second|2$",
        ),
        examples=("tokenizer adds two BOS tokens", "double begin_of_text in the training data"),
        why="The chat template writes the token as text, and the tokenizer adds another one.",
        fix="Tokenize texts of a template with add_special_tokens=False, or let "
            "apply_chat_template(..., tokenize=True) do it; compare the first three ids of a "
            "sample with those of the prompt at inference.",
        role="symptom",
        commands=("doctor lint train.py",),
    ),
)  # fmt: skip
