"""Whether the numbers of tokens that configurations name are those of the tokenizer."""

from __future__ import annotations

from doctor._util.units import listed, shown
from doctor.checkpoint.records import Checkpoint, Tokenizer
from doctor.checks.checkpoint.norm_causes import MIN_STEPS, length_of_run
from doctor.judge.check import Verdict, fail, note, warn

TEMPLATE_FIX = (
    "Add the template's tokens as special ones, tokenizer.add_special_tokens(...), then "
    "model.resize_token_embeddings(len(tokenizer)), and train with them; or use the template that "
    "the model was trained with, whose tokens exist."
)
OF_ENDS = ("open-r1-663",)
STOPS_FIX = (
    "Add the number to eos_token_id in generation_config.json, as a list with the others, where "
    "the model was trained on the template. Of a base model, nothing is wrong."
)
EMPTY_FIX = (
    "Write tokenizer.json again, from the sentencepiece model and with the tokenizer's class that "
    "the model was trained with, and compare the numbers of a text's tokens under both. Leave the "
    "numbers in config.json: they may be those of the sentencepiece model."
)
EXCHANGED_FIX = (
    "Copy the tokenizer's files (tokenizer.json, tokenizer_config.json and their like) from the "
    "model that the weights come from: these were trained with other numbers for the same texts. "
    "Only if the weights were trained with this tokenizer, give its numbers to config.json and "
    "generation_config.json."
)
ABSENT_FIX = (
    "Give the configuration the number of a token that the tokenizer has, or add the token, "
    "tokenizer.add_special_tokens(...), and save the model after "
    "model.resize_token_embeddings(len(tokenizer)): a number without a row ends in an IndexError "
    "or a device-side assert as soon as a batch is padded with it or generation begins with it."
)
IDS_FIX = (
    "Give the configuration the tokenizer's numbers: a text that generate() makes ends at "
    "eos_token_id alone.\n"
    "model.generation_config.eos_token_id = model.config.eos_token_id = tokenizer.eos_token_id"
)


PADDED_EMBEDDINGS = frozenset({
    "albert", "bert", "camembert", "cohere", "deepseek_v3", "distilbert", "electra", "granite",
    "llama", "mistral", "mixtral", "olmo", "olmo2", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3",
    "qwen3_moe", "roberta", "smollm3", "stablelm", "starcoder2", "xlm_roberta", "xlm-roberta",
})  # fmt: skip
"""model_type of those that the library builds with nn.Embedding(vocab_size, ..., pad_token_id)."""


def _padding_row(checkpoint: Checkpoint, named: dict[str, int], limit: int) -> str:
    """Why the embedding cannot be built: its padding_idx is beyond its rows; "" where it can."""
    number = named.get("pad_token_id in config.json", -1)
    if checkpoint.model.model_type not in PADDED_EMBEDDINGS or not 0 < limit <= number:
        return ""
    text = f"pad_token_id in config.json is {number:,}, the vocabulary has {limit:,} tokens"
    return f"{text}: from_pretrained fails, padding_idx must be within num_embeddings"


def empty_vocabulary(tokenizer: Tokenizer) -> str:
    """That tokenizer.json has added tokens alone, and another file the vocabulary; "" if not."""
    if not tokenizer.vocabulary_elsewhere:
        return ""
    model = tokenizer.vocabulary_elsewhere
    return f"the vocabulary of tokenizer.json is empty, beside {model} of sentencepiece"


def token_ids(checkpoint: Checkpoint) -> Verdict | None:
    """Numbers of tokens that no token has, or that end no text; None where there is none."""
    model, tokenizer = checkpoint.model, checkpoint.tokenizer
    if tokenizer and (text := empty_vocabulary(tokenizer)):
        return warn(f"{text}: a text has no tokens but the added ones", fix=EMPTY_FIX)
    named = tokenizer.named if tokenizer else model.token_ids
    counts = [
        size for each in model.sizes if each.quantity == "vocabulary" for size in each.configured
    ]
    if tokenizer and tokenizer.largest is not None:
        counts.append(tokenizer.largest + 1)
    limit = max(model.embedding_rows or 0, *counts, 0)
    absent = [f"{entry} is {number:,}" for entry, number in named.items() if 0 < limit <= number]
    if unbuildable := _padding_row(checkpoint, named, limit):
        return fail(unbuildable, fix=ABSENT_FIX)
    if absent:
        return warn(f"{listed(absent, 3)}; the vocabulary has {limit:,} tokens", fix=ABSENT_FIX)
    if tokenizer and tokenizer.exchanged:
        pairs = [f"{role}_token_id is {text}" for role, text in tokenizer.exchanged.items()]
        return warn(
            f"by this tokenizer {listed(pairs, 3)}: it is another model's", fix=EXCHANGED_FIX
        )
    if tokenizer and (verdict := _turn_ends(checkpoint, tokenizer)):
        return verdict
    if tokenizer and tokenizer.stops and tokenizer.eos_id not in (None, *tokenizer.stops):
        text = f"the tokenizer ends a text with {tokenizer.eos} ({tokenizer.eos_id:,})"
        stops = listed([f"{number:,}" for number in tokenizer.stops], 4)
        return warn(f"{text}, eos_token_id of the configuration is {stops}", fix=IDS_FIX)
    return None


def _turn_ends(checkpoint: Checkpoint, tokenizer: Tokenizer) -> Verdict | None:
    """What the chat template ends turns with, where that is no token or ends no generation."""
    if tokenizer.absent_ends:
        ends = listed([shown(each, 60) for each in tokenizer.absent_ends], 3)
        text = f"the chat template ends turns with {ends}, of which the tokenizer has no token"
        return warn(f"{text}: it is split into pieces, and ends no text", fix=TEMPLATE_FIX)
    numbers = {*tokenizer.ends.values()}
    other = tokenizer.eos_id in tokenizer.stops and not numbers & {*tokenizer.stops}
    if not numbers or not other:
        return None
    ends = listed([f"{shown(each, 60)} ({n:,})" for each, n in tokenizer.ends.items()], 3)
    stops = listed([f"{number:,}" for number in tokenizer.stops], 4)
    text = f"the chat template ends turns with {ends}, and eos_token_id is {stops}: generate()"
    text = f"{text} goes on behind the answer"
    if length_of_run(checkpoint) < MIN_STEPS:  # base models are so
        return note(text, fix=STOPS_FIX)
    return warn(text, fix=STOPS_FIX, sources=OF_ENDS)
