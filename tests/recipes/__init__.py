"""Tests of what a project can start from."""
