import threading
import time

from signalbook.engine.engine import Engine
from signalbook.events.delivery.dispatcher import Checkpoint, CheckpointWriter
from signalbook.events.delivery.lease import Lease
from signalbook.events.subscription import Subscription
from signalbook.events.subscriptions.store import Keyring, SubscriptionStore
from signalbook.settings import Settings
from signalbook.storage.store import Store
from signalbook.storage.subscriptions import DeliveryState

WANTED = Subscription(id="", protocol="FILE", sink="file:a")


def stored_states(store: Store) -> dict[str, DeliveryState]:
    with store.read() as reader:
        return reader.subscriptions.deliveries("", "g")


def test_an_update_is_not_written_over(store: Store) -> None:
    """An update determines where the subscription continues; earlier checkpoints no longer count."""
    engine = Engine(store, settings=Settings(model="empty"))
    book = SubscriptionStore(engine, Keyring(None), most=9)
    with engine.writing() as session:
        old, new = (book.create(session, WANTED).subscription for _ in range(2))
    states = {
        old.id: Checkpoint(old.revision - 1, DeliveryState(position=7)),
        new.id: Checkpoint(new.revision, DeliveryState(position=8)),
    }
    lease = Lease()
    gained = threading.Event()
    checkpoints = CheckpointWriter(engine, book, lease, lambda: gained.set() if lease.held else None)
    checkpoints.start()
    assert gained.wait(300)
    assert lease.term is not None
    for key, checkpoint in {**states, "gone": Checkpoint(1, DeliveryState(position=9)), "going": None}.items():
        checkpoints.put(lease.term, key, checkpoint)
    deadline = time.monotonic() + 300
    while (checkpointed := stored_states(store))[new.id].position != 8:
        assert time.monotonic() < deadline
        time.sleep(0.02)
    checkpoints.stop()
    assert {key: state.position for key, state in checkpointed.items()} == {old.id: 0, new.id: 8}
