// Runs generated packages: one task a line as JSON, one answer a line. Values that are bytes are base64.
// The functions of messages are in a file of its own, which the tests write.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"sort"
	"strconv"

	"example.com/shop/internal/avro"
	"example.com/shop/internal/jsonschema"
	"example.com/shop/internal/protobuf"
	"example.com/shop/internal/values"
	"example.com/shop/signalbook"
)

type task struct {
	Action string
	Module string
	Format string
	// A schema document, and the name of a schema in it.
	Document json.RawMessage
	Name     string
	Value    json.RawMessage
	Payload  json.RawMessage
	Values   map[string]string
	Given    struct{ Topic, Key, Mode string }
	Record   *record
	Request  *request
	Event    *string
	Message  *message
}

type record struct {
	Topic   string            `json:"topic"`
	Key     *string           `json:"key"`
	Headers map[string]string `json:"headers"`
	Value   []byte            `json:"value"`
}

type request struct {
	Method  string              `json:"method"`
	Path    string              `json:"path"`
	Query   map[string][]string `json:"query"`
	Headers map[string]string   `json:"headers"`
	Body    []byte              `json:"body"`
}

type message struct {
	Protocol    string            `json:"protocol"`
	ContentType string            `json:"contentType"`
	Options     map[string]string `json:"options"`
	Body        []byte            `json:"body"`
}

type answer map[string]any

// A function is what is generated of one message.
type function struct {
	build   any
	names   []string
	convert func(any) (any, error)
	parse   func(*signalbook.Message) (answer, error)
}

func entry[P any](
	build any, parse func(*signalbook.Message) (*signalbook.TypedMessage[P], error), names ...string,
) function {
	return function{
		build: build,
		names: names,
		convert: func(value any) (any, error) {
			var none P
			if _, isBytes := any(none).([]byte); isBytes && value == nil {
				return none, nil
			}
			return converted[P](value)
		},
		parse: func(message *signalbook.Message) (answer, error) {
			typed, err := parse(message)
			if err != nil {
				return nil, err
			}
			payload, err := signalbook.Convert[any](typed.Payload) // as its type has it
			return answer{"payload": payload, "context": typed.Context, "attributes": typed.Attributes}, err
		},
	}
}

// converted returns a value as its type has it; what the type has no place for is an error, as it is to the compiler.
func converted[P any](value any) (P, error) {
	made, err := signalbook.Convert[P](value)
	if err != nil {
		return made, err
	}
	back, err := signalbook.Convert[any](made)
	if err != nil {
		return made, err
	}
	if found := differences(value, back, ""); len(found) > 0 {
		return made, &signalbook.ConversionError{Findings: found}
	}
	return made, nil
}

func differences(given, back any, path string) (found []values.Finding) {
	members, isObject := given.(map[string]any)
	others, areOthers := back.(map[string]any)
	if isObject && areOthers {
		for name := range others {
			if _, there := members[name]; !there {
				found = append(found, values.Finding{Path: path + "/" + values.Escaped(name), Rule: "type", Message: "cannot be left out"})
			}
		}
		for name, value := range members {
			other, there := others[name]
			if !there {
				found = append(found, values.Finding{Path: path + "/" + values.Escaped(name), Rule: "type", Message: "is no field"})
				continue
			}
			found = append(found, differences(value, other, path+"/"+values.Escaped(name))...)
		}
		return found
	}
	items, isArray := given.([]any)
	more, areMore := back.([]any)
	if isArray && areMore && len(items) == len(more) {
		for place := range items {
			found = append(found, differences(items[place], more[place], path+"/"+strconv.Itoa(place))...)
		}
		return found
	}
	left, _ := given.(json.Number)
	right, _ := back.(json.Number)
	if left != "" && right != "" {
		one, _ := left.Float64()
		two, _ := right.Float64()
		given, back = one, two
	}
	if !reflect.DeepEqual(given, back) {
		found = append(found, values.Finding{Path: path, Rule: "type", Message: "has no form"})
	}
	return found
}

func main() {
	tasks := bufio.NewReader(os.Stdin)
	answers := json.NewEncoder(os.Stdout)
	for {
		line, err := tasks.ReadBytes('\n')
		if err != nil {
			return
		}
		var given task
		must(json.Unmarshal(line, &given))
		result, err := given.result()
		must(answers.Encode(answered(result, err)))
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func answered(result any, err error) answer {
	var outbound *signalbook.OutboundError
	var unexpected *signalbook.UnexpectedMessageError
	var ofCodec *codecError
	var ofType *signalbook.ConversionError
	switch {
	case err == nil:
		return answer{"result": result}
	case errors.As(err, &outbound):
		return answer{"error": "OutboundError", "findings": outbound.Findings}
	case errors.As(err, &unexpected):
		return answer{"error": "UnexpectedMessage", "findings": unexpected.Findings}
	case errors.As(err, &ofCodec):
		return answer{"error": "WireError", "findings": ofCodec.findings}
	case errors.As(err, &ofType):
		for place := range ofType.Findings {
			ofType.Findings[place].Path = "data" + ofType.Findings[place].Path
		}
		return answer{"error": "ConversionError", "findings": ofType.Findings}
	}
	panic(err)
}

func (t *task) result() (any, error) {
	switch t.Action {
	case "check":
		codec, root := t.codec()
		_, found := codec.Encode(root, parsed(t.Value), "data")
		return append([]values.Finding{}, found...), nil
	case "encode":
		codec, root := t.codec()
		return done(codec.Encode(root, parsed(t.Value), "data"))
	case "decode":
		var body []byte
		must(json.Unmarshal(t.Value, &body))
		codec, root := t.codec()
		return done(codec.Decode(root, body, "data"))
	case "kafka", "http", "event", "message":
		return t.sent()
	}
	return functions[t.Module].parse(t.received())
}

var parsers = map[string]func(string) (values.Codec, error){
	"avro": avro.Parse, "json": jsonschema.Parse, "protobuf": protobuf.Parse,
}

func (t *task) codec() (values.Codec, string) {
	text := string(t.Document)
	if t.Format == "protobuf" {
		must(json.Unmarshal(t.Document, &text))
	}
	codec, err := parsers[t.Format](text)
	must(err)
	return codec, t.Name
}

type codecError struct{ findings []values.Finding }

func (e *codecError) Error() string { return "codec" }

func done[R any](result R, findings []values.Finding) (any, error) {
	if len(findings) > 0 {
		return nil, &codecError{findings}
	}
	return result, nil
}

func parsed(text json.RawMessage) any {
	if text == nil {
		return nil
	}
	value, err := values.Parse(text)
	must(err)
	return value
}

func (t *task) build() (*signalbook.Outbound, error) {
	function := functions[t.Module]
	payload, err := function.convert(parsed(t.Payload))
	if err != nil {
		return nil, err
	}
	build := reflect.ValueOf(function.build)
	arguments := []reflect.Value{reflect.New(build.Type().In(0)).Elem()}
	if payload != nil {
		arguments[0].Set(reflect.ValueOf(payload))
	}
	for _, name := range function.names {
		arguments = append(arguments, reflect.ValueOf(t.Values[name]))
	}
	results := build.Call(arguments)
	err, _ = results[1].Interface().(error)
	return results[0].Interface().(*signalbook.Outbound), err
}

func (t *task) sent() (any, error) {
	built, err := t.build()
	if err != nil {
		return nil, err
	}
	sending := signalbook.Sending{Topic: t.Given.Topic, Key: t.Given.Key, Mode: signalbook.Mode(t.Given.Mode)}
	switch t.Action {
	case "kafka":
		return kafka(built.Kafka(sending))
	case "http":
		return http(built.HTTP(sending))
	case "event":
		event, err := built.CloudEvent()
		return string(event), err
	}
	return message{built.Definition.Protocol(), built.ContentType, built.Options, built.Body}, nil
}

func kafka(made *signalbook.KafkaRecord, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	found := record{Topic: made.Topic, Headers: map[string]string{}, Value: made.Value}
	if made.Key != nil {
		key := string(made.Key)
		found.Key = &key
	}
	for _, each := range made.Headers {
		found.Headers[each.Key] = string(each.Value)
	}
	return found, nil
}

func http(made *signalbook.HTTPRequest, err error) (any, error) {
	if err != nil {
		return nil, err
	}
	found := request{Method: made.Method, Path: made.Path, Query: made.Query, Headers: map[string]string{}, Body: made.Body}
	for name, each := range made.Header {
		found.Headers[name] = each[0]
	}
	return found, nil
}

func (t *task) received() *signalbook.Message {
	switch {
	case t.Record != nil:
		made := signalbook.KafkaRecord{Topic: t.Record.Topic, Value: t.Record.Value}
		if t.Record.Key != nil {
			made.Key = []byte(*t.Record.Key)
		}
		names := []string{}
		for name := range t.Record.Headers {
			names = append(names, name)
		}
		sort.Strings(names)
		for _, name := range names {
			made.Headers = append(made.Headers, signalbook.KafkaHeader{Key: name, Value: []byte(t.Record.Headers[name])})
		}
		return signalbook.FromKafka(&made)
	case t.Request != nil:
		made := signalbook.HTTPRequest{
			Method: t.Request.Method, Path: t.Request.Path, Query: t.Request.Query, Body: t.Request.Body,
			Header: map[string][]string{},
		}
		for name, value := range t.Request.Headers {
			made.Header[name] = []string{value}
		}
		return signalbook.FromHTTP(&made)
	case t.Event != nil:
		return signalbook.FromCloudEvent([]byte(*t.Event))
	}
	made := &signalbook.Message{Protocol: t.Message.Protocol, ContentType: t.Message.ContentType, Body: t.Message.Body}
	made.Options = map[string][]string{}
	for name, value := range t.Message.Options {
		made.Options[name] = []string{value}
	}
	return made
}
