"""Translate runs of other libraries: EasyR1 (`easyr1`) and TRL (`trl`)."""
