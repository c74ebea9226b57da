"""The operations that callers pay for, one package each, with the same file names in all of them.

`catalogue.py` lists them all, and docs/internals.md says what each file has. No subject imports
another, nor the pipeline, nor a database driver.
"""
