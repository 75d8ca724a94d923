using System;
using System.Collections.Generic;
using System.Numerics;

namespace Messages
{
    /// <summary>Reads messages in Protobuf's binary encoding.</summary>
    internal sealed class ProtobufReader
    {
        private readonly WireNode[] _nodes;

        internal ProtobufReader(WireNode[] nodes)
        {
            _nodes = nodes;
        }

        internal JsonValue Body(int index, WireReader from, ValuePath path, int depth)
        {
            var node = _nodes[index];
            WireValues.CheckDepth(path, depth);
            if (node.Kind == "timestamp" || node.Kind == "duration")
            {
                return Time(node, from, path);
            }

            from.Spend(node.Fields.Count, path);
            var found = new FieldValues(node.Fields.Count);
            while (from.Left > 0)
            {
                var tag = from.Varint(path);
                var field = node.FieldOf(tag >> 3);
                if (field == null || !Field(node, field, (int)(tag & 7), from, found, path, depth))
                {
                    Skip((int)(tag & 7), from, path);
                }
            }

            return node.Kind == "wrapper" ? ValueOf(node.Fields[0], found, from, path) : MessageOf(node, found, from, path);
        }

        private JsonValue MessageOf(WireNode node, FieldValues found, WireReader from, ValuePath path)
        {
            var members = new JsonMembers();
            foreach (var field in node.Fields)
            {
                var value = ValueOf(field, found, from, path);
                if (value != null)
                {
                    members.Set(field.Name, value);
                }
            }

            return JsonValue.OfMembers(members);
        }

        /// <summary>What a field has in the end; null if it is not set, and would not be without a value.</summary>
        private JsonValue ValueOf(WireField field, FieldValues found, WireReader from, ValuePath path)
        {
            if (field.IsRepeated)
            {
                var items = found.Of<List<JsonValue>>(field);
                return items == null ? JsonValue.EmptyArray : JsonValue.OfItems(items);
            }

            if (field.Label == "map")
            {
                return JsonValue.OfMembers(found.Of<JsonMembers>(field) ?? JsonMembers.None);
            }

            var value = found.Of<JsonValue>(field);
            if (value == null && field.Label == "required")
            {
                throw new FindingException(path.Below(field.Name), "required", "is required");
            }

            return value ?? (field.Label == "implicit" ? Zero(field.Of, from, path, 0) : null);
        }

        /// <summary>Read one occurrence of a field; false for one of another wire type, which is none of it.</summary>
        private bool Field(WireNode node, WireField field, int type, WireReader from, FieldValues found, ValuePath path, int depth)
        {
            var below = path.Below(field.Name);
            var expected = field.Label == "map" ? ProtobufKind.Sized : ProtobufKind.WireTypeOf(_nodes[field.Of]);
            if (field.IsRepeated && type == ProtobufKind.Sized && expected != ProtobufKind.Sized)
            {
                for (var inner = from.Inner(below); inner.Left > 0;)
                {
                    found.AddItem(field, Single(field.Of, inner, below, depth));
                }

                return true;
            }

            if (type != expected)
            {
                return false;
            }

            if (field.Label == "map")
            {
                Entry(field, from.Inner(below), found, below, depth);
            }
            else if (field.IsRepeated)
            {
                found.AddItem(field, Single(field.Of, from, below, depth));
            }
            else
            {
                found.Choose(node, field, Single(field.Of, from, below, depth));
            }

            return true;
        }

        private void Entry(WireField field, WireReader from, FieldValues found, ValuePath path, int depth)
        {
            JsonValue key = null;
            JsonValue value = null;
            var keyType = ProtobufKind.WireTypeOf(_nodes[field.Key]);
            var valueType = ProtobufKind.WireTypeOf(_nodes[field.Of]);
            while (from.Left > 0)
            {
                var tag = from.Varint(path);
                var type = (int)(tag & 7);
                if (tag >> 3 == 1 && type == keyType)
                {
                    key = Single(field.Key, from, path, depth);
                }
                else if (tag >> 3 == 2 && type == valueType)
                {
                    value = Single(field.Of, from, path, depth);
                }
                else
                {
                    Skip(type, from, path);
                }
            }

            key = key ?? Zero(field.Key, from, path, depth);
            found.AddEntry(field, NameOf(key), value ?? Zero(field.Of, from, path, depth));
        }

        private static string NameOf(JsonValue key) => key.Kind == JsonKind.Boolean ? key.ToString() : key.Content;

        private static JsonValue Time(WireNode node, WireReader from, ValuePath path)
        {
            var parts = new long[2];
            while (from.Left > 0)
            {
                var tag = from.Varint(path);
                if (tag == 8 || tag == 16)
                {
                    parts[(tag / 8) - 1] = unchecked((long)from.Varint(path));
                }
                else
                {
                    Skip((int)(tag & 7), from, path);
                }
            }

            var time = NanoTime.OfParts(parts[0], parts[1], path);
            return node.Kind == "timestamp" ? time.ToTimestamp(path) : time.ToDuration();
        }

        private JsonValue Single(int index, WireReader from, ValuePath path, int depth)
        {
            var node = _nodes[index];
            if (ProtobufKind.IsInteger(node))
            {
                return Integer(node, from, path);
            }

            switch (node.Kind)
            {
                case "bool":
                    return JsonValue.Create(from.Varint(path) != 0);
                case "float":
                case "double":
                    return from.Real(node.Kind, path);
                case "string":
                    return from.Text(false, path);
                case "bytes":
                    return WireValues.OfBytes(from.Sized(false, path));
                case "enum":
                    return node.NamedBy(unchecked((int)from.Varint(path)));
                default:
                    return Body(index, from.Inner(path), path, depth + 1);
            }
        }

        private static JsonValue Integer(WireNode node, WireReader from, ValuePath path)
        {
            var isShort = ProtobufKind.Bits(node) == 32;
            var wireType = ProtobufKind.WireTypeOf(node);
            var bits = wireType == ProtobufKind.Varint
                ? ProtobufKind.IsZigzag(node) ? unchecked((ulong)from.Zigzag(path)) : from.Varint(path)
                : from.Fixed(isShort ? 4 : 8, path);
            if (ProtobufKind.IsUnsigned(node))
            {
                return JsonValue.Create((BigInteger)(isShort ? bits & uint.MaxValue : bits));
            }

            return JsonValue.Create(isShort ? unchecked((int)bits) : unchecked((long)bits));
        }

        /// <summary>The value of a field without presence that is not there.</summary>
        private JsonValue Zero(int index, WireReader from, ValuePath path, int depth)
        {
            var node = _nodes[index];
            switch (node.Kind)
            {
                case "bool":
                    return JsonValue.False;
                case "string":
                case "bytes":
                    return JsonValue.OfText(string.Empty);
                case "enum":
                    return node.NamedBy(0);
                case "float":
                case "double":
                    return JsonValue.Create(0.0);
                default:
                    return ProtobufKind.IsInteger(node) ? JsonValue.Create(0) : Body(index, from.Empty(), path, depth + 1);
            }
        }

        private static void Skip(int type, WireReader from, ValuePath path)
        {
            switch (type)
            {
                case ProtobufKind.Varint:
                    from.Varint(path);
                    break;
                case ProtobufKind.Fixed64:
                    from.Skip(8, path);
                    break;
                case ProtobufKind.Sized:
                    from.Inner(path);
                    break;
                case ProtobufKind.Fixed32:
                    from.Skip(4, path);
                    break;
                default:
                    throw new FindingException(path, "decode", $"there is no wire type {type}");
            }
        }

        /// <summary>What was read of the fields of one message, each at its place.</summary>
        private sealed class FieldValues
        {
            private readonly object[] _found;

            internal FieldValues(int count)
            {
                _found = new object[count];
            }

            internal T Of<T>(WireField field)
                where T : class => (T)_found[field.Place];

            internal void AddItem(WireField field, JsonValue value)
            {
                var items = Of<List<JsonValue>>(field) ?? new List<JsonValue>();
                items.Add(value);
                _found[field.Place] = items;
            }

            internal void AddEntry(WireField field, string name, JsonValue value)
            {
                var entries = Of<JsonMembers>(field) ?? new JsonMembers();
                entries.Set(name, value);
                _found[field.Place] = entries;
            }

            /// <summary>The last one counts, and of several that exclude each other too.</summary>
            internal void Choose(WireNode node, WireField field, JsonValue value)
            {
                foreach (var other in field.OneOf == null ? Array.Empty<WireField>() : node.Fields)
                {
                    if (other.OneOf == field.OneOf)
                    {
                        _found[other.Place] = null;
                    }
                }

                _found[field.Place] = value;
            }
        }
    }
}
