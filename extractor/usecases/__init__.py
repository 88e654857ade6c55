"""What the commands do: each computes and returns a report, and `cli` prints it."""
