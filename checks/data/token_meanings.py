"""What relations between tokens, their labels and their masks mean, and their fixes."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings

OF_TOKENS: Meanings = {
    "start twice": Meaning(
        "rows of labels begin with the decoder's start token {0}, which the model puts before them "
        "once more",
        "Cut the first label where it is decoder_start_token_id, and not where it is bos_token_id.",
        least=0.9,
    ),
    "target padding": Meaning(
        "rows of labels are padded with the padding token, which is trained",
        "Replace the padding of labels by -100.",
    ),
    "target without stop": Meaning(
        "rows of labels hold no eos_token: the decoder is not taught to stop",
        "End the labels with eos_token_id.",
        least=0.9,
    ),
    "span reversed": Meaning(
        "answers end before they begin", "Look at how end_positions are counted.", least=0.01
    ),
    "span beyond": Meaning(
        "answers lie beyond the tokens of their row",
        "Give positions in tokens, by the offset mapping, and not in characters or words.",
        least=0.01,
    ),
    "span lost": Meaning(
        "answers are at position 0 and 0",
        "Look at how characters are mapped to tokens: all answers lie outside their row.",
        least=0.95,
    ),
    "tag on special": Meaning(
        "rows have a tag on the token with which all rows begin or end that is rare, or that no "
        "word at the other end has: tags are moved against their tokens",
        "Align tags by word_ids(), and give special tokens -100.",
        least=0.1,
    ),
    "label ignored otherwise": Meaning(
        "rows have labels below 0 other than -100, which the model's loss does not ignore",
        "Ignore labels by -100, or give the loss ignore_index.",
        least=0.0,
    ),
    "special predicted": Meaning(
        "rows predict special tokens, as those of the beginning and the end",
        "Leave tokenizer.get_special_tokens_mask() out of the tokens that are masked.",
        least=0.2,
    ),
    "most is masked": Meaning(
        "rows hide most of their tokens behind the mask, as where it is drawn with 1 - p",
        "Mask a token where torch.rand(shape) < p, with p = 0.15 to 0.4, and leave the others.",
        least=0.9,
    ),
    "labels of another side": Meaning(
        "rows have labels that are padded on the other side than their tokens, so that each stands "
        "at another token",
        "Pad labels with -100 on the side of tokenizer.padding_side, or both by "
        "DataCollatorForSeq2Seq.",
        least=0.5,
    ),
    "mask against padding": Meaning(
        "attention masks exclude text and include padding",
        "Set the mask to 1 at tokens and 0 at padding, on the side on which rows are padded.",
    ),
    "borders wrong": Meaning(
        "batches have {fields} that do not run from 0 to the number of tokens",
        "Begin with 0 and add up the lengths: torch.cumsum(lengths, 0), with 0 before it.",
        least=0.0,
    ),
    "answer of other tokens": Meaning(
        "rows have a start and an end whose tokens are not those of the answer that the dataset "
        "holds: they were counted in another text than the one that was tokenized",
        "Tokenize the text to which answer_start belongs, unchanged, and map it by offset_mapping; "
        "in a text that is cleaned or stripped, look up the answer again.",
    ),
    "tags cross words": Meaning(
        "words have the tag of an entity on one of their pieces and that of none on another: "
        "each piece got the tag of a word, and behind the first word of several pieces all are "
        "displaced",
        "Align by word_ids(): the tag of a word to its first piece, and -100 or the same tag to "
        "the others.",
        least=0.1,
    ),
    "tags end early": Meaning(
        "rows have a tag on each of their first tokens and on none of their last ones: there is "
        "one for each word, and words have several tokens",
        "Align by word_ids(): the tag of a word to its first piece, and -100 or the same tag to "
        "the others.",
        least=0.5,
    ),
    "attention on padding": Meaning(
        "rows have a mask that leaves out their text and lets attention see their padding alone",
        "Turn the mask around: key_padding_mask is true where there is padding; a boolean "
        "attn_mask of scaled_dot_product_attention is true where attention looks.",
        least=0.5,
    ),
    "padding is target": Meaning(
        "rows have the padding_idx of the model's table as their {fields}: a real item has the "
        "number of the padding, whose vector is not trained",
        "Number items from 1 and leave 0 to the padding: nn.Embedding(items + 1, ..., "
        "padding_idx=0).",
        least=0.0,
    ),
    "padding pooled": Meaning(
        "rows are padded with token {0}, and the model's config.pad_token_id is {1}: it takes the "
        "padding for text, and reads the score behind it",
        "Set model.config.pad_token_id = tokenizer.pad_token_id.",
    ),
    "text without end": Meaning(
        "none of {1} tokens is {fields} ({0}), which the file names: texts run into each other, "
        "and the model never learns to end one",
        "Append the token to each text before they are joined and cut to rows.",
        single=True,
    ),
    "condition empty": Meaning(
        "rows have an empty {fields}: the model hardly learns to follow it",
        "Leave the condition out with the small probability of guidance (about 0.1): empty where "
        "random() < p, kept otherwise.",
        least=0.5,
    ),
}
