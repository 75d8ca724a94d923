using System;
using System.Collections.Generic;
using System.Linq;
using System.Text.RegularExpressions;

namespace Messages
{
    /// <summary>A record of Kafka, for any client.</summary>
    public sealed class KafkaRecord
    {
        /// <summary>A record; key and value may be null, headers may come several times.</summary>
        public KafkaRecord(string topic, string key, IEnumerable<KeyValuePair<string, byte[]>> headers, byte[] value)
        {
            Topic = topic ?? string.Empty;
            Key = key;
            Headers = headers?.ToArray() ?? Array.Empty<KeyValuePair<string, byte[]>>();
            Value = value;
        }

        /// <summary>The topic.</summary>
        public string Topic { get; }

        /// <summary>The key; null if there is none.</summary>
        public string Key { get; }

        /// <summary>The headers in their order.</summary>
        public IReadOnlyList<KeyValuePair<string, byte[]>> Headers { get; }

        /// <summary>The value; null if there is none.</summary>
        public byte[] Value { get; }
    }

    /// <summary>A request of HTTP, for any client or server.</summary>
    public sealed class HttpMessage
    {
        private static readonly TimeSpan PatternTime = TimeSpan.FromSeconds(1);
        private static readonly Regex HeaderName =
            new Regex("^[!#$%&'*+.^_`|~0-9A-Za-z-]+\\z", RegexOptions.CultureInvariant, PatternTime);

        /// <summary>A request; the body may be null, headers and parts of the query may come several times.</summary>
        public HttpMessage(
            string method,
            string path,
            IEnumerable<KeyValuePair<string, string>> query,
            IEnumerable<KeyValuePair<string, string>> headers,
            byte[] body)
        {
            Method = method ?? string.Empty;
            Path = path ?? string.Empty;
            Query = query?.ToArray() ?? Array.Empty<KeyValuePair<string, string>>();
            Headers = headers?.ToArray() ?? Array.Empty<KeyValuePair<string, string>>();
            Body = body;
        }

        /// <summary>The method, such as <c>POST</c>.</summary>
        public string Method { get; }

        /// <summary>The path, without the query.</summary>
        public string Path { get; }

        /// <summary>The names and values of the query, decoded.</summary>
        public IReadOnlyList<KeyValuePair<string, string>> Query { get; }

        /// <summary>The headers in their order.</summary>
        public IReadOnlyList<KeyValuePair<string, string>> Headers { get; }

        /// <summary>The body; null if there is none.</summary>
        public byte[] Body { get; }

        internal static bool IsHeader(string name, string value) =>
            HeaderName.IsMatch(name) && value.Trim(' ', '\t') == value
            && value.All(each => each == '\t' || (each >= ' ' && each <= '~'));

        /// <summary>An attribute as a header has it.</summary>
        internal static string Encode(string text) =>
            PercentEncoding.Encode(text, each => each > ' ' && each < 0x7f && each != '"' && each != '%');

        /// <summary>What a header says of an attribute, whether it is in quotes or not.</summary>
        internal static string Decode(string text)
        {
            var isQuoted = text.Length > 1 && text[0] == '"' && text[text.Length - 1] == '"';
            return PercentEncoding.Decode(isQuoted ? Unescaped(text.Substring(1, text.Length - 2)) : text);
        }

        private static string Unescaped(string text) => Regex.Replace(text, "\\\\(.)", "$1", RegexOptions.Singleline, PatternTime);
    }
}
