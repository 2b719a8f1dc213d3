"""What is trained is what was meant, and the prompt of training is that of generation."""

from __future__ import annotations

from doctor._util.records import Unknown
from doctor._util.units import shown
from doctor.checks.data.answers import NO_ANSWERS
from doctor.checks.data.labels import displaced
from doctor.checks.data.relations import Meaning, Meanings, verdicts
from doctor.checks.data.seen import each_split, observed, of_tokens, passed, rows, share
from doctor.facts.data import Data, Labels, Split
from doctor.facts.data_rows import Markers
from doctor.judge.check import Check, Owner, Verdict, note, skip, unknown
from doctor.judge.combine import worst

LOST = 0.05
"""Share of chats that lose a message. Our own number."""
MOST = 0.9
"""Share of documents from which on it is the pipeline, and no single row. Our own number."""


def meant(data: Data) -> Verdict:
    return each_split(data, _meant)


def _meant(split: Split) -> Verdict:
    labels = split.labels
    if labels is None or labels.objective != "next token":
        return skip("no label is a token of its row")
    between = verdicts(split.relations, MEANINGS)
    if between and displaced(split):
        return worst(*between)
    if labels.inverted >= 0.5 * labels.documents:
        text = share(
            labels.inverted, labels.documents, "documents train their beginning and not their end"
        )
        return observed(f"{text}: the prompt is trained and the answer masked", labels.documents)
    if labels.prompts and labels.twice >= 0.5 * labels.prompts:
        text = share(labels.twice, labels.prompts, "answers begin with their whole prompt")
        return observed(f"{text}: it stands twice, and is trained", labels.prompts, fix=TWICE)
    if between:
        return worst(*between)
    found = _of_markers(split.markers) if isinstance(split.markers, Markers) else None
    return found or passed(_share(labels), split)


def _of_markers(markers: Markers) -> Verdict | None:
    """What is trained, by the template's markers of questions and answers."""
    if trains_questions(markers):
        what = "documents train what the user says, and no answer of the assistant"
        text = share(markers.asking, markers.answers, what)
        return observed(text, markers.answers, fix=ASKING)
    if markers.several and markers.later >= MOST * markers.several:
        what = "chats of several turns train what the user says behind the first answer"
        text = share(markers.later, markers.several, what)
        return observed(text, markers.several, fix=TURNS)
    if markers.several and markers.first >= MOST * markers.several:
        text = share(
            markers.first, markers.several, "chats of several turns train the first answer"
        )
        return observed(f"{text}, and none of the later ones", markers.several, fix=ALL_ANSWERS)
    if markers.answers and markers.late >= MOST * markers.answers:
        text = share(markers.late, markers.answers, "answers do not train their first token")
        return observed(f"{text} after {shown(markers.prompt)}", markers.answers, fix=LATE)
    return None


def trains_questions(markers: Markers) -> bool:
    return markers.asking >= MOST * markers.answers > 0


def _share(labels: Labels) -> str:
    trained = share(labels.trained, labels.tokens, "tokens are trained")
    if labels.prompts:
        return f"{trained}; {share(labels.prompts, labels.documents, 'documents mask a prompt')}"
    return f"{trained}; no document masks a prompt"


MEANINGS: Meanings = {
    "answers displaced": Meaning(
        "documents behind the first one of their row do not train their end, and first ones do: "
        "the labels of packed rows are displaced",
        "Move each document's labels by the tokens of all documents before it, prompts included: "
        "offset += len(ids).",
        least=0.5,
    ),
    "border within padding": Meaning(
        "rows that are padded on the left train the end of their prompt: the border was counted "
        "from the first column, and lies as many tokens too early as there is padding",
        "Add the width of the padding to the border, or pad on the right for training.",
        least=0.5,
    ),
    "answer begins late": Meaning(
        "answers are trained from their token {0} on, and not from the first one behind {fields}",
        "Begin the labels where the answer begins: tokenize the prompt with "
        "add_special_tokens=False, without an end of its own, and count its tokens.",
        least=0.9,
    ),
    "stop before answer": Meaning(
        "answers follow a token at which generation stops, which ends their prompt",
        "Tokenize the prompt without eos_token, which stands behind the answer alone.",
        least=0.9,
    ),
    "prompts trained": Meaning(
        "chats train all their tokens; {0} % of these stand before the last answer",
        "Leave it so where the model is to learn whole chats. To train answers alone, mask what "
        "stands before each: labels[:len(prompt_ids)] = -100, or assistant_only_loss=True of TRL's "
        "SFTConfig, with {% generation %} in the chat template.",
        least=0.9,
        noted=True,
    ),
    "start before answer": Meaning(
        "answers begin behind a second token for the beginning",
        "Tokenize the answer with add_special_tokens=False, or prompt and answer as one text.",
        least=0.9,
    ),
}
ASKING = (
    "Train the turns of the assistant: exchange the markers of instruction and response, or put "
    "{% generation %} of the template around the assistant's messages."
)
TURNS = (
    "End what is trained with each answer: mask every message of the user, by its role, and not "
    "only what stands before the first answer."
)
ALL_ANSWERS = (
    "Train all answers of a chat: look for the markers of every turn, not for the first one alone, "
    "or train assistant messages by the template's {% generation %}."
)
TWICE = "Put the prompt before an answer once: chosen, rejected or output may hold it already."
LATE = "Begin the labels with the first token of the answer: the border is one token too late."

MEANT = Check(
    code="DAT013",
    slug="answer-is-trained",
    title="The answer is trained from its first token on, and not the prompt in its place",
    why="A mask that is inverted trains the model to ask; one that begins a token late leaves the "
    "first token of every answer to chance.",
    passes=(
        "the part that is trained is the end of the document, from the answer's first token on",
    ),
    notes=(
        "90 % of the chats, by the roles of the template or of special tokens, train all tokens",
    ),
    warns=(
        "half of 32 or more documents train their beginning and not their end",
        "90 % of 32 or more answers do not train the token behind the template's prompt",
        "90 % of 32 or more documents train what the user says, and no answer",
        "90 % of 32 or more chats of several turns train what the user says behind the first "
        "answer, or the first answer alone",
        "half of 32 or more answers begin with their whole prompt",
        "in packed rows, half of the documents behind the first one do not train their end, and "
        "first ones do",
        "up to three tokens behind what stands before 90 % of 32 or more answers are not trained",
        "90 % of 32 or more answers follow a stop, or a second token for the beginning",
    ),
    fix="Mask the prompt and train the answer: labels[:prompt] = -100, not labels[prompt:].",
    owner=Owner.JOB,
    judge=of_tokens(meant),
    limits="that prompts which are trained should be: the share is given.",
    sources=("trl-3279",),
)


def prompted(data: Data) -> Verdict:
    return each_split(data, _prompted)


def _prompted(split: Split) -> Verdict:
    markers, rendered = split.markers, split.rendered
    if rendered is not None and rendered.failed:
        text = share(rendered.failed, rendered.rows + rendered.failed, "rows are not rendered")
        errors = ", ".join(f"{shown(name)} {count}" for name, count in rendered.errors.items())
        return observed(f"{text} ({errors}): {rows(rendered.failed_rows, split.lines)}",
                        rendered.rows + rendered.failed, fix=RENDER)  # fmt: skip
    if rendered is not None and rendered.lost >= LOST * rendered.rows > 0:
        text = share(rendered.lost, rendered.rows, "chats lose a message in the template")
        where = rows(rendered.lost_rows, split.lines)
        return observed(f"{text}: {where}", rendered.rows, fix=ROLES)
    if rendered is not None and rendered.calls:
        what = "chats call a tool without a text, which the template refuses"
        return note(f"{share(rendered.calls, rendered.rows, what)}", fix=CALLS)
    if markers is None:
        return skip("no tokenizer is in the target; --tokenizer DIR names one")
    if isinstance(markers, Unknown):
        return unknown(markers.reason)
    return _plain(markers, split) or _prefix(markers, split)


def _plain(markers: Markers, split: Split) -> Verdict | None:
    for counts, text, fix in (
        (markers.split, "spell {} in several tokens, though the tokenizer has it as one", SPLIT),
        (markers.foreign, "have {} as plain text, which is no token here", FOREIGN),
    ):
        if counts:
            name = max(counts, key=lambda each: counts[each])
            where = rows(markers.rows, split.lines)
            whole = share(counts[name], markers.documents, f"documents {text.format(shown(name))}")
            if counts[name] >= 0.5 * markers.documents:
                return observed(f"{whole}: {where}", markers.documents, fix=fix)
            return note(f"{whole}: {where}")
    return None


def _prefix(markers: Markers, split: Split) -> Verdict:
    if not markers.template:
        return skip("the tokenizer has no chat template")
    if markers.bos and markers.marked and markers.without_bos >= MOST * markers.documents:
        text = share(markers.without_bos, markers.documents,
                     f"documents lack {shown(markers.bos)}, the template's first")  # fmt: skip
        return observed(text, markers.documents, fix=BOS)
    if split.labels is not None and split.labels.objective == "next token":
        absent = _without_prompt(markers)
        if absent is not None:
            return absent
    if not markers.answers or not markers.prompt:
        return skip(NO_ANSWERS)
    unlike = markers.answers - markers.prompted - markers.early - markers.late
    text = share(unlike, markers.answers, f"answers do not begin behind {shown(markers.prompt)}")
    if markers.unlike >= MOST * markers.answers:
        instead = f"{text}, which generation gets, but {shown(markers.instead)}"
        return observed(instead, markers.answers, fix=UNPROMPTED)
    return _elsewhere(markers, unlike, text) or passed(text, split)


def _elsewhere(markers: Markers, unlike: int, text: str) -> Verdict | None:
    if not markers.marked:
        return note(f"{text}: the rows do not use the tokenizer's chat template", fix=OTHER)
    if unlike >= MOST * markers.answers:
        return observed(f"{text}, which generation gets", markers.answers)
    return None


def _without_prompt(markers: Markers) -> Verdict | None:
    """Of documents that are trained: no prompt for their answers, or one more than these."""
    if trains_questions(markers):
        return skip("the user's messages are trained, see DAT013")
    if markers.questions and markers.unanswered >= MOST * markers.questions:
        text = share(markers.unanswered, markers.questions, "documents with a question of the user")
        if markers.answers >= MOST * markers.questions:
            what = "train an answer that does not begin behind"
            return observed(f"{text} {what} {shown(markers.prompt)}, which generation gets",
                            markers.questions, fix=UNPROMPTED)  # fmt: skip
        return observed(f"{text} have no {shown(markers.prompt)}: the answers are missing",
                        markers.questions, fix=ROLES)  # fmt: skip
    if markers.reopened >= MOST * markers.documents:
        what = f"documents end with {shown(markers.prompt)}, behind which no answer follows"
        text = share(markers.reopened, markers.documents, what)
        return observed(text, markers.documents, fix=REOPENED)
    return None


ROLES = (
    "Give messages the roles that the template writes, user and assistant: many templates leave "
    "out messages of another role (gpt, human, bot) without a word."
)
UNPROMPTED = (
    "Let the prompt end as the template ends it, with add_generation_prompt=True, and the answer "
    "begin there; a hand-written header must have the template's own name of the role."
)
REOPENED = (
    "Render training chats with add_generation_prompt=False: the prompt for the next answer is for "
    "generation alone."
)
OTHER = "Ask the trained model in the form of its rows, or render them with the chat template."
CALLS = (
    "Use the template of a model that calls tools; this one renders messages with text alone, so "
    "that "
    "the calls are not trained."
)
RENDER = "Look at these rows: roles in another order than the template allows, or missing fields."
SPLIT = "Tokenize rendered text with the tokenizer of the model, without split_special_tokens."
FOREIGN = "Render the messages with the tokenizer's own chat template, not as text of another one."
BOS = "Keep the token for the beginning: tokenize with apply_chat_template(tokenize=True)."

PROMPTED = Check(
    code="DAT014",
    slug="generation-prompt",
    title="Answers begin behind the prompt that generation gets, in the template's own tokens",
    why="If training and use render a chat differently, the model is asked in a form that it has "
    "not been trained on.",
    passes=("answers begin behind the template's generation prompt",),
    notes=(
        "chats call tools in a template that refuses messages without a text",
        "no document has the template's prompt: they are written in another form",
        "markers of another family are plain text in fewer than half of the documents",
    ),
    warns=(
        "90 % of 32 or more answers do not begin behind it",
        "half of 32 or more documents have a marker as plain text, or split into tokens",
        "90 % of 32 or more documents lack the token that the template begins with",
        "the template does not render a row, or leaves out a message in 5 % of the chats",
        "90 % of 32 or more trained chats have a question and no answer",
        "90 % of 32 or more trained documents end with the prompt for one more answer",
    ),
    fix="Render the training chats with the chat template that is saved with the model.",
    owner=Owner.JOB,
    judge=of_tokens(prompted),
    limits="that the server uses the same template.",
    sources=("fastchat-2992",),
)

CHECKS = (MEANT, PROMPTED)
