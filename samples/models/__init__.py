"""Models written once, for every mode. See README.md."""
