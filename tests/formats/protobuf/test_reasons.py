"""Every verdict on random pairs of Protobuf documents is sound and every reason true, judged by the library (G-30)."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

from google.protobuf import descriptor_pb2, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as Fd
from google.protobuf.descriptor_pool import DescriptorPool
from tests.formats.protobuf.test_wire import TYPES, values
from tests.formats.reasons import Tally, judge_pairs

from signalbook.formats.compatibility import Difference
from signalbook.formats.protobuf import comparison

OPTIONAL, REPEATED, REQUIRED = 1, 3, 2
ENUMS = (((0, "A"), (1, "B")), ((0, "A"), (1, "B"), (2, "C")), ((1, "B"), (0, "A")), ((0, "A"), (2, "B")))
# What a message is called elsewhere is not seen in its bytes.
SKIPPED = {"package_changed", "message_removed"}


@dataclass(frozen=True)
class Field:
    """A field of the message M; ``oneof`` is the number of its oneof, ``default`` its stated default."""

    name: str
    type: int
    label: int
    oneof: int | None = None
    default: str = ""


Plan = dict[int, Field]


class Maker:
    """Makes documents, changed documents and messages by chance."""

    def __init__(self, dice: Random) -> None:
        self.dice = dice

    def plan(self, *, of_reader: bool = False) -> Plan:
        numbers = self.dice.sample(range(1, 5), self.dice.randint(0, 4))
        return {number: self.field(f"f{number}", of_reader=of_reader) for number in numbers}

    def field(self, name: str, *, of_reader: bool) -> Field:
        kind = self.dice.choice([*TYPES, Fd.TYPE_MESSAGE])
        labels = [OPTIONAL, OPTIONAL, REPEATED]
        # No message can be written that has to contain itself.
        if of_reader or kind != Fd.TYPE_MESSAGE:
            labels.append(REQUIRED)
        label = self.dice.choice(labels)
        oneof = self.dice.choice([None, None, 0, 1]) if label == OPTIONAL else None
        default = (
            "3" if label == OPTIONAL and kind in (Fd.TYPE_INT32, Fd.TYPE_UINT64) and self.dice.random() < 0.3 else ""
        )
        return Field(name, kind, label, oneof, default)

    def changed(self, plan: Plan) -> Plan:
        """Return a plan for a reader that differs here and there, or not at all."""
        result: Plan = {}
        for number, field in plan.items():
            match self.dice.randint(0, 11):
                case 0 | 1:
                    result[number] = self.field(field.name, of_reader=True)
                case 2:
                    result[number] = Field(f"g{number}", field.type, field.label, field.oneof, field.default)
                case 3:
                    result[number + 4] = field
                case 4 | 5:
                    continue
                case _:
                    result[number] = field
        return result

    def document(self, plan: Plan) -> descriptor_pb2.FileDescriptorProto:
        """Return the descriptor of a document with the message M."""
        third = self.dice.random() < 0.5
        names = self.dice.choice([enum_values for enum_values in ENUMS if enum_values[0][0] == 0 or not third])
        file = descriptor_pb2.FileDescriptorProto(name="d.proto", syntax="proto3" if third else "proto2")
        enum = file.enum_type.add(name="E")
        for number, name in names:
            enum.value.add(name=name, number=number)
        message = file.message_type.add(name="M")
        used = sorted({field.oneof for field in plan.values() if field.oneof is not None})
        for group in used:
            message.oneof_decl.add(name=f"o{group}")
        for number, field in sorted(plan.items()):
            label = OPTIONAL if third and field.label == REQUIRED else field.label
            part = message.field.add(name=field.name, number=number, type=field.type, label=label, json_name=field.name)
            if field.type in (Fd.TYPE_ENUM, Fd.TYPE_MESSAGE):
                part.type_name = ".E" if field.type == Fd.TYPE_ENUM else ".M"
            if field.oneof is not None:
                part.oneof_index = used.index(field.oneof)
            if field.default and not third:
                part.default_value = field.default
        return file

    def message(self, descriptor: Any, numbers: set[int], share: float = 0.7, depth: int = 2) -> Any:
        """A message with all that is required, and some of the fields ``numbers``."""
        message = message_factory.GetMessageClass(descriptor)()
        for field in descriptor.fields:
            is_wanted = field.number in numbers and self.dice.random() < share
            if not (field.is_required or is_wanted) or (depth == 0 and field.message_type):
                continue
            items = [
                self.single(field, numbers, depth) for _ in range(self.dice.randint(0, 2) if field.is_repeated else 1)
            ]
            if field.is_repeated:
                getattr(message, field.name).extend(items)
            elif field.message_type is not None:
                getattr(message, field.name).CopyFrom(items[0])
            else:
                setattr(message, field.name, items[0])
        return message

    def single(self, field: Any, numbers: set[int], depth: int) -> Any:
        if field.message_type is not None:
            return self.message(field.message_type, numbers, depth=depth - 1)
        if field.enum_type is not None:
            more = [] if field.enum_type.is_closed else [77]
            return self.dice.choice([*(value.number for value in field.enum_type.values), *more])
        pool = values(field.type)
        return self.dice.choice([*pool, type(pool[0])()])


def compile_document(document: descriptor_pb2.FileDescriptorProto) -> Any:
    """Return the descriptor of a document, in a pool of its own."""
    pool = DescriptorPool()
    pool.AddSerializedFile(document.SerializeToString())
    return pool.FindFileByName(document.name)


# Whether a message inside has such a value, or none, is the same to readers of proto3.
UNSET = ([0], [b""], [False], [0.0])


def contents(message: Any, numbers: set[int], *, set_only: bool) -> dict[int, Any]:
    """The values of the fields ``numbers``, with defaults where nothing is set unless ``set_only``."""
    values: dict[int, Any] = {}
    present = {field.number for field, _ in message.ListFields()}
    for field in message.DESCRIPTOR.fields:
        if field.number not in numbers or (set_only and field.number not in present):
            continue
        value = getattr(message, field.name)
        many = list(value) if field.is_repeated else [value]
        if field.message_type is not None:
            parts = [contents(element, numbers, set_only=True) for element in many] if field.number in present else []
            many = [{key: item for key, item in part.items() if item not in UNSET} for part in parts]
        values[field.number] = [element.encode() if isinstance(element, str) else element for element in many]
    return values


def is_misread(sent: Any, kind: Any, numbers: set[int], *, set_only: bool = False, use_names: bool = True) -> bool:
    """Return True if a reader does not get the fields ``numbers`` as they were written, in binary or in JSON.

    ``use_names``: JSON contains the names of enum values instead of their numbers.
    """
    try:
        got, read = kind(), kind()
        got.ParseFromString(sent.SerializeToString())
        json = json_format.MessageToDict(sent, use_integers_for_enums=not use_names)
        json_format.ParseDict(json, read, ignore_unknown_fields=True)
        if not got.IsInitialized():
            return True
        before, *after = [contents(element, numbers, set_only=set_only) for element in (sent, got, read)]
    except Exception:
        return True
    # The library takes true for the number 1, which the specification does not.
    enums = [json.get(field.name) for field in kind.DESCRIPTOR.fields if field.enum_type is not None]
    if any(isinstance(element, bool) for value in enums for element in (value if isinstance(value, list) else [value])):
        return True
    return any(before != element for element in after)


def numbers_of(difference: Difference, writer: Any, reader: Any) -> set[int]:
    """The numbers of the writer's fields that a difference is about."""
    name = difference.path.split(".")[1] if difference.path.startswith("M.") else ""
    if not name:
        return {field.number for field in writer.fields if field.enum_type is not None}
    if difference.rule == "field_renumbered":
        return {int(str(difference.old))}
    groups = [message.oneofs_by_name[name] for message in (writer, reader) if name in message.oneofs_by_name]
    if difference.rule in ("oneof_added", "oneof_removed"):
        return {field.number for group in groups for field in group.fields}
    return {reader.fields_by_name[name].number}


def judge(dice: Random, tally: Tally) -> None:
    maker = Maker(dice)
    first = maker.plan()
    second = maker.changed(first) if dice.random() < 0.8 else maker.plan(of_reader=True)
    documents = maker.document(first), maker.document(second)
    for document in documents:
        assert comparison.find_differences(compile_document(document), compile_document(document)) == []
    old, new = map(compile_document, documents)
    writer, reader = old.message_types_by_name["M"], new.message_types_by_name["M"]
    kind = message_factory.GetMessageClass(reader)
    differences = comparison.find_differences(new, old)
    # Readers ignore names of open enums that they do not know, which only their numbers tell.
    symbols = [{value.name for value in message.enum_types_by_name["E"].values} for message in (old, new)]
    both = {field.number for field in writer.fields} & {field.number for field in reader.fields}

    def rejections() -> Iterator[Any]:
        for _ in range(20):
            sent = maker.message(writer, {*range(1, 9)})
            if is_misread(sent, kind, both, use_names=symbols[0] <= symbols[1]):
                yield sent

    def describes(difference: Difference, _: Any) -> bool:
        numbers = numbers_of(difference, writer, reader)
        set_only = difference.rule in ("oneof_removed", "field_renumbered")
        sent = (maker.message(writer, numbers, share) for _ in range(200) for share in (0.0, 0.4, 0.8))
        return any(is_misread(message, kind, numbers, set_only=set_only) for message in sent)

    tally.add(f"{first} {second}", differences, rejections() if not differences else [None], describes)


def test_verdicts_are_sound_and_reasons_true(pairs: int) -> None:
    judge_pairs(judge, pairs, SKIPPED)
