"""Everything that a run needs to start: jobs, job files, a snapshot of definitions, and a Spark session."""
