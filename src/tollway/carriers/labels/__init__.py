"""The label of a waybill: laid out once in millimetres, then drawn for a screen or a printer.

print_data.py  what a label says, signed; it goes into the answer
layout.py      the three kinds of paper, and what is where on each
drawing.py     the layout as dots, the bars of the number, and a font that has Chinese characters
qr_code.py     a text as a QR code, also for pages
formats.py     the dots as PNG or PDF, or as a ZPL printer's commands
"""
