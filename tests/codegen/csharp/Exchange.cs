using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Text;
using Shop;
using Shop.Payloads.OrderPlaced2Types;
using Shop.ShopOrders;

/// <summary>Orders as records on standard output, and read from standard input, a line each: produce TOPIC SHOP | consume.</summary>
internal static class Exchange
{
    private static void Main(string[] arguments)
    {
        if (arguments[0] == "produce")
        {
            Produce(arguments[1], arguments[2]);
        }
        else
        {
            Consume(new StreamReader(Console.OpenStandardInput(), new UTF8Encoding(false)));
        }
    }

    private static void Produce(string topic, string shop)
    {
        var order = new OrderPlaced { Kind = "new", Total = 2.5, Buyer = new Buyer { EMail = shop + "@example.com" } };
        foreach (ContentMode mode in Enum.GetValues(typeof(ContentMode)))
        {
            var record = OrderPlacedMessage_2.Build(order, shop).ToKafka(topic, shop, mode);
            var headers = record.Headers.Select(
                each => JsonValue.Create(new[] { each.Key, JsonValue.Create(Convert.ToBase64String(each.Value)) }));
            Console.WriteLine(JsonValue.Create(new JsonMembers
            {
                { "key", record.Key }, { "headers", JsonValue.Create(headers) }, { "value", Convert.ToBase64String(record.Value) },
            }));
        }
    }

    private static void Consume(TextReader records)
    {
        for (var line = records.ReadLine(); line != null; line = records.ReadLine())
        {
            var record = JsonValue.Parse(line);
            var headers = record["headers"].Items.Select(each => new KeyValuePair<string, byte[]>(
                each.Items[0].AsText(), Convert.FromBase64String(each.Items[1].AsText())));
            var value = Convert.FromBase64String(record["value"].AsText());
            var received = ReceivedMessage.FromKafka(new KafkaRecord(record["topic"].AsText(), null, headers, value));
            var read = OrderPlacedMessage_2.Parse(received);
            var payload = new JsonMembers
            {
                { "kind", read.Payload.Kind },
                { "total", read.Payload.Total.Value },
                { "buyer", JsonValue.Create(new JsonMembers { { "e-mail", read.Payload.Buyer.EMail } }) },
            };
            Console.WriteLine(JsonValue.Create(new[] { read.Context["shop"], JsonValue.Create(payload) }));
        }
    }
}
