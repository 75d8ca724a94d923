"""The registry itself: commands in, one transaction, changes out. Knows no HTTP and no SQL."""
