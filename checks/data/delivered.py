"""The target opens and delivers batches."""

from __future__ import annotations

from doctor._util.units import shown
from doctor.facts.data import Data, Problem, Split
from doctor.judge.check import Check, Owner, Verdict, fail, ok, unknown
from doctor.judge.combine import worst

OPENED = (
    "Name what holds the data: FILE.py:FUNCTION, a .jsonl, .json, .csv, .parquet or text file, a "
    "directory of such files, or one that datasets saved. A script that trains while it is "
    "imported needs a function: doctor init --factory-for FILE.py writes it."
)
EMPTY = "Write the file again, or look at the filter or the split that leaves nothing of it."
PULL = "Download the file itself: git lfs pull, in the directory of the repository."
NOT_READ = {
    "form": "write its rows as JSON Lines, or name a function that returns them",
    "package": "install it where the data are read, or name a Python that has it with --python",
}
"""What to do where the doctor does not read the rows, which may be sound."""
OF_LINE = {
    "JSONDecodeError": "is cut off or is not JSON",
    "UnicodeDecodeError": "is not UTF-8",
}
REWRITE = {
    "JSONDecodeError": "write the file again from its source, or repair the line. Where the file "
    "is whole, but of another form, such as several arrays one after another or a script, write "
    "its rows as JSON Lines, or give the file the ending of its form.",
    "UnicodeDecodeError": "open it with the encoding that it has (encoding= of open), and write it "
    "as UTF-8; if this line alone is damaged, repair it.",
}
WAITS = (
    "With num_workers=0 the stack of the process (py-spy dump --pid) names the line that waits: a "
    "download, a lock, or a queue that nobody fills."
)


def delivered(data: Data) -> Verdict:
    if data.problem is not None:
        return _not_opened(shown(data.target), data.problem)
    if data.opened.how in ("timeout", "budget") and not data.splits:
        waited = shown(data.opened.detail)
        return unknown(f"{shown(data.target)}: it takes longer than the doctor waits: {waited}")
    if data.opened.detail == "ModuleNotFoundError" and not data.splits:
        return unknown(
            "the Python that reads the data has no torch: name the one that trains with --python"
        )
    if not data.opened.ok and not data.splits:
        return fail(f"{shown(data.target)}: the process ended: {shown(data.opened.detail)}")
    if not data.splits:
        died = f": the process ended ({shown(data.died)})" if data.died else ""
        return unknown(f"no split was read{died}")
    verdicts = [_split(split) for split in data.splits]
    if data.broken is not None and all(split.problem is None for split in data.splits):
        text = f"{shown(data.splits[0].name)}: {_problem(data.broken)}"
        verdicts.append(fail(text, fix=_of_line(data.broken)))
    if data.died:
        last = data.splits[-1].name
        verdicts.append(unknown(f"after {last} the process ended: {shown(data.died)}"))
    return worst(*verdicts)


def _not_opened(target: str, problem: Problem) -> Verdict:
    summary = f"{target} could not be opened: {_problem(problem)}"
    if remedy := NOT_READ.get(problem.reason):
        return unknown(f"{summary}; {remedy}")
    return fail(summary, fix="" if _is_placed(problem) else OPENED)


def _split(split: Split) -> Verdict:
    name = shown(split.name)
    before = f"after {split.rows:,} rows" if split.rows else "before the first row"
    if split.problem is not None and (remedy := NOT_READ.get(split.problem.reason)):
        return unknown(f"{name}: {shown(split.problem.error, 300)}; {remedy}")
    if split.problem is not None:
        fix = PULL if split.problem.reason == "pointer" else _of_line(split.problem)
        return fail(f"{name}: {_problem(split.problem)}, {before}", fix=fix)
    if split.ended == "hang":
        return fail(f"{name}: no batch for 60 s, {before}", fix=WAITS)
    if not split.rows:
        return fail(f"{name}: no rows", fix=EMPTY)
    return ok(f"{name}: {split.rows:,} rows were delivered in {split.seconds:.1f} s")


def _of_line(problem: Problem) -> str:
    """The remedy for a line of a file, with what is wrong with it; "" for any other problem."""
    wrong = OF_LINE.get(problem.error)
    if not problem.line or problem.row is None or wrong is None:
        return ""
    file = f" of {shown(problem.place)}" if problem.place else ""
    return f"Line {problem.row:,}{file} {wrong}: {REWRITE[problem.error]}"


def _is_placed(problem: Problem) -> bool:
    return bool(problem.place) or problem.row is not None or problem.batch is not None


def _problem(problem: Problem) -> str:
    """ "KeyError at data.py:31, in row 17"; what the exception says may quote the row."""
    at = f" at {shown(problem.place)}" if problem.place else ""
    word = "line" if problem.line else "row"
    where = f", in {word} {problem.row:,}" if problem.row is not None else ""
    if problem.batch is not None:
        where = f", in batch {problem.batch:,}"
    return f"{shown(problem.error, 300)}{at}{where}"


DELIVERED = Check(
    code="DAT018",
    slug="data-delivered",
    title="The loader delivers batches",
    why="A loader that raises, hangs or delivers nothing ends the training, often hours after its "
    "start, when it reaches the row.",
    passes=("every split opens and delivers rows until the budget is spent or it ends",),
    fails=("a split raises, delivers nothing, something else than a batch, or hangs for 60 s",),
    fix="Look at the line and the row or batch that are named; what the exception says is left out "
    "here, because such messages quote rows.",
    owner=Owner.JOB,
    judge=delivered,
    limits="that rows that were not read can be delivered.",
    sources=("torch-dataloader",),
    required="always",
)

CHECKS = (DELIVERED,)
