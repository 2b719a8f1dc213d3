"""What relations between the fields of a row of a file mean: one row for each kind."""

from __future__ import annotations

from doctor.checks.data.relations import Meaning, Meanings

SPANS = (
    "Give start and end in letters of the text as it is stored (text[start:end]), and look at "
    "where both "
    "were shifted: by cleaning, by bytes, or by an end that is included."
)
EMPTY = "Drop the rows without an answer, or generate their answers again."
EMPTY_ROWS = "Drop these rows, or fill them in: there is nothing to learn an answer from."
MEANINGS: Meanings = {
    "prompt begins answer": Meaning(
        "answers begin with their whole prompt",
        "Keep the prompt in a column of its own: it is put before the answer again.",
        least=0.5,
        by_row=True,
    ),
    "one answer": Meaning(
        "answers are the same text", "Look at how answers are made: one stands in for many.", 0.2
    ),
    "answer under another name": Meaning(
        "rows with a prompt have no {names[0]}, and have {names[1]}",
        "Give the answers of all rows one name: those with another one are read as None.",
        least=0.02,
        by_row=True,
    ),
    "answer absent": Meaning(
        "rows have a prompt and no {names[0]}, which others have, nor an answer of another name",
        "Drop the rows without this column, or fill it in.",
        least=0.02,
        by_row=True,
    ),
    "answer in another form": Meaning(
        "rows have no {names[0]}, and are of another form than the others",
        "Bring all rows to one form, unless the training reads each of them: a column that a row "
        "lacks is read as None.",
        least=0.02,
        noted=True,
    ),
    "answer is error": Meaning(
        "answers are the error of a service or a program, such as 429 Too Many Requests",
        "Drop these rows, or generate their answers again: the model learns to fail.",
        least=0.005,
        by_row=True,
    ),
    "answer left open": Meaning(
        "answers are a place that was left open, such as [INSERT NAME], or say that they are one",
        "Fill these places in, or drop the rows.",
        least=0.005,
        by_row=True,
    ),
    "prompt numbered": Meaning(
        "prompts begin with the number of a list, such as 3. or Prompt 3:",
        "Remove the numbers where the list is divided into prompts: nobody asks with them.",
        least=0.3,
        by_row=True,
    ),
    "names are a row": Meaning(
        "the table seems to have no header: its first row was read as the names of the columns",
        "Name the columns where it is read: names= of pandas.read_csv, column_names= of "
        "load_dataset. Else its first row is lost.",
        single=True,
        noted=True,
    ),
    "first row is data": Meaning(
        "the table has no header: its first row, which is of the same kinds as the rows below it, "
        "was read as the names of the columns",
        "Write a line with the names of the columns above it, or give them where it is read: "
        "header=None, names=[...] of pandas.read_csv, column_names=[...] of load_dataset. Else its "
        "first row is lost.",
        single=True,
    ),
    "nothing asked": Meaning(
        "rows have nothing in {fields}, and no other text or picture",
        EMPTY_ROWS,
        least=0.005,
        by_row=True,
        noted_below=True,
    ),
    "nothing asked in many": Meaning(
        "rows have nothing in {fields}, and no other text or picture",
        "Fill it in from the source, unless texts are to be learned without a prompt.",
        noted=True,
        least=0.0,
    ),
    "user message empty": Meaning(
        "chats have an empty message of the user",
        EMPTY_ROWS,
        least=0.005,
        by_row=True,
        noted_below=True,
    ),
    "answer empty": Meaning(
        "answers are empty, white space, or N/A, nan or <noinput> alone",
        EMPTY,
        least=0.02,
        by_row=True,
        noted_below=True,
    ),
    "input stands in": Meaning(
        "inputs are N/A, None, <noinput> or the like, where most rows have none",
        "Write the empty text for no input in all rows: the words become a part of the prompt.",
        noted=True,
        least=0.0,
    ),
    "tokens in answer": Meaning(
        "answers hold the tokens of a template as text, such as </s>, <|endoftext|> or <|im_end|>",
        "Cut each answer at its first such token, or remove the tokens, unless the answer explains "
        "them: a tokenizer that knows them ends the answer there, another one trains on letters.",
        least=0.02,
        by_row=True,
        noted_below=True,
    ),
    "class ends otherwise": Meaning(
        "values of {fields} differ from another one by a sign behind them alone, as a dot",
        "Bring the classes to one spelling before they are numbered: value.strip().rstrip('.').",
        least=0.02,
    ),
    "labels far apart": Meaning(
        "{fields} has {0} different whole numbers, the greatest far above {0}: cross_entropy takes "
        "classes from 0 to {0} - 1",
        "If they are classes, number them anew and keep the map: "
        "{value: number for number, value in enumerate(sorted(set(labels)))}.",
        single=True,
        noted=True,
    ),
    "cell missing": Meaning(
        "rows have no {fields}, which all others have",
        "Drop these rows, or fill them in: a missing value ends the training, or is read as NaN, "
        "which makes the loss and then all weights NaN.",
        least=0.0,
        by_row=True,
    ),
    "row empty": Meaning(
        "rows have nothing in any column",
        "Drop these rows before texts are tokenized and classes are numbered: they are read as "
        "missing values.",
        least=0.0,
        by_row=True,
    ),
    "chat in quotes": Meaning(
        "rows hold {fields} as a text of JSON in place of a list of messages",
        "Read it by json.loads() before the file is written or a template renders it.",
        least=0.0,
        by_row=True,
    ),
    "columns exchanged": Meaning(
        "rows have the values of {first} in {second}, and the other way round",
        "Look at these rows, and at the source that wrote them: exchange the two values where they "
        "are confused.",
        least=0.01,
        noted=True,
    ),
    "one class": Meaning(
        "rows have the same class in {fields}", "Look at how the labels are made.", least=1.0
    ),
    "text empty": Meaning(
        "rows have a class and no {fields}",
        "Drop these rows, or find their texts.",
        0.02,
        by_row=True,
    ),
    "transcript empty": Meaning(
        "recordings have no {fields}",
        "Find their texts, or drop the rows, unless they are silence that is meant to give none.",
        least=0.02,
        noted=True,
    ),
    "entities in text": Meaning(
        "rows write letters as entities of HTML, such as &quot; without tags, or &amp;quot;",
        "Decode the text until nothing changes: html.unescape(text).",
        least=0.2,
        by_row=True,
    ),
    "roles repeat": Meaning(
        "chats have two messages of one role after each other",
        "Join the messages of one turn, or find the lost one: many templates refuse such chats.",
        by_row=True,
    ),
    "roles swapped": Meaning(
        "chats begin with the assistant and end with the user",
        "Swap the roles of these chats, where the assistant asks and the user answers: the "
        "assistant's messages are trained. Else drop their first and their last message.",
        by_row=True,
    ),
    "role unknown": Meaning(
        "chats have a role that templates do not know",
        "Give each message one of the roles system, user, assistant and tool.",
        least=0.01,
        by_row=True,
    ),
    "role spelled twice": Meaning(
        "chats write one role in two ways, {fields}",
        "Write each role in one way: a template renders the other one as a role that it does not "
        "know, or refuses it.",
        least=0.01,
        by_row=True,
    ),
    "markers in text": Meaning(
        "chats have a template's markers or the names of speakers in their texts",
        "Keep the text alone in each message: the template writes markers and speakers again.",
        by_row=True,
    ),
    "side empty": Meaning(
        "pairs have nothing in {fields}",
        "Drop these pairs, or fill the answer in.",
        least=0.02,
        by_row=True,
    ),
    "prompts differ": Meaning(
        "pairs answer two different prompts",
        "Pair the answers by their prompt: chosen and rejected must share all but the answer.",
        by_row=True,
    ),
    "query is positive": Meaning(
        "rows have the same text as query and as what it should find",
        "Look at how the pairs are made: equal texts teach nothing.",
        by_row=True,
    ),
    "positive among negatives": Meaning(
        "rows have what should be found among their negatives, too",
        "Take the positives of a query out of its negatives.",
        least=0.01,
        by_row=True,
    ),
    "header in rows": Meaning(
        "rows are the names of the columns: headers between the rows",
        "Leave out the headers of all files but the first one when files are joined.",
        least=0.0,
    ),
    "decimals mixed": Meaning(
        "values of {fields} are written with another decimal sign than the rest",
        "Bring the numbers to one form before they are read: 1,5 is read as 15, or as text.",
        least=0.01,
    ),
    "units mixed": Meaning(
        "values of {fields} are written with a unit, or without one, unlike the rest",
        "Write all numbers of a column in one unit, and the unit into its name.",
        least=0.01,
    ),
    "unit of a group": Meaning(
        "rows, one group by {second}, have a median {first} of {0}, and all other groups one of "
        "about "
        "{1}: another unit, as degrees of Fahrenheit among those of Celsius",
        "Bring the column to one unit, by the group that is named, before it is scaled.",
        least=0.01,
    ),
    "scale of a group": Meaning(
        "rows, one group by {second}, have a median {first} of {0}, and all other groups one of "
        "about "
        "{1}, with a spread that differs as much: another unit, or another kind",
        "Look at the unit of these rows, and bring the column to one before it is scaled.",
        noted=True,
    ),
    "tags in text": Meaning(
        "rows hold tags of HTML such as </p> and <br>",
        "Extract the text of pages (BeautifulSoup(page).get_text(' ')), unless the model shall "
        "write "
        "pages.",
        least=0.2,
        noted=True,
    ),
    "document repeated": Meaning(
        "documents occurred before, with other values beside them",
        "Drop repeated documents by their text alone, whatever the other columns hold: a crawl "
        "fetches "
        "a page again under other addresses.",
        least=0.2,
    ),
    "answer elsewhere": Meaning(
        "answers are not in their context at the place that is given",
        "Count answer_start in letters of the context as it is stored: text that was stripped, "
        "cleaned "
        "or decoded since has other places.",
        least=0.01,
        by_row=True,
    ),
    "span beyond text": Meaning(
        "rows have a span that ends before it begins, or beyond their text",
        SPANS,
        least=0.01,
        by_row=True,
    ),
    "span cuts words": Meaning(
        "rows have a span that begins or ends within a word, or holds another text than it says",
        SPANS,
        least=0.2,
    ),
    "tags of other tokens": Meaning(
        "rows have another number of tags than of tokens",
        "Drop these rows, or tag them again by the same division into tokens.",
        least=0.0,
        by_row=True,
    ),
    "types mixed": Meaning(
        "values of {fields} are numbers in quotes, or without, unlike the rest",
        "Write a column in one type: 1 and '1' are two classes, and two keys.",
        least=0.01,
    ),
    "dates mixed": Meaning(
        "values of {fields} are dates in another order than the rest",
        "Write all dates as YYYY-MM-DD before they are compared.",
        least=0.01,
    ),
}
