"""Define a release's manifest: roots, layout, features, replacements, fixes.

One TOML file per supported release lies in `manifests/`. Symbols are written `dotted.module:name`;
`dotted.module:*` stands for every name that the module defines, `dotted.module.*:*` for the modules below it as well.
All but the oldest state only what differs from the release that they follow; `combine` makes one whole of the chain.
"""

from extractor.values.manifest.chain import ChainError as ChainError
from extractor.values.manifest.chain import combine as combine
from extractor.values.manifest.entries import VENDORED as VENDORED
from extractor.values.manifest.entries import Edit as Edit
from extractor.values.manifest.entries import Feature as Feature
from extractor.values.manifest.entries import Fix as Fix
from extractor.values.manifest.entries import Manifest as Manifest
from extractor.values.manifest.entries import Replacement as Replacement
from extractor.values.manifest.entries import Requirements as Requirements
from extractor.values.manifest.entries import Role as Role
from extractor.values.manifest.entries import SourcePin as SourcePin
from extractor.values.manifest.entries import matches as matches
from extractor.values.manifest.key_renames import invert as invert
from extractor.values.manifest.key_renames import rename_key as rename_key
from extractor.values.manifest.own import OWN_MANIFEST as OWN_MANIFEST
from extractor.values.manifest.own import add_own as add_own
from extractor.values.manifest.own import edit_roots as edit_roots
from extractor.values.manifest.own import list_own_roots as list_own_roots
from extractor.values.manifest.own import read_own_manifest as read_own_manifest
from extractor.values.manifest.parse import parse_manifest as parse_manifest
from extractor.values.toml_table import read_toml as read_toml
