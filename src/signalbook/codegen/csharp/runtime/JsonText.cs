using System;
using System.Collections.Generic;
using System.Globalization;
using System.Runtime.CompilerServices;
using System.Text;

namespace Messages
{
    /// <summary>A text that is no JSON, or a value that is nested too deep to be written.</summary>
    public sealed class JsonFormatException : FormatException
    {
        internal JsonFormatException(string message)
            : base(message)
        {
        }
    }

    /// <summary>JSON values as text.</summary>
    internal static class JsonText
    {
        /// <summary>UTF-8 that takes no other bytes.</summary>
        internal static readonly Encoding Utf8 = new UTF8Encoding(false, true);

        private const int Deepest = 1000;

        /// <summary>Throw <see cref="JsonFormatException"/> where a value is nested too deep, or for this thread's stack.</summary>
        internal static void CheckDepth(int depth)
        {
            if (depth > Deepest)
            {
                throw new JsonFormatException($"nested deeper than {Deepest} levels");
            }

            try
            {
                RuntimeHelpers.EnsureSufficientExecutionStack();
            }
            catch (InsufficientExecutionStackException)
            {
                throw new JsonFormatException("nested too deep for the stack of this thread");
            }
        }

        /// <summary>Whether all surrogates come in pairs.</summary>
        internal static bool IsWellFormed(string text)
        {
            for (var place = 0; place < text.Length; place++)
            {
                if (!char.IsSurrogate(text[place]))
                {
                    continue;
                }

                if (place + 1 == text.Length || !char.IsSurrogatePair(text[place], text[place + 1]))
                {
                    return false;
                }

                place++;
            }

            return true;
        }

        /// <summary>At most so many characters of a text; no half of one.</summary>
        internal static string Shortened(string text, int most) =>
            text.Length <= most ? text : text.Substring(0, char.IsHighSurrogate(text[most - 2]) ? most - 2 : most - 1) + "…";

        internal static string Write(JsonValue value)
        {
            var made = new StringBuilder();
            Write(made, value, 0, int.MaxValue);
            return made.ToString();
        }

        /// <summary>The beginning of the text: so many characters, and some more.</summary>
        internal static string Beginning(JsonValue value, int most)
        {
            var made = new StringBuilder();
            Write(made, value, 0, most);
            return made.ToString();
        }

        private static void Write(StringBuilder made, JsonValue value, int depth, int most)
        {
            CheckDepth(depth);
            switch (value.Kind)
            {
                case JsonKind.Null:
                    made.Append("null");
                    break;
                case JsonKind.Boolean:
                    made.Append(value.AsBoolean() ? "true" : "false");
                    break;
                case JsonKind.Number:
                    made.Append(value.Content);
                    break;
                case JsonKind.Text:
                    Quote(made, value.Content);
                    break;
                case JsonKind.Array:
                    WriteItems(made, value.Items, depth, most);
                    break;
                default:
                    WriteMembers(made, value.Members, depth, most);
                    break;
            }
        }

        private static void WriteItems(StringBuilder made, IReadOnlyList<JsonValue> items, int depth, int most)
        {
            made.Append('[');
            for (var place = 0; place < items.Count && made.Length < most; place++)
            {
                made.Append(place == 0 ? string.Empty : ",");
                Write(made, items[place], depth + 1, most);
            }

            made.Append(']');
        }

        private static void WriteMembers(StringBuilder made, JsonMembers members, int depth, int most)
        {
            made.Append('{');
            for (var place = 0; place < members.Count && made.Length < most; place++)
            {
                made.Append(place == 0 ? string.Empty : ",");
                Quote(made, members[place].Key);
                made.Append(':');
                Write(made, members[place].Value, depth + 1, most);
            }

            made.Append('}');
        }

        private static void Quote(StringBuilder made, string text)
        {
            made.Append('"');
            foreach (var character in text)
            {
                if (character == '"' || character == '\\')
                {
                    made.Append('\\').Append(character);
                }
                else if (character < ' ')
                {
                    made.Append("\\u").Append(((int)character).ToString("x4", CultureInfo.InvariantCulture));
                }
                else
                {
                    made.Append(character);
                }
            }

            made.Append('"');
        }
    }

    /// <summary>Reads one JSON text (RFC 8259), strictly; a byte order mark before it is passed over.</summary>
    internal sealed class JsonReader
    {
        private readonly string _text;
        private int _place;

        private JsonReader(string text)
        {
            _text = text;
        }

        internal static JsonValue Read(byte[] json)
        {
            string text;
            try
            {
                text = JsonText.Utf8.GetString(json);
            }
            catch (DecoderFallbackException)
            {
                throw new JsonFormatException("the text is not in UTF-8");
            }

            return Read(text.StartsWith("\ufeff", StringComparison.Ordinal) ? text.Substring(1) : text);
        }

        internal static JsonValue Read(string json)
        {
            var reader = new JsonReader(json);
            reader.SkipSpace();
            if (reader._place == json.Length)
            {
                throw new JsonFormatException("there is nothing");
            }

            var value = reader.Value(0);
            reader.SkipSpace();
            return reader._place == json.Length ? value : throw reader.Unexpected("the end");
        }

        private JsonFormatException Unexpected(string expected)
        {
            var found = _place < _text.Length ? $"U+{(int)_text[_place]:X4}" : "the end";
            return new JsonFormatException($"{found} at character {_place + 1}, where {expected} is expected");
        }

        private void SkipSpace()
        {
            while (_place < _text.Length && " \t\r\n".IndexOf(_text[_place]) >= 0)
            {
                _place++;
            }
        }

        private bool Skip(char character)
        {
            var there = _place < _text.Length && _text[_place] == character;
            _place += there ? 1 : 0;
            return there;
        }

        private JsonValue Value(int depth)
        {
            JsonText.CheckDepth(depth);
            switch (_place < _text.Length ? _text[_place] : '\0')
            {
                case '{':
                    return Object(depth);
                case '[':
                    return Array(depth);
                case '"':
                    return JsonValue.OfText(Text());
                case 't':
                    return Word("true", JsonValue.True);
                case 'f':
                    return Word("false", JsonValue.False);
                case 'n':
                    return Word("null", JsonValue.Null);
                default:
                    return Number();
            }
        }

        private JsonValue Word(string word, JsonValue value)
        {
            if (string.CompareOrdinal(_text, _place, word, 0, word.Length) != 0)
            {
                throw Unexpected("a value");
            }

            _place += word.Length;
            return value;
        }

        private JsonValue Object(int depth)
        {
            var members = new JsonMembers();
            _place++;
            SkipSpace();
            if (Skip('}'))
            {
                return JsonValue.OfMembers(members);
            }

            do
            {
                SkipSpace();
                var name = _place < _text.Length && _text[_place] == '"' ? Text() : throw Unexpected("a name in quotes");
                SkipSpace();
                if (!Skip(':'))
                {
                    throw Unexpected("a colon");
                }

                SkipSpace();
                members.Set(name, Value(depth + 1));
                SkipSpace();
            }
            while (Skip(','));
            return Skip('}') ? JsonValue.OfMembers(members) : throw Unexpected("a comma or a brace");
        }

        private JsonValue Array(int depth)
        {
            _place++;
            SkipSpace();
            if (Skip(']'))
            {
                return JsonValue.EmptyArray;
            }

            var items = new List<JsonValue>();
            do
            {
                SkipSpace();
                items.Add(Value(depth + 1));
                SkipSpace();
            }
            while (Skip(','));
            return Skip(']') ? JsonValue.OfItems(items) : throw Unexpected("a comma or a bracket");
        }

        private JsonValue Number()
        {
            var start = _place;
            Skip('-');
            if (!Skip('0'))
            {
                Digits("a value");
            }

            if (Skip('.'))
            {
                Digits("a digit");
            }

            var marker = _place;
            if (Skip('e') || Skip('E'))
            {
                if (!Skip('+'))
                {
                    Skip('-');
                }

                Digits("a digit");
                CheckExponent(_text.Substring(marker + 1, _place - marker - 1));
            }

            if (_place - start > JsonNumber.MostCharacters)
            {
                throw new JsonFormatException($"a number has more than {JsonNumber.MostCharacters} characters");
            }

            return JsonValue.OfNumber(_text.Substring(start, _place - start));
        }

        private static void CheckExponent(string exponent)
        {
            if (!int.TryParse(exponent, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out var value)
                || Math.Abs((long)value) > JsonNumber.LargestExponent)
            {
                throw new JsonFormatException($"a number has an exponent beyond {JsonNumber.LargestExponent}");
            }
        }

        private void Digits(string expected)
        {
            var start = _place;
            while (_place < _text.Length && _text[_place] >= '0' && _text[_place] <= '9')
            {
                _place++;
            }

            if (_place == start)
            {
                throw Unexpected(expected);
            }
        }

        private string Text()
        {
            var start = ++_place;
            while (_place < _text.Length && _text[_place] != '"' && _text[_place] != '\\' && _text[_place] >= ' ')
            {
                _place++;
            }

            var found = _text.Substring(start, _place - start);
            if (!Skip('"'))
            {
                var made = new StringBuilder(found);
                while (!Skip('"'))
                {
                    made.Append(Character());
                }

                found = made.ToString();
            }

            return JsonText.IsWellFormed(found) ? found : throw new JsonFormatException("a text has half a surrogate pair");
        }

        private char Character()
        {
            if (_place >= _text.Length || _text[_place] < ' ')
            {
                throw Unexpected("a character or a quote");
            }

            if (!Skip('\\'))
            {
                return _text[_place++];
            }

            var plain = _place < _text.Length ? "\"\\/bfnrt".IndexOf(_text[_place]) : -1;
            if (plain >= 0)
            {
                _place++;
                return "\"\\/\b\f\n\r\t"[plain];
            }

            return Skip('u') ? Unit() : throw Unexpected("an escape");
        }

        private char Unit()
        {
            var value = 0;
            for (var count = 0; count < 4; count++, _place++)
            {
                var digit = _place < _text.Length ? HexadecimalDigit(_text[_place]) : -1;
                value = digit >= 0 ? (value * 16) + digit : throw Unexpected("a hexadecimal digit");
            }

            return (char)value;
        }

        /// <summary>The value of a hexadecimal digit; -1 for another character.</summary>
        internal static int HexadecimalDigit(char character) =>
            character >= '0' && character <= '9' ? character - '0'
            : character >= 'a' && character <= 'f' ? character - 'a' + 10
            : character >= 'A' && character <= 'F' ? character - 'A' + 10
            : -1;
    }
}
