"""Verify a project: imports, no Ray, locked hashes, parity with upstream."""

from extractor.usecases.verify.report import Check, CheckStatus, Report
from extractor.usecases.verify.run import run_verify

__all__ = ["Check", "Report", "CheckStatus", "run_verify"]
