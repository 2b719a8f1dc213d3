"""Reads training scripts, notebooks, configurations and launch lines; executes nothing.

In: the bytes of a file.
Out: `facts.script.Script`: calls, assignments, loops and conditions in order, without a judgement.
`discover` finds the files, `read` chooses the reader, `walk` and `statements` turn a syntax tree
into records, `fixes` makes edits of bytes. What a rule needs of them is `doctor.checks.script`.
Imports `facts` and `_util`; no checks, no reports.
"""
