using System;
using System.Collections.Generic;
using System.Text;
using Hard;
using Hard.Payloads.ExtraTypes;
using Hard.Payloads.PartsTypes;
using Hard.Payloads.TreeTypes;

/// <summary>A program beside the generated code, which sees what is public alone: builds what is forbidden, and says why.</summary>
internal static class Client
{
    private static void Main()
    {
        var cyclic = new Tree { N = 1 };
        cyclic.Next = cyclic;
        Print("cyclic", () => Hard.Hard.TreeMessage.Build(cyclic));
        Print("absent", () => Hard.Hard.TreeMessage.Build(new Tree()));
        Print("none", () => Hard.Hard.TreeMessage.Build(null));
        Print("half", () => Hard.Hard.TextMessage.Build("\ud800"));
        Print("half name", () => Hard.Hard.ExtraMessage.Build(new Extra { ExtraMembers = { { "\udc00", 1 } } }));
        Print("twice", () => Hard.Hard.ExtraMessage.Build(new Extra { A = "x", ExtraMembers = { { "a", 1 } } }));
        var rates = new Dictionary<string, IList<double>> { { "r", new[] { 1, double.NaN } } };
        Print("no number", () => Hard.Hard.PartsMessage.Build(new Parts { Map = rates }));
        Print("kind", () => Hard.Hard.PartsMessage.Build(new Parts { Kind = "b", Whole = 1 }));
        var deep = JsonValue.Null;
        for (var level = 0; level < 100000; level++)
        {
            deep = JsonValue.Create(new[] { deep });
        }

        Print("deep", () => Hard.Hard.NothingMessage.Build(deep));
        Print("allowed", () => Hard.Hard.PartsMessage.Build(new Parts { Kind = true, Both = 1, Any = new JsonMembers { { "a", 1 } }.ToValue() }));
    }

    private static JsonValue ToValue(this JsonMembers members) => JsonValue.Create(members);

    private static void Print(string name, Func<OutboundMessage> build)
    {
        string found;
        try
        {
            found = Encoding.UTF8.GetString(build().Body);
        }
        catch (OutboundException error)
        {
            found = error.Findings[0].Path + " " + error.Findings[0].Rule;
        }

        Console.WriteLine(JsonValue.Create(new JsonMembers { { "name", name }, { "found", found } }));
    }
}
