"""Training loops of other libraries, for comparison. Each script runs in a process of its own and prints JSON."""
