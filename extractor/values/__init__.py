"""Values and formats: what everything above is made from, and what knows nothing of what is above."""
