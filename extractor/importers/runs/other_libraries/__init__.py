"""Runs of other libraries: EasyR1's and TRL's settings under verl's names, each with that library's defaults.

`easyr1` and `trl` read runs; `trl_settings` says what TRL's settings mean, `trl_losses` what is learned by them,
`trl_command` what a command starts, `trl_script` what a training script hands to TRL's trainer, which `python` follows
to there, and `trl_registry` which functions it has under which names. `translation` is what both give.
"""
