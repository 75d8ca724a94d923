"""From a message to its outcome: the definitions it may fit, those it fits, and what the policy makes of that."""
