"""Who wants to be told what: the subscriptions of the CloudEvents Subscriptions API."""
