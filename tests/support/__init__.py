"""What tests of several floors share; importable as `support`, by pytest's `pythonpath`."""
