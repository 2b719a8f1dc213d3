"""What is known about errors: one row per cause, and the matching of texts with rows.

In: a text, such as a message of an exception, a line of a log or what a person pasted.
Out: at most four rows (`Cause`), with the reason, the fix and what distinguishes them.
`doctor explain`, triage, `doctor read`, guard's report and `run --model` read the same rows, so
they propose the same causes for the same text. What was observed of a call proves one of them:
`doctor.checks.training.errors` has the proofs, by the id of the cause.
Rows are data: no functions, no facts, nothing compiled. This package imports `doctor._util` and
nothing else of the doctor, and no msgspec, so that a command that reads rows starts quickly.
CONTRIBUTING shows how to add a row.
"""
