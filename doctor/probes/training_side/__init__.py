"""Probes that run under the training interpreter: torch, and real steps of the user's training.

What comes in: a request per line on stdin; stages/torch_stages.py lists them. What goes out: notes
and answers as records of doctor.facts, which the doctor decodes strictly. Standard library and
torch only (transformers and peft inside of functions), in the syntax of Python 3.9, and relative
imports only: here the package is called `_doctor_probes`.

Imports go down: stages and fleet, then attention, load, calls and repetition, then gradients,
values, errors, subject, foreign. Nothing is imported before torch that torch does not import
itself. Objects of the
user are `foreign.Foreign`: reading them may raise or run code, and the training goes on unchanged.
"""
