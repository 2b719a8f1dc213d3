"""General measures of samples, which know nothing of a subject: generic features of any input, a
cheap learner on them, and relations between rows, splits and places that it can tell apart.

`tables` reads rows in the order of the dataset, `features` makes numbers of them, `learner` predicts
targets. `row_pairs`, `two_tables`, `place_pairs` and `alone` ask it one question each.
"""
