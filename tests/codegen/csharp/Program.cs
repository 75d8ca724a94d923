using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Text;
using Shop;

/// <summary>Runs generated classes: one task a line as JSON, one answer a line. Values that are bytes are base64.</summary>
internal static class Program
{
    private static readonly UTF8Encoding Utf8 = new UTF8Encoding(false);

    private static void Main()
    {
        var tasks = new StreamReader(Console.OpenStandardInput(), Utf8);
        var answers = new StreamWriter(Console.OpenStandardOutput(), Utf8) { AutoFlush = true };
        for (var line = tasks.ReadLine(); line != null; line = tasks.ReadLine())
        {
            answers.WriteLine(JsonValue.Create(Answer(JsonValue.Parse(line))));
        }
    }

    private static JsonMembers Answer(JsonValue task)
    {
        try
        {
            return new JsonMembers { { "result", Result(task) } };
        }
        catch (Exception error) when (FindingsOf(error) != null)
        {
            var name = error.GetType().Name.Replace("UnexpectedMessageException", "UnexpectedMessage")
                .Replace("OutboundException", "OutboundError");
            return new JsonMembers { { "error", name }, { "findings", Said(FindingsOf(error)) } };
        }
    }

    /// <summary>What an error of any namespace has found; null for another one.</summary>
    private static IEnumerable<object> FindingsOf(Exception error)
    {
        const BindingFlags All = BindingFlags.Instance | BindingFlags.Public | BindingFlags.NonPublic;
        var one = error.GetType().GetProperty("Finding", All)?.GetValue(error);
        var several = error.GetType().GetProperty("Findings", All)?.GetValue(error);
        return one == null ? (IEnumerable<object>)several : new[] { one };
    }

    private static JsonValue Said(IEnumerable<dynamic> findings) => JsonValue.Create(findings.Select(
        each => JsonValue.Create(new JsonMembers { { "path", each.Path }, { "rule", each.Rule }, { "message", each.Message } })).ToArray());

    private static JsonValue Result(JsonValue task)
    {
        switch (task["action"].AsText())
        {
            case "check":
                return Said(new SchemaRules(task["rules"]).Check(RootOf(task), task["value"]));
            case "encode":
                return Coded(task, (schema, found) => Base64Of(schema.Encode(RootOf(task), task["value"], found)));
            case "decode":
                return Coded(task, (schema, found) => schema.Decode(RootOf(task), Bytes(task["value"]), found));
            case "parse":
            case "read":
                return Read(task);
            default:
                return Sent(task);
        }
    }

    private static int RootOf(JsonValue task) => (int)task["root"].AsInt64();

    private static JsonValue Coded(JsonValue task, Func<PayloadSchema, List<Finding>, JsonValue> code)
    {
        var findings = new List<Finding>();
        var found = code(new PayloadSchema(task.ToString()), findings);
        return findings.Count == 0 ? found : throw new OutboundException("", findings);
    }

    private static byte[] Bytes(JsonValue text) =>
        text == null || text.Kind == JsonKind.Null ? null : Convert.FromBase64String(text.AsText());

    private static JsonValue Base64Of(byte[] bytes) => bytes == null ? JsonValue.Null : Convert.ToBase64String(bytes);

    private static string Text(JsonValue value) => value == null || value.Kind == JsonKind.Null ? null : value.AsText();

    /// <summary>A type of the runtime that is in the namespace of a generated class.</summary>
    private static Type RuntimeType(Type message, string name)
    {
        var space = message.Namespace.Substring(0, message.Namespace.LastIndexOf('.'));
        return message.Assembly.GetType(space + "." + name, true);
    }

    private static object Call(object target, string name, params object[] arguments) =>
        Invoke(target.GetType().GetMethod(name), target, arguments);

    private static object Invoke(MethodInfo method, object target, params object[] arguments)
    {
        try
        {
            return method.Invoke(target, arguments);
        }
        catch (TargetInvocationException error)
        {
            throw error.InnerException;
        }
    }

    /// <summary>The form of a message's payload; null if no schema describes it.</summary>
    private static object FormOf(Type message)
    {
        var definition = message.GetProperty("Definition").GetValue(null);
        return definition.GetType().GetField("_form", BindingFlags.Instance | BindingFlags.NonPublic).GetValue(definition);
    }

    private static object Form(Type message, string name, object value)
    {
        var form = FormOf(message);
        var path = RuntimeType(message, "ValuePath").GetField("Data", BindingFlags.Static | BindingFlags.NonPublic).GetValue(null);
        var method = form.GetType().GetMethod(name, BindingFlags.Instance | BindingFlags.NonPublic);
        return Invoke(method, form, value, path, 0);
    }

    /// <summary>A payload as its class has it. What has no property there cannot be given, as if it did not compile.</summary>
    private static object Payload(Type message, JsonValue given)
    {
        if (FormOf(message) == null)
        {
            return Bytes(given);
        }

        var parse = RuntimeType(message, "JsonValue").GetMethod("Parse", new[] { typeof(string) });
        var payload = Form(message, "Read", Invoke(parse, null, given.ToString()));
        var lost = Lost(given, Written(message, payload), "data");
        return lost == null ? payload : throw new OutboundException("", new[] { new Finding(lost, "class", "is no property") });
    }

    private static JsonValue Written(Type message, object payload) => FormOf(message) == null
        ? Base64Of((byte[])payload)
        : JsonValue.Parse((Form(message, "Write", payload) ?? "null").ToString());

    private static string Lost(JsonValue given, JsonValue written, string path)
    {
        foreach (var each in given.Members.Where(each => each.Value.Kind != JsonKind.Null))
        {
            var below = path + "/" + each.Key;
            var lost = written[each.Key] == null ? below : Lost(each.Value, written[each.Key], below);
            if (lost != null)
            {
                return lost;
            }
        }

        return null;
    }

    private static JsonValue Sent(JsonValue task)
    {
        var message = Type.GetType(task["module"].AsText(), true);
        var build = message.GetMethod("Build");
        var values = build.GetParameters().Skip(1).Select(each => (object)Text(task["values"]?[each.Name]));
        dynamic built = Invoke(build, null, new[] { Payload(message, task["payload"]) }.Concat(values).ToArray());
        var given = task["given"];
        var mode = Text(given?["mode"]);
        object chosen = mode == null ? null : Enum.Parse(RuntimeType(message, "ContentMode"), mode, true);
        switch (task["action"].AsText())
        {
            case "kafka":
                dynamic record = Call(built, "ToKafka", Text(given["topic"]), Text(given["key"]), chosen);
                var texts = ((IEnumerable<KeyValuePair<string, byte[]>>)record.Headers).Select(
                    each => new KeyValuePair<string, string>(each.Key, Utf8.GetString(each.Value)));
                return JsonValue.Create(new JsonMembers
                {
                    { "topic", record.Topic }, { "key", record.Key }, { "headers", Members(texts) }, { "value", Base64Of(record.Value) },
                });
            case "http":
                dynamic request = Call(built, "ToHttp", null, null, chosen);
                return JsonValue.Create(new JsonMembers
                {
                    { "method", request.Method }, { "path", request.Path }, { "query", Members(request.Query) },
                    { "headers", Members(request.Headers) }, { "body", Base64Of(request.Body) },
                });
            case "event":
                return Utf8.GetString((byte[])Call(built, "ToCloudEvent"));
            default:
                return JsonValue.Create(new JsonMembers
                {
                    { "contentType", built.ContentType }, { "body", Base64Of(built.Body) }, { "options", Members(built.Options) },
                });
        }
    }

    private static JsonValue Members(IEnumerable<KeyValuePair<string, string>> pairs)
    {
        var members = new JsonMembers();
        foreach (var each in pairs)
        {
            members.Add(each.Key, each.Value);
        }

        return JsonValue.Create(members);
    }

    private static KeyValuePair<string, string>[] Pairs(JsonValue members) =>
        members.Members.Select(each => new KeyValuePair<string, string>(each.Key, each.Value.AsText())).ToArray();

    private static JsonValue Read(JsonValue task)
    {
        var message = Type.GetType(task["module"].AsText(), true);
        dynamic typed = Invoke(message.GetMethod("Parse"), null, Received(task, RuntimeType(message, "ReceivedMessage")));
        JsonMembers attributes = null;
        if (typed.Attributes != null)
        {
            attributes = new JsonMembers();
            foreach (KeyValuePair<string, object> each in typed.Attributes)
            {
                attributes.Add(each.Key, each.Value is string text ? text : each.Value is bool on ? on : (JsonValue)(int)each.Value);
            }
        }

        return JsonValue.Create(new JsonMembers
        {
            // The payload as its class has it, and not the data it was made of.
            { "payload", Written(message, typed.Payload) },
            { "context", Members(typed.Context) },
            { "attributes", attributes == null ? JsonValue.Null : JsonValue.Create(attributes) },
        });
    }

    private static object Received(JsonValue task, Type type)
    {
        if (task["record"] is JsonValue record)
        {
            var headers = Pairs(record["headers"]).Select(
                each => new KeyValuePair<string, byte[]>(each.Key, Utf8.GetBytes(each.Value)));
            return From(type, "FromKafka", "KafkaRecord", record["topic"].AsText(), Text(record["key"]), headers, Bytes(record["value"]));
        }

        if (task["request"] is JsonValue request)
        {
            return From(
                type, "FromHttp", "HttpMessage", request["method"].AsText(), request["path"].AsText(), Pairs(request["query"]),
                Pairs(request["headers"]), Bytes(request["body"]));
        }

        if (task["event"] is JsonValue json)
        {
            return Invoke(type.GetMethod("FromCloudEvent"), null, Utf8.GetBytes(json.AsText()));
        }

        var given = task["message"];
        var options = Pairs(given["options"]).ToDictionary(each => each.Key, each => (IReadOnlyList<string>)new[] { each.Value });
        return Activator.CreateInstance(
            type, options.ContainsKey("topic") ? "KAFKA" : "NATS", given["contentType"].AsText(), null, options, Bytes(given["body"]));
    }

    private static object From(Type type, string method, string name, params object[] arguments) => Invoke(
        type.GetMethod(method), null, Activator.CreateInstance(type.Assembly.GetType(type.Namespace + "." + name, true), arguments));
}
