using System;
using System.Globalization;
using System.Text.RegularExpressions;

namespace Messages
{
    /// <summary>A point or a length of time in nanoseconds, which .NET's own have not: seconds, and the rest of them.</summary>
    internal readonly struct NanoTime
    {
        private const int MostCharacters = 40;
        private const int Giga = 1000000000;
        private const long MostSeconds = 999999999999;
        private const long LastSecond = 253402300799;
        private const long FirstSecond = -62135596800;
        private static readonly DateTime Epoch = new DateTime(1970, 1, 1, 0, 0, 0, DateTimeKind.Utc);
        private static readonly TimeSpan PatternTime = TimeSpan.FromSeconds(1);
        private static readonly Regex TimestampForm = Form(
            "^([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9:]{8})(?:\\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-5][0-9]))\\z");

        private static readonly Regex DurationForm = Form("^(-?)([0-9]{1,12})(?:\\.([0-9]{1,9}))?s\\z");
        private static readonly Regex TimeForm = Form("^([0-9:]{8})(?:\\.([0-9]{1,9}))?\\z");

        internal NanoTime(long seconds, int nanoseconds)
        {
            Seconds = seconds;
            Nanoseconds = nanoseconds;
        }

        internal long Seconds { get; }

        internal int Nanoseconds { get; }

        /// <summary>So many units, of which a second has so many.</summary>
        internal static NanoTime Of(long units, int perSecond)
        {
            var rest = (int)(units % perSecond);
            var seconds = (units / perSecond) - (rest < 0 ? 1 : 0);
            return new NanoTime(seconds, (rest < 0 ? rest + perSecond : rest) * (Giga / perSecond));
        }

        /// <summary>Of two parts, whose signs may differ.</summary>
        internal static NanoTime OfParts(long seconds, long nanoseconds, ValuePath path)
        {
            if (Math.Abs((decimal)seconds) > MostSeconds || Math.Abs((decimal)nanoseconds) > long.MaxValue / 2)
            {
                throw new FindingException(path, "range", $"is a time of more than {MostSeconds} seconds");
            }

            var rest = Of(nanoseconds, Giga);
            return new NanoTime(seconds + rest.Seconds, rest.Nanoseconds);
        }

        internal long In(int perSecond) => (Seconds * perSecond) + (Nanoseconds / (Giga / perSecond));

        /// <summary>The time since 1970 of a timestamp (RFC 3339).</summary>
        internal static NanoTime Timestamp(JsonValue value, string kind, ValuePath path)
        {
            var found = Found(TimestampForm, value);
            if (found.Success && IsDateTime(found.Groups[1].Value, "yyyy-MM-dd", out var date)
                && IsDateTime(found.Groups[2].Value, "HH:mm:ss", out var time)
                && (!found.Groups[4].Success || string.CompareOrdinal(found.Groups[5].Value, "24") < 0))
            {
                var seconds = ((date.Ticks - Epoch.Ticks) / TimeSpan.TicksPerSecond) + (long)time.TimeOfDay.TotalSeconds;
                var offset = found.Groups[4].Success ? (Int(found.Groups[5]) * 3600) + (Int(found.Groups[6]) * 60) : 0;
                seconds += found.Groups[4].Value == "-" ? offset : -offset;
                return new NanoTime(seconds, Fraction(found.Groups[3]));
            }

            throw FindingException.WrongType(value, kind, path);
        }

        /// <summary>The days since 1970 of a date.</summary>
        internal static long Days(JsonValue value, ValuePath path)
        {
            if (value.Kind == JsonKind.Text && IsDateTime(value.Content, "yyyy-MM-dd", out var date))
            {
                return (date.Ticks - Epoch.Ticks) / TimeSpan.TicksPerDay;
            }

            throw FindingException.WrongType(value, "date", path);
        }

        /// <summary>The time since midnight.</summary>
        internal static NanoTime TimeOfDay(JsonValue value, string kind, ValuePath path)
        {
            var found = Found(TimeForm, value);
            if (found.Success && IsDateTime(found.Groups[1].Value, "HH:mm:ss", out var time))
            {
                return new NanoTime((long)time.TimeOfDay.TotalSeconds, Fraction(found.Groups[2]));
            }

            throw FindingException.WrongType(value, kind, path);
        }

        /// <summary>A duration such as <c>-1.5s</c>, whose parts have the same sign.</summary>
        internal static NanoTime Duration(JsonValue value, ValuePath path)
        {
            var found = Found(DurationForm, value);
            if (!found.Success)
            {
                throw FindingException.WrongType(value, "duration, such as 1.5s", path);
            }

            var sign = found.Groups[1].Length == 0 ? 1 : -1;
            var seconds = long.Parse(found.Groups[2].Value, NumberStyles.None, CultureInfo.InvariantCulture);
            return new NanoTime(sign * seconds, sign * Fraction(found.Groups[3]));
        }

        internal JsonValue ToTimestamp(ValuePath path) => JsonValue.OfText(Date(path).ToString(
            "yyyy-MM-dd'T'HH:mm:ss", CultureInfo.InvariantCulture) + Fraction(Nanoseconds) + "Z");

        internal JsonValue ToDate(ValuePath path) =>
            JsonValue.OfText(Date(path).ToString("yyyy-MM-dd", CultureInfo.InvariantCulture));

        internal JsonValue ToTimeOfDay(ValuePath path) =>
            Seconds < 0 || Seconds >= 86400
                ? throw new FindingException(path, "range", "is no time of a day")
                : JsonValue.OfText(Date(path).ToString("HH:mm:ss", CultureInfo.InvariantCulture) + Fraction(Nanoseconds));

        /// <summary>The duration: seconds and a rest that is not negative.</summary>
        internal JsonValue ToDuration()
        {
            var isNegative = Seconds < 0;
            var borrowed = isNegative && Nanoseconds > 0;
            var seconds = isNegative ? -Seconds - (borrowed ? 1 : 0) : Seconds;
            var text = JsonNumber.Written(seconds) + Fraction(borrowed ? Giga - Nanoseconds : Nanoseconds);
            return JsonValue.OfText((isNegative ? "-" : string.Empty) + text + "s");
        }

        private DateTime Date(ValuePath path) =>
            Seconds < FirstSecond || Seconds > LastSecond
                ? throw new FindingException(path, "range", "is a time beyond the years 1 to 9999")
                : Epoch.AddTicks(Seconds * TimeSpan.TicksPerSecond);

        private static Regex Form(string pattern) =>
            new Regex(pattern, RegexOptions.CultureInvariant, PatternTime);

        private static Match Found(Regex form, JsonValue value) =>
            value.Kind == JsonKind.Text && value.Content.Length <= MostCharacters ? form.Match(value.Content) : Match.Empty;

        private static bool IsDateTime(string text, string form, out DateTime value) =>
            DateTime.TryParseExact(text, form, CultureInfo.InvariantCulture, DateTimeStyles.NoCurrentDateDefault, out value);

        private static int Int(Capture digits) => int.Parse(digits.Value, NumberStyles.None, CultureInfo.InvariantCulture);

        private static int Fraction(Group digits) =>
            digits.Success ? int.Parse(digits.Value.PadRight(9, '0'), NumberStyles.None, CultureInfo.InvariantCulture) : 0;

        private static string Fraction(int nanoseconds) =>
            nanoseconds == 0 ? string.Empty : "." + nanoseconds.ToString("d9", CultureInfo.InvariantCulture).TrimEnd('0');
    }
}
