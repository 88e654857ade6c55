"""What a release of verl offers, by role: roots, layout, features, replacements, named fixes and requirements.

One TOML file per supported release lies in `manifests/`. Symbols are written `dotted.module:name`;
`dotted.module:*` stands for every name that the module defines, `dotted.module.*:*` for the modules below it as well.
"""

from extractor.manifest.model import (
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
from extractor.manifest.parse import parse_manifest

__all__ = [
    "Edit",
    "Feature",
    "Fix",
    "Manifest",
    "Replacement",
    "Requirements",
    "Role",
    "SourcePin",
    "matches",
    "parse_manifest",
]
