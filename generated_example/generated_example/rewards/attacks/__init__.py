# vextract:template
"""Known ways to a reward without solving the task, to try against a reward before a policy finds them.

- programs: for rewards that run code
- texts: for rewards that read the text of a response
"""
