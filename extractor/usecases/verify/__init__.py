"""Proof that a project is closed, free of Ray, as locked, and computes what upstream computes."""

from extractor.usecases.verify.report import Check, Report, Status
from extractor.usecases.verify.run import run_verify

__all__ = ["Check", "Report", "Status", "run_verify"]
