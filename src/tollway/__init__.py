"""Tollway: a self-hosted, paid gateway for merchant data and tools."""

__version__ = "0.1.0"
