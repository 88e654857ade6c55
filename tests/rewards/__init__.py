"""Tests of the library of rewards, which has nothing to do with the rest of a project."""
