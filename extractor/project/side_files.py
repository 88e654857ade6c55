"""What vextract puts beside a project's files: what has no place any more, and new versions that do not fit in."""

ORPHANED = "orphaned"
NOTE_SUFFIX = ".note"
BESIDE_SUFFIX = ".vextract-new"
