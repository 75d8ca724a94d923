"""The pipeline as functions for a user's own Spark program: they take and return DataFrames of its session."""
