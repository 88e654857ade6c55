"""Try an earlier manifest on a release that has none.

`check` holds each key against the source, `amend` puts right what can be, `fit` slices and rewrites with the result.
Nothing of upstream is executed.
"""

from extractor.usecases.draft.findings import Finding, Kind, Note, Suggestion
from extractor.usecases.draft.fit import ManifestFit, fit

__all__ = ["Finding", "Kind", "ManifestFit", "Note", "Suggestion", "fit"]
