"""The padding token that the tokenizer's files name."""

from __future__ import annotations

import re

from doctor.checkpoint.records import Checkpoint, Tokenizer
from doctor.checks.checkpoint.files import OF_POINTERS, POINTER_FIX
from doctor.checks.checkpoint.tokens import EMPTY_FIX, EXCHANGED_FIX, empty_vocabulary
from doctor.judge.check import Check, Owner, Verdict, fail, note, ok, skip, unknown, warn

MARKER = re.compile(r"[<\[{(|].+[>\]})|]|.*pad.*", re.IGNORECASE)
"""What special tokens look like: <pad>, [PAD], <|endoftext|>, </s>."""


def padding_token_dedicated(checkpoint: Checkpoint) -> Verdict:
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        return skip("no tokenizer files beside the weights")
    damaged = [each for each in tokenizer.problems if each.file.startswith("tokenizer")]
    if damaged:
        summary = f"{damaged[0].message}: the tokenizer cannot be loaded"
        if damaged[0].kind == "disguised":
            return fail(summary, fix=POINTER_FIX, sources=OF_POINTERS)
        return fail(summary, fix=TOKENIZER_FIX)
    if tokenizer.lacks_vocabulary:
        text = f"tokenizer_config.json names {tokenizer.lacks_vocabulary}, and tokenizer.json is"
        return warn(f"{text} missing: the tokenizer cannot be loaded", fix=TOKENIZER_FIX)
    return _no_padding(tokenizer) if tokenizer.pad is None else _padding(tokenizer, tokenizer.pad)


def _padding(tokenizer: Tokenizer, pad: str) -> Verdict:
    number = f" ({tokenizer.pad_id})" if tokenizer.pad_id is not None else ""
    token = f"padding token {pad}{number}"
    rows = tokenizer.vocabulary
    if tokenizer.pad_id is not None and rows and tokenizer.pad_id >= rows:
        return fail(f"{token}; config.json has {rows:,} embeddings", fix=ROWS_FIX)
    if not MARKER.fullmatch(pad):
        return warn(f"{token} is an ordinary token; a dedicated one required")
    if difference := _configured_differently(tokenizer):
        if text := empty_vocabulary(tokenizer):
            return warn(f"{token}; {difference}; {text}", fix=EMPTY_FIX)
        fix = EXCHANGED_FIX if tokenizer.exchanged else CONFIGURED_FIX
        return warn(f"{token}; {difference}", fix=fix)
    if pad == tokenizer.eos:
        return ok(f"{token}, which also ends a text: collators that mask padding mask it too")
    if pad == tokenizer.unk:
        return ok(f"{token}, which also stands for unknown text")
    return ok(token)


def _no_padding(tokenizer: Tokenizer) -> Verdict:
    if tokenizer.problems:
        return unknown(tokenizer.problems[0].message)
    if "tokenizer_config.json" not in tokenizer.files:
        return unknown(f"{tokenizer.files[0]} names none, and tokenizer_config.json is missing")
    summary = "tokenizer_config.json names no padding token"
    ordinary = tokenizer.first is not None and not MARKER.fullmatch(tokenizer.first)
    if ordinary:
        summary = f"{summary}, and token 0, a common default, is {tokenizer.first!r}"
    zero = [file for file, number in tokenizer.configured.items() if number == 0]
    if zero and ordinary:
        return warn(f"{summary}; pad_token_id is 0 in {zero[0]}; a dedicated token required")
    return note(f"{summary}: add one before training on padded batches, as for most base models")


def _configured_differently(tokenizer: Tokenizer) -> str:
    """Where a configuration names another number than the tokenizer; "" where none does."""
    for file, number in tokenizer.configured.items():
        if tokenizer.pad_id is not None and number != tokenizer.pad_id:
            return f"pad_token_id is {number} in {file}"
    return ""


ROWS_FIX = (
    "After adding the token, resize the embeddings and save the model:\n"
    "model.resize_token_embeddings(len(tokenizer))"
)

TOKENIZER_FIX = (
    "Save the tokenizer again with tokenizer.save_pretrained, or copy its files from the model "
    "that the run began with."
)

CONFIGURED_FIX = (
    "Set the same number in model.config and in model.generation_config:\n"
    "model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id"
)

PADDING = Check(
    code="CKP011",
    slug="pad-token",
    title="The tokenizer defines a dedicated padding token",
    why="Without a padding token batches cannot be padded, and loaders that default to token 0 pad "
    'with an ordinary token: "!" in the vocabularies of Llama 3 and GPT-2. Real occurrences of '
    "it are then masked from attention and loss like padding.",
    passes=(
        "the tokenizer names a padding token that looks like a special token",
        "config.json and generation_config.json name the same number, or none",
        "the embedding has a row for it",
    ),
    notes=("no padding token is named, as in most base models: packing needs none",),
    warns=(
        "the padding token is an ordinary token of the vocabulary, also where none is named and "
        "pad_token_id is 0",
        "a configuration names another number",
        "tokenizer.json is missing, and every other file of a vocabulary",
    ),
    fails=(
        "a file of the tokenizer is damaged",
        "the padding token's number exceeds the embedding's rows in config.json",
    ),
    fix="Add a token before get_peft_model, and resize the embeddings. Llama 3.1 and later have "
    "<|finetune_right_pad_id|>, which needs no new row.\n"
    'tokenizer.add_special_tokens({"pad_token": "<|pad|>"})\n'
    "model.resize_token_embeddings(len(tokenizer))\n"
    "model.config.pad_token_id = tokenizer.pad_token_id",
    limits="that the collator masks the padding in the labels.",
    owner=Owner.JOB,
    judge=padding_token_dedicated,
    required="checkpoint",
    sources=("bts-fix4", "exllamav2-415"),
)

CHECKS = (PADDING,)
