"""The dashboard: what will happen and what happened, on a terminal."""
