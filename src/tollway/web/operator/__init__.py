"""The operator's pages: what the gateway does, and every act that the command line has too.

`pages.py` lists them.
"""
