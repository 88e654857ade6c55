"""What a training script of TRL's says, read and never run.

`run` follows a script statement by statement, `expressions` says what is worth what, `library` what functions of
Python's and of libraries give, `parsing` what the command line says, and `files` what is in config files. `values` is
what names stand for on the way. `scorers` writes down what reward functions are made of.
"""
