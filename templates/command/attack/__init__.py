"""Known ways to a reward without solving the task, tried before a policy finds them: `vextract attack`.

- programs: for rewards that run code
- texts: for rewards that read the text of a response
"""
