"""Symptoms of samples, their order and their labels, in the words of people."""

from __future__ import annotations

from doctor.errors.cause import Cause

ROWS = (
    Cause(id="same-data-again",
        words=(
            "same|identical|repeated>data$|dataset|batch|batches|samples|order every|each|again|"
            "after|across|all|ranks !output !effective !inputs !eval()",
            "@not shuffle|shuffled|shuffling",
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
    Cause(id="workers-share-randomness",
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
    Cause(id="labels-all-masked",
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
    Cause(id="beginning-token-twice",
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
