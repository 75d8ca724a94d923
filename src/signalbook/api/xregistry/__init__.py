"""The xRegistry 1.0-rc4 API: core and HTTP binding, for whatever model the registry has."""
