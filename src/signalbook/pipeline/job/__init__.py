"""The input of a run: jobs, job files, definitions frozen for it, and its Spark session."""
