"""Define a release's manifest: roots, layout, features, replacements, fixes.

One TOML file per supported release lies in `manifests/`. Symbols are written `dotted.module:name`;
`dotted.module:*` stands for every name that the module defines, `dotted.module.*:*` for the modules below it as well.
All but the oldest state only what differs from the release that they follow; `combine` makes one whole of the chain.
"""

from extractor.values.manifest.chain import ChainError, combine
from extractor.values.manifest.entries import (
    VENDORED,
    Edit,
    Feature,
    Fix,
    Manifest,
    Replacement,
    Requirements,
    Role,
    SourcePin,
    matches,
)
from extractor.values.manifest.own import OWN_MANIFEST, add_own, edit_roots, read_own_manifest
from extractor.values.manifest.parse import parse_manifest
from extractor.values.manifest.renames import invert, rename_key
from extractor.values.toml_table import read_toml

__all__ = [
    "OWN_MANIFEST",
    "VENDORED",
    "ChainError",
    "Edit",
    "Feature",
    "Fix",
    "Manifest",
    "Replacement",
    "Requirements",
    "Role",
    "SourcePin",
    "combine",
    "invert",
    "matches",
    "parse_manifest",
    "read_toml",
    "rename_key",
    "add_own",
    "edit_roots",
    "read_own_manifest",
]
