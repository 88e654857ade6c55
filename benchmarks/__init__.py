"""Sizes and speeds of vextract; `make bench` prints them, each speed as a ratio within one run."""
