"""What a run of the pipeline is told: jobs, job files, definitions frozen for it, and its Spark session."""
