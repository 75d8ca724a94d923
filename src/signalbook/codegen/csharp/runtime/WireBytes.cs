using System;
using System.IO;
using System.Numerics;
using System.Text;

namespace Messages
{
    /// <summary>Writes what Avro and Protobuf have in common.</summary>
    internal sealed class WireWriter
    {
        private readonly MemoryStream _bytes = new MemoryStream();

        internal byte[] ToBytes() => _bytes.ToArray();

        internal void Raw(byte[] bytes) => _bytes.Write(bytes, 0, bytes.Length);

        internal void Raw(byte value) => _bytes.WriteByte(value);

        internal void Varint(ulong value)
        {
            while (value > 127)
            {
                _bytes.WriteByte((byte)((value & 127) | 128));
                value >>= 7;
            }

            _bytes.WriteByte((byte)value);
        }

        internal void Zigzag(long value) => Varint(unchecked((ulong)((value << 1) ^ (value >> 63))));

        /// <summary>Bytes behind their length; Avro's lengths are signed.</summary>
        internal void Sized(byte[] bytes, bool signed)
        {
            Varint((ulong)bytes.Length << (signed ? 1 : 0));
            Raw(bytes);
        }

        /// <summary>So many bytes of a number, the lowest first.</summary>
        internal void Fixed(ulong value, int count)
        {
            for (var place = 0; place < count; place++)
            {
                _bytes.WriteByte((byte)((value >> (8 * place)) & 255));
            }
        }

        internal void Text(JsonValue value, bool signed, ValuePath path) =>
            Sized(JsonText.Utf8.GetBytes(WireValues.Require(value, JsonKind.Text, "string", path).Content), signed);

        internal void Boolean(JsonValue value, string kind, ValuePath path) =>
            Raw((byte)(WireValues.Require(value, JsonKind.Boolean, kind, path).AsBoolean() ? 1 : 0));

        /// <summary>A float or a double, in which Avro and Protobuf are alike.</summary>
        internal void Real(JsonValue value, string kind, ValuePath path)
        {
            var number = WireValues.Require(value, JsonKind.Number, kind, path).AsDouble();
            var isFloat = kind == "float";
            if (double.IsInfinity(number) || (isFloat && float.IsInfinity((float)number)))
            {
                throw new FindingException(path, "range", $"{value.Shortened()} is beyond {kind}");
            }

            if (isFloat)
            {
                Fixed(BitConverter.ToUInt32(BitConverter.GetBytes((float)number), 0), 4);
            }
            else
            {
                Fixed(unchecked((ulong)BitConverter.DoubleToInt64Bits(number)), 8);
            }
        }
    }

    /// <summary>Reads it. Lengths are believed as far as there are bytes, and values as far as there is memory for them.</summary>
    internal sealed class WireReader
    {
        private readonly byte[] _bytes;
        private readonly int _end;
        private readonly ValueBudget _budget;
        private int _place;

        internal WireReader(byte[] bytes)
            : this(bytes, 0, bytes.Length, new ValueBudget(bytes.Length))
        {
        }

        private WireReader(byte[] bytes, int place, int end, ValueBudget budget)
        {
            _bytes = bytes;
            _place = place;
            _end = end;
            _budget = budget;
        }

        internal int Left => _end - _place;

        /// <summary>Throw if so many values more are too many for a payload of this size.</summary>
        internal void Spend(long values, ValuePath path) => _budget.Spend(values, path);

        internal byte[] Raw(ulong count, ValuePath path)
        {
            Skip(count, path);
            var found = new byte[count];
            Buffer.BlockCopy(_bytes, _place - found.Length, found, 0, found.Length);
            return found;
        }

        internal void Skip(ulong count, ValuePath path)
        {
            if (count > (ulong)Left)
            {
                throw new FindingException(path, "decode", "the payload ends too early");
            }

            _place += (int)count;
        }

        internal byte Byte(ValuePath path)
        {
            Skip(1, path);
            return _bytes[_place - 1];
        }

        internal ulong Varint(ValuePath path)
        {
            ulong value = 0;
            for (var shift = 0; shift < 70; shift += 7)
            {
                var next = Byte(path);
                value |= (ulong)(next & 127) << shift;
                if (next < 128)
                {
                    return value;
                }
            }

            throw new FindingException(path, "decode", "a number has more than ten bytes");
        }

        internal long Zigzag(ValuePath path)
        {
            var value = Varint(path);
            return (long)(value >> 1) ^ -(long)(value & 1);
        }

        internal ulong Fixed(int count, ValuePath path)
        {
            Skip((ulong)count, path);
            ulong value = 0;
            for (var place = 1; place <= count; place++)
            {
                value = (value << 8) | _bytes[_place - place];
            }

            return value;
        }

        /// <summary>A length; Avro's are signed, and a negative one is beyond all that there is.</summary>
        internal ulong Length(bool signed, ValuePath path) => signed ? unchecked((ulong)Zigzag(path)) : Varint(path);

        internal byte[] Sized(bool signed, ValuePath path) => Raw(Length(signed, path), path);

        /// <summary>A reader of the bytes behind their length.</summary>
        internal WireReader Inner(ValuePath path)
        {
            var count = Length(false, path);
            Skip(count, path);
            return new WireReader(_bytes, _place - (int)count, _place, _budget);
        }

        /// <summary>A reader of nothing.</summary>
        internal WireReader Empty() => new WireReader(_bytes, _end, _end, _budget);

        internal JsonValue Text(bool signed, ValuePath path)
        {
            var count = Length(signed, path);
            Skip(count, path);
            try
            {
                return JsonValue.OfText(JsonText.Utf8.GetString(_bytes, _place - (int)count, (int)count));
            }
            catch (DecoderFallbackException)
            {
                throw new FindingException(path, "decode", "is not in UTF-8");
            }
        }

        internal JsonValue Real(string kind, ValuePath path)
        {
            double value = kind == "float"
                ? BitConverter.ToSingle(BitConverter.GetBytes((uint)Fixed(4, path)), 0)
                : BitConverter.Int64BitsToDouble(unchecked((long)Fixed(8, path)));
            return double.IsNaN(value) || double.IsInfinity(value)
                ? throw new FindingException(path, "range", "is a number that JSON has no form for")
                : JsonValue.Create(value);
        }
    }

    /// <summary>How many values a payload may have: some are of no bytes at all, so that its size does not bound them.</summary>
    internal sealed class ValueBudget
    {
        private const int Most = 5000000;
        private long _left;

        internal ValueBudget(int bytes)
        {
            _left = Most + (long)bytes;
        }

        internal void Spend(long values, ValuePath path)
        {
            if (values > _left)
            {
                throw new FindingException(path, "decode", "has millions of values more than bytes");
            }

            _left -= values;
        }
    }

    /// <summary>What values of both formats have to be.</summary>
    internal static class WireValues
    {
        private const int Deepest = 64;

        internal static void CheckDepth(ValuePath path, int depth)
        {
            if (depth > Deepest)
            {
                throw new FindingException(path, "depth", $"nested deeper than {Deepest} levels");
            }
        }

        internal static JsonValue Require(JsonValue value, JsonKind kind, string name, ValuePath path) =>
            value.Kind == kind ? value : throw FindingException.WrongType(value, name, path);

        /// <summary>A whole number of so many bits; of an unsigned one the bits.</summary>
        internal static long Whole(JsonValue value, string kind, int bits, bool signed, ValuePath path)
        {
            var number = Require(value, JsonKind.Number, kind, path).Number;
            if (!number.IsWhole)
            {
                throw FindingException.WrongType(value, kind, path);
            }

            var least = signed ? -BigInteger.Pow(2, bits - 1) : BigInteger.Zero;
            var whole = number.Whole() ?? BigInteger.Pow(2, bits);
            if (whole < least || whole >= least + BigInteger.Pow(2, bits))
            {
                throw new FindingException(path, "range", $"{value.Shortened()} is beyond {kind}");
            }

            return signed ? (long)whole : unchecked((long)(ulong)whole);
        }

        internal static JsonValue OfBytes(byte[] bytes) => JsonValue.OfText(Convert.ToBase64String(bytes));
    }
}
