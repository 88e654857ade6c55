"""What a run has left behind, where nobody has its script: its log, what a tracker keeps, how an editor launches it."""
