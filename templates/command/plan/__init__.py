"""How much memory a run takes, from its config alone: `vextract plan`."""
