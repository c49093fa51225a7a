"""Pictures of results, and pages of them."""
