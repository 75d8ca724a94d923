using System;
using System.Collections;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Numerics;

namespace Messages
{
    /// <summary>The kinds of JSON values.</summary>
    public enum JsonKind
    {
        /// <summary>Null.</summary>
        Null,

        /// <summary>True or false.</summary>
        Boolean,

        /// <summary>A number.</summary>
        Number,

        /// <summary>A text.</summary>
        Text,

        /// <summary>A list of values.</summary>
        Array,

        /// <summary>Members with names.</summary>
        Object,
    }

    /// <summary>A JSON value (RFC 8259). Numbers keep the text that they were written with, and so all digits.</summary>
    public sealed class JsonValue : IEquatable<JsonValue>
    {
        /// <summary>Null.</summary>
        public static readonly JsonValue Null = new JsonValue(JsonKind.Null, null);

        /// <summary>True.</summary>
        public static readonly JsonValue True = new JsonValue(JsonKind.Boolean, null);

        /// <summary>False.</summary>
        public static readonly JsonValue False = new JsonValue(JsonKind.Boolean, null);

        internal static readonly JsonValue EmptyArray = new JsonValue(JsonKind.Array, Array.Empty<JsonValue>());
        private const int MostShown = 100;
        private readonly object _content;

        private JsonValue(JsonKind kind, object content)
        {
            Kind = kind;
            _content = content;
        }

        /// <summary>What it is.</summary>
        public JsonKind Kind { get; }

        /// <summary>The items of an array; none of another value.</summary>
        public IReadOnlyList<JsonValue> Items =>
            Kind == JsonKind.Array ? (IReadOnlyList<JsonValue>)_content : Array.Empty<JsonValue>();

        /// <summary>The members of an object; none of another value.</summary>
        public JsonMembers Members => Kind == JsonKind.Object ? (JsonMembers)_content : JsonMembers.None;

        /// <summary>The member with this name; null if there is none.</summary>
        public JsonValue this[string name] => Members.TryGetValue(name, out var value) ? value : null;

        internal string Content => (string)_content;

        internal JsonNumber Number => JsonNumber.Parse(Content);

        /// <summary>The value that a text is. Throws <see cref="JsonFormatException"/>.</summary>
        public static JsonValue Parse(string json) => JsonReader.Read(json);

        /// <summary>The value that a text in UTF-8 is. Throws <see cref="JsonFormatException"/>.</summary>
        public static JsonValue Parse(byte[] json) => JsonReader.Read(json);

        /// <summary>A boolean.</summary>
        public static JsonValue Create(bool value) => value ? True : False;

        /// <summary>A whole number.</summary>
        public static JsonValue Create(long value) => OfNumber(JsonNumber.Written(value));

        /// <summary>A whole number of any size.</summary>
        public static JsonValue Create(BigInteger value) => OfNumber(value.ToString(CultureInfo.InvariantCulture));

        /// <summary>A decimal number.</summary>
        public static JsonValue Create(decimal value) => OfNumber(value.ToString(CultureInfo.InvariantCulture));

        /// <summary>A number. Throws <see cref="ArgumentException"/> for those that JSON has no form for.</summary>
        public static JsonValue Create(double value) =>
            double.IsNaN(value) || double.IsInfinity(value)
                ? throw new ArgumentException($"{value} has no form in JSON", nameof(value))
                : OfNumber(JsonNumber.Written(value));

        /// <summary>A text, null for null. Throws <see cref="ArgumentException"/> for half a surrogate pair.</summary>
        public static JsonValue Create(string value) =>
            value == null ? Null
            : JsonText.IsWellFormed(value) ? OfText(value)
            : throw new ArgumentException("has half a character in it", nameof(value));

        /// <summary>An array, with null for items that are null.</summary>
        public static JsonValue Create(IEnumerable<JsonValue> items) =>
            OfItems(items.Select(each => each ?? Null).ToArray());

        /// <summary>An object with a copy of these members.</summary>
        public static JsonValue Create(JsonMembers members) => OfMembers(new JsonMembers(members));

        /// <summary>A text.</summary>
        public static implicit operator JsonValue(string value) => Create(value);

        /// <summary>A boolean.</summary>
        public static implicit operator JsonValue(bool value) => Create(value);

        /// <summary>A whole number.</summary>
        public static implicit operator JsonValue(long value) => Create(value);

        /// <summary>A number.</summary>
        public static implicit operator JsonValue(double value) => Create(value);

        /// <summary>A decimal number.</summary>
        public static implicit operator JsonValue(decimal value) => Create(value);

        /// <summary>The text. Throws <see cref="InvalidOperationException"/> if it is none.</summary>
        public string AsText() => Expected(JsonKind.Text).Content;

        /// <summary>The boolean. Throws <see cref="InvalidOperationException"/> if it is none.</summary>
        public bool AsBoolean() => ReferenceEquals(Expected(JsonKind.Boolean), True);

        /// <summary>The number. Throws <see cref="InvalidOperationException"/> if it is none; infinite if it is too large.</summary>
        public double AsDouble() => JsonNumber.Double(Expected(JsonKind.Number).Content);

        /// <summary>The number. Throws <see cref="InvalidOperationException"/> if it is none, <see cref="OverflowException"/> if it is too large.</summary>
        public decimal AsDecimal() =>
            decimal.Parse(Expected(JsonKind.Number).Content, NumberStyles.Float, CultureInfo.InvariantCulture);

        /// <summary>The whole number. Throws <see cref="InvalidOperationException"/> if it is none, <see cref="OverflowException"/> if it is too large.</summary>
        public long AsInt64()
        {
            var number = Expected(JsonKind.Number).Number;
            return number.IsWhole
                ? (long)(number.Whole() ?? throw new OverflowException(Shortened()))
                : throw new InvalidOperationException($"{Shortened()} is no whole number");
        }

        /// <inheritdoc/>
        public bool Equals(JsonValue other) => other != null && JsonOrder.Compare(this, other, 0) == 0;

        /// <inheritdoc/>
        public override bool Equals(object obj) => Equals(obj as JsonValue);

        /// <inheritdoc/>
        public override int GetHashCode()
        {
            switch (Kind)
            {
                case JsonKind.Text:
                    return Content.GetHashCode();
                case JsonKind.Number:
                    return Number.GetHashCode();
                default:
                    return ((int)Kind * 31) + Items.Count + Members.Count + (ReferenceEquals(this, True) ? 1 : 0);
            }
        }

        /// <summary>The value as JSON. Throws <see cref="JsonFormatException"/> if it is nested too deep.</summary>
        public override string ToString() => JsonText.Write(this);

        /// <summary>The value as JSON in UTF-8. Throws <see cref="JsonFormatException"/> if it is nested too deep.</summary>
        public byte[] ToBytes() => JsonText.Utf8.GetBytes(ToString());

        internal static JsonValue OfText(string text) => new JsonValue(JsonKind.Text, text);

        internal static JsonValue OfNumber(string text) => new JsonValue(JsonKind.Number, text);

        internal static JsonValue OfItems(IReadOnlyList<JsonValue> items) => new JsonValue(JsonKind.Array, items);

        internal static JsonValue OfMembers(JsonMembers members) => new JsonValue(JsonKind.Object, members);

        internal string Shortened() => JsonText.Shortened(JsonText.Beginning(this, MostShown + 1), MostShown);

        private JsonValue Expected(JsonKind kind) =>
            Kind == kind ? this : throw new InvalidOperationException($"{Shortened()} is no {kind.ToString().ToLowerInvariant()}");
    }

    /// <summary>The members of a JSON object in their order; of two with one name the last one counts.</summary>
    public sealed class JsonMembers : IReadOnlyCollection<KeyValuePair<string, JsonValue>>
    {
        internal static readonly JsonMembers None = new JsonMembers();
        private const int Few = 8;
        private readonly List<KeyValuePair<string, JsonValue>> _members = new List<KeyValuePair<string, JsonValue>>();

        // No hashes: whoever sends a message could choose names that have the same.
        private SortedDictionary<string, int> _places;

        /// <summary>No members.</summary>
        public JsonMembers()
        {
        }

        internal JsonMembers(JsonMembers others)
        {
            _members.AddRange(others._members);
            Index();
        }

        /// <summary>How many there are.</summary>
        public int Count => _members.Count;

        internal KeyValuePair<string, JsonValue> this[int place] => _members[place];

        /// <summary>Add a member, or give the one with this name another value. Null is JSON's null.</summary>
        public void Add(string name, JsonValue value)
        {
            if (!JsonText.IsWellFormed(name))
            {
                throw new ArgumentException("has half a character in it", nameof(name));
            }

            Set(name, value ?? JsonValue.Null);
        }

        /// <summary>Whether there is a member with this name, and its value.</summary>
        public bool TryGetValue(string name, out JsonValue value)
        {
            var place = PlaceOf(name);
            value = place < 0 ? null : _members[place].Value;
            return place >= 0;
        }

        /// <summary>Whether there is a member with this name.</summary>
        public bool Contains(string name) => PlaceOf(name) >= 0;

        /// <inheritdoc/>
        public IEnumerator<KeyValuePair<string, JsonValue>> GetEnumerator() => _members.GetEnumerator();

        /// <inheritdoc/>
        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();

        internal void Set(string name, JsonValue value)
        {
            var place = PlaceOf(name);
            if (place >= 0)
            {
                _members[place] = new KeyValuePair<string, JsonValue>(name, value);
                return;
            }

            _members.Add(new KeyValuePair<string, JsonValue>(name, value));
            if (_places != null)
            {
                _places.Add(name, _members.Count - 1);
            }
            else if (_members.Count > Few)
            {
                Index();
            }
        }

        internal int PlaceOf(string name) =>
            _places == null ? _members.FindIndex(each => string.Equals(each.Key, name, StringComparison.Ordinal))
            : _places.TryGetValue(name, out var place) ? place
            : -1;

        internal IEnumerable<KeyValuePair<string, JsonValue>> Sorted() =>
            _members.OrderBy(each => each.Key, StringComparer.Ordinal);

        private void Index()
        {
            if (_members.Count <= Few)
            {
                return;
            }

            _places = new SortedDictionary<string, int>(StringComparer.Ordinal);
            for (var place = 0; place < _members.Count; place++)
            {
                _places.Add(_members[place].Key, place);
            }
        }
    }

    /// <summary>An order of all JSON values, in which equal ones are beside each other: 1 and 1.0 are equal.</summary>
    internal sealed class JsonOrder : IComparer<JsonValue>
    {
        internal static readonly JsonOrder Instance = new JsonOrder();

        /// <inheritdoc/>
        public int Compare(JsonValue x, JsonValue y) => Compare(x, y, 0);

        internal static int Compare(JsonValue left, JsonValue right, int depth)
        {
            JsonText.CheckDepth(depth);
            if (ReferenceEquals(left, right) || left.Kind != right.Kind)
            {
                return left.Kind.CompareTo(right.Kind);
            }

            switch (left.Kind)
            {
                case JsonKind.Boolean:
                    return ReferenceEquals(left, JsonValue.True) ? 1 : -1;
                case JsonKind.Number:
                    return left.Number.CompareTo(right.Number);
                case JsonKind.Text:
                    return string.CompareOrdinal(left.Content, right.Content);
                case JsonKind.Array:
                    return Compared(left.Items, right.Items, (one, other) => Compare(one, other, depth + 1));
                default:
                    return left.Members.Count != right.Members.Count
                        ? left.Members.Count.CompareTo(right.Members.Count)
                        : Compared(
                            left.Members.Sorted().ToArray(),
                            right.Members.Sorted().ToArray(),
                            (one, other) => CompareMembers(one, other, depth + 1));
            }
        }

        private static int Compared<T>(IReadOnlyList<T> left, IReadOnlyList<T> right, Func<T, T, int> compare)
        {
            var found = left.Count.CompareTo(right.Count);
            for (var place = 0; found == 0 && place < left.Count; place++)
            {
                found = compare(left[place], right[place]);
            }

            return found;
        }

        private static int CompareMembers(
            KeyValuePair<string, JsonValue> left, KeyValuePair<string, JsonValue> right, int depth)
        {
            var names = string.CompareOrdinal(left.Key, right.Key);
            return names != 0 ? names : Compare(left.Value, right.Value, depth);
        }
    }
}
