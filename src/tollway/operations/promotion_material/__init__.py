"""Promotion material: the benefits on display for a promotion id, with links of the user's slot."""
