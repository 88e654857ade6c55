"""Runs of other libraries: EasyR1's and TRL's settings under verl's names, each with that library's defaults.

`easyr1` and `trl` read runs; `trl_settings` says what TRL's settings mean, `trl_losses` what is learned by them,
`trl_command` what a command starts, `trl_script` what a training script says, `script_values` what its expressions are
worth, `script_functions` what its reward functions are made of, and `trl_registry` which functions it has under which
names. `translation` is what both give.
"""
