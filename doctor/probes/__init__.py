"""Programs that look at the machine and at a training, one child process each.

What comes in: the name of a probe and its arguments on the command line (launch.py), and for some
one JSON request per line on stdin. What goes out: one JSON message per line on a pipe (wire.py);
stdout and stderr belong to the libraries and to the user's code.

`doctor_side` runs under the doctor's interpreter, `training_side` under the user's, as a package
with another name. No probe imports anything of the doctor but the checkpoint probe, which imports
the checkpoint library; the doctor imports no probe. Probes keep to the syntax of Python 3.9, and
`doctor.collect` starts them, gives them deadlines and survives their death.
"""
