"""The user's own command in small, confined: what it did becomes the section `rehearsal`.

`places` makes the directories and refuses those in or beside a real run, `launchers` the commands
that hand their work to others. `supervisor` is a process of its own that outlives the doctor: it
starts the command behind `landlock` and `namespaces`, and ends everything that the command started.
`runs` is one run of it, `stages` all of them; `records` and `resume` read what the hooks of
doctor.guard.rehearsal wrote in the command's processes.
"""
