"""After the commit: what the outbox holds, sent to the world as CloudEvents."""
