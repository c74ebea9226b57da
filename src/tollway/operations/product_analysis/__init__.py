"""Product analysis: a product's visitors, buyers and orders on one day, and 30 days back."""
