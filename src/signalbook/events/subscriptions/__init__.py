"""Who wants to hear of what: the subscriptions of the CloudEvents Subscriptions API."""
