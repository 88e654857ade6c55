"""Describe what a project was made from: SPDX bill of materials, in-toto statement."""

from extractor.usecases.provenance.check import check_provenance, read_statement
from extractor.usecases.provenance.facts import gather
from extractor.usecases.provenance.sbom import sbom
from extractor.usecases.provenance.statement import statement

__all__ = ["check_provenance", "gather", "read_statement", "sbom", "statement"]
