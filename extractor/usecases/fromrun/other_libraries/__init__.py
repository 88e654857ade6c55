"""Runs of other libraries: EasyR1's and TRL's settings under verl's names, each with that library's defaults.

`easyr1` and `trl` read runs; `trl_settings` says what TRL's settings mean, `trl_command` what a command starts, and
`trl_script` works out what a training script says. `translation` is what both give.
"""
