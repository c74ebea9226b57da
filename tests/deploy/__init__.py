"""The files of `deploy/` and the Containerfile: checked, and started as far as a shell can."""
