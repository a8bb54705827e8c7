"""Text to values and back: TOML documents, crontabs and the configuration file."""
