"""Which settings belong to which context."""

from hypothesis import given
from hypothesis import strategies as st

from signalbook.confluent.associations import Association, Resource
from signalbook.confluent.naming import Subject, context_of, is_subject
from signalbook.confluent.settings import list_scope_ranges, scope_of
from signalbook.xid import ID

OTHERS = st.from_regex(ID, fullmatch=True).filter(lambda text: text.lower() != "default")
GROUP_IDS = st.sampled_from(["default", "a", "a:b", "a:", "b", "ab", "a-b", "A"]) | OTHERS
NAMES = st.text(max_size=20).filter(is_subject) | st.text("ab:./=", min_size=1, max_size=6)


@given(GROUP_IDS, GROUP_IDS, NAMES)
def test_setting_is_in_the_range_of_its_group_only(group: str, other: str, name: str) -> None:
    contexts = [context_of(group_id, "default") for group_id in (group, other)]
    subject = Subject(contexts[0], name)
    resource = Resource(name="t", namespace="k", id="r")
    association = Association(
        resource=resource, type="value", subject=str(subject), lifecycle="WEAK", guid="", created=0, updated=0
    )
    scopes = [("config", scope_of(subject)), ("mode", scope_of(subject))]
    scopes += [("association", scope) for scope in association.scopes()]
    for context in contexts:
        counted = [
            kind
            for kind, scope in scopes
            for ranged, first, last in list_scope_ranges(context)
            if ranged == kind and first <= scope < last
        ]
        settings = ["config", "mode"] if context.lower() == contexts[0].lower() else []
        assert counted == [*settings, *(["association"] if context == contexts[0] else [])]
