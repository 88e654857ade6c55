"""Runs of other libraries under verl's names: EasyR1's (`easyr1`) and TRL's (`trl`), each by one table of settings."""
