"""What relations between the fields of batches mean, and their fixes."""

from __future__ import annotations

from doctor.checks.data.image_meanings import OF_IMAGES
from doctor.checks.data.relations import Meaning, Meanings
from doctor.checks.data.token_meanings import OF_TOKENS
from doctor.errors.tables.symptoms_inputs import AGAINST_ALL

MOVED = (
    "Add to the edges of each graph the number of nodes before it, where graphs are joined to a "
    "batch: "
    "edge_index + offset, with offset the sum of the nodes so far, as torch_geometric.data.Batch "
    "does."
)
TABLE = (
    "Number from 0 without gaps, by one mapping for all splits, or give the table the highest "
    "number "
    "plus one entries: nn.Embedding(highest + 1, ...)."
)
FINITE = "Fill or drop what is missing before the batch is made, or give the model a mask of it."
MEANINGS: Meanings = {
    **OF_IMAGES,
    **OF_TOKENS,
    "length beyond": Meaning(
        "values of {fields} are longer than any field of their batch",
        "Count lengths in the steps that the batch has: frames after the features, not samples.",
        least=0.5,
    ),
    "length counts padding": Meaning(
        "values of {fields} count the padding of their row",
        "Take the lengths before the rows are padded.",
        least=0.4,
    ),
    "weights short": Meaning(
        "rows have a weight in the WeightedRandomSampler: the others are never drawn",
        "Give the sampler a weight for each row: class_weights[labels].",
        least=0.0,
    ),
    "target broadcast": Meaning(
        "outputs and targets differ in their shapes, one is [rows, 1] and the other [rows]: the "
        "loss compares each of {0} outputs with all targets",
        AGAINST_ALL.fix,
        single=True,
    ),
    "row not finite": Meaning("rows of the dataset have NaN or Inf in {fields}", FINITE, least=0.0),
    "column unscaled": Meaning(
        "column {0} of {fields} has a mean size of {1}, and most columns one below 100",
        "Scale the columns by the mean and the spread that they have in train.",
        noted=True,
        single=True,
    ),
    "code for missing": Meaning(
        "rows have a code such as -999 in {fields}, far below all other values",
        "Fill or mask what is missing before the values are scaled.",
        least=0.01,
    ),
    "whole waveform": Meaning(
        "rows of {fields} are whole numbers up to thousands, as sound of 16 bit",
        "Divide the sound by 32768, or let the feature extractor normalize it.",
        least=0.5,
    ),
    "code in column": Meaning(
        "values in column {0} of {fields} are {1}, and all others from about {2} to {3}: a code "
        "for what is missing, such as -999 before it was scaled",
        "Read the code as missing (na_values= of pandas.read_csv), fill it in, and add a column "
        "that marks it, before the columns are scaled.",
        least=0.005,
    ),
    "classes unread": Meaning(
        "rows whose {fields} names classes that other rows have get none of them",
        "Split the text of classes at the character that separates them, strip the parts, and "
        "compare them in one case.",
        least=0.02,
    ),
    "rows displaced": Meaning(
        "rows have the rare words of {fields}, as numbers and names, some rows apart: one side is "
        "displaced against the other",
        "Join the two sides first (zip, or merge on a key), then drop pairs: lines that are left "
        "out of one side move all behind them.",
    ),
    "positive of another": Meaning(
        "rows have a {fields} that another query of their batch has, too, or a query that stands "
        "there with another one, where all other rows count as negatives",
        "Shuffle, and draw batches without duplicates (BatchSamplers.NO_DUPLICATES), or mask equal "
        "positives in the loss.",
        least=0.1,
    ),
    "negative is positive": Meaning(
        "negatives are items that the same user has as positives",
        "Draw a negative again while it is in the items of the user.",
    ),
    "parts share nodes": Meaning(
        "nodes of the second of {fields} are in the first, too",
        "Divide the nodes once: each is in one of the masks.",
        least=0.01,
    ),
    "edge beyond": Meaning(
        "edges name nodes beyond the {0} of the graph",
        "Number the nodes from 0, as the rows of x.",
        least=0.0,
    ),
    "end not marked": Meaning(
        "ends of episodes of several lengths, where the next row does not go on from this one, "
        "are not "
        "marked, as all rows have a flag of 0",
        "Store terminated of env.step() as the flag, the third value, and not truncated, the "
        "fourth: "
        "the value of a state that failed is not that of the state behind it.",
        least=0.5,
    ),
    "end marked late": Meaning(
        "ends of episodes are marked on the first row of the next one",
        "Store the flag that env.step() returns with the state before that step.",
        least=0.5,
    ),
    "languages exchanged": Meaning(
        "rows have the two languages of {fields} exchanged",
        "Exchange the two sides of these rows, or drop them: source and target must keep their "
        "places.",
        least=0.02,
    ),
    "text not translated": Meaning(
        "rows have one text on both sides of {fields}",
        "Drop these rows: their text is not translated.",
    ),
    "files in text order": Meaning(
        "numbered files are read in the order of their names as text ({fields}, ...), and rows are "
        "pieces of a sequence: 10 comes before 2",
        "Sort by the number: sorted(paths, key=lambda path: int(re.search(r'\\d+', "
        "path.stem)[0])), or "
        "write names with leading zeros.",
        single=True,
    ),
    "merge multiplies": Meaning(
        "the left join in {first} by {others} makes {2} rows of {0}: keys have several rows on "
        "both "
        "sides, so that rows are repeated with other values",
        "Bring the right table to one row for each key before (drop_duplicates(key), or "
        "groupby(key)"
        ".last()), and let pandas check it: merge(..., validate='m:1').",
        single=True,
    ),
    "merge without partners": Meaning(
        "the join in {first} by {others} finds a partner for {2} of {0} rows",
        "Bring the keys of both tables to one form: numbers or texts, leading zeros, case and "
        "space.",
        single=True,
    ),
    "columns beside others": Meaning(
        "concat in {first} lays tables of {0} rows side by side and makes {2} rows: their row "
        "numbers "
        "differ, so that values move to other rows or are missing",
        "Number the rows of both tables alike before: reset_index(drop=True).",
        single=True,
    ),
    "edges without features": Meaning(
        "the graph has features of {0} edges, and {1} edges",
        "Change both together: edges that are added, dropped or made undirected take their "
        "features "
        "along.",
        single=True,
    ),
    "rows counted by batches": Meaning(
        "the dataset has a length of {0}, and holds {1} rows: its length counts batches of {2}",
        "Return the number of rows from __len__; the DataLoader makes batches of them.",
        single=True,
    ),
    "noise equal": Meaning(
        "rows have the same {fields} as all others of their batch",
        "Draw the noise in the shape of the batch: torch.randn_like(x), or once for each row.",
        least=0.9,
    ),
    "time runs back": Meaning(
        "rows have {fields} that runs backwards: the newest step is first",
        "Sort by time before windows are cut: frame.sort_values('time').",
        least=0.9,
    ),
    "edges not moved": Meaning(
        "graphs behind the first one of their batch have no edge: all edges name the numbers of "
        "one "
        "graph's nodes",
        MOVED,
        least=0.5,
    ),
    "edges between graphs": Meaning(
        "graphs have edges to the nodes of another graph of their batch", MOVED, least=0.5
    ),
    "units differ": Meaning(
        "values in column {0} of {fields} are about {1} times smaller than the others, and spread "
        "alike: two units",
        "Bring the column to one unit before it is scaled.",
        least=0.01,
    ),
    "sound rates mixed": Meaning(
        "files of sound have another rate than most ({1} Hz beside {0} Hz), and the source of "
        "TARGET neither compares nor changes the rate",
        "Resample each file to the rate that the features expect, from the one that its header has "
        "(torchaudio.functional.resample, librosa.load(sr=)).",
        least=0.01,
    ),
    "weights inverted": Meaning(
        "weights of {fields} grow with their class: {1} for one of {0} rows, {3} for one of {2}",
        "Divide by the counts: weight = counts.sum() / (len(counts) * counts), in the order of the "
        "numbers of the classes.",
        single=True,
    ),
    "positive weight inverted": Meaning(
        "pos_weight is {0}, with {1} rows of class 1 and {2} of class 0",
        "pos_weight = rows of class 0 / rows of class 1.",
        single=True,
    ),
    "weights of other rows": Meaning(
        "the weights of the sampler are {0} numbers, as one for each class, and rows of each class "
        "have several of them: they belong to other rows",
        "Make the weights from the labels in the order of the dataset that the loader reads: "
        "class_weights[labels].",
        single=True,
    ),
    "targets no probabilities": Meaning(
        "targets of a binary cross entropy are not from 0 to 1, but from {0} to {1}",
        "Give it 0 and 1, or shares between them: a mask of 0 and 255 divided by 255, classes of "
        "-1 "
        "and 1 as 0 and 1; several classes need a cross entropy.",
        least=0.0,
    ),
    "row beyond table": Meaning(
        "rows of the dataset have a number in {fields} that the model's table lacks, which has {1} "
        "entries: they go from {2} to {0}",
        TABLE,
        least=0.0,
        broken=True,
    ),
    "files unpaired": Meaning(
        "files of {fields} stand beside a file of another name, whose partner is elsewhere",
        "Build one list from the names of the other, or sort both by the numbers in their names: "
        "as text, 10 comes before 2, and 010 after 002.",
        least=0.0,
    ),
    "window of two series": Meaning(
        "rows are windows that begin in one of the series in {fields} and end in another",
        "Cut windows within each series: keep the starts whose last step, target included, is of "
        "the same series.",
        least=0.01,
    ),
    "targets in another order": Meaning(
        "rows have the target of another one: the collating function brings inputs to another "
        "order, as by their length, and leaves the targets in the one before",
        "Bring both to one order: targets = targets[order].",
        least=0.0,
    ),
    "targets no shares": Meaning(
        "targets of a cross entropy are shares of classes that add up to something else than 1, "
        "from {0} to {1}",
        "Divide by their sum. Several classes that hold at once need BCEWithLogitsLoss.",
    ),
    "column removed": Meaning(
        "the Trainer removes {fields} from the rows, which the model's code reads: forward() does "
        "not name it",
        "Name it in the signature of forward(), or set remove_unused_columns=False in "
        "TrainingArguments.",
        single=True,
    ),
    "batch overwritten": Meaning(
        "the values of {fields} in a batch change when the next one is read: the loader writes all "
        "batches to one memory",
        "Return a tensor of its own for each batch, or a copy: buffer[:n].clone(). A prefetcher, "
        "or a copy to the GPU that does not block, otherwise gets the last batch several times.",
        noted=True,
        single=True,
    ),
    "next state of another episode": Meaning(
        "episodes end with the first state of the next episode as their next state, and no mark: "
        "the next row's state is taken for it",
        "Store the flag of the end (terminated) and the last observation itself as the next state "
        "(final_observation of a vectorized environment), or leave such transitions out.",
        least=0.5,
    ),
    "dates in text order": Meaning(
        "rows are sorted by their dates as text, which is no order in time: {first} stands before "
        "{second}",
        "Turn the texts to dates before they are sorted: pandas.to_datetime(column, format=...), "
        "or datetime.strptime.",
        single=True,
    ),
    "lines of other files": Meaning(
        "numbered files are sorted as text ({fields}), where 10 comes before 2, and paired by "
        "place with what another file lists in its own order",
        "Sort the files by their number, or look up each one's line by its name.",
        least=0.5,
    ),
    "targets all equal": Meaning(
        "rows have one and the same vector as their target",
        "Make a list for each row: [[0.0] * n for _ in rows], as [[0.0] * n] * rows is one list "
        "many times; and look at how targets are assigned.",
        least=0.0,
    ),
    "one class taught": Meaning(
        "rows have {0} as {fields}, the target of the loss: a constant is all there is to learn",
        "Look at how the target is made: bool('False') is true, and a filter or a comparison of "
        "other types may leave one class.",
    ),
}
