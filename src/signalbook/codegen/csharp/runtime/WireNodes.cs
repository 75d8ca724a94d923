using System;
using System.Collections.Generic;
using System.Linq;

namespace Messages
{
    /// <summary>A type of Avro or Protobuf. Other types are places in the list of all.</summary>
    internal sealed class WireNode
    {
        private readonly Dictionary<long, WireField> _byNumber;
        private readonly Dictionary<long, string> _names = new Dictionary<long, string>();

        private WireNode(JsonValue table)
        {
            Kind = table["kind"].AsText();
            Logical = table["logical"]?.AsText() ?? string.Empty;
            Precision = NumberOf(table, "precision");
            Scale = NumberOf(table, "scale");
            Size = NumberOf(table, "size");
            Of = NumberOf(table, "of");
            IsClosed = table["closed"]?.AsBoolean() ?? false;
            Symbols = table["symbols"]?.Items.Select(each => each.AsText()).ToArray() ?? Array.Empty<string>();
            Branches = table["branches"]?.Items.Select(each => (int)each.AsInt64()).ToArray() ?? Array.Empty<int>();
            Numbers = table["numbers"]?.Members ?? JsonMembers.None;
            foreach (var each in Numbers.Reverse())
            {
                _names[each.Value.AsInt64()] = each.Key;
            }

            Fields = Kind == "wrapper"
                ? new[] { new WireField("value", 1, Of) }
                : table["fields"]?.Items.Select((each, place) => new WireField(each, place)).ToArray();
            _byNumber = Fields?.GroupBy(each => each.Number).ToDictionary(each => each.Key, each => each.Last());
            Names = Fields == null ? null : new HashSet<string>(Fields.Select(each => each.Name), StringComparer.Ordinal);
        }

        internal string Kind { get; }

        internal string Logical { get; }

        internal int Precision { get; }

        internal int Scale { get; }

        internal int Size { get; }

        internal int Of { get; }

        internal bool IsClosed { get; }

        internal IReadOnlyList<string> Symbols { get; }

        internal IReadOnlyList<int> Branches { get; }

        internal JsonMembers Numbers { get; }

        internal IReadOnlyList<WireField> Fields { get; }

        internal ISet<string> Names { get; }

        internal static WireNode[] ListOf(JsonValue tables) => tables.Items.Select(each => new WireNode(each)).ToArray();

        /// <summary>The field with a number; null if there is none.</summary>
        internal WireField FieldOf(ulong number) =>
            number <= int.MaxValue && _byNumber.TryGetValue((long)number, out var field) ? field : null;

        /// <summary>The value of an enumeration: its name, or the number if it has none.</summary>
        internal JsonValue NamedBy(long number) =>
            _names.TryGetValue(number, out var name) ? JsonValue.OfText(name) : JsonValue.Create(number);

        /// <summary>Throw for a member that is no field.</summary>
        internal void CheckNames(JsonMembers members, ValuePath path)
        {
            foreach (var each in members)
            {
                if (!Names.Contains(each.Key))
                {
                    throw new FindingException(path.Below(each.Key), "unknown", "is no field");
                }
            }
        }

        private static int NumberOf(JsonValue table, string name) => (int)(table[name]?.AsInt64() ?? 0);
    }

    /// <summary>A field of a record or a message.</summary>
    internal sealed class WireField
    {
        internal WireField(JsonValue table, int place)
        {
            Place = place;
            Name = table["name"].AsText();
            Of = (int)table["of"].AsInt64();
            Default = table["default"];
            Number = table["number"]?.AsInt64() ?? place;
            Label = table["label"]?.AsText();
            Key = (int)(table["key"]?.AsInt64() ?? 0);
            OneOf = table["oneof"]?.AsText();
        }

        internal WireField(string name, int number, int of)
        {
            Place = number - 1;
            Name = name;
            Number = number;
            Of = of;
            Label = "implicit";
        }

        internal int Place { get; }

        internal string Name { get; }

        internal int Of { get; }

        internal JsonValue Default { get; }

        internal long Number { get; }

        internal string Label { get; }

        internal int Key { get; }

        internal string OneOf { get; }

        internal bool IsRepeated => Label == "repeated" || Label == "packed";
    }
}
