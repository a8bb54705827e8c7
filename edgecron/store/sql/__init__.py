"""The statements that every store runs, over any `Connection`."""
