using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;

namespace Messages
{
    /// <summary>A message as it was received.</summary>
    public sealed class ReceivedMessage
    {
        /// <summary>A message of any protocol: <see cref="FromKafka"/> and the like make those of the protocols here.</summary>
        public ReceivedMessage(
            string protocol,
            string contentType,
            IReadOnlyDictionary<string, object> attributes,
            IReadOnlyDictionary<string, IReadOnlyList<string>> options,
            byte[] body)
        {
            Protocol = protocol ?? string.Empty;
            ContentType = contentType ?? string.Empty;
            Attributes = attributes;
            Options = options ?? new Dictionary<string, IReadOnlyList<string>>();
            Body = body;
        }

        /// <summary><c>KAFKA</c>, <c>HTTP</c> and so on; empty for an event in a file.</summary>
        public string Protocol { get; }

        /// <summary>The content type of the body; empty if there is none.</summary>
        public string ContentType { get; }

        /// <summary>The attributes of an event in binary mode; null where there are none.</summary>
        public IReadOnlyDictionary<string, object> Attributes { get; }

        /// <summary>The options of the protocol by name, such as <c>topic</c> and <c>headers.kind</c>, with all their values.</summary>
        public IReadOnlyDictionary<string, IReadOnlyList<string>> Options { get; }

        /// <summary>The bytes of the message; null if there are none.</summary>
        public byte[] Body { get; }

        /// <summary>A record of Kafka as a message.</summary>
        public static ReceivedMessage FromKafka(KafkaRecord record)
        {
            var options = new Dictionary<string, IReadOnlyList<string>>(StringComparer.Ordinal)
            {
                { "topic", new[] { record.Topic } },
            };
            if (record.Key != null)
            {
                options.Add("key", new[] { record.Key });
            }

            var headers = record.Headers.Select(each => new KeyValuePair<string, string>(
                each.Key, each.Value == null ? string.Empty : Encoding.UTF8.GetString(each.Value)));
            return Of("KAFKA", headers, "ce_", options, record.Value);
        }

        /// <summary>A request of HTTP as a message; its headers as they came, in any case.</summary>
        public static ReceivedMessage FromHttp(HttpMessage request)
        {
            var options = new Dictionary<string, IReadOnlyList<string>>(StringComparer.Ordinal)
            {
                { "method", new[] { request.Method.ToUpperInvariant() } },
                { "path", new[] { request.Path } },
            };
            foreach (var each in request.Query.GroupBy(each => each.Key, each => each.Value))
            {
                options["query." + each.Key] = each.ToArray();
            }

            var headers = request.Headers.Select(
                each => new KeyValuePair<string, string>(each.Key.ToLowerInvariant(), each.Value));
            return Of("HTTP", headers, "ce-", options, request.Body);
        }

        /// <summary>An event in the JSON event format as a message.</summary>
        public static ReceivedMessage FromCloudEvent(byte[] json) =>
            new ReceivedMessage(string.Empty, MediaType.JsonEvent, null, null, json);

        private static ReceivedMessage Of(
            string protocol,
            IEnumerable<KeyValuePair<string, string>> headers,
            string prefix,
            Dictionary<string, IReadOnlyList<string>> options,
            byte[] body)
        {
            var attributes = new Dictionary<string, object>(StringComparer.Ordinal);
            var contentType = string.Empty;
            foreach (var each in headers.GroupBy(each => each.Key, each => each.Value))
            {
                options["headers." + each.Key] = each.ToArray();
                if (each.Key == "content-type")
                {
                    contentType = each.First();
                }
                else if (each.Key.StartsWith(prefix, StringComparison.Ordinal))
                {
                    var text = string.Join(",", each);
                    attributes[each.Key.Substring(prefix.Length)] = prefix == "ce-" ? HttpMessage.Decode(text) : text;
                }
            }

            var isBinary = CloudEventAttributes.Required.All(attributes.ContainsKey);
            if (isBinary && contentType.Length > 0)
            {
                attributes["datacontenttype"] = contentType;
            }

            return new ReceivedMessage(protocol, contentType, isBinary ? attributes : null, options, body);
        }
    }

    /// <summary>What a message of a definition says.</summary>
    /// <typeparam name="T">The type of the payload.</typeparam>
    public sealed class TypedMessage<T>
    {
        internal TypedMessage(
            T payload,
            JsonValue data,
            IReadOnlyDictionary<string, string> context,
            IReadOnlyDictionary<string, object> attributes,
            ReceivedMessage message)
        {
            Payload = payload;
            Data = data;
            Context = context;
            Attributes = attributes;
            Message = message;
        }

        /// <summary>The payload.</summary>
        public T Payload { get; }

        /// <summary>The payload as it was sent, with members that no class has; null where no schema describes it.</summary>
        public JsonValue Data { get; }

        /// <summary>The values of placeholders.</summary>
        public IReadOnlyDictionary<string, string> Context { get; }

        /// <summary>The context attributes of the CloudEvent (texts, booleans, integers); null for a message that is none.</summary>
        public IReadOnlyDictionary<string, object> Attributes { get; }

        /// <summary>What was received.</summary>
        public ReceivedMessage Message { get; }
    }

    /// <summary>One message held to its definition.</summary>
    internal sealed class MessageParse
    {
        private readonly MessageDefinition _definition;
        private readonly ReceivedMessage _message;
        private readonly Dictionary<string, string> _context = new Dictionary<string, string>(StringComparer.Ordinal);
        private IReadOnlyDictionary<string, object> _attributes;
        private byte[] _body;
        private string _contentType = string.Empty;
        private string _mode = string.Empty;

        internal MessageParse(MessageDefinition definition, ReceivedMessage message)
        {
            _definition = definition;
            _message = message;
        }

        internal List<Finding> Findings { get; } = new List<Finding>();

        internal void Add(string path, string rule, string message) => Findings.Add(new Finding(path, rule, message));

        internal void ThrowFindings()
        {
            if (Findings.Count > 0)
            {
                throw new UnexpectedMessageException(_definition.Xid, Findings);
            }
        }

        internal TypedMessage<T> Typed<T>(T payload, JsonValue data) =>
            new TypedMessage<T>(payload, data, _context, _attributes, _message);

        /// <summary>The payload in bytes, of a message whose attributes and options are found to be as they have to.</summary>
        internal byte[] Body()
        {
            Open();
            if (_definition.IsEvent && _attributes == null && Findings.Count == 0)
            {
                Add(string.Empty, "not_cloudevent", "the message is no CloudEvent");
            }

            if (Findings.Count == 0)
            {
                Hold();
            }

            return _body;
        }

        private void Open()
        {
            if (!MediaType.IsEvent(_message.ContentType))
            {
                _attributes = _message.Attributes;
                _body = _message.Body;
                _contentType = _attributes == null ? _message.ContentType : TextOf("datacontenttype");
                _mode = _attributes == null ? string.Empty : "binary";
                Findings.AddRange(_attributes == null ? Enumerable.Empty<Finding>() : CloudEventAttributes.Invalid(_attributes));
                return;
            }

            _mode = "structured";
            if (MediaType.Of(_message.ContentType) != MediaType.JsonEvent)
            {
                Add(string.Empty, "content_type", $"events of {_message.ContentType} are not read here");
                return;
            }

            try
            {
                OpenEvent(JsonValue.Parse(_message.Body ?? Array.Empty<byte>()));
            }
            catch (JsonFormatException error)
            {
                Add(string.Empty, "json", "not JSON: " + error.Message);
            }
        }

        private string TextOf(string name) =>
            _attributes.TryGetValue(name, out var value) ? AttributeTypes.Text(value) : string.Empty;

        private void OpenEvent(JsonValue json)
        {
            if (json.Kind != JsonKind.Object)
            {
                Add(string.Empty, "type", "a CloudEvent in JSON is an object");
                return;
            }

            _attributes = json.Members
                .Where(each => each.Key != "data" && each.Key != "data_base64" && each.Value.Kind != JsonKind.Null)
                .ToDictionary(each => each.Key, each => AttributeOf(each.Value), StringComparer.Ordinal);
            Findings.AddRange(CloudEventAttributes.Invalid(_attributes));
            var stated = TextOf("datacontenttype");
            var data = json["data"];
            var bytes = json["data_base64"];
            _contentType = stated.Length == 0 && data != null ? "application/json" : stated;
            if (bytes?.Kind == JsonKind.Text)
            {
                _body = data == null ? Base64.Decode(bytes.Content) : null;
                if (_body == null)
                {
                    Add("data_base64", "base64", "is no base64, or beside data");
                }
            }
            else if (data != null)
            {
                var asText = stated.Length > 0 && !MediaType.IsJson(stated) && data.Kind == JsonKind.Text;
                _body = asText ? Encoding.UTF8.GetBytes(data.Content) : data.ToBytes();
            }
        }

        /// <summary>A text, a boolean or an integer; another value, which is no attribute, as it is.</summary>
        private static object AttributeOf(JsonValue value)
        {
            switch (value.Kind)
            {
                case JsonKind.Text:
                    return value.Content;
                case JsonKind.Boolean:
                    return value.AsBoolean();
                case JsonKind.Number:
                    return AttributeTypes.Simple("integer", value);
                default:
                    return value;
            }
        }

        /// <summary>Hold what the message has to what its definition declares.</summary>
        private void Hold()
        {
            var protocol = _definition.Protocol;
            if (protocol.Length > 0 && _message.Protocol.Length > 0 && _message.Protocol != protocol)
            {
                Add("protocol", "protocol", $"must be {protocol}, not {_message.Protocol}");
                return;
            }

            if (_definition.Mode.Length > 0 && _message.Protocol.Length > 0 && _mode != _definition.Mode)
            {
                Add("mode", "mode", $"the content mode must be {_definition.Mode}");
            }

            foreach (var property in _definition.Properties)
            {
                if (!property.IsDelivery && (property.IsAttribute || _message.Protocol == protocol))
                {
                    Hold(property);
                }
            }

            if (_contentType.Length > 0 && _definition.ContentType.Length > 0 && !MediaType.IsAllowed(_definition, _contentType))
            {
                Add("datacontenttype", "content_type", $"must be {_definition.ContentType}");
            }
        }

        private void Hold(MessageProperty property)
        {
            var values = ValuesOf(property);
            if (values.Count == 0 && property.IsRequired)
            {
                Add(property.Name, "value", "is required");
            }

            var faults = values.Select(each => FaultOf(property, each)).ToArray();
            if (faults.Length > 0 && faults.All(each => each != null))
            {
                Add(property.Name, "value", faults[0]);
            }
        }

        private IReadOnlyList<object> ValuesOf(MessageProperty property)
        {
            if (!property.IsAttribute)
            {
                return _message.Options.TryGetValue(property.Name, out var several) ? several : Array.Empty<string>();
            }

            object value = null;
            return _attributes != null && _attributes.TryGetValue(property.Name, out value) ? new[] { value } : Array.Empty<object>();
        }

        /// <summary>Why a value is not what a property declares; null if it is.</summary>
        private string FaultOf(MessageProperty property, object value)
        {
            if (property.Template != null)
            {
                return TemplateFaultOf(property.Template, value);
            }

            var text = AttributeTypes.Text(value);
            if (property.Value == null)
            {
                return AttributeTypes.IsOf(property.Type, value) ? null : $"must be of type {property.Type}, not {text}";
            }

            var isSame = property.IsContentType
                ? MediaType.IsSame(property.Value, text)
                : AttributeTypes.IsSame(property.Type, property.Value, value);
            return isSame ? null : $"must be {property.Value}, not {text}";
        }

        private string TemplateFaultOf(TextTemplate template, object value)
        {
            var found = value is string text ? template.Match(text) : null;
            if (found == null)
            {
                return $"must fit {template.Text}, not {AttributeTypes.Text(value)}";
            }

            foreach (var each in found)
            {
                if (_context.TryGetValue(each.Key, out var known) && known != each.Value)
                {
                    return $"has another {{{each.Key}}} than is elsewhere";
                }
            }

            foreach (var each in found)
            {
                _context[each.Key] = each.Value;
            }

            return null;
        }
    }
}
