"""The long campaigns: the same checks as in the other folders, many times as often.

`make torture` runs every test here, `make test` none of them. A module says so in its first lines:
`pytestmark = pytest.mark.torture`. The check itself, a few examples of it, and its sabotage control
stand where the rest of that part is tested; here stands how often, and how long it takes. Zero
failures in N random trials mean at most 3/N at 95 %, so every campaign names its N.
"""
