"""From staged files to tables, exactly once: the journal and the commit of a batch."""
