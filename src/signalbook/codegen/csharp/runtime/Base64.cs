using System;

namespace Messages
{
    /// <summary>Bytes as text (RFC 4648), strictly: .NET's own reader passes over white space.</summary>
    internal static class Base64
    {
        internal static byte[] Decode(JsonValue value, string kind, ValuePath path) =>
            (value.Kind == JsonKind.Text ? Decode(value.Content) : null)
            ?? throw FindingException.WrongType(value, kind + " (base64)", path);

        /// <summary>The bytes; null for a text that is none.</summary>
        internal static byte[] Decode(string text)
        {
            if (text.IndexOfAny(new[] { ' ', '\t', '\r', '\n' }) >= 0)
            {
                return null;
            }

            try
            {
                return Convert.FromBase64String(text);
            }
            catch (FormatException)
            {
                return null;
            }
        }
    }
}
