"""Runs of other libraries: EasyR1's and TRL's settings under verl's names, each with that library's defaults.

`easyr1` and `trl` hold what is called what; `trl_script` works out what a training script says, and `translation` is
what both give.
"""
