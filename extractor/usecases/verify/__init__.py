"""Proof that a project is closed, free of Ray, as locked, and computes what upstream computes."""

from extractor.usecases.verify.report import Check, CheckStatus, Report
from extractor.usecases.verify.run import run_verify

__all__ = ["Check", "Report", "CheckStatus", "run_verify"]
