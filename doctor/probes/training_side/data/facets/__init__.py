"""General measures of samples, which know nothing of a subject: generic features of any input, a
cheap learner on them, and relations between rows, splits and places that it can tell apart.

`tables` reads rows in the order of the dataset, `features` makes numbers of them, `learner`
predicts targets. `questions` asks whether targets belong to their inputs (`row_pairs`,
`place_pairs`, `tag_pairs`), what one change makes both splits alike (`two_tables`, `changes`),
whether one number gives the class away (`alone`), and whether data are as stated (`statements`).
"""
