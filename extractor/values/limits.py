"""Limits on how much vextract reads.

The sizes of real input stand beside each limit; none comes near it. What is beyond one ends in an error that names it,
before anything is written. `docs/security.md` says the same to users.
"""

# A file that is parsed: Python, YAML, TOML, JSON. The largest file of any release of verl has 105 kB.
MAX_TEXT = 2**20
# A file that is read and not parsed, and an archive: a wheel of verl and a base.zip have 1.7 MB each.
MAX_FILE = 64 * 2**20
# What the members of an archive, or the files of a directory, may have together. A wheel of verl unpacks to 5 MB.
MAX_UNPACKED = 256 * 2**20
# Files of an archive or of a directory. A wheel of verl has 420.
MAX_MEMBERS = 20_000
# Size of a member of a zip archive for each byte that it takes there, from `SMALL_MEMBER` on. Text comes to 10.
MAX_RATIO = 200
SMALL_MEMBER = 2**20
# Directories one in another. verl has 6.
MAX_FOLDERS = 64
# Bytes of a name: what file systems hold.
MAX_NAME = 255

# Levels of a Python syntax tree; an `elif` and a `+` are one each. verl has 21, CPython's own limit on brackets is 200.
MAX_PYTHON_DEPTH = 150
# Frames for what visits such a tree: libcst and we take up to ten for each level. The interpreter has 1,000.
PYTHON_FRAMES = 4_000
# Levels of YAML, TOML and JSON. A config of verl has 8.
MAX_DATA_DEPTH = 64
# Bits of a whole number in YAML, TOML and JSON: what TOML promises.
MAX_BITS = 64
# Keys, items and values of a YAML file, with every alias (`*name`) counted as what it stands for. verl's have up to
# 2,200.
MAX_YAML_NODES = 100_000
# Dots in one line of TOML, since the time for a dotted key grows with their square. Ours have 4.
MAX_TOML_DOTS = 1_000

# Files that the defaults lists of a config name, each time anew. verl's name 22.
MAX_CONFIG_PARTS = 2_000
# Characters that are gone through to resolve the interpolations (`${...}`) of a config. verl's take 35,000.
MAX_RESOLVED = 5_000_000

# A launch script: its bytes, and how deep it is nested. Those of verl have up to 14 kB, and 14 levels.
MAX_SCRIPT = 256 * 2**10
# Overrides of a run, the characters of one, and of all together: the time of Hydra's parser grows with the square of a
# list's length. verl's scripts have up to 125.
MAX_OVERRIDES = 1_000
MAX_OVERRIDE = 20_000
MAX_OVERRIDES_TEXT = 100_000
# Statements that are read, each round of a loop and each call of a function anew. verl's scripts have up to 2,300.
MAX_STATEMENTS = 20_000
# Characters of all texts that its expansions make, and of what is gone through for them. verl's scripts make up to
# 1,800,000.
MAX_EXPANDED = 20_000_000
# Characters of one text, words of one list, and rounds of one loop.
MAX_ROUNDS = 64
# Commands in each other, `$(... $(...))`.
MAX_INNER = 20
