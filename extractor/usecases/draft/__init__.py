"""Try an earlier manifest on a release that has none, and draft its own.

`check` holds each key against the source, `amend` puts right what can be, `fit` slices and rewrites with the result,
`draft` writes it down. Nothing of upstream is executed.
"""

from extractor.usecases.draft.draft import Draft, draft
from extractor.usecases.draft.findings import Finding, Kind, Note, Suggestion
from extractor.usecases.draft.fit import ManifestFit, fit

__all__ = ["Draft", "Finding", "Kind", "ManifestFit", "Note", "Suggestion", "draft", "fit"]
