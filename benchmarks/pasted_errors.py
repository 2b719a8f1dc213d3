"""`doctor explain` over error texts that people posted: right causes and remedies, by set.

    python benchmarks/pasted_errors.py [SET]

Prints what is not right, then the counts. A text is named if the first cause is that of its label,
and helped if that cause's remedy is the one that the thread found.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from pasted_errors import answer, posted_errors


def main() -> None:
    only = {int(each) for each in sys.argv[1:]}
    counts: Counter[tuple[int, str]] = Counter()
    for posted in posted_errors():
        group = posted["set"]
        if only and group not in only:
            continue
        given = answer(posted["text"])
        state = "helped" if given.helps(posted) else "named" if given.is_named(posted) else ""
        counts[group, "all"] += 1
        counts[group, "named"] += given.is_named(posted)
        counts[group, "helped"] += given.helps(posted)
        counts[group, "unknown"] += not given.names
        if state != "helped":
            shown = " ".join(given.names) or "nothing"
            print(f"{state or 'MISS':6} {posted['address']}: {posted['rows']}; is {shown}")
    for group in sorted({group for group, _ in counts}):
        total, named, helped, unknown = (
            counts[group, key] for key in ("all", "named", "helped", "unknown")
        )
        print(f"set {group}: {total}, named {named}, with the remedy {helped}, nothing {unknown}")


if __name__ == "__main__":
    main()
