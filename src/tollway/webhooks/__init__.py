"""Webhooks to callers, by the Standard Webhooks rules.

An event is recorded in the transaction of what it reports. Each worker delivers what is due, at
least once and in order for each subject.
"""
