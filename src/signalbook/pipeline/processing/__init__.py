"""Process batches of messages: make rows of tables and dead letters, whole columns at a time where possible.

A batch passes these steps, in this order:

1. ``processing.py`` takes the batch, and lands or counts what comes back from the other steps.
2. Content mode: ``modes.py`` chooses the mode. It reads messages, or ``binary.py`` does, as columns of events.
3. Event columns: ``batch.py`` has the attributes and data of many events, ``properties.py`` the protocol's properties.
4. Routing: ``routing.py`` finds the definition of each type of event, and ``attributes.py`` checks the envelopes.
   ``shared_types.py`` chooses between several definitions of a type. ``plain.py`` routes messages that carry no event:
   by address, by the schema that they state (``prefixed.py``), and by members of their payloads (``members.py``).
5. Decoding: ``decoding.py`` finds the decoder of a definition. The native module decodes payloads by plans
   (``json_plans.py``, ``avro_plans.py``, ``protobuf_plans.py``). ``resolution.py`` is for other versions of a schema.
6. Verdict: ``verdicts.py`` says why messages are dead letters.
7. Rows and dead letters: ``rows.py``, with the keys of ``keys.py``, and ``deadletters.py``.

Messages that a step cannot decide exactly take the slow path. ``processing.py`` processes them one by one, and
``pending_payloads.py`` decodes payloads of many of them at once.
"""
