using System;
using System.Collections.Concurrent;
using System.Diagnostics;
using System.Globalization;
using System.Text;
using System.Text.RegularExpressions;

namespace Messages
{
    /// <summary>
    /// Matches texts with the patterns of schemas (ECMA-262). One instance is for one value: its time is limited, since
    /// a pattern such as <c>^(a+)+$</c> may take longer than anybody waits.
    /// </summary>
    internal sealed class Patterns
    {
        private static readonly TimeSpan Longest = TimeSpan.FromSeconds(1);
        private static readonly ConcurrentDictionary<string, Regex> Known = new ConcurrentDictionary<string, Regex>();
        private readonly Stopwatch _taken = new Stopwatch();

        /// <summary>Whether a pattern fits a part of the text. Throws <see cref="RegexMatchTimeoutException"/>.</summary>
        internal bool IsMatch(string pattern, string text)
        {
            if (_taken.Elapsed > Longest)
            {
                throw new RegexMatchTimeoutException(text, pattern, Longest);
            }

            var expression = Known.GetOrAdd(pattern, Compiled);
            _taken.Start();
            try
            {
                return expression.IsMatch(text);
            }
            finally
            {
                _taken.Stop();
            }
        }

        private static Regex Compiled(string pattern) =>
            new Regex(PatternTranslation.Of(pattern), RegexOptions.CultureInvariant, Longest);
    }

    /// <summary>
    /// A pattern in .NET's words: there <c>\d</c>, <c>\w</c> and <c>\b</c> know all of Unicode, <c>$</c> also fits before a
    /// line feed at the end, and a character beyond U+FFFF is a pair of two. Categories (<c>\p{L}</c>) know characters up
    /// to U+FFFF.
    /// </summary>
    internal sealed class PatternTranslation
    {
        private const string Word = "0-9A-Z_a-z";
        private const string NoWord = "\\u0000-\\u002f\\u003a-\\u0040\\u005b-\\u005e\\u0060\\u007b-\\uffff";
        private const string NoDigit = "\\u0000-\\u002f\\u003a-\\uffff";
        private const string Halves = "\\ud800-\\udfff";
        private const string AnyPair = "[\\ud800-\\udbff][\\udc00-\\udfff]";
        private const int FirstPair = 0x10000;
        private const int Block = 0x400;
        private static readonly string Boundary = $"(?:(?<=[{Word}])(?![{Word}])|(?<![{Word}])(?=[{Word}]))";
        private static readonly string NoBoundary = $"(?:(?<=[{Word}])(?=[{Word}])|(?<![{Word}])(?![{Word}]))";
        private readonly string _pattern;
        private readonly StringBuilder _made = new StringBuilder();
        private int _place;

        private PatternTranslation(string pattern)
        {
            _pattern = pattern;
        }

        internal static string Of(string pattern)
        {
            var translation = new PatternTranslation(pattern);
            while (translation._place < pattern.Length)
            {
                translation.Token();
            }

            return translation._made.ToString();
        }

        private void Token()
        {
            switch (_pattern[_place])
            {
                case '\\':
                    Escape(_pattern[_place + 1]);
                    break;
                case '[':
                    _place++;
                    Class();
                    break;
                case '$':
                    _place++;
                    _made.Append("\\z");
                    break;
                case '(':
                    Group();
                    break;
                case '{':
                    Copy(_pattern.IndexOf('}', _place) + 1);
                    break;
                case ')':
                case '*':
                case '+':
                case '?':
                case '|':
                case '^':
                    Copy(_place + 1);
                    break;
                default:
                    One(Character());
                    break;
            }
        }

        private void Copy(int end)
        {
            _made.Append(_pattern, _place, end - _place);
            _place = end;
        }

        /// <summary>The beginning of a group. Names are left out: .NET would count groups with names last.</summary>
        private void Group()
        {
            foreach (var mark in new[] { "(?:", "(?=", "(?!", "(?<=", "(?<!" })
            {
                if (string.CompareOrdinal(_pattern, _place, mark, 0, mark.Length) == 0)
                {
                    Copy(_place + mark.Length);
                    return;
                }
            }

            var named = string.CompareOrdinal(_pattern, _place, "(?<", 0, 3) == 0;
            _made.Append('(');
            _place = named ? _pattern.IndexOf('>', _place) + 1 : _place + 1;
        }

        private void One(int character) =>
            _made.Append(character < FirstPair ? Unit(character) : $"(?:{Pair(character)})");

        private void Escape(char escaped)
        {
            if (escaped == 'b' || escaped == 'B')
            {
                _made.Append(escaped == 'b' ? Boundary : NoBoundary);
                _place += 2;
            }
            else if (escaped >= '1' && escaped <= '9')
            {
                // In a group, so that a digit behind it is none of it.
                _made.Append("(?:\\").Append(escaped).Append(')');
                _place += 2;
            }
            else if ("dDwWpP".IndexOf(escaped) >= 0)
            {
                Class(false, Shorthand(escaped), char.IsUpper(escaped) ? "|" + AnyPair : string.Empty);
            }
            else
            {
                One(Character());
            }
        }

        /// <summary>What a shorthand or a category stands for in a class.</summary>
        private string Shorthand(char escaped)
        {
            var start = _place;
            _place = escaped == 'p' || escaped == 'P' ? _pattern.IndexOf('}', _place) + 1 : _place + 2;
            switch (escaped)
            {
                case 'd':
                    return "0-9";
                case 'D':
                    return NoDigit;
                case 'w':
                    return Word;
                case 'W':
                    return NoWord;
                default:
                    return _pattern.Substring(start, _place - start);
            }
        }

        private void Class()
        {
            var negative = _pattern[_place] == '^';
            _place += negative ? 1 : 0;
            var units = new StringBuilder();
            var pairs = new StringBuilder();
            while (_pattern[_place] != ']')
            {
                ClassItem(units, pairs);
            }

            _place++;
            Class(negative, units.ToString(), pairs.ToString());
        }

        /// <summary>A class of single units without halves of pairs, and of pairs: alternatives, each behind a bar.</summary>
        private void Class(bool negative, string units, string pairs)
        {
            if (negative)
            {
                var others = pairs.Length == 0 ? string.Empty : $"(?!{pairs.Substring(1)})";
                _made.Append($"(?:[^{units}{Halves}]|{others}{AnyPair})");
            }
            else if (units.Length == 0)
            {
                _made.Append($"(?:{pairs.Substring(1)})");
            }
            else
            {
                _made.Append($"(?:[{units}-[{Halves}]]{pairs})");
            }
        }

        private void ClassItem(StringBuilder units, StringBuilder pairs)
        {
            var escaped = _pattern[_place] == '\\' ? _pattern[_place + 1] : ' ';
            if ("dDwWpP".IndexOf(escaped) >= 0)
            {
                units.Append(Shorthand(escaped));
                pairs.Append(char.IsUpper(escaped) ? "|" + AnyPair : string.Empty);
                return;
            }

            var first = Character();
            var last = first;
            if (_pattern[_place] == '-' && _pattern[_place + 1] != ']')
            {
                _place++;
                last = Character();
            }

            if (first < FirstPair)
            {
                units.Append(Unit(first)).Append('-').Append(Unit(Math.Min(last, FirstPair - 1)));
            }

            for (var from = Math.Max(first, FirstPair); from <= last;)
            {
                var to = Math.Min(EndOfBlocks(from, last), last);
                var low = char.ConvertFromUtf32(from);
                var high = char.ConvertFromUtf32(to);
                pairs.Append($"|[{Unit(low[0])}-{Unit(high[0])}][{Unit(low[1])}-{Unit(high[1])}]");
                from = to + 1;
            }
        }

        /// <summary>The end of the block of one high surrogate, or of all whole blocks up to a character.</summary>
        private static int EndOfBlocks(int from, int last)
        {
            var whole = (last + 1) / Block * Block;
            return from % Block == 0 && whole > from ? whole - 1 : (from / Block * Block) + Block - 1;
        }

        /// <summary>The next character, in whatever way it is written.</summary>
        private int Character()
        {
            if (_pattern[_place] != '\\')
            {
                var character = char.ConvertToUtf32(_pattern, _place);
                _place += character < FirstPair ? 1 : 2;
                return character;
            }

            var escaped = _pattern[_place + 1];
            _place += 2;
            switch (escaped)
            {
                case 'n':
                    return '\n';
                case 'r':
                    return '\r';
                case 't':
                    return '\t';
                case 'f':
                    return '\f';
                case 'x':
                    return Hexadecimal(2);
                case 'u':
                    return _pattern[_place] == '{' ? Braced() : Hexadecimal(4);
                default:
                    return escaped;
            }
        }

        private int Braced()
        {
            _place++;
            var character = Hexadecimal(_pattern.IndexOf('}', _place) - _place);
            _place++;
            return character;
        }

        private int Hexadecimal(int count)
        {
            var digits = _pattern.Substring(_place, count);
            _place += count;
            return int.Parse(digits, NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture);
        }

        private static string Unit(int unit) => "\\u" + unit.ToString("x4", CultureInfo.InvariantCulture);

        private static string Pair(int character)
        {
            var pair = char.ConvertFromUtf32(character);
            return Unit(pair[0]) + Unit(pair[1]);
        }
    }
}
