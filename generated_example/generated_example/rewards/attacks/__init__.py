# vextract:template base/__package__/rewards/attacks/__init__.py
"""Known ways to a reward without solving the task, to try against a reward before a policy finds them.

- programs: for rewards that run code
- texts: for rewards that read the text of a response
"""
