# vextract:template base/__package__/api/__init__.py - edit freely
"""The project as a library: what a script or a notebook calls. The package's own `__init__` lists the public names."""
