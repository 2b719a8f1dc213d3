"""What the source of a target states of its losses: the label that they ignore, and the class that
a
CTC loss reserves for no letter."""

from __future__ import annotations

import ast
import re
from typing import Any, Dict, Iterator, NamedTuple, Optional, Set

from ..foreign import Foreign, observing
from .loss_labels import OwnLabels

ENDS = re.compile(
    r"(EOS|EOT|EOD|END_OF_TEXT|ENDOFTEXT|END_OF_DOC|DOC_SEP)(_ID|_TOKEN|_TOKEN_ID|_IDX)?"
)

OF_ANSWERS = re.compile(r"return_assistant_tokens_mask|assistant_only_loss|assistant_masks")

OF_PAIRS = re.compile(
    r"(?:unsqueeze\([01]\)|\[:, ?None[^\]]{0,9}\]|\[None[^\]]{0,9}\]|\.T|\.t\(\)) ?==|"
    r"== ?[\w.\[\]\"']{1,40}(?:unsqueeze\(|\[None|\[:, ?None|\.T\b|\.t\(\))|torch\.eq\(|SupCon"
)


class Stated(NamedTuple):
    """Of all losses in the source."""

    ignored: Set[int] = frozenset()  # type: ignore[assignment]
    """Numbers that ignore_index= names."""
    padding_ignored: bool = False
    """It names something that is no number here, such as tokenizer.pad_token_id."""
    blank: Optional[int] = None
    """None: there is no CTC loss, or its blank is no number here."""
    ends: Dict[str, int] = {}  # noqa: RUF012
    """Names of the token that ends a text, with their number."""
    own: Optional[OwnLabels] = None
    """What a loss makes its labels of, as a step showed."""
    of_answers: bool = False
    """The source asks the chat template which tokens are the assistant's."""
    compares_pairs: bool = False
    """It compares each row of a batch with each, as a loss does that masks equal positives."""


def of_code(code: str) -> Stated:
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError, RecursionError):
        return Stated()
    numbers = dict(constants(tree))
    ignored: Set[int] = set()
    padding_ignored = False
    blanks: Set[Optional[int]] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        for keyword in node.keywords:
            if keyword.arg == "ignore_index":
                value = number_of(keyword.value, numbers)
                ignored |= set() if value is None else {value}
                padding_ignored = padding_ignored or value is None
        if name_of(node.func) in ("CTCLoss", "ctc_loss"):
            blanks.add(blank_of(node, numbers))
    blank = blanks.pop() if len(blanks) == 1 else None
    ends = {name: value for name, value in numbers.items() if ENDS.fullmatch(name)}
    of_answers = OF_ANSWERS.search(code) is not None
    compares_pairs = OF_PAIRS.search(code) is not None
    return Stated(ignored, padding_ignored, blank, ends, None, of_answers, compares_pairs)


def blank_of(node: ast.Call, numbers: Dict[str, int]) -> Optional[int]:
    place = 0 if name_of(node.func) == "CTCLoss" else 4
    given = [each.value for each in node.keywords if each.arg == "blank"]
    given += node.args[place : place + 1]
    return number_of(given[0], numbers) if given else 0


def constants(tree: ast.AST) -> Iterator[Any]:
    """Names that the source assigns one whole number to."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            names, values = [node.targets[0]], [node.value]
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                names, values = node.targets[0].elts, node.value.elts
            for name, value in zip(names, values):
                plain = number_of(value, {})
                if isinstance(name, ast.Name) and plain is not None:
                    yield name.id, plain


def number_of(node: ast.AST, numbers: Dict[str, int]) -> Optional[int]:
    if isinstance(node, ast.Name):
        return numbers.get(node.id)
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, RecursionError):
        return None
    return value if type(value) is int else None


def name_of(node: ast.AST) -> str:
    """The last part of a name."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(
        node, ast.Name) else ""  # fmt: skip


def ignored_by(criterion: Foreign) -> Set[int]:
    """The label that a criterion ignores, from 0 on."""
    value = observing.attribute(criterion, "ignore_index")
    return {value} if isinstance(value, int) and value >= 0 else set()
