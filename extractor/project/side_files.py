"""Name files put beside a project's own: orphans and new versions."""

ORPHANED = "orphaned"
NOTE_SUFFIX = ".note"
BESIDE_SUFFIX = ".vextract-new"
