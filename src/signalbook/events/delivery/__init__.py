"""Getting committed changes to the sinks of subscriptions: in order, at least once, one dead sink stopping nobody."""
