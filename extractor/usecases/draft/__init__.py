"""Try an earlier manifest on a release that has none, and draft its own.

`check` holds each key against the source, `amend` puts right what can be, `trial` slices and rewrites with the result,
`draft` writes it down. Nothing of upstream is executed.
"""

from extractor.usecases.draft.draft import Draft, draft
from extractor.usecases.draft.findings import Finding, Kind, Note, Suggestion
from extractor.usecases.draft.fit import ManifestFit, fit
from extractor.usecases.draft.trial import choices

__all__ = ["Draft", "Finding", "ManifestFit", "Kind", "Note", "Suggestion", "choices", "draft", "fit"]
