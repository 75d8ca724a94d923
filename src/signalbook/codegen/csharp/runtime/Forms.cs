using System;
using System.Collections.Generic;
using System.Linq;
using System.Runtime.CompilerServices;

namespace Messages
{
    /// <summary>A class of payloads, which writes its properties as members and reads them.</summary>
    internal interface IPayload
    {
        void Write(PayloadWriter to);

        void Read(PayloadReader from);
    }

    /// <summary>How values of a type are written as JSON values and read from them.</summary>
    internal abstract class Form<T>
    {
        protected const int Deepest = 512;

        /// <summary>The value in JSON; null for one that is absent.</summary>
        internal abstract JsonValue Write(T value, ValuePath path, int depth);

        internal abstract T Read(JsonValue value, ValuePath path, int depth);

        protected static void CheckDepth(ValuePath path, int depth)
        {
            if (depth > Deepest)
            {
                throw new FindingException(path, "depth", "the value is nested too deep");
            }

            RuntimeHelpers.EnsureSufficientExecutionStack();
        }
    }

    /// <summary>The forms of all types of properties.</summary>
    internal static class Forms
    {
        internal static readonly Form<JsonValue> Any = new AnyForm();
        internal static readonly Form<bool> Boolean = new BooleanForm();
        internal static readonly Form<long> Integer = new IntegerForm();
        internal static readonly Form<double> Number = new NumberForm();
        internal static readonly Form<string> Text = new TextForm();
        internal static readonly Form<byte[]> Bytes = new BytesForm();
        internal static readonly Form<bool?> NullableBoolean = new NullableForm<bool>(Boolean);
        internal static readonly Form<long?> NullableInteger = new NullableForm<long>(Integer);
        internal static readonly Form<double?> NullableNumber = new NullableForm<double>(Number);

        internal static Form<IList<T>> List<T>(Form<T> item) => new ListForm<T>(item);

        internal static Form<IDictionary<string, T>> Map<T>(Form<T> value) => new MapForm<T>(value);

        internal static Form<T> Record<T>()
            where T : class, IPayload, new() => RecordForm<T>.Instance;

        private static JsonValue Expected(JsonValue value, JsonKind kind, string name, ValuePath path) =>
            value.Kind == kind ? value : throw FindingException.WrongType(value, name, path);

        private sealed class AnyForm : Form<JsonValue>
        {
            internal override JsonValue Write(JsonValue value, ValuePath path, int depth) => value;

            internal override JsonValue Read(JsonValue value, ValuePath path, int depth) => value;
        }

        private sealed class BooleanForm : Form<bool>
        {
            internal override JsonValue Write(bool value, ValuePath path, int depth) => JsonValue.Create(value);

            internal override bool Read(JsonValue value, ValuePath path, int depth) =>
                Expected(value, JsonKind.Boolean, "boolean", path).AsBoolean();
        }

        private sealed class IntegerForm : Form<long>
        {
            internal override JsonValue Write(long value, ValuePath path, int depth) => JsonValue.Create(value);

            internal override long Read(JsonValue value, ValuePath path, int depth)
            {
                var number = Expected(value, JsonKind.Number, "integer", path).Number;
                if (!number.IsWhole)
                {
                    throw FindingException.WrongType(value, "integer", path);
                }

                var whole = number.Whole();
                return whole >= long.MinValue && whole <= long.MaxValue
                    ? (long)whole
                    : throw new FindingException(path, "range", $"{value.Shortened()} is beyond 64 bits");
            }
        }

        private sealed class NumberForm : Form<double>
        {
            internal override JsonValue Write(double value, ValuePath path, int depth) =>
                double.IsNaN(value) || double.IsInfinity(value)
                    ? throw new FindingException(path, "json", $"{value} has no form in JSON")
                    : JsonValue.Create(value);

            internal override double Read(JsonValue value, ValuePath path, int depth)
            {
                var number = Expected(value, JsonKind.Number, "number", path).AsDouble();
                return double.IsInfinity(number)
                    ? throw new FindingException(path, "range", $"{value.Shortened()} is beyond a double")
                    : number;
            }
        }

        private sealed class TextForm : Form<string>
        {
            internal override JsonValue Write(string value, ValuePath path, int depth) =>
                value == null ? null
                : JsonText.IsWellFormed(value) ? JsonValue.OfText(value)
                : throw new FindingException(path, "json", "has half a character in it");

            internal override string Read(JsonValue value, ValuePath path, int depth) =>
                value.Kind == JsonKind.Null ? null : Expected(value, JsonKind.Text, "string", path).Content;
        }

        private sealed class BytesForm : Form<byte[]>
        {
            internal override JsonValue Write(byte[] value, ValuePath path, int depth) =>
                value == null ? null : JsonValue.OfText(Convert.ToBase64String(value));

            internal override byte[] Read(JsonValue value, ValuePath path, int depth) =>
                value.Kind == JsonKind.Null ? null : Base64.Decode(value, "bytes", path);
        }

        private sealed class NullableForm<T> : Form<T?>
            where T : struct
        {
            private readonly Form<T> _form;

            internal NullableForm(Form<T> form)
            {
                _form = form;
            }

            internal override JsonValue Write(T? value, ValuePath path, int depth) =>
                value.HasValue ? _form.Write(value.Value, path, depth) : null;

            internal override T? Read(JsonValue value, ValuePath path, int depth) =>
                value.Kind == JsonKind.Null ? default(T?) : _form.Read(value, path, depth);
        }

        private sealed class ListForm<T> : Form<IList<T>>
        {
            private readonly Form<T> _item;

            internal ListForm(Form<T> item)
            {
                _item = item;
            }

            internal override JsonValue Write(IList<T> value, ValuePath path, int depth)
            {
                if (value == null)
                {
                    return null;
                }

                CheckDepth(path, depth);
                return JsonValue.OfItems(
                    value.Select((each, place) => _item.Write(each, path.Below(place), depth + 1) ?? JsonValue.Null).ToArray());
            }

            internal override IList<T> Read(JsonValue value, ValuePath path, int depth)
            {
                if (value.Kind == JsonKind.Null)
                {
                    return null;
                }

                CheckDepth(path, depth);
                var items = Expected(value, JsonKind.Array, "array", path).Items;
                return items.Select((each, place) => _item.Read(each, path.Below(place), depth + 1)).ToList();
            }
        }

        private sealed class MapForm<T> : Form<IDictionary<string, T>>
        {
            private readonly Form<T> _value;

            internal MapForm(Form<T> value)
            {
                _value = value;
            }

            internal override JsonValue Write(IDictionary<string, T> value, ValuePath path, int depth)
            {
                if (value == null)
                {
                    return null;
                }

                CheckDepth(path, depth);
                var writer = new PayloadWriter(path, depth);
                foreach (var each in value)
                {
                    writer.AddAlways(each.Key, _value, each.Value);
                }

                return writer.Value;
            }

            internal override IDictionary<string, T> Read(JsonValue value, ValuePath path, int depth)
            {
                if (value.Kind == JsonKind.Null)
                {
                    return null;
                }

                CheckDepth(path, depth);
                var found = new Dictionary<string, T>(StringComparer.Ordinal);
                foreach (var each in Expected(value, JsonKind.Object, "object", path).Members)
                {
                    found.Add(each.Key, _value.Read(each.Value, path.Below(each.Key), depth + 1));
                }

                return found;
            }
        }

        private sealed class RecordForm<T> : Form<T>
            where T : class, IPayload, new()
        {
            internal static readonly RecordForm<T> Instance = new RecordForm<T>();

            internal override JsonValue Write(T value, ValuePath path, int depth)
            {
                if (value == null)
                {
                    return null;
                }

                CheckDepth(path, depth);
                var writer = new PayloadWriter(path, depth);
                value.Write(writer);
                return writer.Value;
            }

            internal override T Read(JsonValue value, ValuePath path, int depth)
            {
                if (value.Kind == JsonKind.Null)
                {
                    return null;
                }

                CheckDepth(path, depth);
                var made = new T();
                made.Read(new PayloadReader(Expected(value, JsonKind.Object, "object", path).Members, path, depth));
                return made;
            }
        }
    }

    /// <summary>Makes an object of the properties of a class; generated classes call it.</summary>
    internal sealed class PayloadWriter
    {
        private readonly JsonMembers _members = new JsonMembers();
        private readonly ValuePath _path;
        private readonly int _depth;

        internal PayloadWriter(ValuePath path, int depth)
        {
            _path = path;
            _depth = depth;
        }

        internal JsonValue Value => JsonValue.OfMembers(_members);

        /// <summary>A member, if it has a value.</summary>
        internal void Add<T>(string name, Form<T> form, T value) => Add(name, form.Write(value, _path.Below(name), _depth + 1));

        /// <summary>A member, which is null if it has no value.</summary>
        internal void AddAlways<T>(string name, Form<T> form, T value) =>
            Add(name, form.Write(value, _path.Below(name), _depth + 1) ?? JsonValue.Null);

        /// <summary>Members that the class does not name.</summary>
        internal void AddOthers<T>(Form<T> form, IDictionary<string, T> others)
        {
            foreach (var each in others ?? new Dictionary<string, T>())
            {
                AddAlways(each.Key, form, each.Value);
            }
        }

        private void Add(string name, JsonValue value)
        {
            if (value == null)
            {
                return;
            }

            if (!JsonText.IsWellFormed(name))
            {
                throw new FindingException(_path, "json", "has a member with half a character in its name");
            }

            if (_members.Contains(name))
            {
                throw new FindingException(_path.Below(name), "twice", "is a property of its class, and not one of the others");
            }

            _members.Set(name, value);
        }
    }

    /// <summary>Gives the members of an object to the properties of a class; generated classes call it.</summary>
    internal sealed class PayloadReader
    {
        private readonly JsonMembers _members;
        private readonly ValuePath _path;
        private readonly int _depth;
        private readonly bool[] _taken;

        internal PayloadReader(JsonMembers members, ValuePath path, int depth)
        {
            _members = members;
            _path = path;
            _depth = depth;
            _taken = new bool[members.Count];
        }

        /// <summary>The value of a member; the default of its type if there is none.</summary>
        internal T Get<T>(string name, Form<T> form)
        {
            var place = _members.PlaceOf(name);
            if (place < 0)
            {
                return default(T);
            }

            _taken[place] = true;
            return form.Read(_members[place].Value, _path.Below(name), _depth + 1);
        }

        /// <summary>The members that were not asked for before.</summary>
        internal IDictionary<string, T> Others<T>(Form<T> form)
        {
            var found = new Dictionary<string, T>(StringComparer.Ordinal);
            for (var place = 0; place < _taken.Length; place++)
            {
                if (!_taken[place])
                {
                    var name = _members[place].Key;
                    found.Add(name, form.Read(_members[place].Value, _path.Below(name), _depth + 1));
                }
            }

            return found;
        }
    }
}
