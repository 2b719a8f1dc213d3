"""Reports that people paste -> sections of the facts.

In: text with the output of `python -m torch.utils.collect_env`, `nvidia-smi` (table, -q, -q -x) or
`ds_report`, alone or inside a longer text.
Out: a `Reading`: what of host, driver, GPUs and torch the text says. The rest stays unknown.
A module reads one kind of report; `merge` puts what they read together.
Imports `facts` and `_util`; no checks, no collecting, no logs.
"""

from __future__ import annotations

from doctor.pasted import collect_env, ds_report, smi_query, smi_table, torch_messages
from doctor.pasted.lines import clean
from doctor.pasted.reading import Reading, merge

__all__ = ["Reading", "read"]

READERS = (collect_env.read, smi_query.read, smi_table.read, ds_report.read)
"""The one that comes first decides where two state the same thing."""


def read(text: str) -> Reading:
    """What the reports in the text state; `kinds` is empty if there is none.

    Raises ReportError for a text that cannot be read safely.
    """
    lines = clean(text)
    reports = [reader(lines) for reader in READERS]
    return merge([*reports, torch_messages.read(lines)]) if any(reports) else Reading()
