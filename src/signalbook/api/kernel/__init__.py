"""The HTTP kernel: a request comes in, a response value goes out; what every API shares."""
