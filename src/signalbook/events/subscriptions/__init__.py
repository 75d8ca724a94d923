"""Store the subscriptions of the CloudEvents Subscriptions API, and convert them from and to JSON documents."""
