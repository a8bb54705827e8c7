"""What tests of several floors share. Importable as `support`: see `pythonpath` in pyproject.toml."""
