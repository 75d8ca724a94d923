using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Numerics;

namespace Messages
{
    /// <summary>Whole numbers and bytes that stand for dates, times and decimals in Avro.</summary>
    internal static class AvroLogical
    {
        private const int MostDigits = 1000;

        internal static long ToNumber(WireNode node, JsonValue value, ValuePath path)
        {
            if (node.Logical == "date")
            {
                return NanoTime.Days(value, path);
            }

            return node.Logical.StartsWith("timestamp", StringComparison.Ordinal)
                ? NanoTime.Timestamp(value, node.Logical, path).In(PerSecond(node))
                : NanoTime.TimeOfDay(value, node.Logical, path).In(PerSecond(node));
        }

        internal static JsonValue OfNumber(WireNode node, long value, ValuePath path)
        {
            if (node.Logical == "date")
            {
                return new NanoTime(value * 86400, 0).ToDate(path);
            }

            var time = NanoTime.Of(value, PerSecond(node));
            return node.Logical.StartsWith("timestamp", StringComparison.Ordinal)
                ? time.ToTimestamp(path)
                : time.ToTimeOfDay(path);
        }

        internal static byte[] ToBytes(WireNode node, JsonValue value, ValuePath path)
        {
            if (value.Kind != JsonKind.Text || !IsDecimal(value.Content))
            {
                throw FindingException.WrongType(value, "decimal (text)", path);
            }

            var parts = value.Content.Split('.');
            var behind = parts.Length > 1 ? parts[1] : string.Empty;
            var digits = behind.Length <= node.Scale ? parts[0] + behind.PadRight(node.Scale, '0') : string.Empty;
            if (digits.Length == 0 || digits.TrimStart('-', '0').Length > node.Precision)
            {
                var most = $"{node.Precision} digits at most, {node.Scale} behind the point";
                throw new FindingException(path, "range", $"must have {most}");
            }

            var unscaled = BigInteger.Parse(digits, CultureInfo.InvariantCulture);
            var bytes = unscaled.ToByteArray().Reverse().ToArray();
            var missing = node.Kind == "fixed" ? Math.Max(0, node.Size - bytes.Length) : 0;
            return Enumerable.Repeat((byte)(unscaled.Sign < 0 ? 255 : 0), missing).Concat(bytes).ToArray();
        }

        internal static JsonValue OfBytes(WireNode node, byte[] bytes, ValuePath path)
        {
            if (bytes.Length > MostDigits)
            {
                throw new FindingException(path, "range", $"is a decimal of more than {MostDigits} bytes");
            }

            var unscaled = new BigInteger(bytes.Reverse().ToArray());
            var digits = BigInteger.Abs(unscaled).ToString("D", CultureInfo.InvariantCulture);
            digits = digits.PadLeft(node.Scale + 1, '0');
            var text = (unscaled.Sign < 0 ? "-" : string.Empty) + digits.Substring(0, digits.Length - node.Scale);
            return JsonValue.OfText(node.Scale == 0 ? text : text + "." + digits.Substring(digits.Length - node.Scale));
        }

        private static int PerSecond(WireNode node) =>
            node.Logical.EndsWith("millis", StringComparison.Ordinal) ? 1000 : 1000000;

        private static bool IsDecimal(string text)
        {
            var parts = (text.StartsWith("-", StringComparison.Ordinal) ? text.Substring(1) : text).Split('.');
            return parts.Length <= 2 && parts.All(
                part => part.Length > 0 && part.Length <= MostDigits && part.All(each => each >= '0' && each <= '9'));
        }
    }

    /// <summary>Writes values in Avro's binary encoding.</summary>
    internal sealed class AvroWriter
    {
        private readonly WireNode[] _nodes;
        private readonly WireWriter _out;

        internal AvroWriter(WireNode[] nodes, WireWriter to)
        {
            _nodes = nodes;
            _out = to;
        }

        internal void Write(int index, JsonValue value, ValuePath path, int depth)
        {
            var node = _nodes[index];
            WireValues.CheckDepth(path, depth);
            switch (node.Kind)
            {
                case "null":
                    WireValues.Require(value, JsonKind.Null, node.Kind, path);
                    break;
                case "boolean":
                    _out.Boolean(value, node.Kind, path);
                    break;
                case "int":
                case "long":
                    _out.Zigzag(Whole(node, value, path));
                    break;
                case "float":
                case "double":
                    _out.Real(value, node.Kind, path);
                    break;
                case "string":
                    _out.Text(value, true, path);
                    break;
                case "bytes":
                case "fixed":
                    Binary(node, value, path);
                    break;
                case "enum":
                    Symbol(node, value, path);
                    break;
                case "union":
                    Union(node, value, path, depth);
                    break;
                case "record":
                    Record(node, value, path, depth);
                    break;
                default:
                    Container(node, value, path, depth);
                    break;
            }
        }

        private static long Whole(WireNode node, JsonValue value, ValuePath path) =>
            node.Logical.Length > 0
                ? AvroLogical.ToNumber(node, value, path)
                : WireValues.Whole(value, node.Kind, node.Kind == "int" ? 32 : 64, true, path);

        private void Binary(WireNode node, JsonValue value, ValuePath path)
        {
            var bytes = node.Logical == "decimal" ? AvroLogical.ToBytes(node, value, path) : Base64.Decode(value, node.Kind, path);
            if (node.Kind == "bytes")
            {
                _out.Sized(bytes, true);
                return;
            }

            if (bytes.Length != node.Size)
            {
                throw new FindingException(path, "size", $"must have {node.Size} bytes");
            }

            _out.Raw(bytes);
        }

        private void Symbol(WireNode node, JsonValue value, ValuePath path)
        {
            var place = value.Kind == JsonKind.Text ? node.Symbols.ToList().IndexOf(value.Content) : -1;
            if (place < 0)
            {
                throw new FindingException(path, "enum", $"must be one of {string.Join(", ", node.Symbols)}");
            }

            _out.Zigzag(place);
        }

        /// <summary>The first branch that takes the value; what the last one has against it, if none does.</summary>
        private void Union(WireNode node, JsonValue value, ValuePath path, int depth)
        {
            var failure = new FindingException(path, "union", "is of no branch of the union");
            for (var place = 0; place < node.Branches.Count; place++)
            {
                var attempt = new WireWriter();
                try
                {
                    new AvroWriter(_nodes, attempt).Write(node.Branches[place], value, path, depth + 1);
                }
                catch (FindingException error)
                {
                    failure = _nodes[node.Branches[place]].Kind == "null" ? failure : error;
                    continue;
                }

                _out.Zigzag(place);
                _out.Raw(attempt.ToBytes());
                return;
            }

            throw failure;
        }

        private void Container(WireNode node, JsonValue value, ValuePath path, int depth)
        {
            var isMap = node.Kind == "map";
            WireValues.Require(value, isMap ? JsonKind.Object : JsonKind.Array, node.Kind, path);
            var count = value.Members.Count + value.Items.Count;
            if (count > 0)
            {
                _out.Zigzag(count);
            }

            foreach (var each in value.Members)
            {
                _out.Sized(JsonText.Utf8.GetBytes(each.Key), true);
                Write(node.Of, each.Value, path.Below(each.Key), depth + 1);
            }

            for (var place = 0; place < value.Items.Count; place++)
            {
                Write(node.Of, value.Items[place], path.Below(place), depth + 1);
            }

            _out.Zigzag(0);
        }

        private void Record(WireNode node, JsonValue value, ValuePath path, int depth)
        {
            var members = WireValues.Require(value, JsonKind.Object, "record", path).Members;
            node.CheckNames(members, path);
            foreach (var field in node.Fields)
            {
                var below = path.Below(field.Name);
                var each = value[field.Name] ?? field.Default
                    ?? throw new FindingException(below, "required", "is required");
                Write(field.Of, each, below, depth + 1);
            }
        }
    }

    /// <summary>Reads values in Avro's binary encoding.</summary>
    internal sealed class AvroReader
    {
        private readonly WireNode[] _nodes;
        private readonly WireReader _from;

        internal AvroReader(WireNode[] nodes, WireReader from)
        {
            _nodes = nodes;
            _from = from;
        }

        internal JsonValue Read(int index, ValuePath path, int depth)
        {
            var node = _nodes[index];
            WireValues.CheckDepth(path, depth);
            switch (node.Kind)
            {
                case "null":
                    return JsonValue.Null;
                case "boolean":
                    return JsonValue.Create(_from.Byte(path) == 1);
                case "int":
                case "long":
                    return Whole(node, path);
                case "float":
                case "double":
                    return _from.Real(node.Kind, path);
                case "string":
                    return _from.Text(true, path);
                case "bytes":
                case "fixed":
                    var bytes = node.Kind == "bytes" ? _from.Sized(true, path) : _from.Raw((ulong)node.Size, path);
                    return node.Logical == "decimal" ? AvroLogical.OfBytes(node, bytes, path) : WireValues.OfBytes(bytes);
                case "enum":
                    return JsonValue.OfText(Chosen(node.Symbols, path));
                case "union":
                    return Read(Chosen(node.Branches, path), path, depth + 1);
                case "record":
                    return Record(node, path, depth);
                case "map":
                    return Map(node, path, depth);
                default:
                    return Array(node, path, depth);
            }
        }

        private JsonValue Whole(WireNode node, ValuePath path)
        {
            var number = _from.Zigzag(path);
            if (node.Kind == "int" && (number < int.MinValue || number > int.MaxValue))
            {
                throw new FindingException(path, "decode", $"{number} is beyond int");
            }

            return node.Logical.Length == 0 ? JsonValue.Create(number) : AvroLogical.OfNumber(node, number, path);
        }

        private T Chosen<T>(IReadOnlyList<T> choices, ValuePath path)
        {
            var place = _from.Zigzag(path);
            return place >= 0 && place < choices.Count
                ? choices[(int)place]
                : throw new FindingException(path, "decode", $"there is no choice {place}");
        }

        private JsonValue Record(WireNode node, ValuePath path, int depth)
        {
            _from.Spend(1, path);
            var members = new JsonMembers();
            foreach (var field in node.Fields)
            {
                members.Set(field.Name, Read(field.Of, path.Below(field.Name), depth + 1));
            }

            return JsonValue.OfMembers(members);
        }

        private JsonValue Map(WireNode node, ValuePath path, int depth)
        {
            var members = new JsonMembers();
            for (var count = Block(path); count > 0; count = Block(path))
            {
                for (; count > 0; count--)
                {
                    var name = _from.Text(true, path).Content;
                    members.Set(name, Read(node.Of, path.Below(name), depth + 1));
                }
            }

            return JsonValue.OfMembers(members);
        }

        private JsonValue Array(WireNode node, ValuePath path, int depth)
        {
            var items = new List<JsonValue>();
            for (var count = Block(path); count > 0; count = Block(path))
            {
                for (; count > 0; count--)
                {
                    items.Add(Read(node.Of, path.Below(items.Count), depth + 1));
                }
            }

            return JsonValue.OfItems(items);
        }

        /// <summary>How many items follow; a negative count has the size of the block behind it.</summary>
        private long Block(ValuePath path)
        {
            var count = _from.Zigzag(path);
            if (count < 0)
            {
                count = count == long.MinValue ? long.MaxValue : -count;
                _from.Zigzag(path);
            }

            _from.Spend(count, path);
            return count;
        }
    }
}
