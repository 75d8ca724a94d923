"""From messages to staged files: one batch as tasks on Spark, rows, dead letters."""
