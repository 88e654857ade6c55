"""Translate runs of another library, EasyR1."""
