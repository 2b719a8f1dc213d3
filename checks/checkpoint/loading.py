"""What meets who loads a checkpoint: adapters in half precision, code in pickles, the padding."""

from __future__ import annotations

import re

from doctor._util.units import shown
from doctor.checkpoint.records import Checkpoint, Tokenizer
from doctor.judge.check import Check, Owner, Verdict, fail, ok, skip, unknown, warn

ADAPTER = re.compile(
    r"(?:.*\.)?(?:lora_(?:[AB]|embedding_[AB]|magnitude_vector)|ia3_l|vera_lambda_[bd]"
    r"|hada_[wt]\d_?[ab]?|lokr_[wt]\d_?[ab]?|oft_[rRs]|boft_[Rs]|adaption_\w+|prompt_embeddings"
    r"|randlora_\w+|ln_tuning_layers)(?:\..*)?"
)
"""Roles of adapters' tensors, as peft names them."""

FLOATS = ("F32", "F64")
HALVES = ("BF16", "F16")

MARKER = re.compile(r"[<\[{(|].+[>\]})|]|.*pad.*", re.IGNORECASE)
"""What special tokens look like: <pad>, [PAD], <|endoftext|>, </s>."""


def adapters_fp32(checkpoint: Checkpoint) -> Verdict:
    roles = [role for role in checkpoint.roles if ADAPTER.fullmatch(role.name)]
    if not roles and checkpoint.not_inspectable and checkpoint.adapter:
        return unknown(checkpoint.not_inspectable)
    if not roles:
        return skip("no adapter's weights are in these files")
    kinds = f" ({shown(checkpoint.adapter, 40)})" if checkpoint.adapter else ""
    counts: dict[str, int] = {}
    for role in roles:
        for dtype, number in role.dtypes.items():
            counts[dtype] = counts.get(dtype, 0) + number
    total = sum(counts.values())
    half = {dtype: number for dtype, number in counts.items() if dtype in HALVES}
    if half:
        said = ", ".join(f"{number:,} in {dtype}" for dtype, number in half.items())
        return warn(f"of {total:,} adapter tensors{kinds} {said}; F32 required for training")
    strange = [shown(dtype, 20) for dtype in counts if dtype not in FLOATS]
    if strange:
        return unknown(f"adapter tensors{kinds} stored in {', '.join(strange)}")
    return ok(f"{total:,} adapter tensors{kinds}, all in {' and '.join(sorted(counts))}")


def loads_without_code(checkpoint: Checkpoint) -> Verdict:
    if checkpoint.refused:
        names = ", ".join(shown(name, 60) for name in checkpoint.refused[:5])
        more = f" and {len(checkpoint.refused) - 5} more" if len(checkpoint.refused) > 5 else ""
        return warn(f"torch.load(weights_only=True) refuses {names}{more}; plain weights required")
    if reason := checkpoint.not_inspectable:
        return unknown(reason)
    if not checkpoint.pickles:
        return ok("no weights and no optimizer's state are pickled: nothing to import")
    files = f"{checkpoint.pickles} pickled file{'s' * (checkpoint.pickles != 1)}"
    return ok(f"{files}; weights-only loading admits all {len(checkpoint.imports)} globals")


def padding_is_its_own(checkpoint: Checkpoint) -> Verdict:
    tokenizer = checkpoint.tokenizer
    if tokenizer is None:
        return skip("no tokenizer's files are beside the weights")
    if tokenizer.pad is None:
        return _no_padding(tokenizer)
    number = f" ({tokenizer.pad_id})" if tokenizer.pad_id is not None else ""
    said = f"padding token {tokenizer.pad}{number}"
    rows = tokenizer.vocabulary
    if tokenizer.pad_id is not None and rows is not None and tokenizer.pad_id >= rows:
        return fail(f"{said}; config.json tells of {rows:,} embeddings", fix=ROWS_FIX)
    if not MARKER.fullmatch(tokenizer.pad):
        return warn(f"{said} is a word of the vocabulary; a token of its own required")
    if wrong := _configured(tokenizer):
        return warn(f"{said}; {wrong}", fix=CONFIGURED_FIX)
    if tokenizer.pad == tokenizer.eos:
        return ok(f"{said}, which also ends a text: collators that mask padding mask it too")
    if tokenizer.pad == tokenizer.unk:
        return ok(f"{said}, which also stands for unknown text")
    return ok(said)


def _no_padding(tokenizer: Tokenizer) -> Verdict:
    if tokenizer.problems:
        return unknown(tokenizer.problems[0].said)
    if "tokenizer_config.json" not in tokenizer.files:
        return unknown(f"{tokenizer.files[0]} names none, and tokenizer_config.json is not there")
    said = "tokenizer_config.json names no padding token"
    if tokenizer.first is not None and not MARKER.fullmatch(tokenizer.first):
        said = f"{said}, and token 0, a common default, is {tokenizer.first!r}"
    zero = [file for file, number in tokenizer.configured.items() if number == 0]
    if zero:
        said = f"{said}; pad_token_id is 0 in {zero[0]}"
    return warn(f"{said}; a token of its own required")


def _configured(tokenizer: Tokenizer) -> str:
    """Where a configuration names another number than the tokenizer."""
    for file, number in tokenizer.configured.items():
        if tokenizer.pad_id is not None and number != tokenizer.pad_id:
            return f"pad_token_id is {number} in {file}"
    return ""


ROWS_FIX = "Call model.resize_token_embeddings(len(tokenizer)) after the token was added, and save."

CONFIGURED_FIX = (
    "Give the model the tokenizer's number: model.config.pad_token_id = tokenizer.pad_token_id, "
    "and the same for model.generation_config."
)

CHECKS = (
    Check(
        code="CKP008",
        slug="adapters-fp32",
        title="The adapters are stored in fp32",
        why="Adapters are small and trained with steps that bf16 loses: at 0.02 it rounds back "
        "changes of up to 2^-14 (6e-5). peft keeps them in fp32 beside a base in half precision "
        "(autocast_adapter_dtype) by default since 0.12.0; from 0.7.1 to 0.11.1 they followed "
        "the base. A file in fp32 costs little.",
        passes=("every tensor of an adapter is F32 or F64",),
        warns=(
            "tensors of an adapter are BF16 or F16: trained so, or rounded when they were saved",
        ),
        fix="Train with peft 0.12.0 or newer and leave autocast_adapter_dtype=True, call no "
        "model.to(torch.bfloat16) after get_peft_model, and save the adapter as it is trained.",
        limits="that they were trained in fp32: a cast back looks the same.",
        owner=Owner.JOB,
        judge=adapters_fp32,
        required="checkpoint",
        sources=("bts-fix7", "bts-quick"),
        after=("CKP001",),
    ),
    Check(
        code="CKP010",
        slug="loads-without-code",
        title="The checkpoint loads without running code",
        why="Unpickling imports and calls what the file names, so a file of a stranger can do "
        "anything. torch.load with weights_only=True, the default since torch 2.6, admits tensors "
        "and plain containers and refuses the rest; before torch 2.6 it could be tricked into "
        "running code. safetensors files hold no code. What is listed here was read without "
        "importing any of it, and is no verdict on its intent.",
        passes=(
            "weights and optimizer's state are safetensors, or their pickles name nothing "
            "that weights-only loading refuses",
        ),
        warns=(
            "a pickle of the weights or the optimizer's state names globals that "
            "weights-only loading refuses",
        ),
        fix="Save a state_dict instead of whole modules and objects, or save with safetensors. Of "
        "a stranger's file trust each global that is listed before you load it with "
        "weights_only=False; torch.serialization.add_safe_globals admits single ones.",
        limits="that the model's own code, such as that of trust_remote_code, is harmless.",
        owner=Owner.JOB,
        judge=loads_without_code,
        required="checkpoint",
        sources=("torch-weights-only",),
    ),
    Check(
        code="CKP011",
        slug="pad-token",
        title="Padding has a token of its own",
        why="Without a padding token batches cannot be padded, and loaders that take 0 by default "
        'pad with an ordinary token: "!" in the vocabularies of Llama 3 and GPT-2. Real '
        "occurrences of it are then masked from attention and loss like padding.",
        passes=(
            "the tokenizer names a padding token that looks like a special one, "
            "config.json and generation_config.json name no other number, and the "
            "embedding has a row for it",
        ),
        warns=(
            "no padding token is named, it is an ordinary token of the vocabulary, or a "
            "configuration names another number",
        ),
        fails=("the padding token's number is beyond the rows of the embedding in config.json",),
        fix='Add one, tokenizer.add_special_tokens({"pad_token": "<|pad|>"}), then '
        "model.resize_token_embeddings(len(tokenizer)) and model.config.pad_token_id = "
        "tokenizer.pad_token_id, before get_peft_model. Llama 3.1 and later have "
        "<|finetune_right_pad_id|>, which needs no new row.",
        limits="that the collator masks the padding in the labels.",
        owner=Owner.JOB,
        judge=padding_is_its_own,
        required="checkpoint",
        sources=("bts-fix4", "exllamav2-415"),
    ),
)
