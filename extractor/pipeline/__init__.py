"""Turn verl's source into a project's files, stage by stage.

source -> index -> slicer -> rewrite -> render -> generate make a tree in memory; plan compares it with the project on
disk, merge joins what two sides changed, and apply is the only stage that writes to a project.
"""
