"""A client of AMQP 1.0 (OASIS, ISO/IEC 19464): types, messages, and connections that send and receive them."""
