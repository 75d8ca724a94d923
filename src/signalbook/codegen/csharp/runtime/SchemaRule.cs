using System;
using System.Collections.Generic;
using System.Linq;
using System.Numerics;

namespace Messages
{
    /// <summary>One rule: what a part of a schema demands. Other parts are places in the list of rules.</summary>
    internal sealed class SchemaRule
    {
        private readonly JsonValue _table;

        private SchemaRule(JsonValue table)
        {
            _table = table;
            Allowed = table.Kind == JsonKind.Boolean ? table.AsBoolean() : (bool?)null;
            Types = table["type"]?.Items.Select(each => each.AsText()).ToArray();
            Values = table["values"]?.Items;
            Min = NumberOf("min");
            Max = NumberOf("max");
            Above = NumberOf("above");
            Below = NumberOf("below");
            Multiple = NumberOf("multiple");
            Pattern = table["pattern"]?.AsText();
            All = PlacesOf("all");
            Any = PlacesOf("any");
            One = PlacesOf("one");
            Prefix = PlacesOf("prefix");
            Not = PlaceOf("not");
            If = PlaceOf("if");
            Then = PlaceOf("then");
            Else = PlaceOf("else");
            Items = PlaceOf("items");
            Contains = PlaceOf("contains");
            Names = PlaceOf("names");
            Others = PlaceOf("others");
            UnevaluatedItems = PlaceOf("unevaluatedItems");
            UnevaluatedProperties = PlaceOf("unevaluatedProperties");
            IsUnique = table["unique"] != null;
            Required = table["required"]?.Items.Select(each => each.AsText()).ToArray() ?? Array.Empty<string>();
            Properties = table["properties"]?.Members ?? JsonMembers.None;
            Requires = table["requires"]?.Members ?? JsonMembers.None;
            Dependents = table["dependents"]?.Members ?? JsonMembers.None;
            Patterns = table["patterns"]?.Items ?? Array.Empty<JsonValue>();
        }

        /// <summary>Of a rule for all values: whether they are allowed.</summary>
        internal bool? Allowed { get; }

        internal string[] Types { get; }

        internal IReadOnlyList<JsonValue> Values { get; }

        internal JsonNumber? Min { get; }

        internal JsonNumber? Max { get; }

        internal JsonNumber? Above { get; }

        internal JsonNumber? Below { get; }

        internal JsonNumber? Multiple { get; }

        internal string Pattern { get; }

        internal int[] All { get; }

        internal int[] Any { get; }

        internal int[] One { get; }

        internal int[] Prefix { get; }

        internal int? Not { get; }

        internal int? If { get; }

        internal int? Then { get; }

        internal int? Else { get; }

        internal int? Items { get; }

        internal int? Contains { get; }

        internal int? Names { get; }

        internal int? Others { get; }

        internal int? UnevaluatedItems { get; }

        internal int? UnevaluatedProperties { get; }

        internal bool IsUnique { get; }

        internal string[] Required { get; }

        internal JsonMembers Properties { get; }

        internal JsonMembers Requires { get; }

        internal JsonMembers Dependents { get; }

        /// <summary>Pairs of a pattern and a place.</summary>
        internal IReadOnlyList<JsonValue> Patterns { get; }

        internal static SchemaRule[] ListOf(JsonValue tables) => tables.Items.Select(each => new SchemaRule(each)).ToArray();

        /// <summary>A keyword of the rule as it is written.</summary>
        internal JsonValue Said(string keyword) => _table[keyword];

        /// <summary>A bound of a length or a count; numbers beyond 64 bits are as good as the largest.</summary>
        internal long Bound(string keyword, long otherwise)
        {
            var found = _table[keyword]?.Number;
            return found == null ? otherwise
                : found.Value.Whole() is BigInteger whole && whole <= long.MaxValue ? (long)whole
                : long.MaxValue;
        }

        private JsonNumber? NumberOf(string keyword) => _table[keyword]?.Number;

        private int? PlaceOf(string keyword) => (int?)_table[keyword]?.AsInt64();

        private int[] PlacesOf(string keyword) => _table[keyword]?.Items.Select(each => (int)each.AsInt64()).ToArray();
    }
}
