"""Waybill issuing: a number of a carrier and a label, once per order."""
