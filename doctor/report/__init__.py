"""A report: what a run found, rendered in every format.

In: `Report`: facts, findings and the user's gate.
Out: text. `formats.table` lists the formats, `delivery` writes them, `lines` is the report for
people. Values stay as they were read until here: they are escaped by each format and redacted by
`redaction`, which is called once, before any renderer.
Imports `catalog` for headings, and no check module: a format works for every check alike.
"""
