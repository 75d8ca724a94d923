"""After the commit: what the outbox holds, told to the world as CloudEvents."""
