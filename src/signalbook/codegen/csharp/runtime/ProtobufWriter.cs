using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Numerics;

namespace Messages
{
    /// <summary>What Protobuf's kinds of values are in its encoding.</summary>
    internal static class ProtobufKind
    {
        internal const int Varint = 0;
        internal const int Fixed64 = 1;
        internal const int Sized = 2;
        internal const int Fixed32 = 5;

        internal static int WireTypeOf(WireNode node)
        {
            switch (node.Kind)
            {
                case "fixed64":
                case "sfixed64":
                case "double":
                    return Fixed64;
                case "fixed32":
                case "sfixed32":
                case "float":
                    return Fixed32;
                case "bool":
                case "enum":
                    return Varint;
                default:
                    return IsInteger(node) ? Varint : Sized;
            }
        }

        internal static bool IsInteger(WireNode node) =>
            node.Kind.EndsWith("32", StringComparison.Ordinal) || node.Kind.EndsWith("64", StringComparison.Ordinal);

        internal static bool IsUnsigned(WireNode node) => node.Kind[0] == 'u' || node.Kind[0] == 'f';

        internal static int Bits(WireNode node) => node.Kind.EndsWith("32", StringComparison.Ordinal) ? 32 : 64;

        internal static bool IsZigzag(WireNode node) => node.Kind == "sint32" || node.Kind == "sint64";
    }

    /// <summary>Writes messages in Protobuf's binary encoding.</summary>
    internal sealed class ProtobufWriter
    {
        private readonly WireNode[] _nodes;
        private readonly WireWriter _out;

        internal ProtobufWriter(WireNode[] nodes, WireWriter to)
        {
            _nodes = nodes;
            _out = to;
        }

        /// <summary>The fields of a message, or of what stands for one.</summary>
        internal void Body(int index, JsonValue value, ValuePath path, int depth)
        {
            var node = _nodes[index];
            WireValues.CheckDepth(path, depth);
            switch (node.Kind)
            {
                case "timestamp":
                    Time(NanoTime.Timestamp(value, "timestamp", path));
                    break;
                case "duration":
                    Time(NanoTime.Duration(value, path));
                    break;
                case "wrapper":
                    Field(node.Fields[0], value, path, depth);
                    break;
                default:
                    Message(node, value, path, depth);
                    break;
            }
        }

        private void Message(WireNode node, JsonValue value, ValuePath path, int depth)
        {
            node.CheckNames(WireValues.Require(value, JsonKind.Object, "message", path).Members, path);
            var choices = new Dictionary<string, string>(StringComparer.Ordinal);
            foreach (var field in node.Fields)
            {
                var below = path.Below(field.Name);
                var each = value[field.Name];
                if (each == null || each.Kind == JsonKind.Null)
                {
                    if (field.Label == "required")
                    {
                        throw new FindingException(below, "required", "is required");
                    }

                    continue;
                }

                if (field.OneOf != null)
                {
                    if (choices.TryGetValue(field.OneOf, out var other))
                    {
                        throw new FindingException(below, "oneof", $"is given beside {other}");
                    }

                    choices.Add(field.OneOf, field.Name);
                }

                Field(field, each, below, depth);
            }
        }

        private void Time(NanoTime time)
        {
            if (time.Seconds != 0)
            {
                Tag(1, ProtobufKind.Varint);
                _out.Varint(unchecked((ulong)time.Seconds));
            }

            if (time.Nanoseconds != 0)
            {
                Tag(2, ProtobufKind.Varint);
                _out.Varint(unchecked((ulong)time.Nanoseconds));
            }
        }

        private void Tag(long number, int type) => _out.Varint(((ulong)number << 3) | (uint)type);

        private void Field(WireField field, JsonValue value, ValuePath path, int depth)
        {
            if (field.Label == "map")
            {
                Map(field, value, path, depth);
                return;
            }

            if (field.IsRepeated)
            {
                Repeated(field, WireValues.Require(value, JsonKind.Array, "array", path).Items, path, depth);
                return;
            }

            var bytes = Written(to => to.Single(field.Of, value, path, depth));

            // A field without presence is not written with its default.
            if (field.Label != "implicit" || bytes.Any(each => each != 0))
            {
                Tag(field.Number, ProtobufKind.WireTypeOf(_nodes[field.Of]));
                _out.Raw(bytes);
            }
        }

        private byte[] Written(Action<ProtobufWriter> write)
        {
            var inner = new WireWriter();
            write(new ProtobufWriter(_nodes, inner));
            return inner.ToBytes();
        }

        private void Repeated(WireField field, IReadOnlyList<JsonValue> items, ValuePath path, int depth)
        {
            var type = ProtobufKind.WireTypeOf(_nodes[field.Of]);
            if (field.Label == "packed")
            {
                if (items.Count > 0)
                {
                    Tag(field.Number, ProtobufKind.Sized);
                    _out.Sized(Written(to => to.Items(field.Of, items, path, depth)), false);
                }

                return;
            }

            for (var place = 0; place < items.Count; place++)
            {
                Tag(field.Number, type);
                Single(field.Of, items[place], path.Below(place), depth);
            }
        }

        private void Items(int of, IReadOnlyList<JsonValue> items, ValuePath path, int depth)
        {
            for (var place = 0; place < items.Count; place++)
            {
                Single(of, items[place], path.Below(place), depth);
            }
        }

        private void Map(WireField field, JsonValue value, ValuePath path, int depth)
        {
            foreach (var each in WireValues.Require(value, JsonKind.Object, "map", path).Members)
            {
                var below = path.Below(each.Key);
                Tag(field.Number, ProtobufKind.Sized);
                _out.Sized(Written(to => to.Entry(field, each, below, depth)), false);
            }
        }

        private void Entry(WireField field, KeyValuePair<string, JsonValue> entry, ValuePath path, int depth)
        {
            Tag(1, ProtobufKind.WireTypeOf(_nodes[field.Key]));
            Single(field.Key, KeyOf(_nodes[field.Key], entry.Key), path, depth);
            Tag(2, ProtobufKind.WireTypeOf(_nodes[field.Of]));
            Single(field.Of, entry.Value, path, depth);
        }

        private static JsonValue KeyOf(WireNode node, string name)
        {
            if (node.Kind == "bool" && (name == "true" || name == "false"))
            {
                return JsonValue.Create(name == "true");
            }

            var isNumber = ProtobufKind.IsInteger(node) && BigInteger.TryParse(
                name.Length <= 20 ? name : string.Empty, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var number)
                && number.ToString(CultureInfo.InvariantCulture) == name;
            return isNumber ? JsonValue.OfNumber(name) : JsonValue.OfText(name);
        }

        private void Single(int index, JsonValue value, ValuePath path, int depth)
        {
            var node = _nodes[index];
            if (ProtobufKind.IsInteger(node))
            {
                Integer(node, WireValues.Whole(value, node.Kind, ProtobufKind.Bits(node), !ProtobufKind.IsUnsigned(node), path));
                return;
            }

            switch (node.Kind)
            {
                case "bool":
                    _out.Boolean(value, node.Kind, path);
                    break;
                case "float":
                case "double":
                    _out.Real(value, node.Kind, path);
                    break;
                case "string":
                    _out.Text(value, false, path);
                    break;
                case "bytes":
                    _out.Sized(Base64.Decode(value, node.Kind, path), false);
                    break;
                case "enum":
                    _out.Varint(unchecked((ulong)Numbered(node, value, path)));
                    break;
                default:
                    _out.Sized(Written(to => to.Body(index, value, path, depth + 1)), false);
                    break;
            }
        }

        private void Integer(WireNode node, long value)
        {
            switch (ProtobufKind.WireTypeOf(node))
            {
                case ProtobufKind.Fixed64:
                    _out.Fixed(unchecked((ulong)value), 8);
                    break;
                case ProtobufKind.Fixed32:
                    _out.Fixed(unchecked((uint)value), 4);
                    break;
                default:
                    if (ProtobufKind.IsZigzag(node))
                    {
                        _out.Zigzag(value);
                    }
                    else
                    {
                        _out.Varint(unchecked((ulong)value));
                    }

                    break;
            }
        }

        private static long Numbered(WireNode node, JsonValue value, ValuePath path)
        {
            if (value.Kind == JsonKind.Text && node.Numbers.TryGetValue(value.Content, out var number))
            {
                return number.AsInt64();
            }

            if (value.Kind == JsonKind.Number && !node.IsClosed)
            {
                return WireValues.Whole(value, "enum", 32, true, path);
            }

            throw new FindingException(path, "enum", $"must be one of {string.Join(", ", node.Numbers.Select(each => each.Key))}");
        }
    }
}
