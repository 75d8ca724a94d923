using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using System.Text;

namespace Messages
{
    /// <summary>How an event is sent, where its definition does not say.</summary>
    public enum ContentMode
    {
        /// <summary>Attributes in headers, the payload as it is.</summary>
        Binary,

        /// <summary>All of the event in the payload, in the JSON event format.</summary>
        Structured,
    }

    /// <summary>A message that was built, for whatever sends it.</summary>
    public sealed class OutboundMessage
    {
        internal OutboundMessage(
            MessageDefinition definition,
            IReadOnlyDictionary<string, string> context,
            IReadOnlyDictionary<string, object> attributes,
            IReadOnlyDictionary<string, string> options,
            byte[] body,
            string contentType)
        {
            Definition = definition;
            Context = context;
            Attributes = attributes;
            Options = options;
            Body = body;
            ContentType = contentType;
        }

        /// <summary>What it was built by.</summary>
        public MessageDefinition Definition { get; }

        /// <summary>The values of placeholders.</summary>
        public IReadOnlyDictionary<string, string> Context { get; }

        /// <summary>The context attributes of the CloudEvent (texts, booleans, integers); null for a message that is none.</summary>
        public IReadOnlyDictionary<string, object> Attributes { get; }

        /// <summary>The options of the protocol by name, such as <c>topic</c>, <c>key</c>, <c>headers.kind</c>.</summary>
        public IReadOnlyDictionary<string, string> Options { get; }

        /// <summary>The payload; null if there is none.</summary>
        public byte[] Body { get; }

        /// <summary>The content type of the payload; empty if there is none.</summary>
        public string ContentType { get; }

        /// <summary>
        /// The message as a record of Kafka; topic, key and mode are for definitions that do not say them. Throws
        /// <see cref="OutboundException"/>.
        /// </summary>
        public KafkaRecord ToKafka(string topic = null, string key = null, ContentMode? mode = null)
        {
            CheckProtocol("KAFKA");
            var place = Option("topic") ?? topic ?? string.Empty;
            if (!IsTopic(place))
            {
                throw Failed("protocoloptions.topic", "value", $"\"{place}\" is no topic of Kafka");
            }

            var chosen = ModeOf(mode);
            var headers = Headers(chosen, "ce_").Select(
                each => new KeyValuePair<string, byte[]>(each.Key, Encoding.UTF8.GetBytes(each.Value)));
            return new KafkaRecord(place, Option("key") ?? key, headers, BodyIn(chosen));
        }

        /// <summary>
        /// The message as a request of HTTP; method, path and mode are for definitions that do not say them. Throws
        /// <see cref="OutboundException"/>.
        /// </summary>
        public HttpMessage ToHttp(string method = null, string path = null, ContentMode? mode = null)
        {
            CheckProtocol("HTTP");
            var chosen = ModeOf(mode);
            var headers = Headers(chosen, "ce-");
            foreach (var each in headers.Where(each => !HttpMessage.IsHeader(each.Key, each.Value)))
            {
                throw Failed("protocoloptions.headers." + each.Key, "value", "is no header of HTTP: printable ASCII");
            }

            const string Prefix = "query.";
            var query = Options.Where(each => each.Key.StartsWith(Prefix, StringComparison.Ordinal)).Select(
                each => new KeyValuePair<string, string>(each.Key.Substring(Prefix.Length), each.Value));
            return new HttpMessage(Option("method") ?? method ?? "POST", Option("path") ?? path ?? "/", query, headers, BodyIn(chosen));
        }

        /// <summary>The event in the JSON event format. Throws <see cref="OutboundException"/> for a message that is none.</summary>
        public byte[] ToCloudEvent()
        {
            if (Attributes == null)
            {
                throw Failed("envelope", "envelope", "the message is no CloudEvent");
            }

            var members = new JsonMembers();
            foreach (var each in Attributes)
            {
                members.Add(each.Key, each.Value is string text ? text : JsonValue.Parse(AttributeTypes.Text(each.Value)));
            }

            if (Body != null)
            {
                AddData(members);
            }

            try
            {
                return JsonValue.OfMembers(members).ToBytes();
            }
            catch (JsonFormatException error)
            {
                throw Failed("data", "json", "has no form in an event: " + error.Message);
            }
        }

        private void AddData(JsonMembers members)
        {
            try
            {
                if (MediaType.IsJson(ContentType))
                {
                    members.Add("data", JsonValue.Parse(Body));
                    return;
                }

                if (ContentType.StartsWith("text/", StringComparison.Ordinal))
                {
                    members.Add("data", JsonText.Utf8.GetString(Body));
                    return;
                }
            }
            catch (Exception error) when (error is JsonFormatException || error is DecoderFallbackException)
            {
                // Data that is not what it says is kept as bytes.
            }

            members.Add("data_base64", Convert.ToBase64String(Body));
        }

        private static bool IsTopic(string text) =>
            text.Length > 0 && text.Length <= 249 && text != "." && text != ".."
            && text.All(each => each < 0x80 && (char.IsLetterOrDigit(each) || "._-".IndexOf(each) >= 0));

        private OutboundException Failed(string path, string rule, string message) =>
            new OutboundException(Definition.Xid, path, rule, message);

        private string Option(string name) => Options.TryGetValue(name, out var value) ? value : null;

        private void CheckProtocol(string protocol)
        {
            if (Definition.Protocol.Length > 0 && Definition.Protocol != protocol)
            {
                throw Failed("protocol", "protocol", $"the definition is for {Definition.Protocol}");
            }
        }

        /// <summary>The content mode; empty for a message that is no event.</summary>
        private string ModeOf(ContentMode? wanted)
        {
            if (Attributes == null)
            {
                return string.Empty;
            }

            var mode = wanted?.ToString().ToLowerInvariant() ?? string.Empty;
            if (Definition.Mode.Length > 0 && mode.Length > 0 && mode != Definition.Mode)
            {
                throw Failed("envelopeoptions.mode", "mode", $"the definition says {Definition.Mode}, not {mode}");
            }

            return Definition.Mode.Length > 0 ? Definition.Mode : mode.Length > 0 ? mode : "binary";
        }

        private byte[] BodyIn(string mode) => mode == "structured" ? ToCloudEvent() : Body;

        private IReadOnlyDictionary<string, string> Headers(string mode, string prefix)
        {
            const string ContentTypeHeader = "content-type";
            const string Own = "headers.";
            var headers = new Dictionary<string, string>(StringComparer.Ordinal);
            var contentType = mode == "structured" ? MediaType.JsonEvent : ContentType;
            if (contentType.Length > 0)
            {
                headers[ContentTypeHeader] = contentType;
            }

            foreach (var each in mode == "binary" ? Attributes : new Dictionary<string, object>())
            {
                if (each.Key != "datacontenttype")
                {
                    var text = AttributeTypes.Text(each.Value);
                    headers[prefix + each.Key] = prefix == "ce-" ? HttpMessage.Encode(text) : text;
                }
            }

            foreach (var each in Options.Where(each => each.Key.StartsWith(Own, StringComparison.Ordinal)))
            {
                var name = each.Key.Substring(Own.Length);
                headers[name.ToLowerInvariant() == ContentTypeHeader ? ContentTypeHeader : name] = each.Value;
            }

            return headers;
        }
    }

    /// <summary>One build of one message.</summary>
    internal sealed class MessageBuild
    {
        private const string EnvelopePrefix = "envelopemetadata.";
        private const string OptionPrefix = "protocoloptions.";
        private readonly MessageDefinition _definition;
        private readonly BuildInputs _values;
        private readonly Dictionary<string, string> _context = new Dictionary<string, string>(StringComparer.Ordinal);
        private readonly Dictionary<string, string> _options = new Dictionary<string, string>(StringComparer.Ordinal);
        private readonly Dictionary<string, object> _found = new Dictionary<string, object>(StringComparer.Ordinal);

        internal MessageBuild(MessageDefinition definition, BuildInputs context, BuildInputs values)
        {
            _definition = definition;
            _values = values;
            foreach (var each in context.Where(each => each.Value != null))
            {
                AddPlaceholder(each.Key, AttributeTypes.Text(each.Value));
            }

            foreach (var property in definition.Properties)
            {
                AddProperty(property);
            }
        }

        internal List<Finding> Findings { get; } = new List<Finding>();

        internal OutboundMessage Message(byte[] body)
        {
            _found.TryGetValue("datacontenttype", out var stated);
            var contentType = body == null ? string.Empty
                : AttributeTypes.Text(stated ?? ContentTypeOption() ?? _definition.ContentType);
            var attributes = _definition.IsEvent ? EventAttributes(contentType) : null;
            if (attributes != null && Findings.Count == 0)
            {
                Findings.AddRange(CloudEventAttributes.Invalid(attributes));
            }

            return Findings.Count == 0
                ? new OutboundMessage(_definition, _context, attributes, _options, body, contentType)
                : throw new OutboundException(_definition.Xid, Findings);
        }

        private void Add(string path, string rule, string message) => Findings.Add(new Finding(path, rule, message));

        private void AddPlaceholder(string name, string value)
        {
            if (value.Length == 0 || !JsonText.IsWellFormed(value))
            {
                Add($"{{{name}}}", "context", value.Length == 0 ? "must not be empty" : "has half a character in it");
                return;
            }

            _context.Add(name, value);
        }

        private void AddProperty(MessageProperty property)
        {
            var value = ValueOf(property);
            if (value == null)
            {
                return;
            }

            if (property.IsAttribute)
            {
                _found[property.Name] = AttributeTypes.Simple(property.Type, value);
            }
            else
            {
                _options[property.Path.Substring(OptionPrefix.Length)] = AttributeTypes.Text(value);
            }
        }

        private object ValueOf(MessageProperty property)
        {
            if (property.IsInput)
            {
                return InputOf(property);
            }

            return property.Template != null ? Expanded(property)
                : property.IsNow ? Now()
                : property.Value ?? (property.IsAttribute ? OwnValue(property) : null);
        }

        private object InputOf(MessageProperty property)
        {
            var isAttribute = property.Path.StartsWith(EnvelopePrefix, StringComparison.Ordinal);
            _values.TryGetValue(isAttribute ? property.Path.Substring(EnvelopePrefix.Length) : property.Path, out var value);
            if (value != null && AttributeTypes.IsOf(property.Type, value))
            {
                return value;
            }

            Add(property.Path, value == null ? "required" : "type", $"must be of type {property.Type}");
            return null;
        }

        private static string Now() =>
            DateTime.UtcNow.ToString("yyyy-MM-dd'T'HH:mm:ss.fff'Z'", CultureInfo.InvariantCulture);

        /// <summary>The value of an attribute that a definition leaves open.</summary>
        private string OwnValue(MessageProperty property)
        {
            switch (property.Name)
            {
                case "id":
                    return Guid.NewGuid().ToString();
                case "type":
                    return _definition.Id;
                case "time":
                    return Now();
                case "datacontenttype":
                    return property.IsRequired && _definition.ContentType.Length > 0 ? _definition.ContentType : null;
                case "dataschema":
                    return _definition.DataSchema;
                default:
                    return null;
            }
        }

        private string Expanded(MessageProperty property)
        {
            var template = property.Template;
            var missing = template.Names.Where(each => !_context.ContainsKey(each)).Distinct().ToArray();
            if (missing.Length > 0)
            {
                if (property.IsRequired)
                {
                    Add(property.Path, "context", $"{template.Text} needs {string.Join(", ", missing)}");
                }

                return null;
            }

            var text = template.Expand(_context);

            // Read back: values with the separator in them would come out as other values at the consumer.
            var read = template.Match(text);
            if (read != null && template.Names.All(each => read[each] == _context[each]))
            {
                return text;
            }

            Add(property.Path, "context", $"{template.Text} would be {text}, which is read as something else");
            return null;
        }

        private string ContentTypeOption() => _options.Where(
            each => each.Key.ToLowerInvariant() == "headers.content-type" && !MediaType.IsEvent(each.Value))
            .Select(each => each.Value).FirstOrDefault();

        private IReadOnlyDictionary<string, object> EventAttributes(string contentType)
        {
            var made = new Dictionary<string, object>(StringComparer.Ordinal)
            {
                { "specversion", CloudEventAttributes.SpecVersion },
                { "id", Found("id") ?? Guid.NewGuid().ToString() },
            };
            if (Found("source") != null)
            {
                made.Add("source", Found("source"));
            }

            made.Add("type", Found("type") ?? _definition.Id);
            foreach (var each in _found.Where(each => !made.ContainsKey(each.Key) && each.Key != "datacontenttype").ToArray())
            {
                made.Add(each.Key, each.Value);
            }

            if (_definition.DataSchema != null && !made.ContainsKey("dataschema"))
            {
                made.Add("dataschema", _definition.DataSchema);
            }

            if (contentType.Length > 0)
            {
                made.Add("datacontenttype", contentType);
            }

            return made;
        }

        private object Found(string name) => _found.TryGetValue(name, out var value) ? value : null;
    }
}
