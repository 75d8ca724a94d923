"""The HTTP kernel: the parts that all APIs share to make responses from requests."""
