"""Values and formats that know nothing of what stands above."""
