using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Numerics;
using System.Text;
using System.Text.RegularExpressions;

namespace Messages
{
    /// <summary>The types of attributes and options, and their values: texts, booleans and numbers.</summary>
    internal static class AttributeTypes
    {
        private const string UriCharacter = "[A-Za-z0-9\\-._~:/?#\\[\\]@!$&'()*+,;=%]";
        private static readonly TimeSpan PatternTime = TimeSpan.FromSeconds(1);
        private static readonly Regex Integer = Form("-?(0|[1-9][0-9]{0,19})");
        private static readonly Dictionary<string, Regex> Forms = new Dictionary<string, Regex>(StringComparer.Ordinal)
        {
            { "boolean", Form("true|false") },
            { "duration", Form("P(?!\\z)([0-9]+W|([0-9]+Y)?([0-9]+M)?([0-9]+D)?(T(?=[0-9])([0-9]+H)?([0-9]+M)?([0-9]+(\\.[0-9]+)?S)?)?)") },
            { "number", Form("-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?") },
            { "symbol", Form("[A-Za-z0-9_]+") },
            { "timestamp", Form(
                "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])[Tt]([01][0-9]|2[0-3]):[0-5][0-9]:([0-5][0-9]|60)"
                + "(\\.[0-9]{1,12})?([Zz]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])") },
            { "uri", Form("[A-Za-z][A-Za-z0-9+.\\-]*:" + UriCharacter + "*") },
            { "urireference", Form(UriCharacter + "+") },
            { "uuid", Form("[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}") },
        };

        /// <summary>A value as headers and options have it.</summary>
        internal static string Text(object value) =>
            value is bool boolean ? (boolean ? "true" : "false") : Convert.ToString(value, CultureInfo.InvariantCulture);

        internal static bool IsOf(string type, object value)
        {
            var text = Text(value);
            switch (type)
            {
                case "integer":
                    return IsWhole(value, text, int.MinValue, int.MaxValue);
                case "ulong":
                    return IsWhole(value, text, 0, ulong.MaxValue);
                case "binary":
                    return Base64.Decode(text) != null;
                case "any":
                    return true;
                default:
                    return Forms.TryGetValue(type, out var form) ? Matches(form, text) : value is string;
            }
        }

        /// <summary>Whole numbers and booleans as such, all else as it is.</summary>
        internal static object Simple(string type, object value) =>
            type == "boolean" ? Text(value) == "true"
            : type == "integer" && IsOf(type, value) ? int.Parse(Text(value), CultureInfo.InvariantCulture)
            : value;

        /// <summary>Whether a value is the one that is expected, whatever way it is written.</summary>
        internal static bool IsSame(string type, string expected, object value)
        {
            var actual = Text(value);
            if (actual == expected)
            {
                return true;
            }

            switch (type)
            {
                case "integer":
                case "ulong":
                case "number":
                    return AsNumber(actual)?.CompareTo(AsNumber(expected) ?? default(JsonNumber)) == 0;
                case "timestamp":
                    return IsOf(type, actual) && AsTime(actual) != null && AsTime(actual) == AsTime(expected);
                case "boolean":
                case "uuid":
                    return string.Equals(actual, expected, StringComparison.OrdinalIgnoreCase);
                default:
                    return false;
            }
        }

        private static JsonNumber? AsNumber(string text)
        {
            try
            {
                var value = JsonValue.Parse(text);
                return value.Kind == JsonKind.Number ? value.Number : (JsonNumber?)null;
            }
            catch (JsonFormatException)
            {
                return null;
            }
        }

        private static DateTimeOffset? AsTime(string text) =>
            DateTimeOffset.TryParse(text, CultureInfo.InvariantCulture, DateTimeStyles.None, out var time) ? time : (DateTimeOffset?)null;

        private static bool IsWhole(object value, string text, BigInteger least, BigInteger most) =>
            !(value is bool) && Matches(Integer, text)
            && BigInteger.Parse(text, CultureInfo.InvariantCulture) >= least
            && BigInteger.Parse(text, CultureInfo.InvariantCulture) <= most;

        private static bool Matches(Regex form, string text)
        {
            try
            {
                return form.IsMatch(text);
            }
            catch (RegexMatchTimeoutException)
            {
                return false;
            }
        }

        private static Regex Form(string pattern) =>
            new Regex($"^(?:{pattern})\\z", RegexOptions.CultureInvariant, PatternTime);
    }

    /// <summary>The context attributes of CloudEvents 1.0.</summary>
    internal static class CloudEventAttributes
    {
        internal const string SpecVersion = "1.0";
        internal static readonly IReadOnlyList<string> Required = new[] { "specversion", "id", "source", "type" };
        private static readonly string[] Core =
        {
            "specversion", "id", "source", "type", "subject", "time", "dataschema", "datacontenttype",
        };

        /// <summary>What is wrong with attributes.</summary>
        internal static IEnumerable<Finding> Invalid(IReadOnlyDictionary<string, object> attributes)
        {
            foreach (var name in Required.Where(each => !attributes.ContainsKey(each)))
            {
                yield return new Finding(name, "required", "is required");
            }

            foreach (var each in attributes)
            {
                var fault = FaultOf(each.Key, each.Value);
                if (fault != null)
                {
                    yield return new Finding(each.Key, "cloudevents", fault);
                }
            }
        }

        private static string FaultOf(string name, object value)
        {
            if (name.Length == 0 || name == "data" || !name.All(each => (each >= 'a' && each <= 'z') || (each >= '0' && each <= '9')))
            {
                return "is no name of an attribute";
            }

            var isCore = Core.Contains(name);
            if (!(value is string text))
            {
                var fits = !isCore && (value is bool || AttributeTypes.IsOf("integer", value));
                return fits ? null : "must be text, or a boolean or a small integer beside the core attributes";
            }

            if (text.Any(IsForbidden) || !JsonText.IsWellFormed(text))
            {
                return "has a control character, a noncharacter or half a character";
            }

            return isCore ? CoreFaultOf(name, text) : null;
        }

        private static string CoreFaultOf(string name, string text)
        {
            if (text.Length == 0)
            {
                return "must not be empty";
            }

            switch (name)
            {
                case "specversion":
                    return text == SpecVersion ? null : $"must be {SpecVersion}";
                case "source":
                    return AttributeTypes.IsOf("urireference", text) ? null : "must be of type urireference";
                case "dataschema":
                    return AttributeTypes.IsOf("uri", text) ? null : "must be of type uri";
                case "time":
                    return AttributeTypes.IsOf("timestamp", text) ? null : "must be of type timestamp";
                default:
                    return null;
            }
        }

        private static bool IsForbidden(char character) =>
            character < 0x20 || (character >= 0x7f && character <= 0x9f) || (character >= 0xfdd0 && character <= 0xfdef)
            || character >= 0xfffe;
    }

    /// <summary>Media types of payloads.</summary>
    internal static class MediaType
    {
        internal const string JsonEvent = "application/cloudevents+json";
        private const string Json = "application/json";

        /// <summary>The type without parameters.</summary>
        internal static string Of(string contentType) => contentType.Split(';')[0].Trim().ToLowerInvariant();

        internal static bool IsJson(string contentType)
        {
            var name = Of(contentType);
            return name == Json || name == "text/json" || name.EndsWith("+json", StringComparison.Ordinal);
        }

        internal static bool IsEvent(string contentType) =>
            Of(contentType).StartsWith("application/cloudevents", StringComparison.Ordinal);

        /// <summary>Whether both are the same type, and the actual one has all parameters of the expected one.</summary>
        internal static bool IsSame(string expected, string actual)
        {
            var have = Parameters(actual).ToArray();
            return Of(expected) == Of(actual) && Parameters(expected).All(each => have.Contains(each));
        }

        internal static bool IsAllowed(MessageDefinition definition, string actual)
        {
            if (definition.IsContentTypeStated)
            {
                return IsSame(definition.ContentType, actual);
            }

            var name = Of(actual);
            return (definition.ContentType == Json && IsJson(actual)) || name == Of(definition.ContentType)
                || definition.Aliases.Contains(name);
        }

        private static IEnumerable<string> Parameters(string contentType)
        {
            foreach (var part in contentType.Split(';').Skip(1).Where(each => each.Contains("=")))
            {
                var pair = part.Split(new[] { '=' }, 2);
                var name = pair[0].Trim().ToLowerInvariant();
                var value = pair[1].Trim().Trim('"');
                yield return name + "=" + (name == "charset" ? value.ToLowerInvariant() : value);
            }
        }
    }

    /// <summary>Bytes of UTF-8 as <c>%C3%A9</c>.</summary>
    internal static class PercentEncoding
    {
        /// <summary>A text with all bytes encoded but for those of plain characters, which are of ASCII.</summary>
        internal static string Encode(string text, Func<char, bool> isPlain)
        {
            var made = new StringBuilder();
            foreach (var each in Encoding.UTF8.GetBytes(text))
            {
                made.Append(each < 0x80 && isPlain((char)each) ? ((char)each).ToString() : Of(each));
            }

            return made.ToString();
        }

        internal static string Of(byte value) => "%" + value.ToString("X2", CultureInfo.InvariantCulture);

        /// <summary>The text; as it is where it is not in UTF-8.</summary>
        internal static string Decode(string text)
        {
            if (text.IndexOf('%') < 0)
            {
                return text;
            }

            var given = Encoding.UTF8.GetBytes(text);
            var found = new List<byte>();
            for (var place = 0; place < given.Length; place++)
            {
                var isPair = given[place] == '%' && place + 2 < given.Length;
                var high = isPair ? JsonReader.HexadecimalDigit((char)given[place + 1]) : -1;
                var low = isPair ? JsonReader.HexadecimalDigit((char)given[place + 2]) : -1;
                var isEncoded = high >= 0 && low >= 0;
                found.Add(isEncoded ? (byte)((high * 16) + low) : given[place]);
                place += isEncoded ? 2 : 0;
            }

            try
            {
                return JsonText.Utf8.GetString(found.ToArray());
            }
            catch (DecoderFallbackException)
            {
                return text;
            }
        }
    }
}
