// Orders to and from Kafka by generated packages and franz-go: SERVERS TOPIC produce SHOP | consume COUNT
package main

import (
	"context"
	"encoding/json"
	"os"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"

	"example.com/shop/payloads"
	"example.com/shop/shoporders"
	"example.com/shop/signalbook"
)

func main() {
	servers, topic, what, argument := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	// No compression: not every language's client has what is the default here.
	compression := kgo.ProducerBatchCompression(kgo.NoCompression())
	options := []kgo.Opt{kgo.SeedBrokers(servers), kgo.AllowAutoTopicCreation(), compression}
	if what == "consume" {
		options = append(options, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	}
	client, err := kgo.NewClient(options...)
	must(err)
	defer client.Close()
	if what == "produce" {
		produce(client, topic, argument)
		return
	}
	count, err := strconv.Atoi(argument)
	must(err)
	consume(client, count)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func produce(client *kgo.Client, topic, shop string) {
	for _, mode := range []signalbook.Mode{signalbook.Binary, signalbook.Structured} {
		order := payloads.OrderPlaced2{
			Kind:  payloads.OrderPlaced2KindNew,
			Total: 2.5,
			Buyer: &payloads.Buyer{EMail: signalbook.Ptr(shop + "@example.com")},
		}
		outbound, err := shoporders.BuildOrderPlaced2(order, shop)
		must(err)
		made, err := outbound.Kafka(signalbook.Sending{Topic: topic, Key: shop, Mode: mode})
		must(err)
		record := &kgo.Record{Topic: made.Topic, Key: made.Key, Value: made.Value}
		for _, header := range made.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader(header))
		}
		must(client.ProduceSync(context.Background(), record).FirstErr())
	}
}

func consume(client *kgo.Client, left int) {
	answers := json.NewEncoder(os.Stdout)
	for left > 0 {
		fetches := client.PollFetches(context.Background())
		must(fetches.Err())
		fetches.EachRecord(func(record *kgo.Record) {
			received := &signalbook.KafkaRecord{Topic: record.Topic, Key: record.Key, Value: record.Value}
			for _, header := range record.Headers {
				received.Headers = append(received.Headers, signalbook.KafkaHeader(header))
			}
			order, err := shoporders.ParseOrderPlaced2(signalbook.FromKafka(received))
			must(err)
			must(answers.Encode([]any{order.Context["shop"], order.Payload}))
			left--
		})
	}
}
