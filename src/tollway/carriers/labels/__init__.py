"""The label of a waybill: laid out once in millimetres, then drawn for a screen or a printer.

sizes.py     the three kinds of paper
layout.py    what stands where
code128.py   the bars of the number
fonts.py     a font that has Chinese characters
drawing.py   the layout as dots
formats.py   the dots as PNG or PDF, or as a ZPL printer's commands
"""
