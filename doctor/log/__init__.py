"""Readers of logs: text, metrics and flight-recorder dumps -> facts. Nothing read is executed.

In: files, directories or stdin, of any size, while they grow (`follow`).
Out: `facts.log.Log`: events with their lines and ranks, and curves.
Which texts are events is given as patterns by the caller: the rows are in `doctor.checks.log`.
`grams`, `ahead` and `scan` find candidates fast, `patterns` decides, `ranks` and `tracebacks` put
lines together. Imports `facts` and `_util`; no checks, no reports.
"""
