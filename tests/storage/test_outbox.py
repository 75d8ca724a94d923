from datetime import UTC, datetime

from signalbook.storage.store import Store


def test_times_of_pruned_changes_are_found(store: Store) -> None:
    stamps = [datetime(2030, 1, day, tzinfo=UTC) for day in (1, 2, 2, 2, 5)]
    for stamp in stamps:
        with store.write() as writer:
            writer.outbox.append([{"n": 1}], time=stamp, correlationid="c")
    with store.write() as writer:
        positions = [record.position for record in writer.outbox.records()]
        for day, place in ((1, 0), (2, 1), (3, 4), (5, 4)):
            assert writer.outbox.position_at(datetime(2030, 1, day, tzinfo=UTC)) == positions[place]
        assert writer.outbox.position_at(datetime(2030, 1, 6, tzinfo=UTC)) == positions[-1] + 1
        writer.outbox.prune(positions[2])
        assert writer.outbox.position_at(datetime(2029, 1, 1, tzinfo=UTC)) == positions[3]
