using System;
using System.Globalization;
using System.Numerics;

namespace Messages
{
    /// <summary>
    /// A decimal number of any size: digits, and the power of ten they are multiplied with. There are no zeros at the
    /// end of the digits, so that equal numbers are alike, and large powers are never written out.
    /// </summary>
    internal readonly struct JsonNumber : IComparable<JsonNumber>
    {
        internal const int MostCharacters = 1000;
        internal const int LargestExponent = 999999999;
        private const int MostWholeDigits = 40;
        private const int LargestMagnitude = 400;
        private const int FractionBits = 53;
        private const int LeastPower = -1074;
        private const long MostPowers = 2046;
        private const long HiddenBit = 1L << 52;
        private const long Infinity = 2047L << 52;

        private readonly BigInteger _digits;
        private readonly long _exponent;
        private readonly int _count;

        private JsonNumber(BigInteger digits, long exponent, int count)
        {
            _digits = digits;
            _exponent = exponent;
            _count = count;
        }

        internal bool IsWhole => _exponent >= 0;

        internal bool IsZero => _digits.IsZero;

        /// <summary>The number that a JSON text is, which has to be one.</summary>
        internal static JsonNumber Parse(string text)
        {
            var mantissa = text;
            long exponent = 0;
            var marker = text.IndexOfAny(new[] { 'e', 'E' });
            if (marker >= 0)
            {
                mantissa = text.Substring(0, marker);
                exponent = long.Parse(text.Substring(marker + 1), NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture);
            }

            var point = mantissa.IndexOf('.');
            if (point >= 0)
            {
                exponent -= mantissa.Length - point - 1;
                mantissa = mantissa.Remove(point, 1);
            }

            var negative = mantissa[0] == '-';
            var significant = mantissa.TrimStart('-', '0').TrimEnd('0');
            if (significant.Length == 0)
            {
                return new JsonNumber(BigInteger.Zero, 0, 0);
            }

            exponent += mantissa.Length - mantissa.TrimEnd('0').Length;
            var digits = BigInteger.Parse(significant, NumberStyles.None, CultureInfo.InvariantCulture);
            return new JsonNumber(negative ? -digits : digits, exponent, significant.Length);
        }

        /// <inheritdoc/>
        public int CompareTo(JsonNumber other)
        {
            if (_digits.Sign != other._digits.Sign || IsZero)
            {
                return _digits.Sign.CompareTo(other._digits.Sign);
            }

            var magnitude = (_exponent + _count).CompareTo(other._exponent + other._count);
            if (magnitude != 0)
            {
                return magnitude * _digits.Sign;
            }

            // As large as each other, so that the powers differ by no more than there are digits.
            var difference = (int)(_exponent - other._exponent);
            return difference >= 0
                ? (_digits * BigInteger.Pow(10, difference)).CompareTo(other._digits)
                : _digits.CompareTo(other._digits * BigInteger.Pow(10, -difference));
        }

        internal bool IsMultipleOf(JsonNumber divisor)
        {
            if (IsZero || divisor.IsZero)
            {
                return IsZero;
            }

            // The digits do not end in zero: no power of ten divides them.
            if (_exponent < divisor._exponent)
            {
                return false;
            }

            var modulus = BigInteger.Abs(divisor._digits);
            return (_digits * BigInteger.ModPow(10, _exponent - divisor._exponent, modulus) % modulus).IsZero;
        }

        /// <summary>The whole number; null if it is none, or one of more digits than any integer has.</summary>
        internal BigInteger? Whole() =>
            IsWhole && _count + _exponent <= MostWholeDigits ? _digits * BigInteger.Pow(10, (int)_exponent) : (BigInteger?)null;

        /// <inheritdoc/>
        public override int GetHashCode() => _digits.GetHashCode() ^ _exponent.GetHashCode();

        /// <summary>A whole number as text.</summary>
        internal static string Written(long value) => value.ToString(CultureInfo.InvariantCulture);

        /// <summary>A finite number as the shortest text that is read as the same.</summary>
        internal static string Written(double value)
        {
            if (value == 0)
            {
                return BitConverter.DoubleToInt64Bits(value) < 0 ? "-0.0" : "0";
            }

            var text = value.ToString("R", CultureInfo.InvariantCulture);
            // Some frameworks round what they should not.
            return Double(text).Equals(value)
                ? text
                : value.ToString("G17", CultureInfo.InvariantCulture);
        }

        /// <summary>
        /// The nearest number in floating point, infinite beyond all of them. Not by .NET's own reader: older frameworks
        /// round some numbers to another one.
        /// </summary>
        internal static double Double(string text)
        {
            var number = Parse(text);
            var magnitude = number._exponent + number._count;
            var amount = number.IsZero || magnitude < -LargestMagnitude ? 0
                : magnitude > LargestMagnitude ? double.PositiveInfinity
                : number.Amount();
            return text[0] == '-' ? -amount : amount;
        }

        private double Amount()
        {
            var dividend = BigInteger.Abs(_digits) * BigInteger.Pow(10, (int)Math.Max(0, _exponent));
            var divisor = BigInteger.Pow(10, (int)Math.Max(0, -_exponent));

            // The quotient has the bits of the fraction, and one more at times.
            var power = Math.Max(LeastPower, BitsOf(dividend) - BitsOf(divisor) - FractionBits);
            dividend <<= Math.Max(0, -power);
            divisor <<= Math.Max(0, power);
            var fraction = BigInteger.DivRem(dividend, divisor, out var rest);
            if (BitsOf(fraction) > FractionBits)
            {
                rest += (fraction & 1) * divisor;
                divisor <<= 1;
                fraction >>= 1;
                power++;
            }

            // A half is rounded to the even number; a carry goes into the power by itself.
            var half = (rest * 2).CompareTo(divisor);
            fraction += half > 0 || (half == 0 && !fraction.IsEven) ? 1 : 0;
            var bits = (long)fraction + (Math.Min(power - LeastPower, MostPowers) * HiddenBit);
            return bits >= Infinity ? double.PositiveInfinity : BitConverter.Int64BitsToDouble(bits);
        }

        /// <summary>How many bits a positive number has.</summary>
        private static int BitsOf(BigInteger value)
        {
            var bytes = value.ToByteArray();
            var last = bytes.Length - 1;
            last -= last > 0 && bytes[last] == 0 ? 1 : 0;
            var bits = 8 * last;
            for (int rest = bytes[last]; rest > 0; rest >>= 1)
            {
                bits++;
            }

            return bits;
        }
    }
}
