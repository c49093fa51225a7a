"""Pictures of predictions."""
