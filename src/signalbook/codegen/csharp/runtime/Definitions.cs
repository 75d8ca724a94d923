using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;

namespace Messages
{
    /// <summary>A text with placeholders: a URI template of level 1 (RFC 6570).</summary>
    internal sealed class TextTemplate
    {
        private readonly string[] _literals;
        private readonly bool _isEncoded;
        private readonly string _separator;

        internal TextTemplate(JsonValue table)
        {
            Text = table["text"].AsText();
            Names = table["names"].Items.Select(each => each.AsText()).ToArray();
            _literals = table["literals"].Items.Select(each => each.AsText()).ToArray();
            _isEncoded = table["encoded"].AsBoolean();
            _separator = table["separator"].AsText();
        }

        internal string Text { get; }

        internal IReadOnlyList<string> Names { get; }

        private bool IsWhole => _literals.Length == 2 && _literals.All(each => each.Length == 0);

        /// <summary>The text with values in the places of placeholders, of which there is one for each.</summary>
        internal string Expand(IReadOnlyDictionary<string, string> context)
        {
            var made = new StringBuilder(_literals[0]);
            for (var place = 0; place < Names.Count; place++)
            {
                made.Append(Encoded(context[Names[place]])).Append(_literals[place + 1]);
            }

            return made.ToString();
        }

        /// <summary>What the placeholders stand for in a text; null if it does not fit.</summary>
        internal IReadOnlyDictionary<string, string> Match(string text)
        {
            if (!text.StartsWith(_literals[0], StringComparison.Ordinal))
            {
                return null;
            }

            var found = new Dictionary<string, string>(StringComparer.Ordinal);
            var place = _literals[0].Length;
            for (var index = 0; index < Names.Count; index++)
            {
                var end = EndOf(index, text, place);
                if (end <= place)
                {
                    return null;
                }

                var raw = text.Substring(place, end - place);
                var value = _isEncoded ? PercentEncoding.Decode(raw) : raw;
                var isCut = !IsWhole && raw.Contains(_separator);
                if (isCut || (found.TryGetValue(Names[index], out var before) && before != value))
                {
                    return null;
                }

                found[Names[index]] = value;
                place = end + _literals[index + 1].Length;
            }

            return place == text.Length ? found : null;
        }

        /// <summary>Where the value that begins at a place ends; -1 if what follows it is not there.</summary>
        private int EndOf(int index, string text, int place)
        {
            var literal = _literals[index + 1];
            if (index == Names.Count - 1)
            {
                return text.EndsWith(literal, StringComparison.Ordinal) ? text.Length - literal.Length : -1;
            }

            return place < text.Length ? text.IndexOf(literal, place + 1, StringComparison.Ordinal) : -1;
        }

        private string Encoded(string value)
        {
            if (!_isEncoded)
            {
                return value;
            }

            var text = PercentEncoding.Encode(value, each => IsUnreserved(each));
            return IsWhole ? text : text.Replace(_separator, PercentEncoding.Of((byte)_separator[0]));
        }

        private static bool IsUnreserved(char character) =>
            (character >= 'A' && character <= 'Z') || (character >= 'a' && character <= 'z')
            || (character >= '0' && character <= '9') || "_.~-".IndexOf(character) >= 0;
    }

    /// <summary>What a message declares: an attribute of its event, or an option of its protocol.</summary>
    internal sealed class MessageProperty
    {
        internal MessageProperty(JsonValue table)
        {
            Name = table["name"].AsText();
            Path = table["path"].AsText();
            Type = table["type"].AsText();
            Value = table["value"]?.AsText();
            IsAttribute = table["attribute"] != null;
            IsRequired = table["required"] != null;
            IsDelivery = table["delivery"] != null;
            IsContentType = table["contentType"] != null;
            IsInput = table["input"] != null;
            IsNow = table["now"] != null;
            Template = table["template"] == null ? null : new TextTemplate(table["template"]);
        }

        internal string Name { get; }

        internal string Path { get; }

        internal string Type { get; }

        /// <summary>The value that it always has; null if there is none.</summary>
        internal string Value { get; }

        internal bool IsAttribute { get; }

        internal bool IsRequired { get; }

        internal bool IsDelivery { get; }

        internal bool IsContentType { get; }

        internal bool IsInput { get; }

        internal bool IsNow { get; }

        internal TextTemplate Template { get; }
    }

    /// <summary>How payloads of a schema are written, and what they are held to.</summary>
    internal sealed class PayloadSchema
    {
        private readonly SchemaRules _rules;
        private readonly WireNode[] _nodes;
        private readonly bool _isAvro;

        /// <summary>The schema in pieces of JSON, as generated classes have it.</summary>
        internal PayloadSchema(params string[] json)
        {
            var table = JsonValue.Parse(string.Concat(json));
            if (table["format"].AsText() == "json")
            {
                _rules = new SchemaRules(table["rules"]);
                return;
            }

            _isAvro = table["format"].AsText() == "avro";
            _nodes = WireNode.ListOf(table["wire"]);
        }

        /// <summary>A value in bytes; what is wrong with it is added to the findings.</summary>
        internal byte[] Encode(int root, JsonValue value, List<Finding> findings)
        {
            try
            {
                if (_rules != null)
                {
                    findings.AddRange(_rules.Check(root, value));
                    return value.ToBytes();
                }

                var to = new WireWriter();
                if (_isAvro)
                {
                    new AvroWriter(_nodes, to).Write(root, value, ValuePath.Data, 0);
                }
                else
                {
                    new ProtobufWriter(_nodes, to).Body(root, value, ValuePath.Data, 0);
                }

                return to.ToBytes();
            }
            catch (FindingException error)
            {
                findings.Add(error.Finding);
            }
            catch (JsonFormatException error)
            {
                findings.Add(new Finding("data", "json", "has no form in JSON: " + error.Message));
            }

            return null;
        }

        /// <summary>The value in bytes; null if there is none, and what is wrong is added to the findings.</summary>
        internal JsonValue Decode(int root, byte[] bytes, List<Finding> findings)
        {
            try
            {
                if (_rules != null)
                {
                    var value = JsonValue.Parse(bytes);
                    findings.AddRange(_rules.Check(root, value));
                    return value;
                }

                return DecodeBinary(root, new WireReader(bytes));
            }
            catch (FindingException error)
            {
                findings.Add(error.Finding);
            }
            catch (JsonFormatException error)
            {
                findings.Add(new Finding("data", "json", "not JSON: " + error.Message));
            }

            return null;
        }

        private JsonValue DecodeBinary(int root, WireReader from)
        {
            if (!_isAvro)
            {
                return new ProtobufReader(_nodes).Body(root, from, ValuePath.Data, 0);
            }

            var value = new AvroReader(_nodes, from).Read(root, ValuePath.Data, 0);
            return from.Left == 0
                ? value
                : throw new FindingException(ValuePath.Data, "avro", $"{from.Left} bytes follow the datum");
        }
    }

    /// <summary>A message definition.</summary>
    public class MessageDefinition
    {
        internal MessageDefinition(string json)
        {
            var table = JsonValue.Parse(json);
            Xid = table["xid"].AsText();
            Id = table["id"].AsText();
            IsEvent = table["event"].AsBoolean();
            Protocol = table["protocol"].AsText();
            Mode = table["mode"].AsText();
            ContentType = table["contentType"].AsText();
            IsContentTypeStated = table["stated"].AsBoolean();
            Aliases = table["aliases"].Items.Select(each => each.AsText()).ToArray();
            DataSchema = table["dataschema"]?.AsText();
            Root = (int)(table["root"]?.AsInt64() ?? 0);
            Properties = table["properties"].Items.Select(each => new MessageProperty(each)).ToArray();
        }

        /// <summary>Where it is in its registry.</summary>
        public string Xid { get; }

        /// <summary>Its id, which is the type of its events where it does not say another.</summary>
        public string Id { get; }

        /// <summary>Whether its messages are CloudEvents.</summary>
        public bool IsEvent { get; }

        /// <summary>The protocol that it is for, such as <c>KAFKA</c>; empty for any.</summary>
        public string Protocol { get; }

        internal string Mode { get; }

        internal string ContentType { get; }

        internal bool IsContentTypeStated { get; }

        internal IReadOnlyList<string> Aliases { get; }

        internal string DataSchema { get; }

        internal int Root { get; }

        internal IReadOnlyList<MessageProperty> Properties { get; }
    }

    /// <summary>A message definition, and the type of its payload.</summary>
    /// <typeparam name="T">The type of the payload.</typeparam>
    public sealed class MessageDefinition<T> : MessageDefinition
    {
        private readonly PayloadSchema _schema;
        private readonly Form<T> _form;

        /// <summary>The definition in pieces of JSON, as generated classes have it, its schema, and the form of its payloads.</summary>
        internal MessageDefinition(PayloadSchema schema, Form<T> form, params string[] json)
            : base(string.Concat(json))
        {
            _schema = schema;
            _form = form;
        }

        /// <summary>
        /// A message. Names are those of placeholders (<paramref name="context"/>) and of metadata
        /// (<paramref name="values"/>) in the definition. Throws <see cref="OutboundException"/> with all that is wrong.
        /// </summary>
        internal OutboundMessage Build(T payload, BuildInputs context, BuildInputs values)
        {
            var build = new MessageBuild(this, context, values);
            return build.Message(_schema == null ? (byte[])(object)payload : Written(payload, build.Findings));
        }

        /// <summary>What a received message says. Throws <see cref="UnexpectedMessageException"/>.</summary>
        internal TypedMessage<T> Parse(ReceivedMessage message)
        {
            var parse = new MessageParse(this, message);
            var body = parse.Body();
            if (_schema == null || parse.Findings.Count > 0)
            {
                parse.ThrowFindings();
                return parse.Typed((T)(object)body, null);
            }

            if (body == null)
            {
                parse.Add("data", "required", "there is no payload, but the definition has a schema");
                parse.ThrowFindings();
            }

            var data = _schema.Decode(Root, body, parse.Findings);
            parse.ThrowFindings();
            try
            {
                return parse.Typed(_form.Read(data, ValuePath.Data, 0), data);
            }
            catch (FindingException error)
            {
                parse.Findings.Add(error.Finding);
            }
            catch (InsufficientExecutionStackException)
            {
                parse.Add("data", "depth", "the value is nested too deep for the stack of this thread");
            }

            throw new UnexpectedMessageException(Xid, parse.Findings);
        }

        private byte[] Written(T payload, List<Finding> findings)
        {
            try
            {
                return _schema.Encode(Root, _form.Write(payload, ValuePath.Data, 0) ?? JsonValue.Null, findings);
            }
            catch (FindingException error)
            {
                findings.Add(error.Finding);
            }
            catch (InsufficientExecutionStackException)
            {
                findings.Add(new Finding("data", "depth", "the value is nested too deep for the stack of this thread"));
            }

            return null;
        }
    }

    /// <summary>What a message is built of beside its payload, by its names in the definition; those that are null were not given.</summary>
    internal sealed class BuildInputs : Dictionary<string, object>
    {
        internal BuildInputs()
            : base(StringComparer.Ordinal)
        {
        }
    }
}
