"""Find the definitions that a message fits, and decide its outcome with the policy."""
