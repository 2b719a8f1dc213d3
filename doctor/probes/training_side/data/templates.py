"""Chat templates: what generation is prompted with, and markers of other families in the text."""

from __future__ import annotations

from collections import Counter
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch

from ..foreign import Foreign, observing
from .documents import Document
from .labels import SAME, has_prompt
from .row_ends import FEW, contains
from .vocabulary import Vocabulary

MARKERS = (
    "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|eot_id|>", "<start_of_turn>",
    "<end_of_turn>", "[INST]", "[/INST]", "<|user|>", "<|assistant|>", "<|end|>",
    "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>", "<|START_OF_TURN_TOKEN|>", "<|turn>",
)  # fmt: skip
"""Of Llama 3, Qwen and ChatML, Gemma, Mistral, Phi and Zephyr, DeepSeek, Command."""
QUESTION, ANSWER = "Hello there", "Good"
HEADER = 3
THINKING = "<think>"
THOUGHT = 8
"""Tokens of an empty thought between the marker and the answer."""
DECODED = 512
"""Tokens of a document in which markers are looked for."""
MOST_ROWS = 5


class Prompt(NamedTuple):
    """What the tokenizer's template says about prompts."""

    marker: List[int]
    """The tokens that the generation prompt adds."""
    bos: Optional[int]
    """The first token of a rendered chat, if it is the one for the beginning."""
    rendered: str
    """The template, and a chat that it rendered: some compose their markers."""
    loose: bool = False
    """Thinking follows the marker, which training may leave out."""
    question: Tuple[int, ...] = ()
    """The tokens that stand before a question of the user."""


def prompt_of(vocabulary: Vocabulary) -> Optional[Prompt]:
    """None without a template, or if it renders no chat of one message."""
    tokenizer = vocabulary.tokenizer
    template = observing.attribute(tokenizer, "chat_template")
    if isinstance(template, dict):
        template = template.get("default")
    if not isinstance(template, str) or not template:
        return None
    chat = [{"role": "user", "content": QUESTION}]
    base = observing.attempt(lambda: render(tokenizer, chat, False), None)
    full = observing.attempt(lambda: render(tokenizer, chat, True), None)
    if base is None or full is None:
        return None
    thinking = full.startswith(base) and THINKING in full[len(base) :]
    if thinking:
        full = full[: full.index(THINKING, len(base))]
    ids, before = tokenized(tokenizer, full), tokenized(tokenizer, base)
    marker = ids[len(before) :] if ids[: len(before)] == before else []
    bos = ids[0] if ids and ids[0] == vocabulary.bos else None
    answer = [*chat, {"role": "assistant", "content": ANSWER}]
    example = observing.attempt(lambda: render(tokenizer, answer, False), "")
    marker = marker or observing.attempt(lambda: header(tokenizer, example), [])
    question = observing.attempt(lambda: before_question(tokenizer, base, marker), [])
    return Prompt(marker, bos, template + full + example, thinking, tuple(question))


def before_question(tokenizer: Foreign, base: str, marker: List[int]) -> List[int]:
    """HEADER tokens before the question, without those that the question changes; or as many more
    as tell them from the end of an answer's marker."""
    ids, before = tokenized(tokenizer, base), tokenized(tokenizer, base[: base.index(QUESTION)])
    while before and before != ids[: len(before)]:
        before = before[:-1]
    count = next((n for n in range(HEADER, len(before)) if before[-n:] != marker[-n:]), len(before))
    return before[-count:] if before[-count:] != marker[-count:] else []


def header(tokenizer: Foreign, example: str) -> List[int]:
    """The tokens between a question and its answer, where the template has no prompt for
    generation; without those that the answer changes."""
    start = example.index(QUESTION) + len(QUESTION)
    before = tokenized(tokenizer, example[:start])
    ids = tokenized(tokenizer, example)
    between = tokenized(tokenizer, example[: example.index(ANSWER, start)])
    while (between and between != ids[: len(between)]) or _is_space(tokenizer, between[-1:]):
        between = between[:-1]  # a space before the answer may be a part of its first token
    return between[len(before) :]


def _is_space(tokenizer: Foreign, ids: List[int]) -> bool:
    return bool(ids) and str(tokenizer.decode(ids)) == " "


def render(tokenizer: Foreign, chat: List[Dict[str, Any]], prompt: bool) -> str:
    """The chat as text, by the tokenizer's template in transformers' sandbox."""
    return str(tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=prompt))


def tokenized(tokenizer: Foreign, text: str) -> List[int]:
    return list(tokenizer(text, add_special_tokens=False)["input_ids"])


def markers(
    documents: List[Document], vocabulary: Vocabulary, prompt: Optional[Prompt]
) -> Optional[Dict[str, Any]]:
    """The record Markers: how documents begin their answers, and what is plain text in them."""
    if vocabulary.tokenizer is None:
        return None
    record: Dict[str, Any] = {"type": "Markers", "documents": len(documents)}
    record.update(plain(documents, vocabulary, prompt.rendered if prompt else ""))
    if prompt is None:
        return record
    record["template"] = True
    answers = [each for each in documents if each.labels is not None and has_prompt(each)]
    record["answers"] = len(answers)
    record["prompt"] = "".join(map(vocabulary.name, prompt.marker)) if prompt.marker else ""
    if prompt.marker:
        room = THOUGHT if prompt.loose else 0
        record.update(borders(answers, prompt.marker, list(prompt.question), room))
        record.update(otherwise(answers, prompt.marker, vocabulary))
        asked = [d for d in documents if contains(d.ids, list(prompt.question))]
        record["questions"] = len(asked)
        record["unanswered"] = sum(not contains(d.ids, prompt.marker) for d in asked)
        special = observing.attribute(vocabulary.tokenizer, "all_special_ids", [])
        record["reopened"] = sum(reopened(d, prompt.marker, special) for d in documents)
    if prompt.bos is not None:
        record["without_bos"] = sum(int(each.ids[0]) != prompt.bos for each in documents)
        record["bos"] = vocabulary.name(prompt.bos)
    return record


def borders(
    answers: List[Document], marker: List[int], question: List[int], room: int
) -> Dict[str, Any]:
    """Where training begins, against the end of the marker before it; `room`: tokens that may
    stand between them."""
    counts = dict.fromkeys(
        ("prompted", "late", "early", "elsewhere", "asking", "several", "later", "first"), 0
    )
    before: Counter[int] = Counter()
    """Tokens at which what is given of the answer ends, as a thought that is not trained."""
    for each in answers:
        ids, trained = each.ids.tolist(), each.trained.tolist()
        begins = trained.index(True)
        ends = _ends(ids, marker)
        asked = [trained[end] for end in _ends(ids, question) if end < len(ids)] if question else []
        asks = any(asked)
        answered = any(trained[end : end + 1] == [True] for end in ends)
        counts["several"] += len(asked) > 1 and answered
        taught = [trained[end] for end in ends if end < len(ids)]
        counts["first"] += len(asked) > 1 and taught[:1] == [True] and not any(taught[1:])
        counts["later"] += answered and len(asked) > 1 and not asked[0] and all(asked[1:])
        # Questions may be trained beside the answers: all but the system's message.
        if (asks and answered) or any(end <= begins <= end + room for end in ends):
            counts["prompted"] += 1
        elif begins - 1 in ends:
            counts["late"] += 1
        elif any(begins < end <= begins + len(marker) for end in ends):
            counts["early"] += 1
        elif ends:
            counts["elsewhere"] += 1
            counts["asking"] += asks and not answered
            given = max((end for end in ends if end < begins), default=begins)
            inner = each.ids[given:begins]
            turns = contains(inner, marker) or contains(inner, question)
            before.update(ids[begins - 1 : begins] if len(inner) and not turns else [])
    most = max(before.values(), default=0)
    if most >= max(FEW, SAME * counts["elsewhere"]):
        counts["prompted"] += most
        counts["elsewhere"] -= most
    return {**counts, "marked": sum(contains(each.ids, marker) for each in answers)}


def otherwise(answers: List[Document], marker: List[int], vocabulary: Vocabulary) -> Dict[str, Any]:
    """Answers behind the special tokens of the marker, with something else between these."""
    special = [each for each in marker if vocabulary.is_special(each)]
    found: Counter[Tuple[int, ...]] = Counter()
    for each in answers if special else []:
        begins = int(torch.nonzero(each.trained)[0])
        start = max(0, begins - len(marker) - HEADER)
        before = each.ids[start:begins].tolist()
        starts = [at for at, token in enumerate(before) if token == special[0]]
        near = each.ids[start : begins + len(marker)]
        written = before[starts[-1] :] if starts and not contains(near, marker) else []
        if [token for token in written if vocabulary.is_special(token)] == special:
            found[tuple(written)] += 1
    most = found.most_common(1)
    instead = "".join(map(vocabulary.name, most[0][0])) if most else ""
    return {"unlike": sum(found.values()), "instead": instead}


def reopened(document: Document, marker: List[int], special: List[int]) -> bool:
    """Whether the prompt for one more answer ends a document, but for tokens such as the stop."""
    ids = document.ids.tolist()
    ends = _ends(ids, marker)
    return len(ends) > 1 and all(each in special for each in ids[ends[-1] :])


def _ends(ids: List[int], marker: List[int]) -> List[int]:
    """Positions behind each occurrence of the marker."""
    size, first = len(marker), marker[0]
    begins = [at for at, token in enumerate(ids) if token == first]
    return [at + size for at in begins if ids[at : at + size] == marker]


def plain(documents: List[Document], vocabulary: Vocabulary, template: str) -> Dict[str, Any]:
    """Markers that are spelled in several tokens: of another family, or a special token split."""
    tokenizer = vocabulary.tokenizer
    single = {name: _single(tokenizer, name) for name in MARKERS}
    foreign: Dict[str, int] = {}
    split: Dict[str, int] = {}
    pieces: Dict[str, int] = {}
    rows: List[int] = []
    for each in documents:
        ids = each.ids[:DECODED].tolist()
        text = observing.attempt(lambda ids=ids: str(tokenizer.decode(ids)), "")  # type: ignore[misc]
        for name in MARKERS:
            token = single[name]
            if name not in text or (token is not None and token in ids):
                continue
            if token is None and not template:
                continue
            if token is None and name in template:  # by design, as in Zephyr
                pieces[name] = pieces.get(name, 0) + 1
                continue
            counts = foreign if token is None else split
            counts[name] = counts.get(name, 0) + 1
            rows += [each.row] if len(rows) < MOST_ROWS and each.row not in rows else []
    return {"foreign": foreign, "split": split, "pieces": pieces, "rows": rows}


def _single(tokenizer: Foreign, name: str) -> Optional[int]:
    """The id of a marker that is one token; None if it is none."""
    token = observing.attempt(lambda: tokenizer.convert_tokens_to_ids(name), None)
    unknown = observing.attribute(tokenizer, "unk_token_id")
    return token if isinstance(token, int) and token != unknown else None
