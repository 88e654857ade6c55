# vextract:template base/__package__/report/__init__.py - edit freely
"""One page of one or several runs: `python -m PACKAGE.report RUN_DIR...`. It imports nothing that trains."""
