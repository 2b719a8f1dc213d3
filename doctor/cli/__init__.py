"""The command line: parse, call, print, exit.

In: the words of the command line, DOCTOR_ variables and the job file.
Out: a report on stdout and in files, and the exit code.
`main` is the process: signals, errors, exit codes. `app` and `commands` declare the commands,
`options` and `flag_groups` their flags. Each command has a module that turns flags into a
`Report`: `run`, `scan`, `lint`, `guard`, `triage`, `read`, `explain`.
Nothing imports this package. It imports typer and rich late, so that `doctor lint` and
`doctor explain` start without them.
"""
