"""vextract: vendor the core of verl into a standalone, Ray-free training project."""

__version__ = "0.1.0"
