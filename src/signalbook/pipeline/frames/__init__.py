"""The pipeline inside a user's own Spark program: DataFrames in, DataFrames out, in the session that is there."""
