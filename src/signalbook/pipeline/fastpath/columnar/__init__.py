"""Binary payloads straight into columns: each step of a decoder is done for many payloads at once.

This is the quick way only: payloads it does not take are not wrong, but have to be decoded one by one. What it takes
becomes the values that ``Schema.decode`` gives.
"""
