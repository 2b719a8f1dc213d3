"""Rows that hold something else than what a training is made of: pages of errors and blocks in
place of the documents behind them, and chats that end with a question."""

from __future__ import annotations

import re
from typing import Any, Dict, List, Optional

from ..foreign import Foreign
from .chats import ANSWERS, PROMPTS, messages_of

LONGEST, BEGINNING = 1500, 160
"""Characters of such a page, and of its beginning, where it says what it is. Our own numbers."""
BLOCKED = re.compile(
    r"access (?:to this page )?(?:is |has been )?denied|permission to access|403 forbidden|"
    r"(?:404|page|file)(?: was| could)? ?(?:-|:)? ?not (?:be )?found|\berror 40[34]\b|"
    r"(?:enable|turn on|requires?|disabled) (?:cookies and )?javascript|"
    r"(?:50[0234]|429) (?:internal server error|bad gateway|service (?:temporarily )?unavailable|"
    r"gateway time-?out|too many requests)|checking your browser|verify(?:ing)? (?:that )?you are "
    r"(?:a )?human|are you a robot|unusual traffic|complete the captcha|request (?:was |has been )?"
    r"blocked|you have been blocked|attention required|just a moment\.\.\.",
    re.IGNORECASE,
)
ANSWERED = (*ANSWERS, "chosen", "rejected", "solution", "solutions", "ground_truth", "reference",
            "references", "target", "label", "labels", "score", "rating")  # fmt: skip
"""Columns that hold what the model shall say, or how good that is, beside a chat that is a
prompt."""

DOCUMENTS = ("text", "content", "document", "body", "article", "raw_content", "markdown", "page")
NAMED = 40
"""Characters of a name or a date beside a document."""


def is_page(texts: List[str]) -> bool:
    """Whether the longest text of a row is such a page."""
    text = max(texts, key=len, default="").strip()
    return len(text) <= LONGEST and BLOCKED.search(text[:BEGINNING]) is not None


def document_of(row: Foreign) -> str:
    """The text of a row that is a document: it has neither a chat, nor a class, an answer or
    another
    text."""
    if messages_of(row) or any(name in row for name in (*ANSWERED, *PROMPTS, "class", "category")):
        return ""
    name = next((each for each in DOCUMENTS if isinstance(row.get(each), str)), None)
    others = (v for n, v in row.items() if n not in (name, "title") and isinstance(v, str))
    return "" if name is None or any(" " in v.strip() and len(v) > NAMED for v in others) else row[
        name]  # fmt: skip


def ends_with_question(row: Foreign) -> Optional[bool]:
    """Whether the last message of a chat is the user's, and the first one as well; None where the
    row is no chat, or where its answer stands elsewhere."""
    if any(name in row for name in ANSWERED):
        return None
    chat = messages_of(row)
    return chat[-1].get("role") == "user" and not is_framed(chat) if chat else None


def is_framed(chat: List[Dict[str, Any]]) -> bool:
    """Whether the assistant begins and the user has the last word."""
    spoken = [each["role"] for each in chat if each.get("role") in ("user", "assistant")]
    return len(spoken) > 1 and spoken[0] == "assistant" and spoken[-1] == "user"


def are_swapped(chat: List[Dict[str, Any]]) -> bool:
    """Whether the user answers what the assistant asks: two messages, or more text of the user's.
    Else a greeting stands before a chat, and thanks behind it."""
    texts = {who: [str(each.get("content")) for each in chat if each.get("role") == who]
             for who in ("user", "assistant")}  # fmt: skip
    sizes = {who: sum(map(len, said)) for who, said in texts.items()}
    short = len(texts["user"]) == len(texts["assistant"]) == 1
    return is_framed(chat) and (short or sizes["user"] > sizes["assistant"])
