"""A rule on metrics of tokens, of which some have no label."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from doctor.checks.script import evaluate
from doctor.checks.script.loss.losses import loss_calls
from doctor.checks.script.reading import flatten
from doctor.checks.script.rendering import render, texts_in
from doctor.checks.script.rule import Match, Rule, each_of
from doctor.checks.script.trainers.metric_functions import metric_functions
from doctor.checks.script.training import Training
from doctor.facts.script import Assignment, Value

LEFT_OUT = re.compile(r"-100|ignore|mask|>=0|>-1|!=PAD|pad", re.IGNORECASE)


def has_ignored_value(reading: Training, decoding: Collection[int] = ()) -> bool:
    """-100 is assigned, passed or returned; in functions that decode, it may be compared alone."""
    return any(
        v.literal == -100
        for value, _, scope in reading.expressions
        if not (value.kind == "test" and scope in decoding)
        for v in flatten([value])
    )


def leaves_places_out(reading: Training) -> bool:
    """Some labels are -100."""
    return "ignored_labels" in reading.script.identifiers or has_ignored_value(reading)


def counted(reading: Training) -> Iterator[Match]:
    """compute_metrics of labels with -100, which it does not leave out."""
    tokens = any("TokenClassification" in name for name in reading.model_names)
    causal = any("CausalLM" in name for name in reading.model_names)
    if not (tokens or (causal and leaves_places_out(reading))):
        return
    for scope in metric_functions(reading):
        function = reading.function(scope)
        own = [(v, s) for v, s, where in reading.expressions if where == scope]
        texts = [render(reading, v) for v, _ in own]
        compared = [c for c in reading.comparisons if c.scope == scope]
        texts += [
            f"{render(reading, c.left)}{c.operator}{render(reading, c.right)}" for c in compared
        ]
        calls = reading.calls_in(scope)
        elsewhere = [c for c in calls if reading.target_function(c) is not None]
        if any(LEFT_OUT.search(text) for text in texts) or elsewhere:
            continue
        scored = any(re.search(r"==", t) for t in texts) or any(
            c.name.startswith(("sklearn.metrics.", "seqeval.")) or c.method == "compute"
            for c in calls
        )
        if scored and any("label" in t or "argmax" in t for t in texts):
            yield Match(
                function.span, "places with label -100 count as wrong: they are not left out"
            )


LEAVES_OUT = re.compile(
    r"-100|ignore|>=0|>-1|\[\w*(?:mask|keep|valid|active)\w*\]|[*&]\(?\w*(?:mask|valid|keep|active)|"
    r"masked_select|where\(|nonzero"
)
OF_TOKENS = re.compile(
    r"\(?(?P<labels>[\w.]*(?:labels?|tags?|targets?|y)\w*)\.(?:numel\(\)|size\(|shape)"
)


def counted_by_hand(reading: Training) -> Iterator[Match]:
    """hits += (pred == labels).sum() and count += labels.numel() of labels with -100."""
    filled = {
        each.target.partition("[")[0]
        for each in (reading.stores if "numel" in reading.by_method else ())
        if _fills_batches(reading, each.scope)
        and (
            any(v.literal == -100 for v in flatten([each.value]))
            or "-100" in render(reading, each.value)
        )
    }
    for scope in {c.scope for c in reading.comparisons} if filled else ():
        texts = texts_in(reading, scope)
        compared = [c for c in reading.comparisons if c.scope == scope and c.operator == "=="]
        sides = {side.name for c in compared for side in (c.left, c.right) if side.kind == "name"}
        tests = [f"{c.operator}{render(reading, c.right)}" for c in reading.comparisons
                 if c.scope == scope]  # fmt: skip
        if any(LEAVES_OUT.search(text) for text in (*texts, *tests)):
            continue
        counts = [(m["labels"], each.span) for each in reading.stores
                  if each.scope == scope and each.augmented
                  and (m := OF_TOKENS.fullmatch(render(reading, each.value)))]  # fmt: skip
        for labels, span in counts:
            if labels in sides and labels in filled and any("argmax(" in t for t in texts):
                yield Match(span, "places with label -100 count as wrong: they are not left out")


def _fills_batches(reading: Training, scope: int) -> bool:
    """A dataset or a collator makes these labels, not another function's of the same name."""
    name = reading.function(scope).name
    return name == "__getitem__" or "collate" in name.casefold()


LOSSES = ("CrossEntropyLoss", "cross_entropy", "NLLLoss", "nll_loss")
COLLATORS = ("DataCollatorForTokenClassification", "DataCollatorForSeq2Seq")


def other_index(reading: Training) -> Iterator[Match]:
    """CrossEntropyLoss(ignore_index=tokenizer.pad_token_id) of labels that are -100."""
    made = [c for c in reading.named(*COLLATORS) if not c.unpacked]
    filled = any("label_pad_token_id" not in c.keywords for c in made)
    compared = any(
        -100 in (c.left.literal, c.right.literal)
        or ("label" in c.left.name.casefold() and c.right.literal == 0)
        for c in reading.comparisons
    ) or any(
        "label" in call.receiver.casefold() for call in reading.named("clamp", "clamp_", "relu")
    )
    if compared or not (filled or _writes_ignored_labels(reading)):
        return
    for call in reading.named(*LOSSES):
        index = call.keywords.get("ignore_index")
        if index is None or not call.name.startswith("torch.nn."):
            continue
        found = evaluate.options(reading, index, call)
        other = all(re.search(r"pad_(?:token_)?id", v.name) or v.literal == 0 for v in found)
        if found and other and _takes_labels(reading):
            message = "labels that count nowhere are -100, and this loss leaves out another number"
            yield Match(call.span, message, fix="Omit ignore_index: it is -100 by default.")


def _writes_ignored_labels(reading: Training) -> bool:
    """labels.append(-100), [-100 if ... for ...] under labels."""
    named = any(
        "label" in each.target.casefold() and any(v.literal == -100 for v in flatten([each.value]))
        for each in reading.stores
    )
    return named or any(
        "label" in call.receiver.casefold() and any(v.literal == -100 for v in flatten(call.args))
        for call in reading.named("append", "extend")
    )


def _takes_labels(reading: Training) -> bool:
    """Each cross-entropy of the file is of something that is called labels."""
    taken = [
        render(reading, call.args[1])
        for n, kind in loss_calls(reading)
        if kind in ("cross_entropy", "nll") and len((call := reading.calls[n]).args) > 1
    ]
    return bool(taken) and all("label" in text.casefold() for text in taken)


ALIGNS = ("word_ids", "word_to_token", "token_to_word", "words()", "offset", "overflow", "subword",
          "align", "encoding", "wordpiece", "word_piece")  # fmt: skip
"""Names of what tells which word a token is of."""


def words_and_tokens(reading: Training) -> Iterator[Match]:
    """Labels of words beside tokens of is_split_into_words, and nothing that aligns them."""
    yield from _of_characters(reading)
    if reading.mentions(*ALIGNS) or not any(
        "TokenClassification" in name for name in reading.model_names
    ):
        return
    for call in reading.calls:
        split = call.keywords.get("is_split_into_words")
        if split is None or split.literal is not True or not call.scope:
            continue
        for each in reading.assignments:
            if each.scope == call.scope and each.target.endswith("[labels]"):
                yield Match(
                    each.span, "labels are those of the words, and tokens are parts of them"
                )


def _of_characters(reading: Training) -> Iterator[Match]:
    """answer_start counts characters, start_positions tokens."""
    if reading.mentions(*ALIGNS, "char_to_token", "answers_char", "sequence_ids"):
        return
    for each in reading.assignments:
        if not each.target.endswith("[start_positions]"):
            continue
        if any("answer_start" in render(reading, value) for value in _sources(reading, each)):
            yield Match(each.span, "answer_start counts characters: the model takes tokens")


def _sources(reading: Training, each: Assignment) -> list[Value]:
    """The value, and what its name holds, where both count alike."""
    made = evaluate.definitions(reading, each.value.name, each.scope, each.position, each.arms)
    return [each.value, *(a.value for a in made if each.value.kind == "name")]


RULES = (
    Rule(
        code="SCR382",
        slug="words-and-tokens",
        title="Labels of words and characters are put on their tokens",
        severity="fail",
        find=words_and_tokens,
        why="A tokenizer cuts words in parts: from the first word of two tokens on, labels in the "
        "order of the words stand at the wrong tokens, in training and in evaluation alike.",
        fires=(
            "labels beside is_split_into_words=True, for a token classifier, and no word_ids()",
            "start_positions of answer_start, without char_to_token() or offsets",
        ),
        fix="Label the first token of each word by encoding.word_ids(), and -100 the others; find "
        "the tokens of an answer by char_to_token().",
        sources=("transformers-token-classification",),
        needs=("is_split_into_words", "answer_start", "load_dataset"),
    ),
    Rule(
        code="SCR358",
        slug="ignored-labels-counted",
        title="Metrics and losses leave out places without a label",
        severity="fail",
        find=each_of(counted, counted_by_hand, other_index),
        why="Sub-words and padding have label -100, which no prediction equals: accuracy and F1 "
        "depend on how long the texts are. To a loss with another ignore_index -100 is a class: it "
        "raises, on a GPU as a device-side assertion.",
        fires=(
            "compute_metrics of a token classifier that nowhere mentions -100",
            "ignore_index=pad_token_id beside labels that are -100",
            "count += labels.numel() beside (pred == labels).sum(), of labels that hold -100",
        ),
        fix="keep = labels != -100; compare predictions[keep] with labels[keep].",
        sources=("transformers-token-classification",),
        needs=("compute_metrics", "ignore_index", "ignored_labels", "numel"),
    ),
)
