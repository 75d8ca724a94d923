"""AMQP 1.0 (OASIS, ISO/IEC 19464): its types, its messages, and a connection that sends them."""
