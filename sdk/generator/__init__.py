"""Makes the parts of the SDKs that come from the descriptors of the operations.

`python -m sdk.generator` writes them; a test compares what is committed with what it would write.
"""
