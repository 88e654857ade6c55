"""Read and cut the text of other people's Python modules."""
