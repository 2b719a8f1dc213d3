"""What the user is about to run and what they expect of the machine.

In: flags, DOCTOR_ variables and doctor.toml.
Out: three records: `Job` (the training), `RunOptions` (how to examine) and `Expect` ([expect]).
`file` reads the job file, `merge` decides which of flag, variable and file counts, `budget` leaves
out what a time limit does not allow.
The records know nothing of files and flags. Imports `_util` only: no facts, no checks.
"""
