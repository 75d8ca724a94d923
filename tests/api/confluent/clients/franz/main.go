// An application in Go: franz WHERE, by franz-go's client of registries, sr, and that of Kafka.
// WHERE, what it does and what it prints are those of client.py in the folder above.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/hamba/avro/v2"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type record = map[string]any

var orders = []record{
	{"id": 1, "to": record{"street": "Canal St", "city": "Ghent"}},
	{"id": 2, "to": record{"street": "Rue Haute", "city": "Mons"}, "note": "ring twice"},
}

type application struct {
	Registry, Brokers, Topics, Schemas, Descriptors string

	client *sr.Client
	ctx    context.Context
}

func main() {
	app := &application{ctx: context.Background()}
	must(json.Unmarshal([]byte(os.Args[1]), app))
	app.client = got(sr.NewClient(sr.URLs(app.Registry)))
	for _, kind := range []sr.SchemaType{sr.TypeAvro, sr.TypeJSON, sr.TypeProtobuf} {
		name := "address." + ending(kind)
		app.registered(name, sr.Schema{Type: kind, Schema: app.text(name)})
	}
	read := app.carried(app.written())
	must(json.NewEncoder(os.Stdout).Encode(record{"read": read, "answers": app.answers()}))
}

// What is to be sent: an order of each version in each format.
func (app *application) written() (sent []*kgo.Record) {
	for i, order := range orders {
		for name, kind := range map[string]sr.SchemaType{"avro": sr.TypeAvro, "json": sr.TypeJSON, "protobuf": sr.TypeProtobuf} {
			schema := app.order(i+1, kind)
			made := app.registered(app.topic(name)+"-value", schema)
			if made.Version != i+1 {
				panic(fmt.Sprintf("%s has version %d", made.Subject, made.Version))
			}
			serde := sr.NewSerde(sr.EncodeFn(json.Marshal))
			switch kind {
			case sr.TypeAvro:
				parsed := app.parsed(schema)
				serde.Register(made.ID, record{}, sr.EncodeFn(func(v any) ([]byte, error) { return avro.Marshal(parsed, v) }))
			case sr.TypeProtobuf:
				encode := func(v any) ([]byte, error) {
					message := app.message(i + 1)
					must(protojson.Unmarshal(got(json.Marshal(v)), message))
					return proto.Marshal(message)
				}
				serde.Register(made.ID, record{}, sr.EncodeFn(encode), sr.Index(0))
			default:
				serde.Register(made.ID, record{})
			}
			sent = append(sent, &kgo.Record{Topic: app.topic(name), Value: got(serde.Encode(order))})
		}
	}
	return sent
}

// A schema of Protobuf is normalized: as it came, it would be another one than clients that send descriptors have.
func (app *application) registered(subject string, schema sr.Schema) sr.SubjectSchema {
	ctx := app.ctx
	if schema.Type == sr.TypeProtobuf {
		ctx = sr.WithParams(ctx, sr.Normalize)
	}
	return got(app.client.CreateSchema(ctx, subject, schema))
}

// Send records, and receive them by Kafka; what each reader reads, the records by their ids.
func (app *application) carried(sent []*kgo.Record) map[string][]record {
	topics := []string{app.topic("avro"), app.topic("json"), app.topic("protobuf")}
	kafka := got(kgo.NewClient(
		kgo.SeedBrokers(app.Brokers), kgo.AllowAutoTopicCreation(), kgo.ConsumerGroup(app.Topics),
		kgo.ConsumeTopics(topics...), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	))
	defer kafka.Close()
	must(kafka.ProduceSync(app.ctx, sent...).FirstErr())
	read := map[string][]record{}
	for received := 0; received < len(sent); {
		fetches := kafka.PollFetches(app.ctx)
		must(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) {
			received++
			for how, value := range app.decoded(each.Value) {
				name := strings.TrimPrefix(each.Topic, app.Topics+"-") + " " + how
				read[name] = append(read[name], value)
			}
		})
	}
	for _, records := range read {
		sort.Slice(records, func(i, j int) bool { return fmt.Sprint(records[i]["id"]) < fmt.Sprint(records[j]["id"]) })
	}
	return read
}

// What a value is to each reader of its format. The id before it leads to the schema that it was written by.
func (app *application) decoded(value []byte) map[string]record {
	var header sr.ConfluentHeader
	id, rest, err := header.DecodeID(value)
	must(err)
	schema := got(app.client.SchemaByID(app.ctx, id))
	read := map[string]record{}
	switch schema.Type {
	case sr.TypeAvro:
		writer := app.parsed(schema)
		for version := 1; version <= 2; version++ {
			both := got(avro.NewSchemaCompatibility().Resolve(app.parsed(app.order(version, sr.TypeAvro)), writer))
			found := record{}
			must(avro.Unmarshal(both, rest, &found))
			read["as "+strconv.Itoa(version)] = found
		}
	case sr.TypeProtobuf:
		_, rest, err = header.DecodeIndex(rest, 1)
		must(err)
		for version := 1; version <= 2; version++ {
			message := app.message(version)
			must(proto.Unmarshal(rest, message))
			found := record{}
			shown := protojson.MarshalOptions{EmitDefaultValues: true}
			must(json.Unmarshal(got(shown.Marshal(message)), &found))
			read["as "+strconv.Itoa(version)] = found
		}
	default:
		found := record{}
		must(json.Unmarshal(rest, &found))
		read["as written"] = found
	}
	return read
}

// What other calls answer, the code of the error of those that fail.
func (app *application) answers() (answers []any) {
	note := func(answer any, err error) {
		var refused *sr.ResponseError
		if errors.As(err, &refused) {
			answer = record{"code": refused.ErrorCode}
		} else {
			must(err)
		}
		answers = append(answers, answer)
	}
	subject, scratch := app.topic("avro")+"-value", app.topic("scratch")
	first := app.order(1, sr.TypeAvro)
	broken := first
	broken.Schema = strings.Replace(first.Schema, `"int"`, `"string"`, 1)
	note(call(app.client.SubjectVersions(app.ctx, subject)))
	looked, err := app.client.LookupSchema(app.ctx, subject, first)
	note(looked.Version, err)
	byGUID, err := app.client.SchemaByGUID(app.ctx, got(app.client.SchemaByVersion(app.ctx, subject, 1)).GUID)
	note(len(byGUID.References), err)
	note(call(app.client.SupportedTypes(app.ctx)))
	checked, err := app.client.CheckCompatibility(app.ctx, subject, -1, first)
	note(checked.Is, err)
	checked, err = app.client.CheckCompatibility(sr.WithParams(app.ctx, sr.Verbose), subject, -2, broken)
	note(checked.Is || len(checked.Messages) == 0, err)
	note(call(app.client.CreateSchema(app.ctx, subject, broken)))
	note(call(app.client.LookupSchema(app.ctx, subject, broken)))
	note(call(app.client.SchemaByID(app.ctx, 1_000_000)))
	note(call(app.client.SchemaByVersion(app.ctx, "nothing", -1)))
	level := app.client.SetCompatibility(app.ctx, sr.SetCompatibility{Level: sr.CompatNone}, scratch)[0]
	note(level.Level.String(), level.Err)
	level = app.client.Compatibility(app.ctx, subject)[0]
	note(level.Level.String(), level.Err)
	level = app.client.Compatibility(sr.WithParams(app.ctx, sr.DefaultToGlobal), subject)[0]
	note(level.Level.String(), level.Err)
	mode := app.client.SetMode(app.ctx, sr.ModeImport, scratch)[0]
	note(mode.Mode.String(), mode.Err)
	imported := sr.Schema{Schema: `{"type": "enum", "name": "Imported", "symbols": ["A"]}`}
	made, err := app.client.CreateSchemaWithIDAndVersion(app.ctx, scratch, imported, 500_000, 7)
	note([]int{made.ID, made.Version}, err)
	note(call(app.client.DeleteSubject(app.ctx, scratch, sr.SoftDelete)))
	note(call(app.client.DeleteSubject(app.ctx, scratch, sr.HardDelete)))
	note(call(app.client.DeleteSubject(app.ctx, "address.avsc", sr.SoftDelete)))
	users, err := app.client.SchemaReferences(app.ctx, "address.avsc", 1)
	note(len(users) >= 2, err)
	return answers
}

// The schema of an order, which refers to that of an address.
func (app *application) order(version int, kind sr.SchemaType) sr.Schema {
	subject := "address." + ending(kind)
	reference := sr.SchemaReference{Name: subject, Subject: subject, Version: 1}
	if kind == sr.TypeAvro {
		reference.Name = "shop.Address"
	}
	text := app.text(filepath.Join(strconv.Itoa(version), "order."+ending(kind)))
	return sr.Schema{Type: kind, Schema: text, References: []sr.SchemaReference{reference}}
}

// An Avro schema with those that it refers to, which the registry has.
func (app *application) parsed(schema sr.Schema) avro.Schema {
	known := &avro.SchemaCache{}
	for _, each := range schema.References {
		referred := got(app.client.SchemaByVersion(app.ctx, each.Subject, each.Version))
		got(avro.ParseWithCache(referred.Schema.Schema, "", known))
	}
	return got(avro.ParseWithCache(schema.Schema, "", known))
}

// An empty order in Protobuf.
func (app *application) message(version int) *dynamicpb.Message {
	var described descriptorpb.FileDescriptorSet
	must(proto.Unmarshal(got(os.ReadFile(filepath.Join(app.Descriptors, strconv.Itoa(version)+".binpb"))), &described))
	found := got(got(protodesc.NewFiles(&described)).FindDescriptorByName("shop.Order"))
	return dynamicpb.NewMessage(found.(protoreflect.MessageDescriptor))
}

func (app *application) topic(name string) string { return app.Topics + "-" + name }

func (app *application) text(name string) string {
	return string(got(os.ReadFile(filepath.Join(app.Schemas, name))))
}

func ending(kind sr.SchemaType) string {
	return map[sr.SchemaType]string{sr.TypeAvro: "avsc", sr.TypeJSON: "json", sr.TypeProtobuf: "proto"}[kind]
}

func call[T any](value T, err error) (any, error) { return value, err }

func got[T any](value T, err error) T {
	must(err)
	return value
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
