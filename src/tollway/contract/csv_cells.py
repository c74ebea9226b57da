"""Cells of CSV files, which people open with a spreadsheet."""

# A text that begins so is a formula to one spreadsheet or another. The wide ones are: some take
# them for the narrow ones.
_BEGINS_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def harmless(cell: object) -> object:
    """A cell that no spreadsheet takes for a formula: a text is marked as one."""
    if isinstance(cell, str) and cell.startswith(_BEGINS_FORMULA):
        return f"'{cell}"
    return cell
